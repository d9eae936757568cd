/**
 * Runs that an agent plans and a command line starts (docs/contract/mcp.md). The id of the plan joins both in the
 * trail. The command line reports exit code, duration and the masked end of the output, with the credential that
 * started the run. Masking misses encoded values, so the output is sealed and lives an hour. Only the person or
 * credential that both planned and ran receives it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { IntegrityFailure, RunNotPlanned, ValidationFailed } from "#schema/Errors.ts"
import { EnvironmentIdOut, type RunPlanId, UserIdOut } from "#schema/Ids.ts"
import type { EnvironmentQuery, ReportRun } from "#schema/SecretRequests.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { days } from "#src/Days.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import { columnsOf } from "#src/rows/AuthorizationRows.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Rows from "#src/database/Rows.ts"
import { masks } from "#src/masks/Redactor.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import * as SecretNames from "./SecretNames.ts"
import { Snapshots } from "./Snapshots.ts"

/** Time in which a plan can be run (docs/contract/mcp.md). */
const plannedMillis = 15 * 60_000
/** Lifetime of a result. */
const keptMillis = 3_600_000
/** The longest run that can be reported. */
const runMillis = days(1)
/** Characters of output that are kept, from its end. */
const maxOutput = 4_096

const services = Effect.all({
  access: Access,
  audit: Audit,
  crypto: Crypto,
  dataKeys: DataKeys,
  keys: ServiceKeys,
  rowSeal: RowSeal,
  snapshots: Snapshots,
  sql: SqlClient.SqlClient
})
type Needs = Effect.Effect.Success<typeof services>
type InjectPermit = EnvironmentPermit<"secrets:run">

const unknownPlan = new ValidationFailed({
  field: "plan",
  message:
    "This must be a plan of this connection and environment: run within 15 minutes, and ended within the last hour."
})

const targetOf = (id: string, name = id) => ({ target: { type: "run_plan", id, name } })

/** A plan of the run, and its id; none when a key is missing or cannot be resolved. */
const plan = Effect.fn("RunPlans.plan")(function* (
  needs: Needs,
  at: EnvironmentQuery & { readonly keys?: ReadonlyArray<string> }
) {
  const { crypto, rowSeal, sql } = needs
  const id = yield* crypto.uuid
  const { injected, permit, problems } = yield* SecretNames.plan(needs, at, targetOf(id))
  const { caller, target } = permit
  if (problems.length > 0) return { id: undefined, injected, problems, target }
  const now = yield* Clock.currentTimeMillis
  const values = yield* rowSeal.values("run_plans", {
    id,
    environmentId: target.environmentId,
    credentialId: caller.credentialId,
    userId: caller.user?.id ?? null,
    createdAt: new Date(now),
    expiresAt: new Date(now + plannedMillis),
    keys: at.keys ?? null,
    startedBy: null,
    tellsOutput: false,
    ...notEnded,
    startedAt: null
  })
  yield* Rows.run(sql`INSERT INTO run_plans ${values}`)
  return { id, injected, problems, target }
})

/** The part of an injection that a plan bounds. */
type Bounded = EnvironmentQuery & { readonly keys?: ReadonlyArray<string> }

/**
 * Whether the plan allows this read: its environment and keys, not run yet, within its time, by its credential or by a
 * command-line login of the person whose connected agent planned it. An API token acts for no person, so a token's plan
 * is that token's alone.
 */
const allows = (
  row: Pick<PlanRow, "credentialId" | "environmentId" | "expiresAt" | "keys" | "startedAt" | "userId">,
  { caller, target }: InjectPermit,
  { keys }: Bounded,
  now: number
): boolean =>
  row.environmentId === target.environmentId &&
  row.startedAt === null &&
  row.expiresAt.getTime() > now &&
  (row.credentialId === caller.credentialId ||
    (caller.kind === "cli_grant" && row.userId !== null && row.userId === caller.user?.id)) &&
  (row.keys === null || (keys ?? row.keys).every((key) => row.keys?.includes(key) === true))

/** Records the refusal under the plan that the request named, and fails with it. */
const refuse = Effect.fnUntraced(function* (
  { audit }: Pick<Needs, "audit">,
  permit: InjectPermit,
  at: Bounded,
  id: RunPlanId
) {
  const refusal = new RunNotPlanned({ field: "plan" })
  yield* audit.record({ ...permit.event({ ...targetOf(id), keys: at.keys }), outcome: "denied", reason: refusal._tag })
  return yield* refusal
})

