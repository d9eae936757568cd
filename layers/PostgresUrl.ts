/**
 * `AMPOULE_DATABASE_URL` may name several hosts of one database, as libpq writes them (PostgreSQL documentation, "Specifying
 * Multiple Hosts"): `postgres://user:password@one:5432,two:5432/database?target_session_attrs=read-write`. `pg` knows one
 * host; so this is one address for each.
 */
import * as Option from "effect/Option"

/** A server that takes no writes is of no use here, so these all mean the same. */
const sessionAttributes = new Set(["any", "read-write", "primary"])

const single = (text: string): Option.Option<string> => {
  if (!URL.canParse(text)) return Option.none()
  const url = new URL(text)
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") return Option.none()
  const wanted = url.searchParams.get("target_session_attrs")
  if (wanted === null) return Option.some(text)
  url.searchParams.delete("target_session_attrs")
  return sessionAttributes.has(wanted) ? Option.some(url.href) : Option.none()
}

/** One address for each host, in their order; none when it is not such an address. */
export const addresses = (text: string): Option.Option<ReadonlyArray<string>> => {
  const [, scheme = "", authority = "", rest = ""] = /^([^/]*\/\/)([^/?#]*)(.*)$/s.exec(text) ?? []
  const at = authority.lastIndexOf("@") + 1
  const hosts = authority.slice(at).split(",")
  if (hosts.length > 1 && hosts.includes("")) return Option.none()
  return Option.all(hosts.map((host) => single(`${scheme}${authority.slice(0, at)}${host}${rest}`)))
}

/** For the setting: what `addresses` takes. */
export const setting = {
  format: "postgres://user:password@host:port/database, with several hosts separated by commas",
  parse: (text: string) => Option.as(addresses(text), text)
}
