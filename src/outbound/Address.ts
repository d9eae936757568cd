/** Addresses that a server may call for a user who only entered them. Pure. */
import { BlockList, isIP } from "node:net"
import { hostOf, isLoopbackHost } from "#src/net/Loopback.ts"

const list = (blocks: string, family: "ipv4" | "ipv6") => {
  const blockList = new BlockList()
  for (const block of blocks.trim().split(/\s+/)) {
    const [network, prefix] = block.split("/")
    blockList.addSubnet(network, Number(prefix), family)
  }
  return blockList
}

/** IANA special-purpose registries (RFC 6890), including their reachable blocks, and multicast. */
const special4 = list(
  `
  0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
  192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3`,
  "ipv4"
)
/** Global unicast is 2000::/3 only; mapped, translated and local forms are outside it. */
const global6 = list("2000::/3", "ipv6")
const special6 = list("2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20", "ipv6")

export const isPublicAddress = (address: string): boolean => {
  switch (isIP(address)) {
    case 4:
      return !special4.check(address, "ipv4")
    case 6:
      return !address.includes("%") && global6.check(address, "ipv6") && !special6.check(address, "ipv6")
    default:
      return false
  }
}

/** An operator's address may be in the operator's own network. It needs TLS, and neither credentials nor fragment. */
export const isAllowedForOperator = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  return url.protocol === "https:" && url.username === "" && url.password === "" && !text.includes("#")
}

/**
 * Whether a user may enter this address: https, no credentials, no fragment. Plain http is for loopback only, and only
 * if `local`, on a server that itself listens on loopback. The addresses of a name are checked at each call.
 */
export const isAllowedUrl = (text: string, local: boolean): boolean => {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  if (url.username !== "" || url.password !== "" || text.includes("#")) return false
  const host = hostOf(url)
  const loopback = isLoopbackHost(host)
  if (url.protocol === "http:") return local && loopback
  if (url.protocol !== "https:") return false
  return loopback ? local : isIP(host) === 0 || isPublicAddress(host)
}
