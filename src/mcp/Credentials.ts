/**
 * Who calls `/mcp`: an API token with MCP scopes, or an OAuth access token issued for this resource. Everything else is
 * refused with the challenges of RFC 6750 and the MCP authorization page.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import type { Scope } from "#schema/Scopes.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate, type Verified } from "#src/credentials/Authenticate.ts"
import * as TokenText from "#src/credentials/TokenText.ts"

/** What a client asks for when it knows nothing yet: names only. */
export const startScopes: ReadonlyArray<Scope> = ["identity:read", "projects:read", "secrets:read"]

/** 401 or 403 with `WWW-Authenticate`. `error` is absent when nothing was presented (RFC 6750 3.1). */
export class Challenge extends Data.TaggedError("Challenge")<{
  readonly status: 401 | 403
  readonly error?: "invalid_token" | "insufficient_scope"
  /** One of our own sentences: no quotes, no backslashes, nothing from the request. */
  readonly description?: string
  readonly scopes: ReadonlyArray<Scope>
  /** The credential, when it was identified, and what the trail calls the refusal. */
  readonly caller?: Caller
  readonly reason?: "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED" | "SCOPE_MISSING"
}> {}

const unknown = new Challenge({
  status: 401,
  error: "invalid_token",
  description: "The access token is not known here",
  scopes: startScopes
})
const ended = (caller: Caller, reason: "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED") =>
  new Challenge({
    status: 401,
    error: "invalid_token",
    description: "The access token expired or was revoked",
    scopes: startScopes,
    caller,
    reason
  })
const refused = (caller: Caller, description: string) =>
  new Challenge({
    status: 403,
    error: "insufficient_scope",
    description,
    scopes: startScopes,
    caller,
    reason: "SCOPE_MISSING"
  })

export const nothingPresented = new Challenge({ status: 401, scopes: startScopes })

/** "{tool} needs {scopes}": all scopes that the operation needs, in one challenge. */
export const lacksScopes = (caller: Caller, what: string, scopes: ReadonlyArray<Scope>) =>
  new Challenge({
    status: 403,
    error: "insufficient_scope",
    description: `${what} needs ${scopes.join(" ")}`,
    scopes,
    caller,
    reason: "SCOPE_MISSING"
  })

/** Scopes of the connection: the same in each of its teams. */
export const scopesOf = (caller: Caller): ReadonlyArray<Scope> => caller.teams[0]?.scopes ?? []

export const missingScopes = (caller: Caller, needed: ReadonlyArray<Scope>): ReadonlyArray<Scope> =>
  needed.filter((scope) => !scopesOf(caller).includes(scope))

export class Credentials extends Effect.Service<Credentials>()("mcp/Credentials", {
  effect: Effect.gen(function* () {
    const authenticate = yield* Authenticate
    const { baseUrl } = yield* AppConfig
    const resource = `${baseUrl}/mcp`

    /** The rights of an API token over MCP: its MCP scopes, cut by what its creator may do now (interface 5). */
    const cutToken = Effect.fnUntraced(function* ({ caller, creatorRole }: Verified) {
      if (caller.mcpScopes.length === 0) return yield* refused(caller, "This API token holds no MCP scopes")
      if (creatorRole === null) return yield* refused(caller, "The creator of this API token has no role in its team")
      const cut: Caller = {
        ...caller,
        teams: caller.teams.map((team) => ({ ...team, role: creatorRole, scopes: caller.mcpScopes }))
      }
      return cut
    })

    const find = Effect.fnUntraced(function* (text: string) {
      const kind = TokenText.parse(text)?.kind
      if (kind !== "at" && kind !== "oa") return yield* unknown
      const verified = yield* Effect.mapError(authenticate.verify(text), () => unknown)
      if (verified.life !== "live") {
        return yield* ended(verified.caller, verified.life === "expired" ? "CREDENTIAL_EXPIRED" : "CREDENTIAL_REVOKED")
      }
      // A token of another resource is not a token here (RFC 8707, GHSA-rvq5-wwqv-78pq).
      if (kind === "oa" && verified.audience !== resource) return yield* unknown
      return verified
    })

    const callerOf = (verified: Verified) =>
      verified.caller.kind === "api_token" ? cutToken(verified) : Effect.succeed(verified.caller)

    /** The caller as of now; does not count as a use. */
    const check = (text: string): Effect.Effect<Caller, Challenge> => Effect.flatMap(find(text), callerOf)

    /**
     * The caller of a request; counts as a use. `principal` is who a session belongs to: a token, or a person with a
     * client, whose access tokens and grants come and go.
     */
    const admit = Effect.fnUntraced(function* (text: string) {
      const verified = yield* find(text)
      yield* Effect.mapError(authenticate.admit(verified), ({ _tag }) => ended(verified.caller, _tag))
      const caller = yield* callerOf(verified)
      const principal =
        verified.clientId === null || caller.user === null
          ? `token:${caller.credentialId}`
          : `client:${caller.user.id}:${verified.clientId}`
      return { caller, principal }
    })

    return { check, admit } as const
  })
}) {}
