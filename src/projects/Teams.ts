/** Teams own projects; a person may belong to several (docs/contract/session-routes.md). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import { Forbidden, PlanLimitReached, ValidationFailed } from "#schema/Errors.ts"
import type { MyTeam } from "#schema/IdentityApi.ts"
import { type TeamId, TeamIdOut, type UserId } from "#schema/Ids.ts"
import { LeakRule, Plan } from "#schema/Scopes.ts"
import type { TeamRecord, UpdateTeam } from "#schema/TeamsApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import * as Policy from "#src/access/Policy.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { insertTeam } from "#src/access/TeamRows.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import * as AllowedKeys from "#src/formats/AllowedKeys.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  secondPerson: SecondPerson,
  teamCreation: Effect.map(AppConfig, (config) => config.teamCreation)
})
type Needs = Effect.Effect.Success<typeof services>

const OwnedTeamsRow = Schema.Struct({ teams: Schema.Number, active: Schema.Boolean })
const TeamRow = Schema.Struct({
  name: Schema.String,
  plan: Plan,
  adminsNeedGrants: Schema.Boolean,
  tokensFollowCreators: Schema.Boolean,
  secondFactorRequired: Schema.Boolean,
  stepUpMinutes: Schema.Number,
  leakedCredentials: LeakRule,
  sessionAddresses: Schema.NullOr(Schema.Array(Schema.String)),
  secondPerson: Schema.Boolean,
  allowedKeys: Schema.NullOr(Schema.Array(Schema.String))
})
const EarlierRow = Schema.Struct({ versions: Schema.Number, secrets: Schema.Number })
const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(
    "name, plan, admins_need_grants, tokens_follow_creators, second_factor_required, step_up_minutes, leaked_credentials, session_addresses, second_person, allowed_keys"
  )

const recordOf = (caller: Caller, id: TeamId, row: typeof TeamRow.Type): TeamRecord => ({
  id,
  role: Policy.teamOf(caller, id)?.role ?? "viewer",
  ...row
})

/** The team, with the caller's role. */
const get = Effect.fn("Teams.get")(function* ({ access, sql }: Needs, teamId: TeamId) {
  const { caller } = yield* access.team("members:read", teamId, { audit: "member.list" })
  return recordOf(
    caller,
    teamId,
    yield* Rows.single(TeamRow, sql`SELECT ${columns(sql)} FROM teams WHERE id = ${teamId}`)
  )
})

const onlyOwners = "On this server only owners of a team can create another one. Ask an owner."
const onlyOperators = "On this server only its operator creates teams. Ask them."

/** Locks the person's row, so that two simultaneous requests cannot both pass. */
const checkMayCreate = Effect.fnUntraced(function* ({ sql, teamCreation }: Needs, caller: Caller, userId: UserId) {
  yield* Rows.run(sql`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`)
  const ownedTeams = yield* Rows.single(
    OwnedTeamsRow,
    sql`
      SELECT count(*) AS teams, coalesce(bool_or(active), false) AS active
      FROM memberships WHERE user_id = ${userId} AND role = 'owner'`
  )
  // A role lost since the authentication does not count.
  const mayCreate = Policy.mayCreateTeam(caller, teamCreation) && (teamCreation === "everyone" || ownedTeams.active)
  if (!mayCreate) return yield* new Forbidden({ message: teamCreation === "operators" ? onlyOperators : onlyOwners })
  if (ownedTeams.teams >= Plans.teamsPerPerson) return yield* new PlanLimitReached()
})

/** The team starts on the plan `developer`, with the person as its owner. */
const create = Effect.fn("Teams.create")(function* (needs: Needs, name: string) {
  const { audit, crypto } = needs
  const caller = yield* CurrentCaller
  const { user } = caller
  if (user === null) return yield* Effect.dieMessage("only a person creates a team")
  const id = TeamIdOut.make(yield* crypto.uuid)
  return yield* change(needs, { actor: caller, action: "team.create", outcome: "allowed", teamId: null }, function* () {
    const now = yield* DateTime.nowAsDate
    yield* checkMayCreate(needs, caller, user.id)
    yield* insertTeam(needs, { id, name, plan: "developer", owner: user.id, now, by: caller })
    yield* audit.append({ actor: caller, action: "team.create", outcome: "allowed", teamId: id })
    const team: MyTeam = { id, name, role: "owner", plan: "developer" }
    return team
  })
})

const checkOwnAddress = Effect.fnUntraced(function* (addresses: ReadonlyArray<string> | null) {
  if (addresses === null) return
  const field = "sessionAddresses"
  const wrong = addresses.find((one) => !AddressRanges.isRange(one))
  if (wrong !== undefined) {
    return yield* new ValidationFailed({
      field,
      message: "Write addresses and blocks like 192.0.2.0/24 or 2001:db8::/32."
    })
  }
  const { ip } = yield* RequestInfo
  if (!AddressRanges.includes(addresses, ip)) {
    return yield* new ValidationFailed({
      field,
      message: `Your own address, ${ip}, is not in the list: it would lock you out.`
    })
  }
})

const KeyRow = Schema.Struct({ key: Schema.String })
const keysAtOnce = 5_000
/** Keys that a refusal names. */
const keysNamed = 10

