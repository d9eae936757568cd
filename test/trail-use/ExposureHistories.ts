/** Random lives of environments, and what the ledger and an independent reading of the trail say of them. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { TokenIdOut } from "#schema/Ids.ts"
import { SecretKey } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Seal } from "#src/trail/Seal.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import * as ExposureIndex from "#src/trail/ExposureIndex.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as TrailExport from "#src/trail/TrailExport.ts"
import * as Backup from "#src/backup/Backup.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as TrailWorld from "#test/audit/TrailWorld.ts"
import { oracle } from "#test/trail-use/ExposureOracle.ts"

export const layer = Exposure.Default.pipe(Layer.provideMerge(TrailWorld.layer))

// More than are named one by one in an entry.
const keys = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "URL"].map((text) => SecretKey.make(text))
const verbs = [
  "write",
  "write",
  "bulk",
  "remove",
  "restore",
  "rollback",
  "rekey",
  "inject",
  "read",
  "read",
  "page",
  "export"
]
const rare = ["copy", "backup", "rename", "leave", "seal"]
const Step = FastCheck.record({
  verb: FastCheck.constantFrom(...verbs, ...verbs, ...rare),
  key: FastCheck.constantFrom(...keys),
  value: FastCheck.constantFrom("x", "y", "a ${A} b", "${B}", "${URL}/${A}"),
  who: FastCheck.integer({ min: 0, max: 4 }),
  via: FastCheck.constantFrom("rest" as const, "mcp" as const, "cli" as const)
})
export type Step = typeof Step extends FastCheck.Arbitrary<infer A> ? A : never

/** An id of this world's own. */
const idOf = (w: Fixtures.World, n: number) => `${w.teamId.slice(0, -4)}f00${n}`

const callersOf = (w: Fixtures.World, renamed: boolean): ReadonlyArray<Caller> => [
  w.owner,
  { ...w.token(), credentialId: idOf(w, 1), name: renamed ? "ci, renamed" : "ci" },
  { ...w.owner, kind: "cli_grant", credentialId: idOf(w, 2) },
  { ...w.token(), credentialId: idOf(w, 3), name: "deploy: repo:acme" },
  { ...w.owner, kind: "oauth_token", credentialId: idOf(w, 4), name: "Claude" }
]

/** Owners of credentials, as the trail records them at creation. */
const issued = (w: Fixtures.World) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const sql = yield* SqlClient.SqlClient
    const owner = { userId: w.userId, email: w.owner.user?.email ?? "" }
    const common = { outcome: "allowed", teamId: w.teamId } as const
    yield* sql.withTransaction(
      audit.append(
        {
          ...common,
          actor: owner,
          action: "grant.issue",
          target: { type: "cli_grant", id: idOf(w, 2), name: "laptop" }
        },
        {
          ...common,
          actor: { tokenId: TokenIdOut.make(idOf(w, 3)), name: "deploy: repo:acme" },
          action: "machine.exchange",
          target: { type: "machine_rule", id: idOf(w, 5), name: "deploy" }
        },
        {
          ...common,
          actor: owner,
          action: "oauth.consent",
          target: { type: "oauth_grant", id: idOf(w, 4), name: "Claude" }
        }
      )
    )
  })

const act = Effect.fnUntraced(function* (w: Fixtures.World, { key, value, verb, who }: Step, file: string) {
  const secrets = yield* Fixtures.secrets
  const at = { projectId: w.projectId, environment: w.development }
  const asOwner = Effect.provideService(CurrentCaller, w.owner)
  const { items } = yield* secrets.list(at).pipe(asOwner)
  const live = items.find((one) => one.key === key)
  const text = Redacted.make(value)
  switch (verb) {
    case "write":
      yield* live === undefined ? secrets.create({ ...at, key, value: text }) : secrets.update(live.id, { value: text })
      break
    case "bulk":
      yield* secrets.upsert({
        ...at,
        secrets: keys.map((each) => ({ key: each, value: Redacted.make(`${each} ${value}`) }))
      })
      break
    case "remove":
      if (live !== undefined) yield* secrets.remove(live.id, who > 2 ? "cascade" : "flatten")
      break
    case "restore": {
      const gone = (yield* secrets.deleted(at)).items.find((one) => one.key === key)
      if (gone !== undefined) yield* secrets.restore(gone.id)
      break
    }
    case "rollback":
      if (live !== undefined && live.version > 1) yield* secrets.rollback(live.id, { version: live.version - 1 })
      break
    case "rekey": {
      const to = keys.find((one) => items.every((item) => item.key !== one))
      if (live !== undefined && to !== undefined) yield* secrets.rename(live.id, { key: to, references: "rewrite" })
      break
    }
    case "inject":
      yield* secrets.inject({ ...at, representation: who === 1 ? "source" : "materialized" })
      break
    case "read":
      yield* secrets.value({ ...at, key })
      break
    case "page":
      yield* secrets.withValues({ ...at, page: 1 + who, pageSize: 2 })
      break
    case "export":
      yield* secrets.sealedExport(who > 2 ? at : { ...at, keys: [key] })
      break
    case "copy":
      yield* secrets.copy({
        projectId: w.projectId,
        sourceEnv: w.development,
        targetEnv: w.production,
        keys: [key],
        overwrite: true
      })
      break
    case "backup":
      yield* Backup.backup({ file, recipients: [], release: "1", progress: () => Effect.void })
      break
    default:
      yield* Effect.flatMap(Seal, (seal) => seal.now)
  }
})

