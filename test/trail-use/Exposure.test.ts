/** Exposure by the ledger, against an independent reading of the exported trail. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import type { ExposureQuery } from "#schema/ExposureApi.ts"
import type { ProjectId, SecretId } from "#schema/Ids.ts"
import { SecretKey } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Seal } from "#src/trail/Seal.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import { currentOf, type Subject } from "#src/trail/IncidentExposure.ts"
import * as ExposureIndex from "#src/trail/ExposureIndex.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as TrailCut from "#src/trail/TrailCut.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as TrailWorld from "#test/audit/TrailWorld.ts"
import { compared, layer as app, tables } from "#test/trail-use/ExposureHistories.ts"

const key = SecretKey.make("API_KEY")
const as = (caller: Caller) => Effect.provideService(CurrentCaller, caller)
const over = (via: "rest" | "mcp") =>
  Effect.provideService(RequestInfo, { id: "r", ip: "192.0.2.7", userAgent: null, via })

const sealed = Effect.flatMap(Seal, (seal) => seal.now)
const ofProject = (id: ProjectId, query: ExposureQuery = {}) =>
  Effect.flatMap(Exposure, (exposure) => exposure.ofProject(id, query))

/** A world with one secret, which it can change, and callers that read it. */
const world = Effect.gen(function* () {
  const w = yield* Fixtures.world()
  const secrets = yield* Fixtures.secrets
  const at = { projectId: w.projectId, environment: w.development }
  const { id } = yield* secrets.create({ ...at, key, value: Redacted.make("1") }).pipe(as(w.owner))
  const read = (caller: Caller, via: "rest" | "mcp" = "rest") =>
    secrets.value({ ...at, key }).pipe(as(caller), over(via))
  const changed = (value: string) => secrets.update(id, { value: Redacted.make(value) }).pipe(as(w.owner))
  const token = (name: string): Caller => ({ ...w.token(), name, credentialId: `${name} of ${w.teamId}` })
  return { w, at, id, read, changed, token, secrets }
})

const none = { people: 0, tokens: 0, agents: 0, rules: 0, backups: 0 }

