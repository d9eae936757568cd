/** `ampoule setup`: creates the first owner of an instance without a browser, and optionally a project and a token. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { randomBytes } from "node:crypto"
import { ApiTokensApi } from "#schema/ApiTokensApi.ts"
import { TeamId } from "#schema/Ids.ts"
import { ManageProjectsApi } from "#schema/ManageProjectsApi.ts"
import { SessionApi, Setup, SetupApi } from "#schema/SessionApi.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call, connect, type Connection } from "#src/cli/connection/Client.ts"
import { chooseAddress, fromVariable } from "#src/cli/connection/Choice.ts"
import { variable } from "#src/cli/terminal/Environment.ts"
import { CliFailure, withHint, usage } from "#src/cli/terminal/Failure.ts"
import { decodeUtf8, readIfThere } from "#src/cli/terminal/Folders.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import * as TokenFile from "#src/cli/connection/TokenFile.ts"
import { json, note, out, plain, stdoutIsTerminal } from "#src/cli/terminal/Output.ts"
import { serverPrograms } from "./ServerSide.ts"

const setupApi = HttpApi.make("ampoule").add(SetupApi)
const sessionApi = HttpApi.make("ampoule").add(SessionApi)
const projectsApi = HttpApi.make("ampoule").add(ManageProjectsApi)
const tokensApi = HttpApi.make("ampoule").add(ApiTokensApi)

const options = {
  url: Shared.url,
  json: Shared.json,
  email: Shared.text("email", "text", "E-mail address of the owner"),
  name: Shared.text("name", "text", "Name of the owner"),
  team: Shared.text("team", "text", "Name of the first team"),
  generatePassword: Shared.flag(
    "generate-password",
    "Generate a password and print it once (default: ask for it, or read standard input)"
  ),
  project: Options.optional(
    Shared.text("project", "text", "Also create a project of this name, with development, staging and production")
  ),
  token: Shared.flag("token", "Also create an API token and print it, alone, on standard output"),
  tokenFile: Options.optional(
    Shared.text(
      "token-file",
      "file",
      "Also create an API token and write it to this new file, for AMPOULE_API_TOKEN_FILE"
    )
  ),
  tokenName: Options.text("token-name").pipe(
    Options.withDefault("setup"),
    Options.withDescription("Name of the token")
  ),
  access: Options.choice("access", ["read", "write"]).pipe(
    Options.withDefault("write" as const),
    Options.withDescription("Access level of the token")
  ),
  lifetime: Options.choice("lifetime", ["1d", "7d", "30d", "90d", "1y"]).pipe(
    Options.optional,
    Options.withDescription("Lifetime of the token (default: the longest that the plan allows)")
  )
} as const

const codeInUrl = (text: string): Option.Option<Redacted.Redacted> =>
  Option.fromNullable(URL.canParse(text) ? new URL(text).searchParams.get("code") : null).pipe(
    Option.map((code) => Redacted.make(code))
  )

/**
 * Code of the operator's setting, else the one that the server left in its data folder
 * (docs/contract/session-routes.md).
 */
const setupCode = Effect.gen(function* () {
  const preset = yield* fromVariable("AMPOULE_SETUP_CODE")
  if (Option.isSome(preset)) return Option.some(preset.value.value)
  const path = yield* Path.Path
  const file = path.resolve(variable("AMPOULE_DATA_DIR") ?? ".ampoule", "setup-url")
  const text = Option.flatMap(yield* readIfThere(file, "the setup address"), decodeUtf8)
  return Option.flatMap(text, (t) => codeInUrl(t.trim()))
})

const noSetupCode = new CliFailure({
  message: "No setup code: the server printed it at its first start.",
  hint: "Run this beside its data folder (AMPOULE_DATA_DIR), or set AMPOULE_SETUP_CODE."
})
const wrongSetupCode = new CliFailure({
  message: "The server does not accept the setup code.",
  hint: "It is in the address that the server printed at its start, unless AMPOULE_SETUP_CODE sets it."
})

