/**
 * Who calls `/mcp`: an API token with MCP scopes, or an OAuth access token issued for this resource. Everything else
 * gets a challenge.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import type { TeamId } from "#schema/Ids.ts"
import type { Scope } from "#schema/Scopes.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate, type Verified } from "#src/credentials/Authenticate.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { methods } from "#src/Methods.ts"
import { type Challenge, endedToken, powerlessToken, unknownToken } from "./Challenge.ts"

export interface AuthenticatedClient {
  readonly caller: Caller
  /** Who sessions belong to: a token, or a person with a client, whose access tokens and grants come and go. */
  readonly principal: string
  readonly bearer: Redacted.Redacted
}

/** Scopes of the connection: the same in each of its teams. */
export const scopesOf = (caller: Caller): ReadonlyArray<Scope> => caller.teams[0]?.scopes ?? []

export const missingScopes = (caller: Caller, needed: ReadonlyArray<Scope>): ReadonlyArray<Scope> =>
  needed.filter((scope) => !scopesOf(caller).includes(scope))

/** In which team's share a connection counts. A person's grant over several teams always counts in the same one. */
export const teamOf = (caller: Caller): TeamId | null => caller.teams[0]?.id ?? null

interface Needs {
  readonly authenticate: Authenticate
  readonly resource: string
}

/** The rights of an API token over MCP: its MCP scopes, cut by what its creator may do now. */
const cutToken = ({ caller, creatorRole }: Verified): Effect.Effect<Caller, Challenge> => {
  if (caller.mcpScopes.length === 0) return powerlessToken(caller, "This API token holds no MCP scopes")
  if (creatorRole === null) return powerlessToken(caller, "The creator of this API token has no role in its team")
  return Effect.succeed({
    ...caller,
    teams: caller.teams.map((team) => ({ ...team, role: creatorRole, scopes: caller.mcpScopes }))
  })
}

const callerOf = (verified: Verified) =>
  verified.caller.kind === "api_token" ? cutToken(verified) : Effect.succeed(verified.caller)

const verify = Effect.fnUntraced(function* ({ authenticate, resource }: Needs, text: string) {
  const token = TokenText.parse(text)
  if (token?.kind !== "at" && token?.kind !== "oa") return yield* unknownToken
  const verified = yield* Effect.mapError(authenticate.verify(token), () => unknownToken)
  if (verified.life !== "live") {
    return yield* endedToken(verified.caller, verified.life === "expired" ? "CREDENTIAL_EXPIRED" : "CREDENTIAL_REVOKED")
  }
  // A token of another resource is not a token here (RFC 8707, GHSA-rvq5-wwqv-78pq).
  if (token.kind === "oa" && verified.audience !== resource) return yield* unknownToken
  return verified
})

/** The caller as of now; does not count as a use. */
const check = (needs: Needs, bearer: Redacted.Redacted): Effect.Effect<Caller, Challenge> =>
  Effect.flatMap(verify(needs, Redacted.value(bearer)), callerOf)

/** The client of a request; counts as a use. */
const admit = Effect.fnUntraced(function* (needs: Needs, bearer: Redacted.Redacted) {
  const verified = yield* verify(needs, Redacted.value(bearer))
  yield* Effect.mapError(needs.authenticate.admit(verified), ({ _tag }) => endedToken(verified.caller, _tag))
  const caller = yield* callerOf(verified)
  const principal =
    verified.clientId === null || caller.user === null
      ? `token:${caller.credentialId}`
      : `client:${caller.user.id}:${verified.clientId}`
  const client: AuthenticatedClient = { caller, principal, bearer }
  return client
})

export class Credentials extends Effect.Service<Credentials>()("mcp/Credentials", {
  effect: Effect.gen(function* () {
    const { baseUrl } = yield* AppConfig
    const needs: Needs = { authenticate: yield* Authenticate, resource: `${baseUrl}/mcp` }
    return methods(needs, { check, admit })
  })
}) {}
