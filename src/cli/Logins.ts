/** Which servers this user is logged in to, without the credentials: asked before the keychain is. */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Protection } from "./CredentialStore.ts"
import { jsonFile } from "./Folders.ts"

const Login = Schema.Struct({
  url: Schema.String,
  protection: Schema.Literal("os_keychain", "plaintext_local"),
  grantId: Schema.String,
  email: Schema.String,
  machine: Schema.Boolean,
  expiresAt: Schema.String
})
export type Login = typeof Login.Type & { readonly protection: Protection }

const Logins = Schema.Struct({
  /** Sent with a device request, so that the owner recognises repeated logins of one installation. */
  installationId: Schema.String,
  /** Server of the last login: the address when none is given. */
  current: Schema.NullOr(Schema.String),
  logins: Schema.Array(Login)
})
export type Logins = typeof Logins.Type

const { read, write } = jsonFile("config", "logins.json", Logins, "the login records")
export { read }

export const find = (logins: Option.Option<Logins>, url: string): Option.Option<Login> =>
  Option.flatMap(logins, (all) => Option.fromNullable(all.logins.find((login) => login.url === url)))

export const remember = (known: Option.Option<Logins>, installationId: string, login: Login) =>
  write({
    installationId,
    current: login.url,
    logins: [
      ...Option.match(known, {
        onNone: () => [],
        onSome: (all) => all.logins.filter((other) => other.url !== login.url)
      }),
      login
    ]
  })

export const forget = (known: Logins, url: string) => {
  const logins = known.logins.filter((login) => login.url !== url)
  return write({ ...known, logins, current: known.current === url ? (logins.at(-1)?.url ?? null) : known.current })
}
