/** Choice of the server and the credential, with the reason (docs/command-line/folder.md, "Which environment"). */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import { CredentialStores } from "./CredentialStore.ts"
import { tokenVariables, variable, withheldVariable } from "#src/cli/terminal/Environment.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { decodeUtf8, readIfThere } from "#src/cli/terminal/Folders.ts"
import { deadline, isInTheClear, link, type Link, type LinkOptions, parseAddress } from "./Link.ts"
import * as Logins from "./Logins.ts"
import { warn } from "#src/cli/terminal/Output.ts"

/** A credential of `ampoule login` acts for a person. */
export const isLogin = ({ credential }: Pick<Chosen, "credential">): boolean =>
  Redacted.value(credential).startsWith("amp_cg_")

const defaultUrl = "http://127.0.0.1:4400"

export interface ConnectionOptions {
  readonly url: Option.Option<string>
  /** `env` or `stored`: the one to use when both exist. */
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

/** Secret setting: the variable, or the file that NAME_FILE names (docs/contract/names.md). */
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
    const fromName = yield* fromVariable(name)
    if (Option.isSome(fromName)) return fromName
  }
  return Option.none()
})

/** One-way: tells two credentials apart without revealing either. */
const digestOf = (credential: Redacted.Redacted): string =>
  crypto().createHash("sha256").update(Redacted.value(credential)).digest("base64url")

/** Stands for the credential at its server, without revealing it. */
export const identityOf = ({ credential, login, url }: Pick<Chosen, "credential" | "login" | "url">): string =>
  `${url} ${Option.match(login, { onNone: () => digestOf(credential), onSome: ({ grantId }) => grantId })}`

/** The same without opening the keychain, which may ask for a password. None: no credential. */
export const closedIdentity = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const token = yield* environmentCredential
  const logins = yield* Logins.read
  const { url } = yield* chooseAddress(options.url, logins)
  const login = Logins.find(logins, url)
  const wantsVariable = Option.contains(options.credential, "env") || Option.isNone(login)
  if (!wantsVariable && Option.isSome(login)) return Option.some(`${url} ${login.value.grantId}`)
  return Option.map(token, ({ value }) => `${url} ${digestOf(value)}`)
})

/** Printable ASCII only: for other text the HTTP library throws an error that quotes it. */
const headerSafe = (credential: Redacted.Redacted): boolean => /^[\x21-\x7e]{1,512}$/.test(Redacted.value(credential))

export const chooseAddress = Effect.fnUntraced(function* (
  urlOption: Option.Option<string>,
  logins: Option.Option<Logins.Logins>
) {
  if (Option.isSome(urlOption)) return { url: yield* parseAddress(urlOption.value), urlFrom: "--url" }
  const fromEnvironment = variable("AMPOULE_URL")
  if (fromEnvironment !== undefined) return { url: yield* parseAddress(fromEnvironment), urlFrom: "AMPOULE_URL" }
  const current = Option.getOrNull(logins)?.current ?? null
  return current === null ? { url: defaultUrl, urlFrom: "default" } : { url: current, urlFrom: "last login" }
})

/** A home that cannot be read is no obstacle while a variable holds a credential. */
const readLogins = (variable: Option.Option<{ readonly name: string }>, mayReplace: boolean) =>
  Effect.catchAll(Logins.read, ({ message }) =>
    mayReplace && Option.isSome(variable)
      ? Effect.as(
          warn(`${message} ${variable.value.name} is used; --credential env uses it without this warning.`),
          Option.none<Logins.Logins>()
        )
      : new CliFailure({
          message,
          hint: "Set AMPOULE_API_TOKEN to an API token, or HOME to a folder that this user can read."
        })
  )

