/** Lists of addresses and CIDR blocks, IPv4 and IPv6, and whether an address is in one. Pure. */
import { BlockList, isIP } from "node:net"

/**
 * Whether it is an address or a block. An IPv4 block is written as IPv4, not inside of IPv6 (`::ffff:…`), and no zone
 * belongs to it: both would read as more, or less, than they hold.
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

// Two lists: one for both would match an IPv6 address by an IPv4 block and the other way round.
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

/** Lists are few and asked with every request. */
const compiledAtMost = 1_000
const compiled = new Map<string, Compiled>()
const listOf = (ranges: ReadonlyArray<string>): Compiled => {
  const name = ranges.join(",")
  const known = compiled.get(name)
  if (known !== undefined) return known
  if (compiled.size >= compiledAtMost) compiled.clear()
  const made = compile(ranges)
  compiled.set(name, made)
  return made
}

/** An IPv4 address that is written as IPv6, in either spelling, as IPv4. */
const unmapped = (address: string): string => {
  if (isIP(address) !== 6) return address
  const dotted = /^[0:]*:ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (dotted !== undefined) return dotted
  const [, high = "", low = ""] = /^[0:]*:ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(address) ?? []
  if (high === "") return address
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)]
  return [a >> 8, a & 255, b >> 8, b & 255].join(".")
}

/** Null: every address. One that is not known is in no list. */
export const holds = (ranges: ReadonlyArray<string> | null, address: string): boolean => {
  if (ranges === null) return true
  const plain = unmapped(address)
  const version = isIP(plain)
  if (version === 0 || plain.includes("%")) return false
  return version === 6 ? listOf(ranges).ipv6.check(plain, "ipv6") : listOf(ranges).ipv4.check(plain, "ipv4")
}
