// @ts-check
/** Checks that every TypeScript driver runs with a connected client. */
import assert from "node:assert/strict"

export const { MCP_URL = "", PERSON = "", PROJECT = "", TOKEN = "" } = process.env
export const at = { projectId: PROJECT, environment: "development" }

/** @param {string} url */
export const asPerson = async (url) => {
  const answer = await fetch(`${PERSON}/?url=${encodeURIComponent(url)}`)
  const text = await answer.text()
  if (!answer.ok) throw new Error(text)
  return new URL(text)
}
export const consents = async () => Number(await (await fetch(`${PERSON}/consents`)).text())

/**
 * The tools are listed first, since then clients check results against schemas; after that each kind of tool, and an
 * error of the service.
 * @param {(name: string, input: object) => Promise<{ isError?: boolean, text: string }>} call
 */
export const journey = async (call) => {
  const list = await call("list_secrets", at)
  assert.match(list.text, /"key":"A"/)
  const plan = await call("plan_run", { ...at, command: ["node", "app.js"], keys: ["A"] })
  assert.match(plan.text, /"--plan","[0-9a-f-]{36}","--redact"/)
  const creation = await call("create_secret", { ...at, key: `K${Date.now()}`, generate: { length: 16 } })
  assert.ok(!creation.isError, creation.text)
  const wrong = await call("list_secrets", { ...at, environment: "prod" })
  assert.ok(wrong.isError)
  assert.match(wrong.text, /ENVIRONMENT_NOT_FOUND.*The project has development/)
}

/** @param {unknown} result */
export const contentOf = (result) => {
  const { content, isError } = /** @type {{ content?: Array<{ text?: string }>, isError?: boolean }} */ (result)
  return { isError: isError === true, text: content?.map((one) => one.text ?? "").join("") ?? "" }
}

/** An OAuth provider in memory, as the official clients want one, whose redirects go to the person. */
export const makeProvider = () => {
  /** @type {{ client?: any, tokens?: any, verifier?: string, discovery?: any, callback?: URL }} */
  const kept = {}
  return {
    kept,
    redirectUrl: "http://127.0.0.1:53121/callback",
    clientMetadata: {
      client_name: "Driver",
      redirect_uris: ["http://127.0.0.1:53121/callback"],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none"
    },
    clientInformation: () => kept.client,
    saveClientInformation: (/** @type {any} */ client) => void (kept.client = client),
    tokens: () => kept.tokens,
    saveTokens: (/** @type {any} */ tokens) => void (kept.tokens = tokens),
    saveCodeVerifier: (/** @type {string} */ verifier) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier ?? "",
    discoveryState: () => kept.discovery,
    saveDiscoveryState: (/** @type {any} */ state) => void (kept.discovery = state),
    invalidateCredentials: () => undefined,
    redirectToAuthorization: async (/** @type {URL} */ url) => void (kept.callback = await asPerson(url.href))
  }
}
