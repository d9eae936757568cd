/** Addresses that peers and proxies report: `X-Forwarded-For`, `Forwarded` and its nodes (RFC 7239 sections 4 to 6). Pure. */
import { isIP } from "node:net"

/** Converts an IPv4 address in IPv6 form, in either spelling, to IPv4. */
export const toIpv4 = (address: string): string => {
  if (isIP(address) !== 6) return address
  const dotted = /^[0:]*:ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (dotted !== undefined) return dotted
  const [, high = "", low = ""] = /^[0:]*:ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(address) ?? []
  if (high === "") return address
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return [a >> 8, a & 255, b >> 8, b & 255].join(".")
}

const withoutQuotes = (text: string): string =>
  text.length > 1 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text

/**
 * The address of a node, without its port: `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]` and
 * `[2001:db8::1]:4711`, also in quotes. Undefined for anything else, such as `unknown` or `_hidden`.
 */
export const nodeAddress = (node: string): string | undefined => {
  const text = withoutQuotes(node.trim())
  const [, bracketed, plain] = /^(?:\[([^\]]*)\]|([\d.]+))(?::[\w.-]{1,32})?$/.exec(text) ?? []
  const address = bracketed ?? plain ?? text
  return isIP(address) === 0 || (bracketed !== undefined && isIP(address) !== 6) ? undefined : address
}

/** Splits at a separator outside of quoted strings. */
const splitOutsideQuotes = (text: string, separator: "," | ";"): ReadonlyArray<string> => {
  const parts: Array<string> = []
  let isQuoted = false
  let start = 0
  for (let i = 0; i < text.length; i++) {
    if (isQuoted && text[i] === "\\") i++
    else if (text[i] === '"') isQuoted = !isQuoted
    else if (!isQuoted && text[i] === separator) {
      parts.push(text.slice(start, i))
      start = i + 1
    }
  }
  parts.push(text.slice(start))
  return parts
}

/** The `for` nodes of a `Forwarded` header, one for each proxy. An element without one gives an empty text. */
export const forwardedNodes = (header: string): ReadonlyArray<string> =>
  splitOutsideQuotes(header, ",").map((element) => {
    const pair = splitOutsideQuotes(element, ";").find((part) => /^\s*for=/i.test(part))
    return pair === undefined ? "" : pair.slice(pair.indexOf("=") + 1)
  })

/** Stands for an address that a trusted proxy did not report in a readable form. It is in no list of addresses. */
export const unknownAddress = "unknown"
