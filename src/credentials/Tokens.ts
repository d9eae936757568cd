/** API tokens of a team. Owners and admins make them; no change ever widens their rights. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { ApiTokenWithValue, CreateApiToken, UpdateApiToken } from "#schema/ApiTokensApi.ts"
import type { AuditAction } from "#schema/Audit.ts"
import type { Caller } from "#schema/Caller.ts"
import { Forbidden, PlanLimitReached, TokenNotFound, ValidationFailed } from "#schema/Errors.ts"
import { type TeamId, TeamIdOut, type TokenId, TokenIdOut } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"
import { methods } from "#src/Methods.ts"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Liveness from "./Liveness.ts"
import * as TokenRows from "./TokenRows.ts"

type Manage = TeamPermit<"tokens:manage" | "tokens:issue" | "webhooks:direct">

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal
})
type Needs = Effect.Effect.Success<typeof services>

const manage = ({ access }: Needs, teamId: TeamId, audit: AuditAction) =>
  access.team("tokens:manage", teamId, { audit })
const issue = ({ access }: Needs, teamId: TeamId, audit: AuditAction) => access.team("tokens:issue", teamId, { audit })

const event = (permit: Manage, action: AuditAction, token: { readonly id: string; readonly name: string }) =>
  permit.event({ audit: action, target: { type: "api_token", id: token.id, name: token.name } })

/**
 * Locks the team, as changes of members do, then checks the person again. A role or session that ended during the
 * request must not leave a token.
 */
const stillManages = Effect.fnUntraced(function* ({ sql }: Needs, permit: Manage) {
  const { user } = permit.caller
  if (user === null) return yield* new Forbidden()
  yield* Rows.run(sql`SELECT id FROM teams WHERE id = ${permit.target.teamId} FOR NO KEY UPDATE`)
  const manages = yield* Rows.exists(sql`
    SELECT m.role FROM memberships m JOIN sessions s ON s.user_id = m.user_id
    WHERE m.team_id = ${permit.target.teamId} AND m.user_id = ${user.id} AND m.active
      AND m.role IN ('owner', 'admin') AND s.id = ${permit.caller.credentialId} AND s.revoked_at IS NULL
    FOR SHARE`)
  if (!manages) return yield* new Forbidden()
  return user
})

/** The permit's token, locked, while it works: revoked, expired and stopped tokens cannot change. */
const lockLive = Effect.fnUntraced(function* (needs: Needs, permit: Manage, tokenId: TokenId) {
  const row = yield* TokenRows.lock(needs, permit.target.teamId, tokenId)
  const now = yield* Clock.currentTimeMillis
  if (row === undefined || Liveness.ofToken(row, now) !== "live") return yield* new TokenNotFound()
  return row
})

const insert = Effect.fnUntraced(function* (needs: Needs, token: TokenRows.NewToken) {
  const { id, text } = yield* TokenRows.mint(needs, token)
  const created: ApiTokenWithValue = { ...(yield* TokenRows.record(needs, id)), value: Redacted.value(text) }
  return created
})

const levelForbids = () =>
  new ValidationFailed({ field: "mcpScopes", message: "A read-only token cannot have the scope secrets:write." })

const checkAddresses = (addresses: ReadonlyArray<string> | null | undefined) =>
  addresses?.some((one) => !AddressRanges.isRange(one)) === true
    ? new ValidationFailed({
        field: "addresses",
        message: "Write addresses and blocks like 192.0.2.0/24 or 2001:db8::/32."
      })
    : Effect.void

/** Checks a body without the database; returns the token's lifetime in milliseconds. */
const checkInput = Effect.fnUntraced(function* (plan: Manage["target"]["plan"], input: CreateApiToken) {
  const lifetime = input.lifetime ?? Plans.plans[plan].longestLifetime
  if (!Plans.lifetimeAllowed(plan, lifetime)) {
    return yield* new ValidationFailed({ field: "lifetime", message: "Your plan does not allow a lifetime this long." })
  }
  for (const field of ["projects", "environments"] as const) {
    if (input[field]?.length === 0) {
      return yield* new ValidationFailed({ field, message: "The list must not be empty." })
    }
  }
  const mcpScopes = input.mcpScopes ?? []
  if (input.accessLevel !== "write" && mcpScopes.includes("secrets:write")) return yield* levelForbids()
  if (input.mcpOnly === true && mcpScopes.length === 0) {
    return yield* new ValidationFailed({
      field: "mcpOnly",
      message: "A token that only /mcp accepts needs MCP scopes."
    })
  }
  yield* checkAddresses(input.addresses)
  return Plans.lifetimes[lifetime]
})

