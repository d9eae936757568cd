/** An entry about many keys holds the hash of their list; the list is stored once, and belongs to what is verified. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import { CurrentCaller } from "#schema/Caller.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Seal } from "#src/trail/Seal.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { exportTrail } from "#src/trail/TrailExport.ts"
import { verifyFile } from "#src/cli/operator/AuditFile.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as TrailWorld from "./TrailWorld.ts"

const { verify, verifyTampered } = TrailWorld
const app = AuditTrail.Default.pipe(Layer.provideMerge(TrailWorld.layer))

const keys = Array.from({ length: 40 }, (_, i) => `KEY_${i}`)

/** Three injections: two of the same keys, one of others; and one of a few. */
const read = Effect.gen(function* () {
  const audit = yield* Audit
  const world = yield* Fixtures.world()
  const inject = (keys: ReadonlyArray<string>) =>
    audit.record({ actor: world.owner, action: "secret.inject", outcome: "allowed", teamId: world.teamId, keys })
  yield* inject(keys)
  yield* inject([...keys])
  yield* inject([...keys, "ONE_MORE"])
  yield* inject(["FEW"])
  const list = (query: { readonly key?: string }) =>
    Effect.flatMap(AuditTrail, (trail) => trail.list(world.teamId, query as never)).pipe(
      Effect.provideService(CurrentCaller, world.owner),
      Effect.map(({ items }) => items.filter(({ action }) => action === "secret.inject").map((entry) => entry.keys))
    )
  return { list, teamId: world.teamId }
})

/** Injections of several at one moment, in one statement. */
const together = (...lists: ReadonlyArray<ReadonlyArray<string>>) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const { owner, teamId } = yield* Fixtures.world()
    yield* audit.record(
      ...lists.map((keys) => ({
        actor: owner,
        action: "secret.inject" as const,
        outcome: "allowed" as const,
        teamId,
        keys
      }))
    )
  })

const exported = (format: "csv" | "jsonl") =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    yield* exportTrail({
      since: null,
      until: null,
      format,
      now: yield* Clock.currentTimeMillis,
      write: (text) => Effect.sync(() => void lines.push(text)),
      progress: () => Effect.void
    })
    return lines.join("")
  })

const problemsOfFile = (text: string) =>
  Effect.gen(function* () {
    const file = `${yield* TrailWorld.Checkpoints}.export`
    fs.writeFileSync(file, text)
    return (yield* verifyFile(file, { checkpoints: [], keys: [] })).problems
  })

layer(app, { excludeTestServices: true, timeout: "60 seconds" })("a list of keys", (it) => {
  it.effect("is stored once, is in no entry, and is answered, searched and exported as ever", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { list, teamId } = yield* read
      const expected = [["FEW"], [...keys, "ONE_MORE"], keys, keys]
      assert.deepStrictEqual(yield* list({}), expected)
      const rows = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE action = 'secret.inject' AND team_id = ${teamId} ORDER BY id`
      assert.deepStrictEqual(
        rows.map(({ body }) => body.includes("KEY_3")),
        [false, false, false, false]
      )
      const [{ n }] = yield* sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM audit_key_lists`
      assert.strictEqual(n, 2)

      // Before the index is filled, and after.
      for (const fill of [Effect.void, Effect.flatMap(Seal, (seal) => seal.now)]) {
        yield* fill
        assert.lengthOf(yield* list({ key: "KEY_39" }), 3)
        assert.deepStrictEqual(yield* list({ key: "ONE_MORE" }), [[...keys, "ONE_MORE"]])
        assert.deepStrictEqual(yield* list({ key: "FEW" }), [["FEW"]])
        assert.deepStrictEqual(yield* list({ key: "KEY" }), [])
      }
      const csv = yield* exported("csv")
      assert.strictEqual(csv.split("\r\n").filter((line) => line.includes("KEY_39") && line.includes(teamId)).length, 3)
    })
  )

  it.effect("is stored again where another server of the database lacks it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* read
      // As after a fail-over: what the process knows to be stored was not sent.
      yield* sql`DELETE FROM audit_key_lists`
      const { list } = yield* read
      assert.deepStrictEqual(yield* list({}), [["FEW"], [...keys, "ONE_MORE"], keys, keys])
      // Several at one moment: one of the lists is new, the other one the process takes for stored.
      yield* sql`DELETE FROM audit_key_lists`
      yield* together([...keys, "TOGETHER"], keys)
      const stored = yield* sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM audit_key_lists`
      assert.deepStrictEqual(stored, [{ n: 2 }])
      // Entries before name a third one.
      yield* read
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      assert.deepStrictEqual((yield* verify()).problems, [])
    })
  )

  it.effect("that is altered or gone is found, in the database and in an export", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* read
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      assert.deepStrictEqual((yield* verify()).problems, [])
      const attacks = [
        sql`UPDATE audit_key_lists SET keys = array_replace(keys, 'KEY_7', 'KEY_8')`,
        sql`UPDATE audit_key_lists SET keys = array_append(keys, 'FRAMED')`,
        sql`DELETE FROM audit_key_lists`,
        sql`UPDATE audit_entries SET key_list = (SELECT max(encode(hash, 'hex'))::bytea FROM audit_key_lists)
          WHERE action = 'secret.inject'`,
        sql`UPDATE audit_entries SET key_list = NULL WHERE action = 'secret.inject'`
      ]
      for (const attack of attacks) assert.isAbove((yield* verifyTampered(attack)).problemCount, 0)

      const text = yield* exported("jsonl")
      assert.deepStrictEqual(yield* problemsOfFile(text), [])
      assert.include((yield* problemsOfFile(text.replace('"KEY_7"', '"KEY_8"')))[0]?.what, "names a list of keys")
      const without = text.split("\n").filter((line) => !line.startsWith('{"keys"'))
      assert.include((yield* problemsOfFile(without.join("\n")))[0]?.what, "names a list of keys")
    })
  )
})
