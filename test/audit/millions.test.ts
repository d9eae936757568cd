/**
 * A trail of a million entries: what a search, a verification, an export and one more entry take. `npm run test:trail`;
 * `AMPOULE_TRAIL_ENTRIES` is how many, `AMPOULE_TRAIL_REPORT` names a file for the figures.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { version } from "#src/Release.ts"
import { AuditQuery } from "#schema/AuditApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { RingKey } from "#src/crypto/KeyRing.ts"
import * as Entry from "#src/trail/Entry.ts"
import * as TrailKey from "#src/trail/TrailKey.ts"
import * as SealRows from "#src/trail/SealRows.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { exportTrail } from "#src/trail/TrailExport.ts"
import * as TrailIndex from "#src/trail/TrailIndex.ts"
import { verify } from "#src/trail/TrailVerification.ts"
import * as Chain from "#src/audit/Chain.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const entries = Number(process.env["AMPOULE_TRAIL_ENTRIES"] ?? "0")
const reportFile = process.env["AMPOULE_TRAIL_REPORT"]

const streams = 8
const days = 30
const batch = 2_500
const actors = Array.from({ length: 40 }, () => randomUUID())
const projects = Array.from({ length: 5 }, () => randomUUID())
const environments = Array.from({ length: 15 }, () => randomUUID())
const slugs = ["development", "staging", "production"]
const keys = Array.from({ length: 200 }, (_, i) => `SERVICE_KEY_${i}`)

interface Row {
  readonly stream: string
  readonly seq: number
  readonly id: string
  readonly at: string
  readonly project: string
  readonly environmentId: string
  readonly environment: string
  readonly actor: string
  readonly action: string
  readonly body: string
  readonly hash: Buffer
}

/** Entry `i`: seven of ten inject the 8 keys of a service, two read one key, one is something else. */
const entryAt = (i: number, at: number, team: string, stream: string, seq: number): Omit<Row, "hash"> => {
  const place = (i * 7) % environments.length
  const kind = i % 10
  const action = kind < 7 ? "secret.inject" : kind < 9 ? "secret.read" : i % 20 === 9 ? "secret.update" : "secret.list"
  // Two of the actors came once, one key was used three times.
  const actor = actors[i === 1_000 || i === 500_000 ? 39 : (i * 31) % 39]
  const first = (place * 8) % keys.length
  const used = kind < 7 ? keys.slice(first, first + 8) : kind < 9 ? [keys[(i * 13) % keys.length]] : []
  const named = i % 333_333 === 1_234 ? [...used, "RARE_KEY"] : used
  const id = `${TrailIndex.lowestId(at).slice(0, 24)}${i.toString(16).padStart(12, "0")}`
  const time = new Date(at).toISOString()
  const row = {
    stream,
    seq,
    id,
    at: time,
    project: projects[place % projects.length],
    environmentId: environments[place],
    environment: slugs[place % slugs.length],
    actor,
    action
  }
  const body = JSON.stringify({
    action,
    actor: { id: actor, name: `ci-${actor.slice(0, 8)}`, type: "api_token" },
    at: time,
    environment: row.environment,
    environmentId: row.environmentId,
    id,
    ip: "203.0.113.7",
    keys: named,
    outcome: "allowed",
    project: row.project,
    requestId: id,
    seq,
    stream,
    team,
    userAgent: "ampoule/1.0.0 (linux; x64) node/20",
    via: "cli"
  })
  return { ...row, body }
}

const put = (sql: SqlClient.SqlClient, team: string, rows: ReadonlyArray<Row>, key: RingKey) => sql`
  INSERT INTO audit_entries (stream, seq, id, at, team_id, project_id, environment_id, environment, actor_id, action,
    body, hash, mac)
  SELECT r.stream, r.seq, r.id, r.at, ${team}::uuid, r.project, r.environment_id, r.environment, r.actor, r.action,
    r.body, r.hash, r.mac
  FROM unnest(${rows.map((r) => r.stream)}::uuid[], ${rows.map((r) => r.seq)}::bigint[],
    ${rows.map((r) => r.id)}::uuid[], ${rows.map((r) => r.at)}::timestamptz[], ${rows.map((r) => r.project)}::uuid[],
    ${rows.map((r) => r.environmentId)}::uuid[], ${rows.map((r) => r.environment)}::text[],
    ${rows.map((r) => r.actor)}::text[], ${rows.map((r) => r.action)}::text[], ${rows.map((r) => r.body)}::text[],
    ${rows.map((r) => r.hash)}::bytea[], ${rows.map((r) => Entry.macOf(key, r.hash))}::bytea[])
    AS r (stream, seq, id, at, project, environment_id, environment, actor, action, body, hash, mac)`

