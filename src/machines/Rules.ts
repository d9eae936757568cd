/** Trust rules of a team (schema/MachineIdentityApi.ts). Owners and admins create them; no rule changes afterwards. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { GrantNotFound, PlanLimitReached, ValidationFailed } from "#schema/Errors.ts"
import {
  EnvironmentIdOut,
  ProjectIdOut,
  type RuleId,
  RuleIdOut,
  type TeamId,
  TeamIdOut,
  TokenIdOut,
  UserIdOut
} from "#schema/Ids.ts"
import type { CreateMachineRule, MachineRule } from "#schema/MachineIdentityApi.ts"
import { AccessLevel, Plan } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import * as Liveness from "#src/credentials/Liveness.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { methods } from "#src/Methods.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import * as Rows from "#src/database/Rows.ts"
import { weaknessOf } from "./Claims.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  tokens: Tokens,
  rowSeal: RowSeal,
  outbound: Outbound,
  baseUrl: Effect.map(AppConfig, (config) => config.baseUrl)
})
type Needs = Effect.Effect.Success<typeof services>

/** An abuse limit; a list shows all. */
const rulesPerTeam = 200
const defaultLifetime = 900

const Time = Schema.NullOr(Schema.DateFromSelf)

/** A trust rule: the jobs that it accepts, their access, and its state. */
export const RuleRow = Schema.Struct({
  id: RuleIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  issuer: Schema.String,
  audience: Schema.String,
  claims: Schema.Record({ key: Schema.String, value: Schema.String }),
  accessLevel: AccessLevel,
  projectIds: Schema.NullOr(Schema.Array(ProjectIdOut)),
  environmentIds: Schema.NullOr(Schema.Array(EnvironmentIdOut)),
  lifetimeSeconds: Schema.Number,
  createdBy: UserIdOut,
  email: Schema.String,
  plan: Plan,
  createdAt: Rows.Iso,
  lastUsedAt: Schema.NullOr(Rows.Iso),
  revokedAt: Time,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  /** Null: the creator left the team. */
  creatorActive: Schema.NullOr(Schema.Boolean),
  creatorDeactivatedAt: Time
})
export type RuleRow = typeof RuleRow.Type
const RevokedTokenRow = Schema.Struct({ id: TokenIdOut, name: Schema.String })
const RuleNameRow = Schema.Struct({ name: Schema.String })