const create = Effect.fn("Tokens.create")(function* (needs: Needs, teamId: TeamId, input: CreateApiToken) {
  const permit = yield* issue(needs, teamId, "token.create")
  const { plan } = permit.target
  const lifetime = yield* checkInput(plan, input)
  return yield* change(needs, permit.event(), function* () {
    const user = yield* stillManages(needs, permit)
    const projectIds = yield* TokenRows.projectsOf(needs, teamId, input.projects)
    const environmentIds = yield* TokenRows.environmentsOf(needs, teamId, projectIds, input.environments)
    yield* TokenRows.checkReadable(needs, permit.caller, teamId, { projectIds, environmentIds })
    const now = yield* Clock.currentTimeMillis
    const active = yield* TokenRows.countActive(needs, teamId, now)
    if (active >= Plans.plans[plan].activeTokens) return yield* new PlanLimitReached()
    const created = yield* insert(needs, {
      teamId,
      name: input.name,
      accessLevel: input.accessLevel ?? "read",
      projectIds,
      environmentIds,
      mcpScopes: TokenRows.unique(input.mcpScopes ?? []),
      mcpOnly: input.mcpOnly ?? false,
      addresses: input.addresses ?? null,
      createdBy: user.id,
      expiresAt: new Date(now + lifetime)
    })
    yield* needs.audit.append(event(permit, "token.create", created))
    return created
  })
})

/** Fails unless the caller may create tokens in the team, for the page of the form. */
const mayCreate = Effect.fn("Tokens.mayCreate")((needs: Needs, teamId: TeamId) =>
  Effect.asVoid(manage(needs, teamId, "token.list"))
)

/** Tokens that are not revoked, expired ones included; newest first. */
const list = Effect.fn("Tokens.list")(function* (needs: Needs, teamId: TeamId) {
  yield* manage(needs, teamId, "token.list")
  const now = yield* Clock.currentTimeMillis
  const rows = yield* TokenRows.ofTeam(needs, teamId)
  return yield* TokenRows.records(
    needs,
    rows.filter((row) => Liveness.ofToken(row, now) !== "revoked")
  )
})

/** A token of the list. */
const get = Effect.fn("Tokens.get")(function* (needs: Needs, teamId: TeamId, tokenId: TokenId) {
  yield* manage(needs, teamId, "token.list")
  const row = yield* TokenRows.find(needs, teamId, tokenId)
  if (row === undefined || Liveness.ofToken(row, yield* Clock.currentTimeMillis) === "revoked") {
    return yield* new TokenNotFound()
  }
  return yield* TokenRows.record(needs, row.id)
})

/** Scopes after an update: they can only be removed, and read access removes `secrets:write`. */
const remainingScopes = Effect.fnUntraced(function* (token: TokenRows.TokenRow, input: UpdateApiToken) {
  const accessLevel = input.accessLevel ?? token.accessLevel
  const requested = input.mcpScopes === undefined ? undefined : TokenRows.unique(input.mcpScopes)
  if (requested !== undefined) {
    if (accessLevel === "read" && requested.includes("secrets:write")) return yield* levelForbids()
    if (requested.some((scope) => !token.mcpScopes.includes(scope))) {
      return yield* new ValidationFailed({ field: "mcpScopes", message: "MCP scopes can only be removed." })
    }
  }
  return (requested ?? token.mcpScopes).filter((scope) => accessLevel === "write" || scope !== "secrets:write")
})

/**
 * Renames, makes read-only, removes MCP scopes, or changes addresses, in one statement, so that no reader sees half of
 * it. Narrowing is never refused: an MCP-only token without scopes is accepted nowhere. New addresses give the token to
 * others, so they need the same proof as a new token.
 */
const update = Effect.fn("Tokens.update")(function* (
  needs: Needs,
  teamId: TeamId,
  tokenId: TokenId,
  input: UpdateApiToken
) {
  const permit = yield* manage(needs, teamId, "token.update")
  const { addresses } = input
  if (addresses !== undefined) {
    yield* issue(needs, teamId, "token.set_addresses")
    yield* checkAddresses(addresses)
  }
  return yield* change(needs, permit.event(), function* () {
    if (addresses !== undefined) yield* stillManages(needs, permit)
    const token = yield* lockLive(needs, permit, tokenId)
    const accessLevel = input.accessLevel ?? token.accessLevel
    const mcpScopes = yield* remainingScopes(token, input)
    const where = needs.sql`id = ${token.id}`
    const others = { name: input.name ?? token.name }
    const changes = { accessLevel, mcpScopes, ...(addresses === undefined ? {} : { addresses }) }
    const changed = yield* needs.rowSeal.update("api_tokens", where, () => changes, others)
    if (changed === 0) return yield* new TokenNotFound()
    const record = yield* TokenRows.record(needs, token.id)
    yield* needs.audit.append(
      ...(accessLevel === token.accessLevel ? [] : [event(permit, "token.make_read_only", record)]),
      ...(addresses === undefined ? [] : [event(permit, "token.set_addresses", record)]),
      ...(input.name === undefined && input.mcpScopes === undefined ? [] : [event(permit, "token.update", record)])
    )
    return record
  })
})