/** A running server, else one of our own with the configured database, until setup ends. */
const server = Effect.fnUntraced(function* (urlOption: Option.Option<string>) {
  const { url, urlFrom } = yield* chooseAddress(urlOption, Option.none())
  const client = yield* HttpClient.HttpClient
  const alive = yield* client.get(`${url}/health/live`).pipe(
    Effect.map((response) => response.status === 200),
    Effect.timeoutTo({ duration: "3 seconds", onSuccess: (ok) => ok, onTimeout: () => false }),
    Effect.orElseSucceed(() => false)
  )
  if (alive) return { url, setupCode: yield* setupCode, staying: true }
  if (urlFrom !== "default") return yield* new CliFailure({ message: `No Ampoule server answers at ${url}.` })
  const ownServer = yield* (yield* serverPrograms).ownServer
  return { url: ownServer.url, setupCode: Option.some(ownServer.setupCode), staying: false }
})

/** 27 characters of 62, about 160 bits. */
const generatePassword = (): Redacted.Redacted => {
  const letters = [...randomBytes(64)].filter((byte) => byte < 248).map((byte) => byte % 62)
  const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  return Redacted.make(
    letters
      .slice(0, 27)
      .map((i) => alphabet[i])
      .join("")
  )
}

const cookieOf = (response: HttpClientResponse.HttpClientResponse): Option.Option<Redacted.Redacted> => {
  const cookie = Object.values(response.cookies.cookies).find(({ name }) => name.endsWith("ampoule_session"))
  return Option.map(Option.fromNullable(cookie), ({ name, valueEncoded }) => Redacted.make(`${name}=${valueEncoded}`))
}

const decodeSetup = Schema.decodeUnknownOption(Setup)
const decodeTeam = Schema.decodeUnknown(TeamId)

type SetupOptions = Command.Command.ParseConfig<typeof options>

interface Instance {
  readonly url: string
  readonly setupCode: Option.Option<Redacted.Redacted>
}

/**
 * Creates the first owner with their team, and returns the cookie of the owner's session. Without a code the request is
 * sent anyway: an instance that is set up reports this whatever the code is.
 */
const createOwner = Effect.fnUntraced(function* (
  { setupCode, url }: Instance,
  owner: Omit<typeof Setup.Type, "setupCode">
) {
  const connection = yield* connect({ url })
  const client = yield* HttpApiClient.group(setupApi, { group: "setup", httpClient: connection.http })
  const payload = { ...owner, setupCode: Option.getOrElse(setupCode, () => Redacted.make("-")) }
  const [{ team, user }, response] = yield* Effect.mapError(
    call(connection, client.complete({ payload, withResponse: true })),
    (error) => {
      if (error._tag !== "ServerRefused") return error
      if (error.status === 401) return Option.isNone(setupCode) ? noSetupCode : wrongSetupCode
      if (error.code !== "SETUP_ALREADY_DONE") return error
      const hint = `Nothing was changed. \`ampoule login\` logs this machine in; API tokens are created at ${url}/app, and an owner invites others there.`
      return withHint(error, hint)
    }
  )
  return { team, user, cookie: cookieOf(response) }
})

/** Session of the owner, for the project and the token. */
const openSession = Effect.fnUntraced(function* (url: string, cookie: Option.Option<Redacted.Redacted>) {
  if (Option.isSome(cookie)) return yield* connect({ url, cookie: cookie.value })
  return yield* new CliFailure({ message: "The server is set up, but its response did not include a session." })
})

const createProject = Effect.fnUntraced(function* (session: Connection, teamId: TeamId, name: string) {
  const client = yield* HttpApiClient.group(projectsApi, { group: "manageProjects", httpClient: session.http })
  return yield* call(session, client.create({ path: { teamId }, payload: { name } }))
})