/** Streams that ended, as servers would have left them: linked, and closed by the vault. */
const filled = Effect.fnUntraced(function* (team: string, begin: number) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const key = (yield* yield* TrailKey.shared).newest
  const heads = Array.from({ length: streams }, () => Chain.withMacs(randomUUID())).map((stream) => ({
    stream,
    seq: 0,
    hash: Chain.genesis(stream)
  }))
  let rows: Array<Row> = []
  for (let i = 0; i < entries; i++) {
    const at = begin + Math.floor((i * days * 86_400_000) / entries)
    const head = heads[i % streams]
    const row = entryAt(i, at, team, head.stream, ++head.seq)
    head.hash = Chain.chain(head.hash, row.body)
    rows.push({ ...row, hash: head.hash })
    if (rows.length < batch && i < entries - 1) continue
    yield* put(sql, team, rows, key)
    rows = []
  }
  for (const head of heads) yield* SealRows.put({ sql, vault }, head, true, begin + days * 86_400_000)
  yield* sql`ANALYZE audit_entries`
})

const timed = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const started = performance.now()
    const result = yield* work
    return { result, millis: Math.round((performance.now() - started) * 10) / 10 }
  })

const decode = Schema.decodeUnknownSync(AuditQuery)

/** Every filter alone, and some together: the time of its first answer, and of all answers until the end or 1,000 entries. */
const searches = Effect.fnUntraced(function* (world: Fixtures.World, begin: number) {
  const trail = yield* AuditTrail
  const day = (n: number) => new Date(begin + n * 86_400_000).toISOString()
  const queries: ReadonlyArray<Readonly<Record<string, string>>> = [
    {},
    { key: "NEVER_USED" },
    { key: "RARE_KEY" },
    { key: "SERVICE_KEY_7" },
    { actor: randomUUID() },
    { actor: actors[39] },
    { actor: actors[3] },
    { action: "root_key.rotate" },
    { action: "secret.update" },
    { environment: "production" },
    { environment: "nowhere" },
    { projectId: projects[2] },
    { projectId: randomUUID() },
    { since: day(10), until: day(11) },
    { until: day(1) },
    { key: "RARE_KEY", action: "secret.inject", environment: "production" },
    { key: "SERVICE_KEY_7", actor: actors[39] },
    { actor: actors[3], action: "secret.list", since: day(2), until: day(9) }
  ]
  const nameOf = (value: string) =>
    value === actors[39] ? "came twice" : value === actors[3] ? "busy" : /-.*-.*-/.test(value) ? "some id" : value
  const figures: Array<{ readonly query: string; readonly found: number; readonly [figure: string]: unknown }> = []
  for (const query of queries) {
    const answers: Array<number> = []
    let count = 0
    let longest = 0
    for (let cursor: string | null = ""; cursor !== null && count < 1_000;) {
      const parameters = decode({ ...query, limit: "50", ...(cursor === "" ? {} : { cursor }) })
      const list = Effect.provideService(trail.list(world.teamId, parameters), CurrentCaller, world.owner)
      const answer: { readonly result: Effect.Effect.Success<typeof list>; readonly millis: number } =
        yield* timed(list)
      answers.push(answer.millis)
      longest = Math.max(longest, answer.millis)
      count += answer.result.items.length
      cursor = answer.result.nextCursor
    }
    figures.push({
      query: Object.entries(query)
        .map(([name, value]) => `${name}=${nameOf(value)}`)
        .join(" & "),
      found: count,
      answers: answers.length,
      "first ms": answers[0],
      "longest ms": longest,
      "all ms": Math.round(answers.reduce((sum, one) => sum + one, 0))
    })
  }
  return figures
})

/** Entries of reads that 16 callers commit in a second. */
const committed = Effect.fnUntraced(function* (world: Fixtures.World) {
  const audit = yield* Audit
  const each = 250
  const keys = Array.from({ length: 50 }, (_, i) => `SERVICE_KEY_${i}`)
  const inject = audit.record({
    actor: world.owner,
    action: "secret.inject",
    outcome: "allowed",
    teamId: world.teamId,
    projectId: world.projectId,
    environmentId: world.developmentId,
    environment: world.development,
    keys
  })
  const one = Effect.forEach(Array.from({ length: each }), () => inject, { discard: true })
  const { millis } = yield* timed(
    Effect.forEach(Array.from({ length: 16 }), () => one, { concurrency: 16, discard: true })
  )
  return Math.round((16 * each * 1_000) / millis)
})

/** The indexes that searches could have had instead. */
const indexes = [
  "(team_id, actor_id, id)",
  "(team_id, action, id)",
  "(team_id, project_id, id)",
  "(environment_id, id DESC)"
]