/** The query within its plan: without keys of its own it gets those of the plan. The plan is not used up yet. */
export const boundOf = Effect.fnUntraced(function* <Query extends Bounded>(
  needs: Pick<Needs, "audit" | "rowSeal" | "sql">,
  permit: InjectPermit,
  query: Query,
  id: RunPlanId
) {
  const row = yield* planWhere(needs, needs.sql`id = ${id}`)
  const now = yield* Clock.currentTimeMillis
  if (row === undefined || !allows(row, permit, query, now)) return yield* refuse(needs, permit, query, id)
  return row.keys === null || query.keys !== undefined ? query : { ...query, keys: row.keys }
})

/** Uses the plan up, for this credential: of two reads at once, one gets it. Returns its record in the trail. */
export const begun = Effect.fnUntraced(function* (
  needs: Pick<Needs, "audit" | "rowSeal" | "sql">,
  permit: InjectPermit,
  query: Bounded,
  id: RunPlanId
) {
  const { rowSeal, sql } = needs
  const { caller } = permit
  const now = yield* Clock.currentTimeMillis
  const changedRows = yield* Rows.transaction(sql, function* () {
    const row = yield* planWhere(needs, sql`id = ${id} FOR UPDATE`)
    if (row === undefined || !allows(row, permit, query, now)) return 0
    return yield* rowSeal.update(
      "run_plans",
      sql`id = ${id}`,
      ({ credentialId, userId }) => ({
        startedAt: new Date(now),
        startedBy: caller.credentialId,
        tellsOutput: credentialId === caller.credentialId || (userId !== null && userId === caller.user?.id),
        expiresAt: new Date(now + runMillis),
        ...notEnded
      }),
      { output: null }
    )
  })
  return changedRows > 0 ? targetOf(id) : yield* refuse(needs, permit, query, id)
})

/** The box of an output opens for its plan, its environment and those who planned and started it. */
const placeOf = ({ credentialId, environmentId, id, startedBy, userId }: PlanRow): ServiceBox.Place => ({
  purpose: "run output",
  ids: [id, environmentId, credentialId, userId ?? "", startedBy ?? ""]
})

/** Place of an output that the release before sealed, an hour ago at most. */
const formerPlaceOf = ({ id }: PlanRow): ServiceBox.Place => ({ purpose: "run output", ids: [id] })

const outputKey = ({ keys }: Needs) => dieWhenVaultIsDown(keys.ring("run-output"))

/** Text for a model: without characters that command a terminal or are invisible. */
const readable = (text: string): string => text.replace(/[^\P{C}\n\t]/gu, "")
/** The end of the text. It is cut after it was masked: the rest of a value would not be found. */
const endOf = (text: string): string => [...text].slice(-maxOutput).join("")

/** UTF-16 code units of values that are searched for without a pause. */
const maskedAtOnce = 2_000

/**
 * The values and their lines in groups, each masked in one go. A line that is longer than the text cannot be in it.
 * Longer ones come first: a shorter one that is part of them would leave their rest.
 */
const maskGroups = (values: ReadonlyMap<string, string>, text: string): ReadonlyArray<ReadonlyArray<string>> => {
  const groups: Array<Array<string>> = []
  let size = maskedAtOnce
  const lines = new Set([...values.values()].flatMap((value) => [value, ...value.split("\n")]))
  for (const line of [...lines].toSorted((a, b) => b.length - a.length)) {
    if (line === "" || line.length > text.length) continue
    if (size + line.length > maskedAtOnce) {
      groups.push([])
      size = 0
    }
    groups.at(-1)?.push(line)
    size += line.length
  }
  return groups
}

/**
 * The text with the values of the environment masked again. The command line masked what the program wrote: values come
 * to light here that control characters had parted.
 */
const maskAgain = Effect.fnUntraced(function* (needs: Needs, permit: InjectPermit, text: string) {
  if (text === "") return text
  const { values } = yield* OpenSecrets.valuesByKey(needs, permit)
  let masked = text
  for (const group of maskGroups(values, text)) {
    const outputMasks = masks({}, group)
    if (outputMasks === "too much") return ""
    const redactor = outputMasks.redactor()
    masked = Buffer.concat([redactor.push(Buffer.from(masked)), redactor.flush()]).toString()
    yield* SecretBoxes.turn
  }
  return masked
})

