/** A client by hand, for what the official ones would never do. */
import { assert } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { createHash, randomBytes } from "node:crypto"
import { OAuthErrorResponse, TokenResponse } from "#schema/OAuthApi.ts"
import { optional } from "#schema/Strict.ts"
import * as Bodies from "#test/support/Bodies.ts"

export const redirectUri = "http://127.0.0.1:53121/callback"

/** RFC 7591 3.2.1: the members that tests look at. */
const Registered = Schema.Struct(
  { client_id: Schema.String, client_secret: optional(Schema.String) },
  { key: Schema.String, value: Schema.Unknown }
)
/** The client that was registered. */
export const registered = ({ as }: Bodies.Answer) => as(Registered)
/** Of an answer that gives one. */
export const refreshTokenOf = ({ json, text }: Bodies.Answer<typeof TokenResponse.Type>) =>
  json.refresh_token ?? assert.fail(text)
/** Why a request was refused (RFC 6749 5.2). */
export const errorOf = ({ as }: Bodies.Answer) => as(OAuthErrorResponse).error

export const register = async (base: string, metadata: Record<string, unknown> = {}) => {
  const response = await fetch(`${base}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      client_name: "Test client",
      redirect_uris: [redirectUri],
      grant_types: ["authorization_code", "refresh_token"],
      token_endpoint_auth_method: "none",
      ...metadata
    })
  })
  return Bodies.ofResponse("POST", "/oauth/register", response)
}

export const pkce = () => {
  const verifier = randomBytes(32).toString("base64url")
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") }
}

export const authorizationUrl = (base: string, params: Record<string, string>) =>
  `${base}/oauth/authorize?${new URLSearchParams({
    response_type: "code",
    redirect_uri: redirectUri,
    code_challenge_method: "S256",
    resource: `${base}/mcp`,
    state: "s-1",
    ...params
  }).toString()}`

export const post = async <const Path extends string>(
  base: string,
  path: Path,
  form: Record<string, string>,
  headers: Record<string, string> = {}
) => {
  const response = await fetch(`${base}${path}`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(form).toString()
  })
  return Bodies.ofResponse("POST", path, response)
}

export const redeem = (
  base: string,
  clientId: string,
  code: string,
  verifier: string,
  more: Record<string, string> = {}
) =>
  post(base, "/oauth/token", {
    grant_type: "authorization_code",
    client_id: clientId,
    code,
    code_verifier: verifier,
    redirect_uri: redirectUri,
    ...more
  })

export const refresh = (base: string, clientId: string, token: string, more: Record<string, string> = {}) =>
  post(base, "/oauth/token", { grant_type: "refresh_token", client_id: clientId, refresh_token: token, ...more })