/**
 * By the contract: "Keeps name, scope, access level, MCP scopes and expiry date; the person who rotates becomes its
 * creator."
 */
const rotate = Effect.fn("Tokens.rotate")(function* (needs: Needs, teamId: TeamId, tokenId: TokenId) {
  const permit = yield* issue(needs, teamId, "token.rotate")
  return yield* change(needs, permit.event(), function* () {
    const user = yield* stillManages(needs, permit)
    const token = yield* lockLive(needs, permit, tokenId)
    yield* TokenRows.checkReadable(needs, permit.caller, teamId, token)
    const now = yield* DateTime.nowAsDate
    yield* RowJournal.end(needs.sql, "api_tokens", { revoked_at: now }, needs.sql`id = ${token.id}`)
    const created = yield* insert(needs, { ...token, createdBy: user.id })
    yield* needs.audit.append(event(permit, "token.rotate", token), event(permit, "token.create", created))
    return created
  })
})

const RevokedRow = Schema.Struct({
  id: TokenIdOut,
  name: Schema.String,
  teamId: TeamIdOut,
  revokedAt: Schema.NullOr(Schema.DateFromSelf)
})

/** Permanent; no change for a revoked token. */
const revoke = Effect.fn("Tokens.revoke")(function* (needs: Needs, teamId: TeamId, tokenId: TokenId) {
  const permit = yield* manage(needs, teamId, "token.revoke")
  yield* change(needs, permit.event(), function* () {
    const { audit, sql } = needs
    const token = yield* Rows.findOne(
      RevokedRow,
      sql`
          SELECT id, name, team_id, revoked_at FROM api_tokens
          WHERE id = ${tokenId} AND team_id = ${teamId} FOR UPDATE`
    )
    if (token === undefined) return yield* new TokenNotFound()
    if (token.revokedAt !== null) return
    yield* RowJournal.end(sql, "api_tokens", { revoked_at: yield* DateTime.nowAsDate }, sql`id = ${tokenId}`)
    yield* audit.append(event(permit, "token.revoke", token))
  })
})

/** Deletes the row; the trail still names the token. */
const remove = Effect.fn("Tokens.remove")(function* (needs: Needs, teamId: TeamId, tokenId: TokenId) {
  const permit = yield* manage(needs, teamId, "token.delete")
  yield* change(needs, permit.event(), function* () {
    const { audit, sql } = needs
    const token = yield* Rows.findOne(
      RevokedRow,
      RowJournal.noteEnds(sql, "api_tokens")`
          DELETE FROM api_tokens WHERE id = ${tokenId} AND team_id = ${teamId}
          RETURNING id, name, team_id, revoked_at`
    )
    if (token === undefined) return yield* new TokenNotFound()
    yield* audit.append(event(permit, "token.delete", token))
  })
})

/** `DELETE /me/token`: revokes the presented token; no change for a revoked one. */
const revokeOwn = Effect.fn("Tokens.revokeOwn")(({ audit, sql }: Needs, caller: Caller) =>
  Rows.transaction(sql, function* () {
    const token = yield* Rows.findOne(
      RevokedRow,
      RowJournal.noteEnds(sql, "api_tokens")`
        UPDATE api_tokens SET revoked_at = ${yield* DateTime.nowAsDate}, mac = ''
        WHERE id = ${caller.credentialId} AND revoked_at IS NULL RETURNING id, name, team_id, revoked_at`
    )
    if (token === undefined) return
    const { id, name, teamId } = token
    yield* audit.append({
      actor: caller,
      action: "token.revoke",
      outcome: "allowed",
      teamId,
      target: { type: "api_token", id, name }
    })
  })
)

export class Tokens extends Effect.Service<Tokens>()("credentials/Tokens", {
  effect: Effect.map(services, (needs) =>
    methods(needs, {
      create,
      mayCreate,
      list,
      get,
      update,
      rotate,
      revoke,
      remove,
      revokeOwn,
      // For trust rules, which make tokens later: the same checks, reach and row.
      stillManages,
      projectsOf: TokenRows.projectsOf,
      environmentsOf: TokenRows.environmentsOf,
      checkReadable: TokenRows.checkReadable,
      reachOf: TokenRows.reachOf,
      mint: TokenRows.mint
    })
  )
}) {}
