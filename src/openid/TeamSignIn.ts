/** Sign-in rules of a team: its owners choose the issuers, the rules for joining, and whether a password works. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Forbidden, GrantNotFound, PlanLimitReached, ValidationFailed } from "#schema/Errors.ts"
import { type TeamId, type UserId, UserIdOut } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import type {
  CreateIssuer,
  CreateSignInRule,
  RequireSignIn,
  SignInIssuer,
  SignInRule,
  TeamSignIn as TeamSignInRecord,
  UpdateIssuer
} from "#schema/SignInApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { SecondPerson } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as Accounts from "#src/credentials/Accounts.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as IssuerRows from "./IssuerRows.ts"
import * as JoinRules from "./JoinRules.ts"
import { type Issuer, Protocol } from "./Protocol.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  revocation: Revocation,
  secondPerson: SecondPerson,
  issuers: IssuerRows.SignInIssuers,
  protocol: Protocol,
  baseUrl: Effect.map(AppConfig, (config) => config.baseUrl)
})
type Needs = Effect.Effect.Success<typeof services>
type Owner = TeamPermit<"team-rules:manage">

const noIssuer = () => new GrantNotFound({ message: "No such issuer." })

/** Locks the team and checks the owner again, since a role may have been lost after the permit. */
const lockedOwner = Effect.fnUntraced(function* ({ sql }: Needs, { caller, target }: Owner) {
  yield* Rows.run(sql`SELECT id FROM teams WHERE id = ${target.teamId} FOR NO KEY UPDATE`)
  const isOwner = yield* Rows.exists(sql`
    SELECT 1 FROM memberships
    WHERE team_id = ${target.teamId} AND user_id = ${caller.user?.id ?? null}::uuid AND active AND role = 'owner'`)
  if (!isOwner) return yield* new Forbidden()
})

const recordOf = (
  { baseUrl }: Needs,
  one: Pick<Issuer, "key" | "name" | "issuer" | "clientId" | "scopes" | "factors">,
  { enabled, ofInstallation }: { readonly enabled: boolean; readonly ofInstallation: boolean }
): SignInIssuer => {
  const { clientId, factors, issuer, key, name, scopes } = one
  const at = `${baseUrl}/app/sign-in/with/${key}`
  const common = { key, ofInstallation, name, issuer, clientId, scopes, factors, enabled }
  return { ...common, redirectUri: `${at}/callback`, logoutUri: `${at}/logout` }
}
const recordOfRow = (needs: Needs, row: IssuerRows.IssuerRow) =>
  recordOf(needs, { ...row, key: row.id }, { enabled: row.enabled, ofInstallation: false })

const ruleOf = ({ claim, createdAt, id, issuer, role, value }: JoinRules.RuleRow): SignInRule => ({
  id,
  issuer,
  claim,
  value,
  role,
  createdAt
})

const RequiredRow = Schema.Struct({ signInOnly: Schema.NullOr(Schema.Array(Schema.String)) })
const OwnerRow = Schema.Struct({
  userId: UserIdOut,
  email: Schema.String,
  role: Role,
  active: Schema.Boolean,
  hasPassword: Schema.Boolean,
  breakGlass: Schema.Boolean
})

const onlyOf = ({ sql }: Needs, teamId: TeamId) =>
  Effect.map(
    Rows.single(RequiredRow, sql`SELECT sign_in_only FROM teams WHERE id = ${teamId}`),
    ({ signInOnly }) => signInOnly
  )
const ownersOf = ({ sql }: Needs, teamId: TeamId) =>
  Rows.findAll(
    OwnerRow,
    sql`
      SELECT m.user_id, u.email, m.role, m.active, u.password_hash <> '' AS has_password, m.break_glass
      FROM memberships m JOIN users u ON u.id = m.user_id
      WHERE m.team_id = ${teamId} AND m.role = 'owner' ORDER BY u.email LIMIT ${Plans.membersPerTeam}`
  )
