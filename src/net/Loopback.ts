/** Recognizes hosts on this machine, for all parts of the program. Pure. */
import { BlockList, isIP } from "node:net"

// Two lists: a common one would take an IPv4 address in IPv6 form (`::ffff:127.0.0.1`) for loopback too.
const makeLists = () => {
  const loopback4 = new BlockList()
  loopback4.addSubnet("127.0.0.0", 8, "ipv4")
  const loopback6 = new BlockList()
  loopback6.addAddress("::1", "ipv6")
  return { loopback4, loopback6 }
}
let lists: ReturnType<typeof makeLists> | undefined
/** Made on request: each start of the command line would load the module of the lists. */
const loopback = () => (lists ??= makeLists())

export const isLoopbackAddress = (address: string): boolean => {
  switch (isIP(address)) {
    case 4:
      return loopback().loopback4.check(address, "ipv4")
    case 6:
      return !address.includes("%") && loopback().loopback6.check(address, "ipv6")
    default:
      return false
  }
}

/** Removes the brackets of an IPv6 literal in a URL. */
const withoutBrackets = (host: string) => host.replace(/^\[(.*)\]$/, "$1")

export const hostOf = (url: URL): string => withoutBrackets(url.hostname)

/** Takes a host name or an address, as people, URLs or `Host` headers write it. */
export const isLoopbackHost = (host: string): boolean => {
  const name = withoutBrackets(host).toLowerCase()
  return name === "localhost" || isLoopbackAddress(name)
}
