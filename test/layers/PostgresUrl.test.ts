import { assert, describe, it } from "@effect/vitest"
import * as Option from "effect/Option"
import * as PostgresUrl from "#layers/PostgresUrl.ts"

const addresses = (text: string) => Option.getOrUndefined(PostgresUrl.addresses(text))

describe("the address of a database", () => {
  it("with one host is left as it is", () => {
    for (const url of [
      "postgres://u:p@db.example:6432/app?sslmode=verify-full",
      "postgresql://u:a,b%2Cc@db/app",
      "postgres://u:p@[2001:db8::1]:5433/app",
      "postgres://app@%2Fvar%2Frun%2Fpostgresql/app",
      "postgres:///app?host=/var/run/postgresql"
    ]) {
      assert.deepStrictEqual(addresses(url), [url])
    }
  })

  it("with several hosts is one address for each, in their order, with user, database and options", () => {
    assert.deepStrictEqual(
      addresses("postgres://u:p@w@one,two:6432,[::1]:5433/app?sslmode=verify-full&target_session_attrs=read-write"),
      ["one", "two:6432", "[::1]:5433"].map(
        (host) => new URL(`postgres://u:p%40w@${host}/app?sslmode=verify-full`).href
      )
    )
    assert.lengthOf(addresses("postgres://u:p@one,two/app") ?? [], 2)
  })

  it("that asks for a server which takes no writes, or is none, is refused", () => {
    for (const url of [
      "postgres://one,two/app?target_session_attrs=standby",
      "postgres://one/app?target_session_attrs=prefer-standby",
      "postgres://one,,two/app",
      "postgres://one,two:x/app",
      "mysql://one,two/app",
      "one,two",
      ""
    ]) {
      assert.isUndefined(addresses(url), url)
    }
  })
})