const rulesOf = Effect.fnUntraced(function* ({ rowSeal, sql }: Needs, teamId: TeamId) {
  const macs = yield* rowSeal.ready
  const rows = yield* Rows.findAll(
    JoinRules.RuleRow,
    sql`
      SELECT ${JoinRules.columns(sql)} FROM sign_in_rules WHERE team_id = ${teamId}
      ORDER BY id LIMIT ${JoinRules.rulesPerTeam}`
  )
  return rows.filter((row) => macs.isAuthentic("sign_in_rules", row))
})

const issuersOf = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId) {
  const own = yield* IssuerRows.ofTeam(needs.issuers.needs, teamId)
  const all = needs.issuers.needs.installation.map((one) =>
    recordOf(needs, one, { enabled: true, ofInstallation: true })
  )
  return [...all, ...own.map((row) => recordOfRow(needs, row))]
})

const view = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId) {
  const record: TeamSignInRecord = {
    issuers: yield* issuersOf(needs, teamId),
    rules: (yield* rulesOf(needs, teamId)).map(ruleOf),
    only: yield* onlyOf(needs, teamId),
    breakGlass: (yield* ownersOf(needs, teamId))
      .filter(({ breakGlass }) => breakGlass)
      .map(({ email, role, userId }) => ({ userId, email, role }))
  }
  return record
})

/** The sign-in rules that the owners chose. */
const get = Effect.fn("TeamSignIn.get")(function* (needs: Needs, teamId: TeamId) {
  yield* needs.access.team("team-rules:manage", teamId, { audit: "sign_in.list" })
  return yield* view(needs, teamId)
})

const eventAbout = (permit: Owner, type: "sign_in_issuer" | "sign_in_rule", id: string, name: string) =>
  permit.event({ target: { type, id, name } })

const createIssuer = Effect.fn("TeamSignIn.createIssuer")(function* (
  needs: Needs,
  teamId: TeamId,
  input: CreateIssuer
) {
  const { access, audit, crypto, issuers, protocol, rowSeal, sql } = needs
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "sign_in.issuer_create" })
  const { clientId, issuer, name } = input
  const id = yield* crypto.uuid
  const secret = input.clientSecret ?? null
  const { factors = [], scopes = IssuerRows.defaultScopes } = input
  const candidate = { key: id, teamId, name, issuer, clientId, secret, scopes, factors, trustsEmail: false }
  yield* Effect.catchTag(
    protocol.check(candidate),
    "SignInRefused",
    () =>
      new ValidationFailed({
        field: "issuer",
        message:
          "No OpenID Connect issuer responds there. Enter its public https address exactly as the issuer names itself."
      })
  )
  const sealed = yield* IssuerRows.sealSecret(issuers.needs, { id, teamId }, secret)
  return yield* change(needs, permit.event(), function* () {
    yield* lockedOwner(needs, permit)
    const n = yield* Rows.count(sql`SELECT count(*) AS n FROM sign_in_issuers WHERE team_id = ${teamId}`)
    if (n >= IssuerRows.issuersPerTeam) return yield* new PlanLimitReached()
    const row = yield* rowSeal.values(
      "sign_in_issuers",
      { id, teamId, issuer, clientId, scopes, sealed, factors, enabled: true },
      { name, created_at: yield* DateTime.nowAsDate }
    )
    yield* Rows.run(sql`INSERT INTO sign_in_issuers ${row}`)
    yield* audit.append(eventAbout(permit, "sign_in_issuer", id, name))
    return recordOf(needs, candidate, { enabled: true, ofInstallation: false })
  })
})

const lockedIssuer = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, id: string) {
  const row = (yield* IssuerRows.ofTeam(needs.issuers.needs, teamId)).find((one) => one.id === id)
  return row ?? (yield* noIssuer())
})

/** A required issuer can be neither disabled nor deleted, so that no change locks the team out. */
const checkNotRequired = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, id: string) {
  if ((yield* onlyOf(needs, teamId))?.includes(id) === true) {
    return yield* new Forbidden({
      message: "The team accepts only this issuer. Allow passwords, or another issuer, first."
    })
  }
})

const endSessionsBy = ({ sql }: Needs, id: string) => Accounts.endSessions({ sql }, sql`issuer = ${id}`)

