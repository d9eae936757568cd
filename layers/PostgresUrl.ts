/**
 * Several hosts of one database in `AMPOULE_DATABASE_URL`, in the syntax of libpq (PostgreSQL documentation,
 * "Specifying Multiple Hosts"): `postgres://user:password@one:5432,two:5432/database?target_session_attrs=read-write`.
 * `pg` supports one host, so each gets an address of its own.
 */
import * as Option from "effect/Option"

/** Equivalent here, because a server that refuses writes is of no use. */
const sessionAttributes = new Set(["any", "read-write", "primary"])

const single = (text: string): Option.Option<string> => {
  if (!URL.canParse(text)) return Option.none()
  const url = new URL(text)
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:") return Option.none()
  const attributes = url.searchParams.get("target_session_attrs")
  if (attributes === null) return Option.some(text)
  url.searchParams.delete("target_session_attrs")
  return sessionAttributes.has(attributes) ? Option.some(url.href) : Option.none()
}

/** One address for each host, in their order; None for other texts. */
export const addresses = (text: string): Option.Option<ReadonlyArray<string>> => {
  const [, scheme = "", authority = "", rest = ""] = /^([^/]*\/\/)([^/?#]*)(.*)$/s.exec(text) ?? []
  const at = authority.lastIndexOf("@") + 1
  const hosts = authority.slice(at).split(",")
  if (hosts.length > 1 && hosts.includes("")) return Option.none()
  return Option.all(hosts.map((host) => single(`${scheme}${authority.slice(0, at)}${host}${rest}`)))
}

/** Format of the setting. */
export const setting = {
  format: "postgres://user:password@host:port/database, with several hosts separated by commas",
  parse: (text: string) => Option.as(addresses(text), text)
}