layer(app, { timeout: 240_000 })((it) => {
  it.scoped("tells what the exported trail tells; a rebuild makes the same index", () => compared(12, 4))

  it.scoped("counts holders by version, and those who were handed no later one", () =>
    Effect.gen(function* () {
      const { changed, id, read, token, w } = yield* world
      const exposure = yield* Exposure
      yield* read(token("idle"))
      yield* read(token("ci"))
      yield* changed("2")
      yield* read(token("ci"))
      yield* read(w.owner)
      yield* read(token("agent"), "mcp")
      yield* sealed
      const report = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      assert.strictEqual(report.key, key)
      assert.deepStrictEqual(report.versions, [
        {
          version: 2,
          handedTo: { ...none, people: 1, tokens: 1, agents: 1 },
          heldBy: { ...none, people: 1, tokens: 1, agents: 1 }
        },
        // The owner typed both.
        { version: 1, handedTo: { ...none, people: 1, tokens: 2 }, heldBy: { ...none, tokens: 1 } }
      ])
      assert.isNull(report.unknownBefore)
      const [agent] = report.items.filter(({ way }) => way === "model")
      assert.strictEqual(agent?.lastIp, "192.0.2.7")
      const of = (query: ExposureQuery) =>
        ofProject(w.projectId, query).pipe(
          as(w.owner),
          Effect.map(({ items }) => items.map(({ holder, version }) => `${holder.name} ${version}`).sort())
        )
      assert.deepStrictEqual(yield* of({ token: "ci" }), ["ci 1", "ci 2"])
      assert.deepStrictEqual(yield* of({ token: token("idle").credentialId }), ["idle 1"])
      const email = w.owner.user?.email ?? ""
      const typedAndRead = [`${email} 1`, `${email} 2`, `${email} 2`]
      assert.deepStrictEqual(yield* of({ by: email.toUpperCase() }), typedAndRead)
      assert.deepStrictEqual(yield* of({ by: w.userId }), typedAndRead)
      assert.deepStrictEqual(yield* of({ by: "nobody@example.com" }), [])
    })
  )

  it.scoped("says how far it is, and what came since", () =>
    Effect.gen(function* () {
      const { id, read, w } = yield* world
      const exposure = yield* Exposure
      yield* sealed
      yield* TestClock.adjust("1 minute")
      const before = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      yield* TestClock.adjust("1 minute")
      yield* read(w.owner)
      yield* TestClock.adjust("1 minute")
      const meanwhile = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      const waysOf = ({ items }: typeof meanwhile) => items.map(({ way }) => way)
      assert.deepStrictEqual(waysOf(meanwhile), ["wrote"])
      // The read is later than what the report says that it holds.
      assert.strictEqual(Date.parse(meanwhile.upTo) - Date.parse(before.upTo), 60_000)
      yield* sealed
      const after = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      assert.strictEqual(after.items[0]?.firstAt, meanwhile.upTo)
      assert.strictEqual(Date.parse(after.upTo) - Date.parse(before.upTo), 120_000)
      const since = (at: string) =>
        Effect.map(ofProject(w.projectId, { since: at }), ({ total }) => total).pipe(as(w.owner))
      assert.strictEqual(yield* since(meanwhile.upTo), 1)
      assert.strictEqual(yield* since(after.upTo), 0)
    })
  )

  it.scoped("does not claim versions that the trail of a release before does not name", () =>
    Effect.gen(function* () {
      const { at, id, read, token, w } = yield* world
      const exposure = yield* Exposure
      const audit = yield* Audit
      yield* TestClock.adjust("1 second")
      yield* audit.record({
        actor: token("old"),
        action: "secret.inject",
        outcome: "allowed",
        teamId: w.teamId,
        projectId: w.projectId,
        environmentId: w.developmentId,
        environment: at.environment,
        keys: [key]
      })
      yield* TestClock.adjust("1 second")
      yield* read(token("new"))
      yield* sealed
      const report = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      assert.deepStrictEqual(
        report.items.map(({ holder, version }) => [holder.name, version]),
        [
          ["new", 1],
          ["old", null],
          [w.owner.user?.email ?? "", 1]
        ]
      )
      assert.deepStrictEqual(
        report.versions.map(({ version }) => version),
        [1, null]
      )
      assert.strictEqual(report.unknownBefore, report.items[1]?.lastAt)
    })
  )

  it.scoped("counts what was inside of a composed value, of an entry that names neither versions nor its parts", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const { at, id, secrets, token, w } = yield* world
      const exposure = yield* Exposure
      const create = (name: string, value: string) =>
        secrets.create({ ...at, key: SecretKey.make(name), value: Redacted.make(value) }).pipe(as(w.owner))
      yield* create("MIDDLE", "<${API_KEY}>")
      yield* create("URL", "${MIDDLE}")
      const late = yield* create("LATE", "1")
      const handedOut = (actor: Caller, keys: ReadonlyArray<string>) =>
        audit.record({
          actor,
          action: "secret.read",
          outcome: "allowed",
          teamId: w.teamId,
          projectId: w.projectId,
          environmentId: w.developmentId,
          environment: at.environment,
          keys
        })
      yield* TestClock.adjust("1 second")
      yield* handedOut(token("old"), ["URL"])
      yield* TestClock.adjust("1 second")
      // Later references were not inside.
      const { items } = yield* secrets.list(at).pipe(as(w.owner))
      const url = items.find((one) => one.key === "URL")
      if (url !== undefined)
        yield* secrets.update(url.id, { value: Redacted.make("${MIDDLE}${LATE}") }).pipe(as(w.owner))
      yield* sealed
      const holders = (secretId: SecretId) =>
        Effect.map(exposure.ofSecret(secretId, {}).pipe(as(w.owner)), (report) =>
          report.items
            .filter(({ way }) => way !== "wrote")
            .map(({ holder, version, way }) => [holder.name, version, way])
        )
      assert.deepStrictEqual(yield* holders(id), [["old", null, "read"]])
      assert.deepStrictEqual(yield* holders(late.id), [])
      const subject: Subject = { type: "token", id: token("old").credentialId, name: "old" }
      const listed = Effect.map(currentOf(sql, { teamId: w.teamId, subject, since: null }), (rows) =>
        rows.flatMap(({ certain, inferred, key, ways }) =>
          ways === null ? [] : [[key, certain, inferred, ways.join()]]
        )
      )
      const expected = [
        ["API_KEY", false, true, "read"],
        ["MIDDLE", false, true, "read"],
        ["URL", false, false, "read"]
      ]
      assert.sameDeepMembers([...(yield* listed)], expected)
      // An index of the release before has the read, and not what was inside.
      yield* sql`DELETE FROM exposure_reads WHERE NOT certain OR way = 'wrote'`
      yield* sql`UPDATE exposure_streams SET written_seq = 0`
      assert.deepStrictEqual(yield* holders(id), [])
      yield* sealed
      assert.sameDeepMembers([...(yield* listed)], expected)
      const before = yield* tables
      yield* ExposureIndex.rebuild(sql)
      assert.deepStrictEqual(yield* tables, before)
    })
  )

  it.scoped("counts the author of an entry of a release before, who may have generated the text", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const { at, changed, id, w } = yield* world
      const exposure = yield* Exposure
      yield* changed("2")
      yield* audit.record({
        actor: { userId: "former", email: "former@example.com" },
        action: "secret.update",
        outcome: "allowed",
        teamId: w.teamId,
        projectId: w.projectId,
        environmentId: w.developmentId,
        environment: at.environment,
        keys: [key],
        versions: [2],
        revision: 2
      })
      yield* sealed
      const report = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      assert.sameDeepMembers(
        report.items.map(({ holder, version, way }) => [holder.name, version, way]),
        [
          [w.owner.user?.email ?? "", 1, "wrote"],
          [w.owner.user?.email ?? "", 2, "wrote"],
          ["former@example.com", 2, "wrote"]
        ]
      )
      const listed = (userId: string) =>
        Effect.map(
          currentOf(sql, { teamId: w.teamId, subject: { type: "person", id: userId, name: "" }, since: null }),
          (rows) => rows.map(({ certain, ways }) => [certain, ways])
        )
      assert.deepStrictEqual(yield* listed("former"), [[false, ["wrote"]]])
      assert.deepStrictEqual(yield* listed(w.userId), [[true, ["wrote"]]])
      assert.deepStrictEqual(yield* listed("nobody"), [[null, null]])
    })
  )

  it.scoped("names the proposer of an approved change, also of a trail that was cut between the two", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const audit = yield* Audit
      const { at, id, w } = yield* world
      const exposure = yield* Exposure
      const email = w.owner.user?.email ?? ""
      yield* audit.record({
        actor: { userId: "approver", email: "approver@example.com" },
        action: "secret.update",
        outcome: "allowed",
        teamId: w.teamId,
        projectId: w.projectId,
        environmentId: w.developmentId,
        environment: at.environment,
        keys: [key],
        versions: [2],
        revision: 2,
        typed: true,
        target: { type: "change_request", id: "cut away", name: email }
      })
      yield* sealed
      const report = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      assert.deepStrictEqual(
        report.items.filter(({ version }) => version === 2).map(({ holder }) => [holder.type, holder.name]),
        [["user", email]]
      )
      yield* sql`UPDATE secrets SET version = 2 WHERE id = ${id}`
      yield* sql`UPDATE secret_versions SET version = 2 WHERE secret_id = ${id}`
      const listed = (subject: Subject) =>
        Effect.map(currentOf(sql, { teamId: w.teamId, subject, since: null }), ([one]) => one?.ways ?? null)
      assert.deepStrictEqual(yield* listed({ type: "person", id: w.userId, name: email }), ["wrote"])
      assert.isNull(yield* listed({ type: "person", id: "approver", name: "approver@example.com" }))
    })
  )

  it.scoped("reads an index of the release before again behind the requests, and says until then how far it is", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { changed, id, read, token, w } = yield* world
      const exposure = yield* Exposure
      const report = exposure.ofSecret(id, {}).pipe(as(w.owner))
      const authors = Effect.map(report, ({ items }) => items.filter(({ way }) => way === "wrote").length)
      yield* TestClock.adjust("1 minute")
      yield* read(token("ci"))
      yield* sealed
      yield* TestClock.adjust("1 minute")
      const whole = yield* report
      // As a server of the release before fills it: reads alone, and no word of the writes.
      yield* sql`DELETE FROM exposure_reads WHERE NOT certain OR way = 'wrote'`
      yield* sql`UPDATE exposure_streams SET written_seq = 0`
      const old = yield* report
      assert.strictEqual(yield* authors, 0)
      assert.isAtMost(Date.parse(old.upTo), Date.parse(whole.upTo) - 120_000)
      yield* changed("2")
      yield* read(token("ci"))
      yield* sealed
      assert.strictEqual(yield* authors, 2)
      assert.strictEqual((yield* report).upTo, whole.upTo)
      const before = yield* tables
      const progress: Array<number> = []
      yield* ExposureIndex.rebuild(sql, (entries) => Effect.sync(() => void progress.push(entries)))
      const [{ entries }] = yield* sql<{ entries: number }>`SELECT sum(seq)::integer AS entries FROM audit_seals`
      assert.strictEqual(progress.at(-1), entries)
      // Memory is bounded by a batch.
      assert.isTrue(progress.every((after, n) => after - (progress[n - 1] ?? 0) <= 1_000))
      assert.deepStrictEqual(yield* tables, before)
    })
  )

  it.scoped("tells of a credential's reach alone", () =>
    Effect.gen(function* () {
      const { read, token, w } = yield* world
      yield* read(token("ci"))
      yield* sealed
      const narrowed = { ...w.owner, restrictions: { projectIds: null, environmentIds: [w.productionId] } }
      assert.strictEqual((yield* ofProject(w.projectId).pipe(as(narrowed))).total, 0)
      assert.strictEqual((yield* ofProject(w.projectId).pipe(as(w.owner))).total, 2)
      const refused = (caller: Caller) =>
        Effect.map(Effect.flip(ofProject(w.projectId).pipe(as(caller))), ({ _tag }) => _tag)
      assert.strictEqual(yield* refused(w.person("member")), "FORBIDDEN")
      assert.strictEqual(yield* refused(w.token()), "SCOPE_MISSING")
      const other = yield* Fixtures.world()
      assert.strictEqual(yield* refused(other.owner), "PROJECT_NOT_FOUND")
      const reading: Caller = { ...w.token(), mcpScopes: ["audit:read"] }
      assert.strictEqual((yield* ofProject(w.projectId).pipe(as(reading))).total, 2)
    })
  )

  it.scoped("refuses a report of a trail that was altered or cut, whatever was altered and when", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { changed, id, read, token, w } = yield* world
      yield* read(token("ci"))
      yield* sealed
      yield* changed("2")
      yield* read(token("ci"))
      yield* sealed
      const report = Effect.flatMap(Exposure, (exposure) => exposure.ofSecret(id, {}).pipe(as(w.owner)))
      /** The code of the report's refusal after a change, which is undone. */
      const after = <E, R>(tamper: Effect.Effect<unknown, E, R>) =>
        Effect.flip(
          sql.withTransaction(Effect.zipRight(Effect.orDie(tamper), Effect.flatMap(Effect.either(report), Effect.fail)))
        ).pipe(Effect.map((outcome) => ("_tag" in outcome && outcome._tag === "Left" ? outcome.left._tag : "a report")))
      const own = sql`team_id = ${w.teamId} AND action = 'secret.read'`
      const streams = sql`SELECT stream FROM audit_entries WHERE ${own}`
      assert.strictEqual(yield* after(Effect.void), "a report")
      const tampers = [
        sql`UPDATE audit_entries SET body = replace(body, 'secret.read', 'secret.list') WHERE ${own}`,
        sql`UPDATE audit_entries SET body = '{}' WHERE id = (SELECT id FROM audit_entries WHERE ${own} ORDER BY id LIMIT 1)`,
        sql`DELETE FROM audit_entries WHERE id = (SELECT id FROM audit_entries WHERE ${own} ORDER BY id LIMIT 1)`,
        sql`DELETE FROM audit_entries WHERE id = (SELECT id FROM audit_entries WHERE ${own} ORDER BY id DESC LIMIT 1)`,
        sql`DELETE FROM audit_entries WHERE stream IN (${streams})`,
        sql`DELETE FROM audit_seals WHERE stream IN (${streams})`,
        sql`UPDATE audit_seals SET seq = audit_seals.seq - 1, hash = e.hash FROM audit_entries e
          WHERE e.stream = audit_seals.stream AND e.seq = audit_seals.seq - 1`
      ]
      for (const tamper of tampers) {
        assert.strictEqual(yield* after(tamper), "INTEGRITY_FAILURE", String(tamper.compile()[0]))
        assert.strictEqual(
          yield* after(Effect.zipRight(tamper, ExposureIndex.fill(sql))),
          "INTEGRITY_FAILURE",
          String(tamper.compile()[0])
        )
      }
      // A rebuild does not launder it, but for what only the vault and its checkpoints can tell.
      for (const tamper of tampers.slice(0, 4)) {
        assert.strictEqual(yield* after(Effect.zipRight(tamper, ExposureIndex.rebuild(sql))), "INTEGRITY_FAILURE")
      }
    })
  )
})

// A cut takes of every team: it has a database of its own.
layer(app, { timeout: 240_000 })("the exposure of a secret", (it) => {
  it.scoped("forgets what a cut with leave took, as a rebuild would, and says since when it knows", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { changed, id, read, token, w } = yield* world
      const exposure = yield* Exposure
      yield* read(token("early"))
      yield* TestClock.adjust("1 hour")
      const options = yield* TrailWorld.options
      yield* TestClock.adjust("1 hour")
      yield* changed("2")
      yield* read(token("late"))
      yield* sealed
      const now = options.now + 7_200_000
      yield* TrailCut.cut(new Date(options.now), { ...options, now, removed: () => Effect.void })
      const report = yield* exposure.ofSecret(id, {}).pipe(as(w.owner))
      assert.deepStrictEqual(
        report.items.map(({ holder, version }) => [holder.name, version]),
        [
          ["late", 2],
          [w.owner.user?.email ?? "", 2]
        ]
      )
      assert.strictEqual(Date.parse(report.unknownBefore ?? ""), options.now)
      const before = yield* tables
      yield* ExposureIndex.rebuild(sql)
      assert.deepStrictEqual(yield* tables, before)
    })
  )
})