const writing = Effect.fnUntraced(function* (world: Fixtures.World) {
  const sql = yield* SqlClient.SqlClient
  const figures: Array<Record<string, unknown>> = []
  yield* committed(world)
  for (let round = 1; round <= 2; round++) {
    figures.push({ round, indexes: "as they are", "entries/s": yield* committed(world) })
    for (const [i, columns] of indexes.entries()) {
      yield* sql`CREATE INDEX ${sql(`other_${i}`)} ON audit_entries ${sql.literal(columns)}`
    }
    figures.push({ round, indexes: indexes.join(", "), "entries/s": yield* committed(world) })
    yield* sql`CREATE INDEX other_keys ON audit_entries USING gin ((body::jsonb -> 'keys'))`
    figures.push({ round, indexes: "these and GIN of the keys", "entries/s": yield* committed(world) })
    for (const i of indexes.keys()) yield* sql`DROP INDEX ${sql(`other_${i}`)}`
    yield* sql`DROP INDEX other_keys`
  }
  return figures
})

/** The most memory in use, MiB, garbage included, while `work` tells of its progress. */
const watched = <A, E, R>(work: (progress: () => Effect.Effect<void>) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let most = 0
    const progress = () => Effect.sync(() => void (most = Math.max(most, process.memoryUsage().heapUsed)))
    const before = process.memoryUsage().heapUsed
    const { millis, result } = yield* timed(work(progress))
    return { result, figures: { seconds: millis / 1_000, "heap MiB, at most": Math.round((most - before) / 2 ** 20) } }
  })

const keeping = Effect.gen(function* () {
  const vault = yield* Vault
  const now = yield* Clock.currentTimeMillis
  const options = { vault, keys: [], checkpoints: [], values: false, alone: false, now }
  const verified = yield* watched((progress) => verify({ ...options, progress }))
  assert.deepStrictEqual(verified.result.problems, [])
  let bytes = 0
  const write = (text: string) => Effect.sync(() => void (bytes += text.length))
  const exported = yield* watched((progress) =>
    exportTrail({ since: null, until: null, format: "jsonl", now, write, progress })
  )
  return [
    { work: "audit verify", entries: verified.result.entries, ...verified.figures },
    { work: "audit export", entries: exported.result, "file MiB": Math.round(bytes / 2 ** 20), ...exported.figures }
  ]
})

const sizes = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`
    SELECT relname::text AS relation, round(pg_relation_size(oid) / 1048576.0)::int AS "MiB" FROM pg_class
    WHERE relname LIKE 'audit%' AND pg_relation_size(oid) > 1048576 ORDER BY 2 DESC`
)

const notes = [
  "first ms: the first answer, 50 entries at most; longest ms: the slowest answer; all ms: every answer until the end, or until 1,000 entries were found",
  "a search answers after a second with what it has and a cursor: before the index is filled that takes up to six answers",
  "heap: beyond what was in use before, garbage that was not collected yet included",
  "entries that 16 callers commit: other work on the machine moves these figures more than the indexes do"
]

const app = AuditTrail.Default.pipe(Layer.provideMerge(Layer.merge(Fixtures.secretsLayer, NodeContext.layer)))

layer(app, { excludeTestServices: true, timeout: "2 minutes" })("a trail of a million entries", (it) => {
  it.effect.skipIf(entries === 0 || !TestDatabase.onPostgres)(
    "is searched, verified and exported, and written to",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const world = yield* Fixtures.world()
        const begin = (yield* Clock.currentTimeMillis) - (days + 1) * 86_400_000
        yield* filled(world.teamId, begin)
        const before = yield* searches(world, begin)
        const { millis } = yield* timed(TrailIndex.fill(sql))
        yield* sql`VACUUM ANALYZE`
        const after = yield* searches(world, begin)
        const counts = (figures: ReadonlyArray<{ readonly found: number }>) =>
          figures.map(({ found }) => Math.min(found, 1_000))
        assert.deepStrictEqual(counts(before), counts(after))
        const report = {
          what: `A trail with ${entries} entries of one team in ${days} days: times on a busy machine with two cores, Postgres beside it. npm run test:trail`,
          date: new Date(yield* Clock.currentTimeMillis).toISOString().slice(0, 10),
          versions: { ampoule: version, node: process.versions.node },
          notes,
          "index of terms, seconds to fill": Math.round(millis / 100) / 10,
          "searches before the index is filled": before,
          searches: after,
          keeping: yield* keeping,
          sizes: yield* sizes,
          "entries that 16 callers commit": yield* writing(world)
        }
        if (reportFile !== undefined) fs.writeFileSync(reportFile, `${JSON.stringify(report, null, 2)}\n`)
      }),
    3_600_000
  )
})