/** Reports the end of a run, once, with the credential that started it. */
const report = Effect.fn("RunPlans.report")(function* (needs: Needs, body: ReportRun) {
  const { access, audit, crypto, rowSeal, sql } = needs
  const { durationMillis, exitCode, output, plan: id } = body
  const permit = yield* access.environment("secrets:run", body, { audit: "run.report" })
  const { caller, target } = permit
  const now = yield* Clock.currentTimeMillis
  const where = sql`
    id = ${id} AND environment_id = ${target.environmentId} AND started_by = ${caller.credentialId}
      AND ended_at IS NULL AND expires_at > ${new Date(now)}`
  // No value is opened for an output that is not kept.
  const started = yield* planWhere(needs, where)
  if (started === undefined) return yield* unknownPlan
  const text =
    output === undefined || !started.tellsOutput
      ? ""
      : endOf(yield* maskAgain(needs, permit, readable(Redacted.value(output))))
  const key = text === "" ? undefined : yield* outputKey(needs)
  const salt = yield* crypto.randomBytes(Envelope.saltLength)
  return yield* Rows.transaction(sql, function* () {
    const row = yield* planWhere(needs, sql`${where} FOR UPDATE`)
    if (row === undefined) return yield* unknownPlan
    const output = key === undefined ? null : ServiceBox.seal(key, placeOf(row), Buffer.from(text), salt)
    const end = { endedAt: new Date(now), exitCode, durationMillis, expiresAt: new Date(now + keptMillis) }
    yield* rowSeal.update("run_plans", where, () => end, { output })
    yield* audit.append(permit.event(targetOf(id, `exit code ${exitCode}`)))
    return { plan: id, outputKept: output !== null }
  })
})

/** Cells of a run that has not ended. */
const notEnded = { endedAt: null, exitCode: null, durationMillis: null }

const PlanRow = Schema.Struct({
  id: Schema.String,
  environmentId: EnvironmentIdOut,
  credentialId: Schema.String,
  userId: Schema.NullOr(UserIdOut),
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  startedAt: Schema.NullOr(Schema.DateFromSelf),
  startedBy: Schema.NullOr(Schema.String),
  tellsOutput: Schema.Boolean,
  endedAt: Schema.NullOr(Schema.DateFromSelf),
  exitCode: Schema.NullOr(Schema.Number),
  durationMillis: Schema.NullOr(Schema.Number),
  keys: Schema.NullOr(Schema.Array(Schema.String)),
  output: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
type PlanRow = typeof PlanRow.Type

/** A plan that a server wrote as it is. */
const planWhere = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  where: Statement.Fragment
) {
  const columns = sql.literal(columnsOf("run_plans"))
  const row = yield* Rows.findOne(PlanRow, sql`SELECT ${columns}, output, mac FROM run_plans WHERE ${where}`)
  return row !== undefined && (yield* rowSeal.ready).isAuthentic("run_plans", row) ? row : undefined
})

const ownPlan = Effect.fnUntraced(function* (needs: Needs, caller: Caller, id: RunPlanId) {
  const now = new Date(yield* Clock.currentTimeMillis)
  return yield* planWhere(
    needs,
    needs.sql`
      id = ${id} AND expires_at > ${now}
        AND (credential_id = ${caller.credentialId} OR user_id = ${caller.user?.id ?? null}::uuid)`
  )
})

/** The result of a run of this connection. Its output leaves when the entry is committed. */
const status = Effect.fn("RunPlans.status")(function* (needs: Needs, id: RunPlanId) {
  const row = yield* ownPlan(needs, yield* CurrentCaller, id)
  if (row === undefined) return yield* unknownPlan
  const permit = yield* needs.access
    .environmentWithId("secrets:run", row.environmentId, { audit: "run.read" })
    .pipe(Effect.catchTag("ENVIRONMENT_NOT_FOUND", () => unknownPlan))
  const { durationMillis, exitCode, output, startedAt } = row
  if (exitCode === null || durationMillis === null) return { status: startedAt === null ? "planned" : "started" }
  const ended = { status: "ended", exitCode, durationMillis }
  if (output === null) return ended
  const key = yield* outputKey(needs)
  const opened = Either.orElse(ServiceBox.open(key, placeOf(row), output), () =>
    ServiceBox.open(key, formerPlaceOf(row), output)
  )
  if (Either.isLeft(opened)) return yield* new IntegrityFailure()
  yield* needs.audit.record(permit.event(targetOf(id)))
  return { ...ended, output: opened.right.toString() }
})

const purge = ({ sql }: Needs) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => sql`DELETE FROM run_plans WHERE expires_at <= ${new Date(now)}`)

export class RunPlans extends Effect.Service<RunPlans>()("secrets/RunPlans", {
  scoped: Effect.gen(function* () {
    const needs = yield* services
    yield* Housekeeping.every("15 minutes", purge(needs))
    return methods(needs, { plan, report, status })
  })
}) {}
