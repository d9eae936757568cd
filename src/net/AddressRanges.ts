/** Lists of addresses and CIDR blocks, IPv4 and IPv6, and membership of an address. Pure. */
import { BlockList, isIP } from "node:net"
import { toIpv4 } from "./ForwardedFor.ts"

/**
 * Whether the text is an address or a block. An IPv4 block must be written as IPv4, not inside IPv6 (`::ffff:…`), and
 * without a zone. Otherwise it would look larger or smaller than it is.
 */
export const isRange = (text: string): boolean => {
  const [address = "", bits, ...rest] = text.split("/")
  const version = isIP(address)
  if (version === 0 || rest.length > 0 || address.includes("%")) return false
  if (version === 6 && /^[0:]*:ffff:/i.test(address)) return false
  return bits === undefined || (/^(?:0|[1-9][0-9]{0,2})$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
}

interface Compiled {
  readonly ipv4: BlockList
  readonly ipv6: BlockList
}

// Two lists: a common one would match an IPv6 address by an IPv4 block, and vice versa.
const compile = (ranges: ReadonlyArray<string>): Compiled => {
  const lists: Compiled = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const range of ranges) {
    if (!isRange(range)) continue
    const [address = "", bits] = range.split("/")
    const family = isIP(address) === 6 ? "ipv6" : "ipv4"
    if (bits === undefined) lists[family].addAddress(address, family)
    else lists[family].addSubnet(address, Number(bits), family)
  }
  return lists
}

/** Limit of cached lists. There are few, and every request uses one. */
const maxCached = 1_000
const cache = new Map<string, Compiled>()
const listOf = (ranges: ReadonlyArray<string>): Compiled => {
  const name = ranges.join(",")
  const cached = cache.get(name)
  if (cached !== undefined) return cached
  if (cache.size >= maxCached) cache.clear()
  const lists = compile(ranges)
  cache.set(name, lists)
  return lists
}

/** An invalid address is in no list. */
export const includes = (ranges: ReadonlyArray<string>, address: string): boolean => {
  const plain = toIpv4(address)
  const version = isIP(plain)
  if (version === 0 || plain.includes("%")) return false
  return version === 6 ? listOf(ranges).ipv6.check(plain, "ipv6") : listOf(ranges).ipv4.check(plain, "ipv4")
}
