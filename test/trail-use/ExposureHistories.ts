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
import { ChangeRequestId, TokenIdOut } from "#schema/Ids.ts"
import { SealingKeyId, SecretKey } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Seal } from "#src/trail/Seal.ts"
import { ChangeRequests } from "#src/secrets/ChangeRequests.ts"
import { SecondPerson } from "#src/access/SecondPerson.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import * as ExposureIndex from "#src/trail/ExposureIndex.ts"
import { currentOf, type Subject } from "#src/trail/IncidentExposure.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as TrailExport from "#src/trail/TrailExport.ts"
import * as Backup from "#src/backup/Backup.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"
import * as TrailWorld from "#test/audit/TrailWorld.ts"
import { oracle } from "#test/trail-use/ExposureOracle.ts"

export const layer = Layer.merge(Exposure.Default, ChangeRequests.Default).pipe(
  Layer.provide(SecondPerson.Default),
  Layer.provideMerge(TrailWorld.layer)
)

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
const rare = [
  "copy",
  "backup",
  "rename",
  "leave",
  "seal",
  "generate",
  "mix",
  "import",
  "propose",
  "propose",
  "decide",
  "decide"
]
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

/** A member, in a session or with a login of their own. They propose in production. */
const memberOf = Effect.fnUntraced(function* (w: Fixtures.World) {
  const audit = yield* Audit
  const sql = yield* SqlClient.SqlClient
  const user = yield* World.member({ id: w.teamId }, "member")
  const session: Caller = { ...w.person("member"), user, credentialId: user.id }
  const login: Caller = { ...session, kind: "cli_grant", credentialId: idOf(w, 6) }
  yield* Seals.after("environments", sql`UPDATE environments SET changes = 'proposed' WHERE id = ${w.productionId}`)
  yield* sql.withTransaction(
    audit.append({
      outcome: "allowed",
      teamId: w.teamId,
      actor: { userId: user.id, email: user.email },
      action: "grant.issue",
      target: { type: "cli_grant", id: login.credentialId, name: "laptop" }
    })
  )
  return [session, login] as const
})

interface Life {
  readonly w: Fixtures.World
  readonly member: Effect.Effect.Success<ReturnType<typeof memberOf>>
}

/** A member proposes a typed, a generated or a copied value, or the owner decides what waits. */
const proposal = Effect.fnUntraced(function* ({ member, w }: Life, { key, value, verb, who }: Step) {
  const secrets = yield* Fixtures.secrets
  const requests = yield* ChangeRequests
  const asOwner = Effect.provideService(CurrentCaller, w.owner)
  if (verb === "decide") {
    const [first] = (yield* requests.list().pipe(asOwner)).items
    if (first === undefined) return
    const id = ChangeRequestId.make(first.id)
    if (who > 3) yield* requests.deny(id).pipe(asOwner)
    else yield* requests.approve(id).pipe(asOwner)
    return
  }
  const source = [
    { value: Redacted.make(value) },
    { generate: { length: 32 } },
    { copyFrom: { environment: w.development, key } }
  ]
  const entry = { key, ...source[who % 3] }
  const others = who > 2 ? [{ key: SecretKey.make("P"), value: Redacted.make(value) }] : []
  yield* secrets
    .upsert({ projectId: w.projectId, environment: w.production, secrets: [entry, ...others] })
    .pipe(Effect.provideService(CurrentCaller, member[who % 2] ?? member[0]))
})

