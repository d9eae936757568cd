/** Keys by environment: results of a comparison, their readers, and their entries in the trail. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import type { Scope } from "#schema/Scopes.ts"
import { SecretKey } from "#schema/Values.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import { parsed } from "#test/support/Json.ts"

const entryOf = parsed(
  Schema.Struct({ environment: Schema.String, keys: Schema.Array(Schema.String), compared: Schema.Unknown })
)
const key = (text: string) => SecretKey.make(text)

const setUp = Effect.gen(function* () {
  const w = yield* Fixtures.world()
  const secrets = yield* Fixtures.secrets
  const as = (caller: Caller) => Effect.provideService(CurrentCaller, caller)
  const write = (environment: typeof w.development, entries: Record<string, string>, caller = w.owner) =>
    secrets
      .createBulk({
        projectId: w.projectId,
        environment,
        secrets: Object.entries(entries).map(([name, value]) => ({ key: key(name), value: Redacted.make(value) }))
      })
      .pipe(as(caller))
  const matrix = (caller = w.owner) => secrets.matrix(w.projectId, [w.development, w.production]).pipe(as(caller))
  const likes = (caller?: Caller) =>
    Effect.map(matrix(caller), ({ compared, rows }) => ({
      compared,
      rows: Object.fromEntries(rows.map((row) => [row.key, row.cells.map((cell) => (cell === null ? "-" : cell.like))]))
    }))
  /** A grant of the same person with these scopes. */
  const grant = (id: string, ...scopes: ReadonlyArray<Scope>): Caller => ({
    ...w.owner,
    kind: "cli_grant",
    credentialId: id,
    teams: w.owner.teams.map((team) => ({ ...team, scopes }))
  })
  return { w, secrets, write, matrix, likes, grant }
})

layer(Fixtures.secretsLayer)("the keys of a project by environment", (it) => {
  it.effect("say what is missing, equal and different, and hold no value", () =>
    Effect.gen(function* () {
      const { likes, matrix, w, write } = yield* setUp
      yield* write(w.development, { SAME: "canary-same", OTHER: "canary-1", ONLY: "canary-only", URL: "x-${OTHER}" })
      yield* write(w.production, { SAME: "canary-same", OTHER: "canary-2", URL: "x-${OTHER}", LAST: "canary-last" })
      assert.deepStrictEqual(yield* likes(), {
        compared: true,
        rows: { LAST: ["-", 0], ONLY: [0, "-"], OTHER: [0, 1], SAME: [0, 0], URL: [0, 1] }
      })
      const { rows } = yield* matrix()
      assert.deepStrictEqual(rows[4], {
        key: "URL",
        cells: [
          { kind: "template", version: 1, like: 0 },
          { kind: "template", version: 1, like: 1 }
        ],
        tags: []
      })
      assert.notInclude(JSON.stringify(rows), "canary")
      const sql = yield* SqlClient.SqlClient
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${w.teamId} AND action = 'secret.diff' ORDER BY id`
      assert.deepInclude(entryOf(entries[0].body), {
        environment: w.development,
        keys: ["LAST", "ONLY", "OTHER", "URL"],
        compared: [{ environmentId: w.productionId, environment: "production", revision: 1 }]
      })
      assert.lengthOf(entries, 2)
    })
  )

  it.effect("tell a caller without values nothing about a guess: its own, another's, or what builds on one", () =>
    Effect.gen(function* () {
      const { grant, likes, w, write } = yield* setUp
      yield* write(w.production, { A: "real", B: "real", C: "same", URL: "x-${A}", D: "real" })
      yield* write(w.development, { A: "?", B: "?", C: "same", URL: "x-${A}", D: "other" })
      const blind = grant("01980a5d-0f3a-7c10-8e2b-000000000001", "secrets:read", "secrets:write")
      const second = grant("01980a5d-0f3a-7c10-8e2b-000000000002", "secrets:read", "secrets:write")
      assert.deepStrictEqual((yield* likes(blind)).rows, { A: [0, 1], B: [0, 1], C: [0, 0], D: [0, 1], URL: [0, 1] })
      yield* write(w.development, { A: "real" }, blind)
      yield* write(w.development, { B: "real" }, second)
      for (const caller of [blind, second]) {
        assert.deepStrictEqual((yield* likes(caller)).rows, {
          A: [null, 0],
          B: [null, 0],
          C: [0, 0],
          D: [0, 1],
          URL: [null, 0]
        })
      }
      // Its writes from the time with values stay guesses without them.
      const reader = grant(blind.credentialId, "secrets:read", "secrets:read_values", "secrets:write")
      yield* write(w.development, { D: "real" }, reader)
      assert.deepStrictEqual((yield* likes(blind)).rows["D"], [null, 0])
      assert.deepStrictEqual((yield* likes()).rows, { A: [0, 0], B: [0, 0], C: [0, 0], D: [0, 0], URL: [0, 0] })
    })
  )

  it.effect("take one comparison each, and come without it when the minute has no more", () =>
    Effect.gen(function* () {
      const { grant, likes, w, write } = yield* setUp
      yield* write(w.development, { A: "1" })
      yield* write(w.production, { A: "1" })
      const caller = grant("01980a5d-0f3a-7c10-8e2b-000000000003", "secrets:read")
      for (let i = 0; i < 30; i++) assert.isTrue((yield* likes(caller)).compared)
      assert.deepStrictEqual(yield* likes(caller), { compared: false, rows: { A: [null, null] } })
    })
  )
})