const updateIssuer = Effect.fn("TeamSignIn.updateIssuer")(function* (
  needs: Needs,
  teamId: TeamId,
  id: string,
  input: UpdateIssuer
) {
  const { access, audit, issuers, rowSeal, sql } = needs
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "sign_in.issuer_update" })
  const { clientSecret, enabled, factors, name } = input
  const sealed =
    clientSecret === undefined ? undefined : yield* IssuerRows.sealSecret(issuers.needs, { id, teamId }, clientSecret)
  return yield* change(needs, permit.event(), function* () {
    yield* lockedOwner(needs, permit)
    const before = yield* lockedIssuer(needs, teamId, id)
    if (enabled === false) yield* checkNotRequired(needs, teamId, id)
    const changes = {
      ...(sealed === undefined ? {} : { sealed }),
      ...(enabled === undefined ? {} : { enabled }),
      ...(factors === undefined ? {} : { factors })
    }
    const others = name === undefined ? {} : { name }
    yield* rowSeal.update("sign_in_issuers", sql`id = ${id} AND team_id = ${teamId}`, () => changes, others)
    if (enabled === false) yield* endSessionsBy(needs, id)
    yield* audit.append(eventAbout(permit, "sign_in_issuer", id, name ?? before.name))
    return recordOfRow(needs, { ...before, ...changes, ...others })
  })
})

/** Deletes the issuer with its rules, identities and sessions. Its members stay, with their current roles. */
const deleteIssuer = Effect.fn("TeamSignIn.deleteIssuer")(function* (needs: Needs, teamId: TeamId, id: string) {
  const { access, audit, rowSeal, sql } = needs
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "sign_in.issuer_delete" })
  yield* change(needs, permit.event(), function* () {
    yield* lockedOwner(needs, permit)
    const { name } = yield* lockedIssuer(needs, teamId, id)
    yield* checkNotRequired(needs, teamId, id)
    yield* RowJournal.remove(sql, "sign_in_issuers", sql`id = ${id} AND team_id = ${teamId}`)
    yield* RowJournal.remove(sql, "sign_in_rules", sql`issuer = ${id}`)
    yield* RowJournal.remove(sql, "sign_in_identities", sql`source = ${id}`)
    yield* endSessionsBy(needs, id)
    yield* rowSeal.update("memberships", sql`team_id = ${teamId} AND ruled_by = ${id}`, () => ({
      ruledBy: null,
      roleLimit: null
    }))
    yield* audit.append(eventAbout(permit, "sign_in_issuer", id, name))
  })
})

const nameOfRule = ({ claim, role, value }: Pick<SignInRule, "claim" | "value" | "role">) =>
  `${claim} = ${value}: ${role}`

const createRule = Effect.fn("TeamSignIn.createRule")(function* (
  needs: Needs,
  teamId: TeamId,
  input: CreateSignInRule
) {
  const { access, audit, crypto, rowSeal, sql } = needs
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "sign_in.rule_create" })
  return yield* change(needs, permit.event(), function* () {
    yield* lockedOwner(needs, permit)
    if (input.role === "admin" && (yield* needs.secondPerson.isRequired(teamId))) {
      return yield* new Forbidden({
        message:
          "The team requires a second person, and this rule would make admins without one. Give a lower role by the rule, and make admins by hand."
      })
    }
    if (!(yield* issuersOf(needs, teamId)).some(({ key }) => key === input.issuer)) {
      return yield* new ValidationFailed({ field: "issuer", message: "No such issuer." })
    }
    if ((yield* rulesOf(needs, teamId)).length >= JoinRules.rulesPerTeam) return yield* new PlanLimitReached()
    const id = yield* crypto.uuid
    const now = yield* DateTime.nowAsDate
    const { claim, issuer, role, value } = input
    const row = yield* rowSeal.values("sign_in_rules", { id, teamId, issuer, claim, value, role }, { created_at: now })
    yield* Rows.run(sql`INSERT INTO sign_in_rules ${row}`)
    yield* audit.append(eventAbout(permit, "sign_in_rule", id, nameOfRule(input)))
    const rule: SignInRule = { id, ...input, createdAt: now.toISOString() }
    return rule
  })
})

