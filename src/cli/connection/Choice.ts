/** Which server, with which credential, and why (docs/contract/credentials.md, "Client convention"). */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import { CredentialStores } from "./CredentialStore.ts"
import { tokenVariables, variable } from "#src/cli/terminal/Environment.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { decodeUtf8, readIfThere } from "#src/cli/terminal/Folders.ts"
import { isInTheClear, link, type Link, type LinkOptions, parseAddress } from "./Link.ts"
import * as Logins from "./Logins.ts"
import { warn } from "#src/cli/terminal/Output.ts"

/** What `ampoule login` got, wherever it is kept: it acts for a person. */
export const isLogin = ({ credential }: Pick<Chosen, "credential">): boolean =>
  Redacted.value(credential).startsWith("amp_cg_")

const defaultUrl = "http://127.0.0.1:4400"

export interface ConnectionOptions {
  readonly url: Option.Option<string>
  /** `env` or `stored`: which one counts when both are there. */
  readonly credential: Option.Option<"env" | "stored">
}

export interface Chosen {
  readonly url: string
  readonly urlFrom: string
  readonly credential: Redacted.Redacted
  /** "stored login" or the name of the variable. */
  readonly source: string
  /** One sentence for `whoami`. */
  readonly why: string
  readonly login: Option.Option<Logins.Login>
}

/** A secret setting: the variable, or the file that NAME_FILE names (docs/contract/names.md). */
export const fromVariable = Effect.fnUntraced(function* (name: string) {
  const direct = variable(name)
  if (direct !== undefined) return Option.some({ name, value: Redacted.make(direct.trim()) })
  const file = variable(`${name}_FILE`)
  if (file === undefined) return Option.none()
  const bytes = yield* readIfThere(file, `the file that ${name}_FILE names`)
  const text = Option.map(Option.flatMap(bytes, decodeUtf8), (t) => t.trim())
  if (Option.isNone(text) || text.value === "") {
    return yield* new CliFailure({ message: `${name}_FILE names a file that is missing or empty: ${file}` })
  }
  return Option.some({ name: `${name}_FILE`, value: Redacted.make(text.value) })
})

export const environmentCredential = Effect.gen(function* () {
  for (const name of tokenVariables) {
    const found = yield* fromVariable(name)
    if (Option.isSome(found)) return found
  }
  return Option.none()
})

/** One-way: tells two credentials apart, and nothing of either. */
export const digestOf = (credential: Redacted.Redacted): string =>
  crypto().createHash("sha256").update(Redacted.value(credential)).digest("base64url")

/** A header can carry it: what is not printable ASCII would end as an error of the HTTP library that quotes it. */
const headerSafe = (credential: Redacted.Redacted): boolean => /^[\x21-\x7e]{1,512}$/.test(Redacted.value(credential))

export const address = Effect.fnUntraced(function* (
  given: Option.Option<string>,
  logins: Option.Option<Logins.Logins>
) {
  if (Option.isSome(given)) return { url: yield* parseAddress(given.value), urlFrom: "--url" }
  const fromEnvironment = variable("AMPOULE_URL")
  if (fromEnvironment !== undefined) return { url: yield* parseAddress(fromEnvironment), urlFrom: "AMPOULE_URL" }
  const current = Option.getOrNull(logins)?.current ?? null
  return current === null ? { url: defaultUrl, urlFrom: "default" } : { url: current, urlFrom: "last login" }
})

/** Neither asks the server nor warns. None: there is no credential at all. */
export const choose = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const wanted = Option.getOrUndefined(options.credential)
  const fromEnvironment = yield* environmentCredential
  // A token from the environment goes to the address of the environment, never to where somebody once logged in.
  const logins = wanted === "env" ? Option.none<Logins.Logins>() : yield* Logins.read
  const where = yield* address(options.url, logins)
  const login = Logins.find(logins, where.url)

  if (Option.isSome(login)) {
    const store = (yield* CredentialStores)[login.value.protection]
    const stored = yield* store.read(where.url)
    if (Option.isSome(stored)) {
      const both = Option.match(fromEnvironment, {
        onNone: () => "",
        onSome: ({ name }) => `, which takes precedence over ${name} (--credential env uses the variable)`
      })
      return Option.some<Chosen>({
        ...where,
        credential: stored.value,
        source: "stored login",
        why: `stored login of ${login.value.email}${both}`,
        login
      })
    }
    yield* warn(`The login for ${where.url} is recorded, but its credential is gone. Run \`ampoule login\` again.`)
  }
  if (wanted === "stored" || Option.isNone(fromEnvironment)) return Option.none<Chosen>()
  const { name, value } = fromEnvironment.value
  const other = name.startsWith("AMPOULE_TOKEN") ? ", as AMPOULE_API_TOKEN is not set" : ""
  const why =
    wanted === "env"
      ? `${name}, as --credential env asks`
      : `${name}, as there is no stored login for this server${other}`
  // Without a login the last-login address cannot have been used: it is the address of a login that has a credential.
  const own = where.urlFrom === "last login" ? yield* address(options.url, Option.none()) : where
  return Option.some<Chosen>({ ...own, credential: value, source: name, why, login: Option.none() })
})

export const noCredential = new CliFailure({
  message: "No credential.",
  hint: "Run `ampoule login`, or set AMPOULE_API_TOKEN to an API token."
})

/** What an ordinary command uses, looked at before it is sent anywhere. */
export const chosen = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const found = yield* choose(options)
  if (Option.isNone(found)) return yield* noCredential
  const { credential, source, url } = found.value
  if (!headerSafe(credential)) {
    return yield* new CliFailure({
      message: `${source} does not hold a credential: it has spaces or characters that none has.`,
      hint: "Credentials look like amp_at_… and are one line of letters, digits and _."
    })
  }
  if (source === "stored login" && Option.isNone(options.credential)) {
    const shadowed = yield* environmentCredential
    if (Option.isSome(shadowed)) {
      yield* warn(
        `using the stored login, not ${shadowed.value.name}. --credential env or --credential stored chooses, and ends this warning.`
      )
    }
  }
  if (isInTheClear(url)) {
    yield* warn(`${url} is not https: others on the network can read the credential and every value.`)
  }
  return found.value
})

export interface Linked extends Link {
  readonly chosen: Chosen
}

type OpenOptions = ConnectionOptions & Pick<LinkOptions, "impatient" | "silent">

/** For commands that need no typed group of the contract. */
export const open = Effect.fnUntraced(function* (options: OpenOptions) {
  const found = yield* chosen(options)
  const { credential, url } = found
  const linked = yield* link({
    url,
    credential,
    impatient: options.impatient === true,
    silent: options.silent === true
  })
  return { ...linked, chosen: found } satisfies Linked
})