/** Columns and joins of `machine_rules r`. */
export const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    r.id, r.team_id, r.name, r.issuer, r.audience, r.claims, r.access_level, r.project_ids, r.environment_ids,
    r.lifetime_seconds, r.created_by, u.email, t.plan, r.created_at, r.last_used_at, r.revoked_at, r.mac,
    m.active AS creator_active, m.deactivated_at AS creator_deactivated_at
    FROM machine_rules r
    JOIN users u ON u.id = r.created_by
    JOIN teams t ON t.id = r.team_id
    LEFT JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.created_by`)

const recordsOf = Effect.fnUntraced(function* ({ tokens }: Needs, rows: ReadonlyArray<RuleRow>) {
  const reaches = yield* Effect.orDie(tokens.reachOf(rows))
  const now = yield* Clock.currentTimeMillis
  return rows.map((row, i): MachineRule => ({
    id: row.id,
    teamId: row.teamId,
    name: row.name,
    issuer: row.issuer,
    audience: row.audience,
    claims: row.claims,
    accessLevel: row.accessLevel,
    ...reaches[i],
    lifetimeSeconds: row.lifetimeSeconds,
    state: Liveness.ofRule(row, now) === "live" ? "active" : "stopped",
    createdBy: { id: row.createdBy, email: row.email },
    createdAt: row.createdAt,
    lastUsedAt: row.lastUsedAt
  }))
})

const tooWide = new Map([
  [
    "anybody",
    "This issuer signs for all its customers: bind the owner of the job (its organization, repository or project, or sub with the full path)."
  ],
  [
    "nobody-named",
    "No claim identifies the owner of the job. Bind sub, or a claim that is an id, to its whole value, without an asterisk."
  ]
])

/** VALIDATION_FAILED for an issuer that the server may not call, or a rule that would accept strangers' jobs. */
const validate = Effect.fnUntraced(function* (
  { outbound }: Needs,
  { claims, issuer }: Pick<CreateMachineRule, "claims" | "issuer">
) {
  if (!outbound.allows(issuer) || issuer.includes("?")) {
    return yield* new ValidationFailed({
      field: "issuer",
      message: "The issuer must be a public https address, without query, fragment or credentials."
    })
  }
  const weakness = weaknessOf(issuer, claims)
  if (weakness?.problem === "open-name") {
    return yield* new ValidationFailed({
      field: `claims.${weakness.claim}`,
      message: "In this claim an asterisk must follow a slash or a colon: otherwise it matches longer names of others."
    })
  }
  if (weakness !== undefined) {
    return yield* new ValidationFailed({ field: "claims", message: tooWide.get(weakness.problem) ?? "is too wide" })
  }
})

/** Fails unless the caller may create rules in the team; for the page of the form. */
const mayCreate = Effect.fn("Rules.mayCreate")(function* ({ access }: Needs, teamId: TeamId) {
  yield* access.team("tokens:issue", teamId, { audit: "machine.rule_create" })
})

/** Checks the issuer and claims as `create` does, without a rule. */
const check = Effect.fn("Rules.check")(function* (
  needs: Needs,
  teamId: TeamId,
  input: Pick<CreateMachineRule, "claims" | "issuer">
) {
  yield* needs.access.team("tokens:issue", teamId, { audit: "machine.rule_create" })
  yield* validate(needs, input)
})

const create = Effect.fn("Rules.create")(function* (needs: Needs, teamId: TeamId, input: CreateMachineRule) {
  const { access, audit, baseUrl, crypto, rowSeal, sql, tokens } = needs
  const permit = yield* access.team("tokens:issue", teamId, { audit: "machine.rule_create" })
  yield* validate(needs, input)
  return yield* change(needs, permit.event(), function* () {
    const user = yield* tokens.stillManages(permit)
    const projectIds = yield* tokens.projectsOf(teamId, input.projects)
    const environmentIds = yield* tokens.environmentsOf(teamId, projectIds, input.environments)
    yield* tokens.checkReadable(permit.caller, teamId, { projectIds, environmentIds })
    const n = yield* Rows.count(sql`SELECT count(*) AS n FROM machine_rules WHERE team_id = ${teamId}`)
    if (n >= rulesPerTeam) return yield* new PlanLimitReached()
    const id = RuleIdOut.make(yield* crypto.uuid)
    const row = yield* rowSeal.values(
      "machine_rules",
      {
        id,
        teamId,
        issuer: input.issuer,
        audience: input.audience ?? baseUrl,
        claims: input.claims,
        accessLevel: input.accessLevel ?? "read",
        projectIds,
        environmentIds,
        lifetimeSeconds: input.lifetimeSeconds ?? defaultLifetime,
        createdBy: user.id
      },
      { name: input.name, created_at: yield* DateTime.nowAsDate }
    )
    yield* Rows.run(sql`INSERT INTO machine_rules ${row}`)
    yield* audit.append(permit.event({ target: { type: "machine_rule", id, name: input.name } }))
    const rule = yield* Rows.single(RuleRow, sql`SELECT ${columns(sql)} WHERE r.id = ${id}`)
    const [record] = yield* recordsOf(needs, [rule])
    return record
  })
})

const list = Effect.fn("Rules.list")(function* (needs: Needs, teamId: TeamId) {
  const { access, sql } = needs
  yield* access.team("tokens:manage", teamId, { audit: "machine.rule_list" })
  const rows = yield* Rows.findAll(
    RuleRow,
    sql`SELECT ${columns(sql)} WHERE r.team_id = ${teamId} ORDER BY r.id DESC LIMIT ${rulesPerTeam}`
  )
  return yield* recordsOf(needs, rows)
})

/** Deletes the rule, and revokes its machines' tokens. */
const remove = Effect.fn("Rules.remove")(function* (needs: Needs, teamId: TeamId, ruleId: RuleId) {
  const { access, audit, sql, tokens } = needs
  const permit = yield* access.team("tokens:manage", teamId, { audit: "machine.rule_delete" })
  yield* change(needs, permit.event(), function* () {
    yield* tokens.stillManages(permit)
    const rule = yield* Rows.findOne(
      RuleNameRow,
      RowJournal.noteEnds(
        sql,
        "machine_rules"
      )`DELETE FROM machine_rules WHERE id = ${ruleId} AND team_id = ${teamId} RETURNING id, name`
    )
    if (rule === undefined) return yield* new GrantNotFound({ message: "No such trust rule." })
    const now = yield* DateTime.nowAsDate
    // An exchange locks its rule until its token exists, so no token appears after this.
    const tokenRows = yield* Rows.findAll(
      RevokedTokenRow,
      RowJournal.noteEnds(sql, "api_tokens")`
          UPDATE api_tokens SET revoked_at = ${now}, mac = ''
          WHERE rule_id = ${ruleId} AND revoked_at IS NULL AND expires_at > ${now}
          RETURNING id, name`
    )
    yield* audit.append(
      permit.event({ target: { type: "machine_rule", id: ruleId, name: rule.name } }),
      ...tokenRows.map(({ id, name }) =>
        permit.event({ audit: "token.revoke", target: { type: "api_token", id, name } })
      )
    )
  })
})

export class Rules extends Effect.Service<Rules>()("machines/Rules", {
  effect: Effect.map(services, (needs) => methods(needs, { mayCreate, check, create, list, remove }))
}) {}