const createToken = Effect.fnUntraced(function* (session: Connection, teamId: TeamId, options: SetupOptions) {
  const client = yield* HttpApiClient.group(tokensApi, { group: "apiTokens", httpClient: session.http })
  const lifetime = Option.getOrUndefined(options.lifetime)
  const payload = {
    name: options.tokenName,
    accessLevel: options.access,
    ...(lifetime === undefined ? {} : { lifetime })
  }
  return yield* call(session, client.create({ path: { teamId }, payload }))
})

const signOut = Effect.fnUntraced(function* (session: Connection) {
  const client = yield* HttpApiClient.group(sessionApi, { group: "session", httpClient: session.http })
  yield* Effect.ignore(call(session, client.signOut()))
})

const decodeOwner = (options: SetupOptions, password: Redacted.Redacted) =>
  Effect.mapError(
    decodeSetup({
      email: options.email,
      name: options.name,
      teamName: options.team,
      password: Redacted.value(password),
      setupCode: "-"
    }),
    () =>
      usage(
        "The e-mail address, a name or the password is not acceptable.",
        "Names have 1 to 100 characters; a password has 12 to 256 characters (--generate-password generates one)."
      )
  )

const runSetup = Effect.fnUntraced(function* (options: SetupOptions) {
  yield* decodeOwner(options, generatePassword())
  const instance = yield* server(options.url)
  const promptsForPassword = !options.generatePassword && Option.isSome(instance.setupCode)
  const password = promptsForPassword ? yield* Ask.newPassword : generatePassword()
  const owner = yield* decodeOwner(options, password)
  const keepToken =
    Option.isSome(options.tokenFile) && Option.isSome(instance.setupCode)
      ? yield* TokenFile.claim(options.tokenFile.value)
      : undefined
  const { cookie, team, user } = yield* createOwner(instance, owner)
  yield* note(`${user.email} owns ${team.name}${instance.staying ? ` on ${instance.url}` : ""}.`)
  if (options.generatePassword && !options.json) {
    yield* note(`Password, shown only now: ${Redacted.value(password)}`)
  }
  const session = yield* openSession(instance.url, cookie)
  const teamId = yield* call(session, decodeTeam(team.id))
  const project = Option.isNone(options.project)
    ? undefined
    : yield* createProject(session, teamId, options.project.value)
  if (project !== undefined) yield* note(`Project ${project.slug} was created (${project.id}).`)
  const token = options.token || keepToken !== undefined ? yield* createToken(session, teamId, options) : undefined
  if (token !== undefined && keepToken !== undefined) yield* keepToken(token.value)
  yield* signOut(session)

  if (options.json) {
    return yield* json({
      ...(instance.staying ? { url: instance.url } : {}),
      user,
      team,
      ...(options.generatePassword ? { password: Redacted.value(password) } : {}),
      ...(project === undefined ? {} : { project }),
      ...(token === undefined ? {} : { token })
    })
  }
  if (token !== undefined) {
    const inFile = Option.match(options.tokenFile, { onNone: () => [], onSome: (file) => [`in ${plain(file)}`] })
    const printed = options.token ? [stdoutIsTerminal() ? "shown only now:" : "on standard output"] : []
    const until = `until ${token.expiresAt ?? "revoked"}`
    yield* note(`API token ${token.name} (${token.accessLevel}), ${[until, ...inFile, ...printed].join(", ")}`)
    if (options.token) yield* out(`${token.value}\n`)
  }
}, Effect.scoped)

export const setup = Help.command(
  "setup",
  {
    says: "Set a new instance up from the command line: the first owner and their team, and optionally a project and an API token.",
    more: [
      "Uses the running server. Without --url and without a server on this machine, it opens the configured database itself. The setup code is read from AMPOULE_SETUP_CODE or the data folder."
    ],
    examples: [
      "ampoule setup --email ada@example.com --name Ada --team Platform",
      "ampoule setup --email ada@example.com --name Ada --team Platform --generate-password --project demo --token-file .ampoule/token"
    ]
  },
  options,
  runSetup
)
