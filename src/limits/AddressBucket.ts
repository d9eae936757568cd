import { isIPv6 } from "node:net"

/** The rate-limit bucket of an address. An IPv6 subscriber has a /64 and could use a new address for every request. */
export const addressBucket = (ip: string): string => {
  if (!isIPv6(ip)) return `address:${ip}`
  const [head, tail] = ip.split("::")
  const start = head === "" ? [] : head.split(":")
  const end = tail === undefined || tail === "" ? [] : tail.split(":")
  const groups = tail === undefined ? start : [...start, ...Array(8 - start.length - end.length).fill("0"), ...end]
  return `address:${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, "").toLowerCase())
    .join(":")}::/64`
}