const act = Effect.fnUntraced(function* (life: Life, step: Step, file: string) {
  const { w } = life
  const { key, value, verb, who } = step
  const secrets = yield* Fixtures.secrets
  const at = { projectId: w.projectId, environment: w.development }
  const asOwner = Effect.provideService(CurrentCaller, w.owner)
  const { items } = yield* secrets.list(at).pipe(asOwner)
  const live = items.find((one) => one.key === key)
  const text = Redacted.make(value)
  switch (verb) {
    case "propose":
    case "decide":
      yield* proposal(life, step)
      break
    case "generate":
      yield* live === undefined
        ? secrets.createFrom({ ...at, key, generate: { length: 32 } })
        : secrets.updateFrom({ secretId: live.id, generate: { length: 32 } })
      break
    case "mix":
      yield* secrets.upsert({
        ...at,
        secrets: [
          { key, generate: { length: 32 } },
          { key: keys[who], value: text }
        ]
      })
      break
    case "import": {
      const { keyId, entries } = yield* secrets.sealedExport({ ...at, keys: [key] })
      yield* secrets.importSealed({ ...at, keyId: SealingKeyId.make(keyId), entries, overwrite: true })
      break
    }
    case "write":
      yield* live === undefined ? secrets.create({ ...at, key, value: text }) : secrets.update(live.id, { value: text })
      break
    case "bulk": {
      const all = keys.map((each) => ({ key: each, value: Redacted.make(`${each} ${value}`) }))
      yield* secrets.upsert({ ...at, secrets: all })
      // Once more, which changes nothing: the sender holds the present texts.
      yield* secrets.upsert({ ...at, secrets: all.slice(who) })
      break
    }
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
      yield* secrets.inject({
        ...at,
        representation: who === 1 ? "source" : "materialized",
        ...(who > 2 ? { keys: [key] } : {})
      })
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

/** Each typed text is written once, so that a text names its author. */
const unlike = (step: Step, i: number): Step => ({ ...step, value: `${step.value} ${i}` })

/** A refused write (a missing reference, a cycle) hands out nothing. Backups are slow: `folder` takes them. */
const lived = Effect.fnUntraced(function* (steps: ReadonlyArray<Step>, folder: string | undefined) {
  const w = yield* Fixtures.world()
  yield* issued(w)
  const life: Life = { w, member: yield* memberOf(w) }
  let renamed = false
  const leavers = new Set<number>()
  const acted: Array<Step> = []
  for (const [i, step] of steps.entries()) {
    if (step.verb === "rename") renamed = true
    if (step.verb === "leave") leavers.add(step.who)
    if (step.verb === "rename" || step.verb === "leave" || leavers.has(step.who)) continue
    if (step.verb === "backup" && folder === undefined) continue
    const caller = callersOf(w, renamed)[step.who] ?? w.owner
    yield* TestClock.adjust("1 second")
    const origin = { id: "r", ip: `192.0.2.${i % 3}`, userAgent: null, via: step.via }
    const own = unlike(step, i)
    acted.push(own)
    yield* act(life, own, `${folder}/${w.teamId}-${i}`).pipe(
      Effect.ignore,
      Effect.provideService(CurrentCaller, caller),
      Effect.provideService(RequestInfo, origin)
    )
  }
  return { ...life, steps: acted }
})
type Lived = Effect.Effect.Success<ReturnType<typeof lived>>

/** A holder, as an incident is about it. */
const subjectOf = ({ member: [{ user }], w }: Lived, who: number | "member"): Subject => {
  if (who === "member") return { type: "person", id: user?.id ?? "", name: user?.email ?? "" }
  if (who === 1) return { type: "token", id: idOf(w, 1), name: "ci" }
  if (who === 3) return { type: "token", id: idOf(w, 5), name: "deploy" }
  return { type: "person", id: w.userId, name: w.owner.user?.email ?? "" }
}

/** Authors of texts, out of the steps alone: `environment key text` to the holder. */
const typedTexts = (life: Lived) => {
  const { w } = life
  const typed = new Map<string, Subject>()
  for (const { key, value, verb, who } of life.steps) {
    const add = (environmentId: string, at: string, text: string, by: number | "member") =>
      typed.set(`${environmentId} ${at} ${text}`, subjectOf(life, by))
    if (verb === "write") add(w.developmentId, key, value, who)
    if (verb === "mix") add(w.developmentId, keys[who] ?? key, value, who)
    if (verb === "bulk") for (const each of keys) add(w.developmentId, each, `${each} ${value}`, who)
    if (verb === "propose" && who % 3 === 0) add(w.productionId, key, value, "member")
    if (verb === "propose" && who > 2) add(w.productionId, "P", value, "member")
  }
  return typed
}

/** Texts as they are written, by `environment key`. Read by the owner, after all that is compared. */
const liveTexts = ({ w }: Lived) =>
  Effect.gen(function* () {
    const secrets = yield* Fixtures.secrets
    const texts = new Map<string, string>()
    for (const [id, environment] of [
      [w.developmentId, w.development],
      [w.productionId, w.production]
    ] as const) {
      const { values } = yield* secrets.resolved({ projectId: w.projectId, environment, representation: "source" })
      for (const [key, text] of Object.entries(values)) texts.set(`${id} ${key}`, text)
    }
    return texts
  }).pipe(Effect.provideService(CurrentCaller, w.owner))

/**
 * An incident about each holder: the author of the present text of a secret has it in the list, and no other has it there
 * as its certain author. A file that was imported holds texts that the steps do not name.
 */
const incidentsAgree = Effect.fnUntraced(function* (life: Lived) {
  const sql = yield* SqlClient.SqlClient
  const subjects = ([0, 1, 3, "member"] as const).map((who) => subjectOf(life, who))
  const lists = yield* Effect.forEach(subjects, (subject) =>
    currentOf(sql, { teamId: life.w.teamId, subject, since: null })
  )
  const texts = yield* liveTexts(life)
  const typed = typedTexts(life)
  const imported = new Set(life.steps.flatMap(({ key, verb }) => (verb === "import" ? [key] : [])))
  for (const [i, subject] of subjects.entries()) {
    for (const { certain, environmentId, key, ways } of lists[i]) {
      if (imported.has(SecretKey.make(key))) continue
      const author = typed.get(`${environmentId} ${key} ${texts.get(`${environmentId} ${key}`)}`)
      const isAuthor = author?.type === subject.type && author.id === subject.id
      if (isAuthor) assert.include(ways ?? [], "wrote", `missed: ${key}`)
      else if (certain === true) assert.notDeepEqual(ways, ["wrote"], `false: ${key}`)
    }
  }
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
  const lives: Array<Lived> = []
  for (const [i, steps] of all.entries()) lives.push(yield* lived(steps, i < withBackups ? path : undefined))
  yield* Effect.flatMap(Seal, (seal) => seal.now)
  const byEnvironment = new Map<string, Array<[string, string]>>()
  for (const [name, told] of oracle(yield* exported)) {
    const id = name.split(" ")[0] ?? ""
    byEnvironment.set(id, [...(byEnvironment.get(id) ?? []), [name, told]])
  }
  for (const { w } of lives) {
    const expected = [w.developmentId, w.productionId].flatMap((id) => byEnvironment.get(id) ?? [])
    assert.deepStrictEqual(sorted(yield* reported(w)), sorted(new Map(expected)))
  }
  const before = yield* tables
  assert.isAbove(before.flat().length, 10 * histories)
  yield* ExposureIndex.rebuild(sql)
  assert.deepStrictEqual(yield* tables, before)
  for (const life of lives) yield* incidentsAgree(life)
})