/** No live secret of the team has a key outside of its list: else the list would promise what does not hold. */
const checkKeys = Effect.fnUntraced(function* ({ sql }: Needs, teamId: TeamId, list: ReadonlyArray<string> | null) {
  if (list === null) return
  const outside: Array<string> = []
  let after = ""
  for (let isLast = false; !isLast && outside.length <= keysNamed;) {
    const rows = yield* Rows.findAll(
      KeyRow,
      sql`
        SELECT DISTINCT s.key FROM secrets s JOIN environments e ON e.id = s.environment_id
        WHERE e.team_id = ${teamId} AND e.deleted_at IS NULL AND s.deleted_at IS NULL AND s.key > ${after}
        ORDER BY s.key LIMIT ${keysAtOnce}`
    )
    outside.push(...rows.flatMap(({ key }) => (AllowedKeys.allows(list, key) ? [] : [key])))
    isLast = rows.length < keysAtOnce
    after = rows.at(-1)?.key ?? after
  }
  if (outside.length === 0) return
  const more = outside.length > keysNamed ? " and others" : ""
  return yield* new ValidationFailed({
    field: "allowedKeys",
    message: `Secrets of the team have other keys: ${outside.slice(0, keysNamed).join(", ")}${more}. Add them to the list, or rename or delete these secrets first.`
  })
})

/** Whether the change takes away a rule that binds owners and admins. */
const lowers = (before: typeof TeamRow.Type, after: UpdateTeam): boolean => {
  const addresses = after.sessionAddresses
  return (
    (before.secondPerson && after.secondPerson === false) ||
    (before.adminsNeedGrants && after.adminsNeedGrants === false) ||
    (before.tokensFollowCreators && after.tokensFollowCreators === false) ||
    (before.secondFactorRequired && after.secondFactorRequired === false) ||
    (after.stepUpMinutes ?? 0) > before.stepUpMinutes ||
    (after.allowedKeys !== undefined && AllowedKeys.isWider(before.allowedKeys, after.allowedKeys)) ||
    (before.sessionAddresses !== null &&
      addresses !== undefined &&
      (addresses === null || addresses.some((one) => before.sessionAddresses?.includes(one) === false)))
  )
}

/**
 * Only owners change the plan and the rules, which have their own rights. On a smaller plan, existing tokens keep their
 * dates.
 */
const update = Effect.fn("Teams.update")(function* (needs: Needs, teamId: TeamId, input: UpdateTeam) {
  const { access, audit, rowSeal, sql } = needs
  const intent = { audit: "team.update" } as const
  const permit = yield* access.team("team:manage", teamId, intent)
  const { name, plan, ...rules } = input
  if (plan !== undefined) yield* access.team("plan:manage", teamId, intent)
  if (Object.keys(rules).length > 0) yield* access.team("team-rules:manage", teamId, intent)
  // A change must not lock out the caller.
  if (rules.secondFactorRequired === true && permit.caller.factorAt === null) {
    return yield* new ValidationFailed({
      field: "secondFactorRequired",
      message: "Add a second factor to your own account first."
    })
  }
  if (rules.sessionAddresses !== undefined) yield* checkOwnAddress(rules.sessionAddresses)
  const work = change(needs, permit.event(), function* () {
    const before = yield* Rows.single(
      TeamRow,
      sql`SELECT ${columns(sql)} FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`
    )
    yield* checkKeys(needs, teamId, rules.allowedKeys ?? null)
    const waits = lowers(before, input)
      ? yield* needs.secondPerson.check(permit, { kind: "team", input }, "weaker rules of the team")
      : undefined
    if (waits !== undefined) return waits
    const changes = { ...(plan === undefined ? {} : { plan }), ...rules }
    yield* rowSeal.update("teams", sql`id = ${teamId}`, () => changes, {
      ...(name === undefined ? {} : { name }),
      updated_at: yield* DateTime.nowAsDate
    })
    const row = yield* Rows.single(TeamRow, sql`SELECT ${columns(sql)} FROM teams WHERE id = ${teamId}`)
    // This plan keeps only current versions (docs/contract/secrets.md); later writes delete earlier ones too.
    if (plan === "developer") {
      yield* Rows.run(sql`
          DELETE FROM secret_versions v USING secrets s JOIN environments e ON e.id = s.environment_id
          WHERE s.id = v.secret_id AND v.version < s.version AND e.team_id = ${teamId}`)
    }
    const changed = Object.keys(input).join(", ")
    yield* audit.append(permit.event({ target: { type: "team", id: teamId, name: changed } }))
    return recordOf(permit.caller, teamId, row)
  })
  return yield* orWaits(work)
})

/** Counts of earlier versions and their secrets, which a change to the Developer plan deletes permanently. */
const earlierVersions = Effect.fn("Teams.earlierVersions")(function* ({ access, sql }: Needs, teamId: TeamId) {
  yield* access.team("plan:manage", teamId, { audit: "team.update" })
  return yield* Rows.single(
    EarlierRow,
    sql`
      SELECT count(*) AS versions, count(DISTINCT s.id) AS secrets
      FROM secret_versions v JOIN secrets s ON s.id = v.secret_id JOIN environments e ON e.id = s.environment_id
      WHERE v.version < s.version AND e.team_id = ${teamId}`
  )
})

export class Teams extends Effect.Service<Teams>()("projects/Teams", {
  effect: Effect.map(services, (needs) => methods(needs, { get, create, update, earlierVersions }))
}) {}
