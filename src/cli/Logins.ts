/** Which servers this user is logged in to, without the credentials: asked before the keychain is. */
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Protection } from "./CredentialStore.ts"
import { folders, makeFolder, readJson, writeWhole } from "./Folders.ts"

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

const what = "the login records"
const file = Effect.gen(function* () {
  const path = yield* Path.Path
  return path.join((yield* folders).config, "logins.json")
})

export const read = Effect.flatMap(file, (path) => readJson(path, Logins, what))

export const find = (logins: Option.Option<Logins>, url: string): Option.Option<Login> =>
  Option.flatMap(logins, (all) => Option.fromNullable(all.logins.find((login) => login.url === url)))

const write = Effect.fnUntraced(function* (logins: Logins) {
  yield* makeFolder((yield* folders).config, what)
  yield* writeWhole(yield* file, `${JSON.stringify(logins, null, 2)}\n`, what)
})

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