/** A refused write (a missing reference, a cycle) hands out nothing. Backups are slow: `folder` takes them. */
const lived = Effect.fnUntraced(function* (steps: ReadonlyArray<Step>, folder: string | undefined) {
  const w = yield* Fixtures.world()
  yield* issued(w)
  let renamed = false
  const leavers = new Set<number>()
  for (const [i, step] of steps.entries()) {
    if (step.verb === "rename") renamed = true
    if (step.verb === "leave") leavers.add(step.who)
    if (step.verb === "rename" || step.verb === "leave" || leavers.has(step.who)) continue
    if (step.verb === "backup" && folder === undefined) continue
    const caller = callersOf(w, renamed)[step.who] ?? w.owner
    yield* TestClock.adjust("1 second")
    const origin = { id: "r", ip: `192.0.2.${i % 3}`, userAgent: null, via: step.via }
    yield* act(w, step, `${folder}/${w.teamId}-${i}`).pipe(
      Effect.ignore,
      Effect.provideService(CurrentCaller, caller),
      Effect.provideService(RequestInfo, origin)
    )
  }
  return w
})

const exported = Effect.gen(function* () {
  const { now } = yield* TrailWorld.options
  const lines: Array<string> = []
  yield* TrailExport.exportTrail({
    since: null,
    until: null,
    format: "jsonl",
    now,
    write: (text) => Effect.sync(() => void lines.push(text)),
    progress: () => Effect.void
  })
  return lines.join("")
})

/** Every row of the index. */
export const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return [
    yield* sql`SELECT * FROM exposure_streams ORDER BY stream`,
    yield* sql`SELECT * FROM exposure_writes ORDER BY environment_id, key, revision`,
    yield* sql`SELECT * FROM exposure_credentials ORDER BY id`,
    yield* sql`SELECT * FROM exposure_reads ORDER BY id`
  ]
})

/** All of a project's report, page by page, as the oracle writes it. */
const reported = (w: Fixtures.World) =>
  Effect.gen(function* () {
    const exposure = yield* Exposure
    const summaries = new Map<string, string>()
    for (let page = 1, hasMore = true; hasMore; page++) {
      const answer = yield* exposure.ofProject(w.projectId, { page, pageSize: 500 })
      hasMore = answer.hasMore
      for (const { count, environmentId, firstAt, holder, key, lastAt, version, via, way } of answer.items) {
        const name = [environmentId, key, version ?? "unknown", holder.type, holder.id, way, via].join(" ")
        summaries.set(name, `${count} ${firstAt} ${lastAt}`)
      }
    }
    return summaries
  }).pipe(Effect.provideService(CurrentCaller, w.owner))

const sorted = (found: ReadonlyMap<string, string>) => [...found].sort(([a], [b]) => (a < b ? -1 : 1))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-exposure-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** Lives so many histories, of which so many with backups, and compares all of them. */
export const compared = Effect.fnUntraced(function* (histories: number, withBackups: number) {
  const sql = yield* SqlClient.SqlClient
  const path = yield* folder
  const all = FastCheck.sample(FastCheck.array(Step, { minLength: 15, maxLength: 40 }), histories)
  const worlds: Array<Fixtures.World> = []
  for (const [i, steps] of all.entries()) worlds.push(yield* lived(steps, i < withBackups ? path : undefined))
  yield* Effect.flatMap(Seal, (seal) => seal.now)
  const byEnvironment = new Map<string, Array<[string, string]>>()
  for (const [name, told] of oracle(yield* exported)) {
    const id = name.split(" ")[0] ?? ""
    byEnvironment.set(id, [...(byEnvironment.get(id) ?? []), [name, told]])
  }
  for (const w of worlds) {
    const expected = [w.developmentId, w.productionId].flatMap((id) => byEnvironment.get(id) ?? [])
    assert.deepStrictEqual(sorted(yield* reported(w)), sorted(new Map(expected)))
  }
  const before = yield* tables
  assert.isAbove(before.flat().length, 10 * histories)
  yield* ExposureIndex.rebuild(sql)
  assert.deepStrictEqual(yield* tables, before)
})
