/** Refusals of credentials and scopes, in the words of RFC 6750, RFC 9728 and the MCP authorization page. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Data from "effect/Data"
import type { Caller } from "#schema/Caller.ts"
import type { Scope } from "#schema/Scopes.ts"
import { startScopes } from "#src/oauth/Metadata.ts"
import type { HttpResponse } from "./Responses.ts"

/** 401 or 403 with `WWW-Authenticate`. `error` is absent when no credential was sent (RFC 6750 3.1). */
export class Challenge extends Data.TaggedError("Challenge")<{
  readonly status: 401 | 403
  readonly error?: "invalid_token" | "insufficient_scope"
  /** A sentence of ours: no quotes, no backslashes, nothing from the request. */
  readonly description?: string
  readonly scopes: ReadonlyArray<Scope>
  /** The credential, when it was identified, and the reason that the audit trail gives. */
  readonly caller?: Caller
  readonly reason?: "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED" | "SCOPE_MISSING"
}> {}

export const noCredential = new Challenge({ status: 401, scopes: startScopes })

export const unknownToken = new Challenge({
  status: 401,
  error: "invalid_token",
  description: "The access token is not known here",
  scopes: startScopes
})

export const endedToken = (caller: Caller, reason: "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED") =>
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

export const powerlessToken = (caller: Caller, description: string) =>
  insufficientScope(caller, description, startScopes)

/** "{operation} needs {scopes}": all scopes that the operation needs, in one challenge. */
export const missingScope = (caller: Caller, operation: string, scopes: ReadonlyArray<Scope>) =>
  insufficientScope(caller, `${operation} needs ${scopes.join(" ")}`, scopes)

/** `metadata`: the address of the protected resource's document (RFC 9728 5.1). */
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