/** Does not call the server. Warns of logins that cannot be used. None: no credential exists. */
export const choose = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const requested = Option.getOrUndefined(options.credential)
  const fromEnvironment = yield* environmentCredential
  // A token from the environment goes to the address of the environment, never to that of an earlier login.
  const logins =
    requested === "env" ? Option.none<Logins.Logins>() : yield* readLogins(fromEnvironment, requested !== "stored")
  const at = yield* chooseAddress(options.url, logins)
  const login = Logins.find(logins, at.url)

  if (Option.isSome(login)) {
    const store = (yield* CredentialStores)[login.value.protection]
    const stored = yield* store.read(at.url)
    if (Option.isSome(stored)) {
      const both = Option.match(fromEnvironment, {
        onNone: () => "",
        onSome: ({ name }) => `, which takes precedence over ${name} (--credential env uses the variable)`
      })
      return Option.some<Chosen>({
        ...at,
        credential: stored.value,
        source: "stored login",
        why: `stored login of ${login.value.email}${both}`,
        login
      })
    }
    yield* warn(`The login for ${at.url} is recorded, but its credential is gone. Run \`ampoule login\` again.`)
  }
  if (requested === "stored" || Option.isNone(fromEnvironment)) return Option.none<Chosen>()
  const { name, value } = fromEnvironment.value
  const other = name.startsWith("AMPOULE_TOKEN") ? ", as AMPOULE_API_TOKEN is not set" : ""
  const why =
    requested === "env"
      ? `${name}, as --credential env asks`
      : `${name}, as there is no stored login for this server${other}`
  // The address of the last login counts only together with its credential, which is missing here.
  const serverAddress = at.urlFrom === "last login" ? yield* chooseAddress(options.url, Option.none()) : at
  return Option.some<Chosen>({ ...serverAddress, credential: value, source: name, why, login: Option.none() })
})

/** Credentials that the `ampoule run` around this command has and does not pass on. */
const withheld = (): ReadonlyArray<string> => {
  const names = variable(withheldVariable)?.split(",") ?? []
  return tokenVariables.flatMap((name) => [name, `${name}_FILE`]).filter((name) => names.includes(name))
}

export const noCredential = Effect.suspend(() => {
  const names = withheld()
  return names.length === 0
    ? new CliFailure({
        message: "No credential.",
        hint: "Run `ampoule login`, or set AMPOULE_API_TOKEN to an API token."
      })
    : new CliFailure({
        message: `No credential: this command runs inside \`ampoule run\`, which does not pass ${names.join(" and ")} on.`,
        hint: "Use `ampoule run --pass-credentials` for the outer one, or give this command a credential of its own."
      })
})

/** Credential of an ordinary command, checked before it is sent. */
export const requireCredential = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const choice = yield* choose(options)
  if (Option.isNone(choice)) return yield* noCredential
  const { credential, source, url } = choice.value
  if (!headerSafe(credential)) {
    return yield* new CliFailure({
      message: `${source} does not hold a credential: it contains spaces or characters that no credential has.`,
      hint: "Credentials look like amp_at_… and are one line of letters, digits and _."
    })
  }
  if (source === "stored login" && Option.isNone(options.credential)) {
    const shadowed = yield* environmentCredential
    if (Option.isSome(shadowed)) {
      yield* warn(
        `using the stored login, not ${shadowed.value.name}. --credential env or --credential stored chooses one, without this warning.`
      )
    }
  }
  if (isInTheClear(url)) {
    yield* warn(`${url} is not https: others on the network can read the credential and every value.`)
  }
  return choice.value
})

export interface ChosenLink extends Link {
  readonly chosen: Chosen
}

type OpenOptions = ConnectionOptions & Pick<LinkOptions, "impatient" | "silent" | "patience">

/** For commands that need no typed group of the contract. */
export const open = Effect.fnUntraced(function* (options: OpenOptions) {
  const choice = yield* requireCredential(options)
  const { credential, url } = choice
  const server = yield* link({
    url,
    credential,
    impatient: options.impatient === true,
    silent: options.silent === true,
    ...(options.patience === undefined ? {} : { patience: options.patience })
  })
  return { ...server, chosen: choice } satisfies ChosenLink
})

/** Longest silence of the server while another answer can be used. */
const silence = Duration.seconds(3)

/** The same connection for a request that has another answer if the server is silent. */
export const hurried = ({ chosen: { credential, url }, patience }: ChosenLink) =>
  link({ url, credential, impatient: true, patience: patience ?? { whole: deadline, silence } })
