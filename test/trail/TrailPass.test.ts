/** A trail that is too long to be read through for each report: what a report reads of it, and what is found all the same. */
import * as Statements from "#test/support/Statements.ts"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { CurrentCaller } from "#schema/Caller.ts"
import { SecretKey } from "#schema/Values.ts"
import { Seal } from "#src/trail/Seal.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import * as TrailPass from "#src/trail/TrailPass.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import { layer as app } from "#test/trail-use/ExposureHistories.ts"

const atATime = 3
const short = Layer.succeed(TrailPass.Bounds, { maxWholeEntries: 5, batchSize: atATime })
const reads = 12

/** Statements that read entries of the trail, beside those of the index behind it. */
const ofTrail = (statements: ReadonlyArray<Statements.Statement>) =>
  statements
    .map(({ text }) => text)
    .filter((text) => /audit_entries e\b/.test(text) && !/INSERT|locked|LATERAL/.test(text))

layer(app.pipe(Layer.provide(short)), { timeout: 120_000 })("a report of a long trail", (it) => {
  it.scoped("reads its ends; the rest is read through in parts, and what was altered there is found", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const exposure = yield* Exposure
      const sealed = Effect.flatMap(Seal, (seal) => seal.now)
      const w = yield* Fixtures.world()
      const secrets = yield* Fixtures.secrets
      const as = Effect.provideService(CurrentCaller, w.owner)
      const at = { projectId: w.projectId, environment: w.development, key: SecretKey.make("API_KEY") }
      yield* as(secrets.create({ ...at, value: Redacted.make("1") }))
      for (let i = 0; i < reads; i++) yield* as(secrets.value(at))
      yield* sealed
      const report = as(exposure.ofProject(w.projectId, {}))
      const refusal = Effect.map(Effect.flip(report), ({ _tag }) => _tag)
      const [{ entries }] = yield* sql<{ entries: number }>`SELECT sum(seq)::integer AS entries FROM audit_seals`

      const first = yield* Statements.during(report)
      const parts = ofTrail(first).filter((text) => text.includes("each.linked"))
      assert.isAtLeast(parts.length, Math.ceil(entries / atATime))
      const { checkedAt, total } = yield* report
      // The read, and the author.
      assert.strictEqual(total, 2)

      // A later one reads ends, however long the trail is.
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(ofTrail(yield* Statements.during(report)), 1)
      assert.strictEqual((yield* report).checkedAt, checkedAt)

      const old = sql`audit_entries SET body = replace(body, 'secret.read', 'secret.list')
        WHERE team_id = ${w.teamId} AND action = 'secret.read'
          AND id = (SELECT min(id::text)::uuid FROM audit_entries WHERE team_id = ${w.teamId} AND action = 'secret.read')`
      const back = sql`UPDATE audit_entries SET body = replace(body, 'secret.list', 'secret.read')
        WHERE team_id = ${w.teamId} AND action = 'secret.read'`
      yield* sql`UPDATE ${old}`
      // As of the last pass, which the report names.
      assert.strictEqual((yield* report).checkedAt, checkedAt)
      yield* TestClock.adjust("11 minutes")
      yield* Effect.either(report)
      yield* Effect.repeat(Effect.either(report), { until: ({ _tag }) => _tag === "Left" })
      assert.strictEqual(yield* refusal, "INTEGRITY_FAILURE")
      yield* back
      yield* TestClock.adjust("11 minutes")
      assert.notStrictEqual((yield* report).checkedAt, checkedAt)

      // An alteration at either end is found at once.
      yield* sql`UPDATE audit_seals SET hash = ${Buffer.alloc(32)} WHERE stream = (SELECT min(stream::text)::uuid FROM audit_seals)`
      assert.strictEqual(yield* refusal, "INTEGRITY_FAILURE")
    })
  )
})
