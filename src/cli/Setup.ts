/** `ampoule setup`: the first owner of an instance without a browser; also a first project and a first token. */
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
import * as Ask from "./Ask.ts"
import { call, connect, type Connection } from "./Client.ts"
import { address, fromVariable } from "./Credential.ts"
import { variable } from "./Environment.ts"
import { CliFailure, usage } from "./Failure.ts"
import { decodeUtf8, readIfThere } from "./Folders.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { json, note, out, stdoutIsTerminal } from "./Output.ts"
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
    "Make a password and print it once (else it is asked for, or read from standard input)"
  ),
  project: Options.optional(
    Shared.text("project", "text", "Also create a project of this name, with development, staging and production")
  ),
  token: Shared.flag("token", "Also create an API token and print it, alone, on standard output"),
  tokenName: Options.text("token-name").pipe(Options.withDefault("setup"), Options.withDescription("Its name")),
  access: Options.choice("access", ["read", "write"]).pipe(
    Options.withDefault("write" as const),
    Options.withDescription("Its access level")
  ),
  lifetime: Options.choice("lifetime", ["1d", "7d", "30d", "90d", "1y"]).pipe(
    Options.optional,
    Options.withDescription("How long it lives; else the longest that the plan allows")
  )
} as const

const codeInUrl = (text: string): Option.Option<Redacted.Redacted> =>
  Option.fromNullable(URL.canParse(text) ? new URL(text).searchParams.get("code") : null).pipe(
    Option.map((code) => Redacted.make(code))
  )

/** Preset by the operator, else as the server left it in its data folder (docs/contract/session-routes.md). */
const setupCode = Effect.gen(function* () {
  const preset = yield* fromVariable("AMPOULE_SETUP_CODE")
  if (Option.isSome(preset)) return preset.value.value
  const path = yield* Path.Path
  const file = path.resolve(variable("AMPOULE_DATA_DIR") ?? ".ampoule", "setup-url")
  const text = Option.flatMap(yield* readIfThere(file, "the setup address"), decodeUtf8)
  const code = Option.flatMap(text, (t) => codeInUrl(t.trim()))
  if (Option.isSome(code)) return code.value
  return yield* new CliFailure({
    message: "No setup code: the server printed it at its first start.",
    hint: "Run this where its data folder is (AMPOULE_DATA_DIR), or set AMPOULE_SETUP_CODE."
  })
})

/** A server that is there already, else one of our own on the configured database, for as long as this takes. */
const server = Effect.fnUntraced(function* (given: Option.Option<string>) {
  const { url, urlFrom } = yield* address(given, Option.none())
  const client = yield* HttpClient.HttpClient
  const alive = yield* client.get(`${url}/health/live`).pipe(
    Effect.map((response) => response.status === 200),
    Effect.timeoutTo({ duration: "3 seconds", onSuccess: (ok) => ok, onTimeout: () => false }),
    Effect.orElseSucceed(() => false)
  )
  if (alive) return { url, setupCode: yield* setupCode, staying: true }
  if (urlFrom !== "default") return yield* new CliFailure({ message: `No Ampoule server answers at ${url}.` })
  return { ...(yield* (yield* serverPrograms).ownServer), staying: false }
})

/** 27 characters of 62, about 160 bits. */
const generated = (): Redacted.Redacted => {
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
  readonly setupCode: Redacted.Redacted
}

/** The first owner and their team, with the cookie of the owner's session. */
const createOwner = Effect.fnUntraced(function* (instance: Instance, owner: Omit<typeof Setup.Type, "setupCode">) {
  const connection = yield* connect({ url: instance.url })
  const client = yield* HttpApiClient.group(setupApi, { group: "setup", httpClient: connection.http })
  const [{ team, user }, response] = yield* call(
    connection,
    client.complete({ payload: { ...owner, setupCode: instance.setupCode }, withResponse: true })
  ).pipe(
    Effect.catchIf(
      (error) => error._tag === "ServerRefused" && error.status === 401,
      () =>
        new CliFailure({
          message: "The server does not accept the setup code.",
          hint: "It is in the address that the server printed at its start, unless AMPOULE_SETUP_CODE presets it."
        })
    )
  )
  return { team, user, cookie: cookieOf(response) }
})

/** A session of the owner, for what the options ask besides. */
const openSession = Effect.fnUntraced(function* (url: string, cookie: Option.Option<Redacted.Redacted>) {
  if (Option.isSome(cookie)) return yield* connect({ url, cookie: cookie.value })
  return yield* new CliFailure({ message: "The server is set up, but its answer did not include a session." })
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

const runSetup = Effect.fnUntraced(function* (options: SetupOptions) {
  const password = options.generatePassword ? generated() : yield* Ask.newPassword
  const request = { email: options.email, name: options.name, teamName: options.team }
  const owner = decodeSetup({ ...request, password: Redacted.value(password), setupCode: "-" })
  if (Option.isNone(owner)) {
    return yield* usage(
      "The e-mail address, a name or the password is not acceptable.",
      "Names have 1 to 100 characters; a password has 12 to 256 characters (--generate-password makes one)."
    )
  }
  const instance = yield* server(options.url)
  const { cookie, team, user } = yield* createOwner(instance, owner.value)
  yield* note(`${user.email} owns ${team.name}${instance.staying ? ` on ${instance.url}` : ""}.`)
  if (options.generatePassword && !options.json) {
    yield* note(`Password, shown only now: ${Redacted.value(password)}`)
  }
  const session = yield* openSession(instance.url, cookie)
  const teamId = yield* call(session, decodeTeam(team.id))
  const project = Option.isNone(options.project)
    ? undefined
    : yield* createProject(session, teamId, options.project.value)
  if (project !== undefined) yield* note(`Project ${project.slug} is created (${project.id}).`)
  const token = options.token ? yield* createToken(session, teamId, options) : undefined
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
    const where = stdoutIsTerminal() ? ", shown only now:" : ", is on standard output."
    yield* note(`API token ${token.name} (${token.accessLevel}), until ${token.expiresAt ?? "revoked"}${where}`)
    yield* out(`${token.value}\n`)
  }
}, Effect.scoped)

export const setup = Help.command(
  "setup",
  {
    says: "Set a new instance up from the command line: the first owner, their team, and what --project and --token ask for.",
    more: [
      "Uses the running server; when none is given and none runs here, it opens the configured database itself. The setup code is read from AMPOULE_SETUP_CODE or the data folder."
    ],
    examples: [
      "ampoule setup --email ada@example.com --name Ada --team Platform",
      'export AMPOULE_API_TOKEN="$(ampoule setup --email ada@example.com --name Ada --team Platform --generate-password --project demo --token)"'
    ]
  },
  options,
  runSetup
)
