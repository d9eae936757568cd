/**
 * Where an authorization may lead: https anywhere, http on this machine; nothing else (OAuth 2.1 8.4, RFC 8252 7.3).
 * Not to schemes of an application's own (RFC 8252 7.1): any program can claim one, and MCP demands localhost or https.
 */

const loopback = /^(http:\/\/(?:127\.0\.0\.1|\[::1\]|localhost))(?::(\d{1,5}))?(\/[^#]*)?$/

const parts = (uri: string): { readonly host: string; readonly rest: string } | undefined => {
  const match = loopback.exec(uri)
  if (match === null || (match[2] !== undefined && Number(match[2]) > 65_535)) return undefined
  return { host: match[1], rest: match[3] ?? "" }
}

export const isLoopback = (uri: string): boolean => parts(uri) !== undefined

/** What a client may register. */
export const isRegistrable = (uri: string): boolean => {
  // What two readers could read differently is none.
  if (uri.length > 2_000 || !/^[\x21-\x7e]+$/.test(uri) || /[\\#]/.test(uri) || !URL.canParse(uri)) return false
  const { hash, hostname, password, protocol, username } = new URL(uri)
  if (hash !== "" || username !== "" || password !== "" || hostname === "") return false
  return protocol === "https:" || isLoopback(uri)
}

/** Exact, but for the port of a loopback address: the client's listener gets another one each time. */
export const isRegistered = (registered: ReadonlyArray<string>, given: string): boolean => {
  if (registered.includes(given)) return isRegistrable(given)
  const asked = parts(given)
  if (asked === undefined || !isRegistrable(given)) return false
  return registered.some((uri) => {
    const known = parts(uri)
    return known !== undefined && known.host === asked.host && known.rest === asked.rest
  })
}

/** What a person is shown of it. */
export const hostOf = (uri: string): string => new URL(uri).host
