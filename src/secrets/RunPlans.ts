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
import { IntegrityFailure, ValidationFailed } from "#schema/Errors.ts"
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
import * as SecretNames from "./SecretNames.ts"

/** Lifetime of a plan without a run, and of a result. */
const keptMillis = 3_600_000
/** The longest run that can be reported. */
const runMillis = days(1)
/** Characters of output that are kept, from its end. */
const maxOutput = 4_096

const services = Effect.all({
  access: Access,
  audit: Audit,
  crypto: Crypto,
  keys: ServiceKeys,
  rowSeal: RowSeal,
  sql: SqlClient.SqlClient
})
type Needs = Effect.Effect.Success<typeof services>

const unknownPlan = new ValidationFailed({
  field: "plan",
  message: "This must be a plan of this connection and environment, not older than an hour."
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
    expiresAt: new Date(now + keptMillis),
    startedBy: null,
    tellsOutput: false,
    ...notEnded,
    startedAt: null
  })
  yield* Rows.run(sql`INSERT INTO run_plans ${values}`)
  return { id, injected, problems, target }
})

/** Starts the run, again if need be, with this credential. Returns its record in the trail. */
export const begun = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  { caller, target }: EnvironmentPermit<"secrets:run">,
  id: RunPlanId
) {
  const now = yield* Clock.currentTimeMillis
  const where = sql`id = ${id} AND environment_id = ${target.environmentId} AND expires_at > ${new Date(now)}`
  const plans = yield* Rows.transaction(sql, function* () {
    return yield* rowSeal.update(
      "run_plans",
      where,
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
  return plans > 0 ? targetOf(id) : yield* unknownPlan
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
const readable = (text: string): string => [...text.replace(/[^\P{C}\n\t]/gu, "")].slice(-maxOutput).join("")

/** Reports the end of a run, once, with the credential that started it. */
const report = Effect.fn("RunPlans.report")(function* (needs: Needs, body: ReportRun) {
  const { access, audit, crypto, rowSeal, sql } = needs
  const { durationMillis, exitCode, output, plan: id } = body
  const permit = yield* access.environment("secrets:run", body, { audit: "run.report" })
  const { caller, target } = permit
  const now = yield* Clock.currentTimeMillis
  const text = output === undefined ? "" : readable(Redacted.value(output))
  const key = text === "" ? undefined : yield* outputKey(needs)
  const salt = yield* crypto.randomBytes(Envelope.saltLength)
  return yield* Rows.transaction(sql, function* () {
    const where = sql`
      id = ${id} AND environment_id = ${target.environmentId} AND started_by = ${caller.credentialId}
        AND ended_at IS NULL AND expires_at > ${new Date(now)}`
    const row = yield* planWhere(needs, sql`${where} FOR UPDATE`)
    if (row === undefined) return yield* unknownPlan
    const output =
      key === undefined || !row.tellsOutput ? null : ServiceBox.seal(key, placeOf(row), Buffer.from(text), salt)
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
  output: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
type PlanRow = typeof PlanRow.Type

/** A plan that a server wrote as it is. */
const planWhere = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, where: Statement.Fragment) {
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
