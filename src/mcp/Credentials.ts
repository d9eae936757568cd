/**
 * Credentials of `/mcp`: an API token with MCP scopes, or an OAuth access token for this resource. Any other request
 * gets a challenge as RFC 6750, RFC 9728 and the MCP authorization page define it.
 */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import type { TeamId } from "#schema/Ids.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import type { Verified } from "#src/credentials/CredentialCallers.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { methods } from "#src/Methods.ts"
import { startScopes } from "#src/oauth/Metadata.ts"
import type { HttpResponse } from "./Message.ts"

/** 401 or 403 with `WWW-Authenticate`. `error` is absent for a request without a credential (RFC 6750 3.1). */
export class Challenge extends Data.TaggedError("Challenge")<{
  readonly status: 401 | 403
  readonly error?: "invalid_token" | "insufficient_scope"
  /** A fixed sentence without quotes, backslashes or parts of the request. */
  readonly description?: string
  readonly scopes: ReadonlyArray<Scope>
  /** The credential, if it was identified, and the reason for the audit trail. */
  readonly caller?: Caller
  readonly reason?: "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED" | "SCOPE_MISSING"
}> {}

export const noCredential = new Challenge({ status: 401, scopes: startScopes })

const unknownToken = new Challenge({
  status: 401,
  error: "invalid_token",
  description: "The access token is unknown",
  scopes: startScopes
})

const endedToken = (caller: Caller, reason: "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED") =>
  new Challenge({
    status: 401,
    error: "invalid_token",
    description: "The access token expired or was revoked",
    scopes: startScopes,
    caller,
    reason
  })

const insufficientScope = (caller: Caller, description: string, scopes: ReadonlyArray<Scope>) =>
  new Challenge({ status: 403, error: "insufficient_scope", description, scopes, caller, reason: "SCOPE_MISSING" })

const powerlessToken = (caller: Caller, description: string) => insufficientScope(caller, description, startScopes)

/**
 * "{operation} needs {scopes}". The challenge lists the current scopes too: a client that requests only the missing
 * ones loses the others, and asks again at every change of tool (MCP 2025-11-25, authorization, step-up).
 */
export const missingScope = (caller: Caller, operation: string, needed: ReadonlyArray<Scope>) =>
  insufficientScope(
    caller,
    `${operation} needs ${needed.join(" ")}`,
    allScopes.filter((scope) => needed.includes(scope) || scopesOf(caller).includes(scope))
  )

/** `metadata` is the address of the protected resource's document (RFC 9728 5.1). */
export const responseTo = (metadata: string, { description, error, scopes, status }: Challenge): HttpResponse => {
  const parts = [
    ...(error === undefined ? [] : [`error="${error}"`]),
    ...(description === undefined ? [] : [`error_description="${description}"`])
  ]
  const hints =
    error === "insufficient_scope"
      ? [`scope="${scopes.join(" ")}"`, `resource_metadata="${metadata}"`]
      : [`resource_metadata="${metadata}"`, `scope="${scopes.join(" ")}"`]
  const body =
    error === undefined
      ? { error: "invalid_token", error_description: "This endpoint needs an access token" }
      : { error, ...(description === undefined ? {} : { error_description: description }) }
  return HttpServerResponse.unsafeJson(body, {
    status,
    headers: { "www-authenticate": `Bearer ${[...parts, ...hints].join(", ")}` }
  })
}

export interface AuthenticatedClient {
  readonly caller: Caller
  /** Owner of sessions: a token, or a person with a client, because access tokens and grants are short-lived. */
  readonly principal: string
  readonly bearer: Redacted.Redacted
}

/** Scopes of the connection: the same in each of its teams. */
export const scopesOf = (caller: Caller): ReadonlyArray<Scope> => caller.teams[0]?.scopes ?? []

export const missingScopes = (caller: Caller, needed: ReadonlyArray<Scope>): ReadonlyArray<Scope> =>
  needed.filter((scope) => !scopesOf(caller).includes(scope))

/** Team whose limits a connection counts against. A grant over several teams always counts against the same one. */
export const teamOf = (caller: Caller): TeamId | null => caller.teams[0]?.id ?? null

const services = Effect.all({
  authenticate: Authenticate,
  resource: Effect.map(AppConfig, ({ baseUrl }) => `${baseUrl}/mcp`)
})
type Needs = Effect.Effect.Success<typeof services>

/** Rights of an API token over MCP: its MCP scopes, limited by the current role of its creator. */
const cutToken = ({ caller, creatorRole }: Verified): Effect.Effect<Caller, Challenge> => {
  if (caller.mcpScopes.length === 0) return powerlessToken(caller, "This API token holds no MCP scopes")
  if (creatorRole === null) return powerlessToken(caller, "The creator of this API token has no role in its team")
  return Effect.succeed({
    ...caller,
    teams: caller.teams.map((team) => ({ ...team, role: creatorRole, scopes: caller.mcpScopes }))
  })
}

const callerOf = (credential: Verified) =>
  credential.caller.kind === "api_token" ? cutToken(credential) : Effect.succeed(credential.caller)

const verify = Effect.fnUntraced(function* ({ authenticate, resource }: Needs, text: string) {
  const token = TokenText.parse(text)
  if (token?.kind !== "at" && token?.kind !== "oa") return yield* unknownToken
  const credential = yield* Effect.mapError(authenticate.verify(token), () => unknownToken)
  if (credential.life !== "live") {
    return yield* endedToken(
      credential.caller,
      credential.life === "expired" ? "CREDENTIAL_EXPIRED" : "CREDENTIAL_REVOKED"
    )
  }
  // A token for another resource is unknown to this one (RFC 8707, GHSA-rvq5-wwqv-78pq).
  if (token.kind === "oa" && credential.audience !== resource) return yield* unknownToken
  return credential
})

/** The current caller; does not count as a use. */
const check = (needs: Needs, bearer: Redacted.Redacted): Effect.Effect<Caller, Challenge> =>
  Effect.flatMap(verify(needs, Redacted.value(bearer)), callerOf)

/** The client of a request; counts as a use. */
const admit = Effect.fnUntraced(function* (needs: Needs, bearer: Redacted.Redacted) {
  const credential = yield* verify(needs, Redacted.value(bearer))
  yield* Effect.mapError(needs.authenticate.admit(credential), ({ _tag }) => endedToken(credential.caller, _tag))
  const caller = yield* callerOf(credential)
  const principal =
    credential.clientId === null || caller.user === null
      ? `token:${caller.credentialId}`
      : `client:${caller.user.id}:${credential.clientId}`
  const client: AuthenticatedClient = { caller, principal, bearer }
  return client
})

export class Credentials extends Effect.Service<Credentials>()("mcp/Credentials", {
  effect: Effect.map(services, (needs) => methods(needs, { check, admit }))
}) {}
