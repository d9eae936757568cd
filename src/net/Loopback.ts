/** Whether a host is this very machine. Pure; every part of the program asks here. */
import { BlockList, isIP } from "node:net"

// Two lists: one for both would take an IPv4 address that is written as IPv6 (`::ffff:127.0.0.1`) for loopback too.
const loopback4 = new BlockList()
loopback4.addSubnet("127.0.0.0", 8, "ipv4")
const loopback6 = new BlockList()
loopback6.addAddress("::1", "ipv6")

export const isLoopbackAddress = (address: string): boolean => {
  switch (isIP(address)) {
    case 4:
      return loopback4.check(address, "ipv4")
    case 6:
      return !address.includes("%") && loopback6.check(address, "ipv6")
    default:
      return false
  }
}

/** An IPv6 literal without the brackets that a URL puts around it. */
const unbracketed = (host: string) => host.replace(/^\[(.*)\]$/, "$1")

export const hostOf = (url: URL): string => unbracketed(url.hostname)

/** Of a host name or an address, as a person, a URL or a `Host` header writes it. */
export const isLoopbackHost = (host: string): boolean => {
  const name = unbracketed(host).toLowerCase()
  return name === "localhost" || isLoopbackAddress(name)
}
