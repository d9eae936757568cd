/** A client by hand, for what the official ones would never do. */
import { createHash, randomBytes } from "node:crypto"

export const redirectUri = "http://127.0.0.1:53121/callback"

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
  return { status: response.status, json: await response.json(), headers: response.headers }
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

export const post = async (
  base: string,
  path: string,
  form: Record<string, string>,
  headers: Record<string, string> = {}
) => {
  const response = await fetch(`${base}${path}`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(form).toString()
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    // Untyped on purpose: tests look at what is on the wire.
    // eslint-disable-next-line typescript/no-explicit-any
    json: (text === "" ? undefined : JSON.parse(text)) as any
  }
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