const deleteRule = Effect.fn("TeamSignIn.deleteRule")(function* (needs: Needs, teamId: TeamId, id: string) {
  const { access, audit, sql } = needs
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "sign_in.rule_delete" })
  yield* change(needs, permit.event(), function* () {
    yield* lockedOwner(needs, permit)
    const rule = (yield* rulesOf(needs, teamId)).find((one) => one.id === id)
    if (rule === undefined) return yield* new GrantNotFound({ message: "No such rule." })
    yield* RowJournal.remove(sql, "sign_in_rules", sql`id = ${id} AND team_id = ${teamId}`)
    yield* audit.append(eventAbout(permit, "sign_in_rule", id, nameOfRule(rule)))
  })
})

/** VALIDATION_FAILED for a choice that locks out everyone, or the caller. */
const checkRequired = Effect.fnUntraced(function* (
  needs: Needs,
  permit: Owner,
  only: ReadonlyArray<string>,
  breakGlass: ReadonlyArray<UserId>
) {
  const { teamId } = permit.target
  const enabledKeys = (yield* issuersOf(needs, teamId)).filter(({ enabled }) => enabled).map(({ key }) => key)
  const unknown = only.find((key) => !enabledKeys.includes(key))
  if (unknown !== undefined) return yield* new ValidationFailed({ field: "only", message: "No such issuer." })
  const { issuer } = permit.caller
  if (issuer === null || !only.includes(issuer)) {
    return yield* new ValidationFailed({
      field: "only",
      message: "Sign in with one of these issuers first. Link it to your account on the page Linked sign-ins."
    })
  }
  const { confirmedTeams } = permit.caller
  if (confirmedTeams !== null && !confirmedTeams.includes(teamId)) {
    return yield* new ValidationFailed({
      field: "only",
      message:
        "The issuer does not vouch that this sign-in is yours. Let an owner confirm it on your page under Members, then sign in with it again."
    })
  }
  const eligible = (yield* ownersOf(needs, teamId)).filter(({ active, hasPassword }) => active && hasPassword)
  if (breakGlass.length === 0 || !breakGlass.every((id) => eligible.some(({ userId }) => userId === id))) {
    return yield* new ValidationFailed({
      field: "breakGlass",
      message: "Name at least one active owner who has a password."
    })
  }
})

/**
 * Requires issuers instead of passwords, or allows passwords again. CLI logins and agents approved earlier lose the
 * team, so that people whom an issuer signed in approve them again.
 */
const require = Effect.fn("TeamSignIn.require")(function* (needs: Needs, teamId: TeamId, input: RequireSignIn) {
  const { access, audit, revocation, rowSeal, sql } = needs
  const permit = yield* access.team("team-rules:manage", teamId, { audit: "sign_in.require" })
  const { breakGlass, only } = input
  return yield* change(needs, permit.event(), function* () {
    yield* lockedOwner(needs, permit)
    if (only !== null) yield* checkRequired(needs, permit, only, breakGlass)
    const before = yield* onlyOf(needs, teamId)
    yield* rowSeal.update("teams", sql`id = ${teamId}`, () => ({ signInOnly: only }))
    const exempt = only === null ? [] : breakGlass
    yield* rowSeal.update(
      "memberships",
      sql`team_id = ${teamId} AND break_glass OR team_id = ${teamId} AND user_id = any(${exempt}::uuid[])`,
      ({ userId }) => ({
        breakGlass: exempt.some((id) => id === userId)
      })
    )
    if (only !== null && before === null) {
      const people = yield* Rows.findAll(
        Schema.Struct({ userId: UserIdOut }),
        sql`SELECT user_id FROM memberships WHERE team_id = ${teamId} ORDER BY user_id`
      )
      for (const { userId } of people) {
        yield* revocation.grantsInTeam(userId, teamId)
        yield* revocation.connectionsInTeam(userId, teamId)
      }
    }
    yield* audit.append(permit.event())
    return yield* view(needs, teamId)
  })
})

export class TeamSignIn extends Effect.Service<TeamSignIn>()("openid/TeamSignIn", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { get, createIssuer, updateIssuer, deleteIssuer, createRule, deleteRule, require })
  )
}) {}
