/** Servers that this user is logged in to, without the credentials: read before the keychain. */
import * as Option from "effect/Option"
import type { Protection } from "./CredentialStore.ts"
import { jsonFile } from "#src/cli/terminal/Folders.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"

const Login = Shape.struct({
  url: Shape.string,
  protection: Shape.oneOf("os_keychain", "plaintext_local"),
  grantId: Shape.string,
  email: Shape.string,
  machine: Shape.boolean,
  expiresAt: Shape.string
})
export type Login = Shape.Of<typeof Login> & { readonly protection: Protection }

const Logins = Shape.struct({
  /** Sent with a device request, so that the owner recognises repeated logins of one installation. */
  installationId: Shape.string,
  /** Server of the last login: the default address. */
  current: Shape.nullable(Shape.string),
  logins: Shape.array(Login)
})
export type Logins = Shape.Of<typeof Logins>

const { read, write } = jsonFile("config", "logins.json", Logins, "the login records")
export { read }

export const find = (logins: Option.Option<Logins>, url: string): Option.Option<Login> =>
  Option.flatMap(logins, (all) => Option.fromNullable(all.logins.find((login) => login.url === url)))

export const remember = (logins: Option.Option<Logins>, installationId: string, login: Login) =>
  write({
    installationId,
    current: login.url,
    logins: [
      ...Option.match(logins, {
        onNone: () => [],
        onSome: (all) => all.logins.filter((other) => other.url !== login.url)
      }),
      login
    ]
  })

export const forget = (all: Logins, url: string) => {
  const logins = all.logins.filter((login) => login.url !== url)
  return write({ ...all, logins, current: all.current === url ? (logins.at(-1)?.url ?? null) : all.current })
}
