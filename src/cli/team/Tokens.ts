/**
 * `ampoule tokens`: API tokens of a team, each command after an approval (`Management.ts`). The token's text is shown
 * once.
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type ApiToken, ApiTokensApi, type ApiTokenWithValue, CreateApiToken, Lifetime } from "#schema/ApiTokensApi.ts"
import { TokenId } from "#schema/Ids.ts"
import { allScopes } from "#schema/Scopes.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Management from "./Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import {
  json,
  list as printList,
  note,
  out,
  plain,
  stderrIsTerminal,
  stdoutIsTerminal
} from "#src/cli/terminal/Output.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as TokenFile from "#src/cli/connection/TokenFile.ts"

const api = HttpApi.make("ampoule").add(ApiTokensApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "apiTokens", httpClient: http })

const once =
  "The token's text is shown once: on the terminal, in a new file (--token-file), or alone on standard output (--stdout). Elsewhere it could end up in a log."

// --- destination of a token's text ---

const destination = {
  tokenFile: Options.optional(Shared.text("token-file", "file", "Write the token's text to this new file (mode 0600)")),
  stdout: Shared.flag("stdout", "Print the token's text on standard output; with --json, as the member value")
} as const
interface Destination {
  readonly tokenFile: Option.Option<string>
  readonly stdout: boolean
  readonly json: boolean
}

/** Chosen before the token is created, since a token that cannot be shown would be lost. */
const openDestination = Effect.fnUntraced(function* ({ json: asJson, stdout, tokenFile }: Destination) {
  if (Option.isSome(tokenFile) && stdout) return yield* usage("Use --token-file or --stdout, not both.")
  const onTerminal = stdoutIsTerminal() && stderrIsTerminal() && !asJson
  if (Option.isNone(tokenFile) && !stdout && !onTerminal) {
    return yield* usage("The token's text needs a destination: --token-file FILE or --stdout.", once)
  }
  const writeFile = Option.isSome(tokenFile) ? yield* TokenFile.claim(tokenFile.value) : undefined
  return Effect.fnUntraced(function* ({ value, ...record }: ApiTokenWithValue) {
    if (writeFile !== undefined) yield* writeFile(value)
    const file = Option.match(tokenFile, { onNone: () => ({}), onSome: (name) => ({ tokenFile: name }) })
    if (asJson) return yield* json({ ...record, ...file, ...(stdout ? { value } : {}) })
    yield* note(`Token ${plain(record.name)} (${plain(record.id)}), ${until(record)}.`)
    if (Option.isSome(tokenFile)) return yield* note(`Its text is in ${plain(tokenFile.value)}.`)
    if (!stdout) yield* note("Its text, shown only now:")
    yield* out(`${value}\n`)
  })
})

const until = ({ expiresAt }: Pick<ApiToken, "expiresAt">) =>
  expiresAt === null ? "without expiry" : `until ${plain(expiresAt)}`

// --- commands ---

const reachOf = ({ environments, projects }: ApiToken) => {
  const named = [...(projects ?? []).map(({ name }) => name), ...(environments ?? []).map(({ slug }) => slug)]
  return projects === null && environments === null
    ? "the whole team"
    : named.length === 0
      ? "nothing"
      : named.join(", ")
}

const all = ({ connection, team }: Management.Managed) =>
  Effect.flatMap(clientOf(connection), (client) =>
    Effect.map(call(connection, client.list({ path: { teamId: team.id } })), ({ items }) => items)
  )

const list = Help.command(
  "list",
  {
    says: "List the API tokens of a team, never their text.",
    more: [Management.approved],
    examples: ["ampoule tokens list"]
  },
  Management.options,
  Effect.fnUntraced(function* (options) {
    const items = yield* Management.inTeam(options, all)
    yield* printList(options, items, "The team has no API token.", [
      ["ID", ({ id }) => id],
      ["NAME", ({ name }) => name],
      ["LEVEL", ({ accessLevel }) => accessLevel],
      ["REACH", reachOf],
      ["CREATED BY", ({ createdBy }) => createdBy.email],
      ["UNTIL", ({ expiresAt }) => expiresAt ?? "never"],
      ["LAST USE", ({ lastUsedAt }) => lastUsedAt ?? "never"]
    ])
  })
)

const creation = {
  level: Options.choice("level", ["read", "write"]).pipe(
    Options.withDescription("read or write (default: read)"),
    Options.withDefault("read")
  ),
  projects: Options.repeated(Shared.text("project", "id-or-slug", "Only this project; may be repeated")),
  environments: Options.repeated(
    Shared.text("environment", "slug", "Only environments with this slug; writes to a protected one need its slug here")
  ),
  lifetime: Options.choice("lifetime", Lifetime.literals).pipe(
    Options.withDescription("1d, 7d, 30d, 90d or 1y (default: the longest that the plan allows)"),
    Options.optional
  ),
  mcpScopes: Options.repeated(
    Options.choice("mcp-scope", allScopes).pipe(Options.withDescription("Scope at /mcp; may be repeated"))
  )
} as const

const create = Help.command(
  "create",
  {
    says: "Create an API token.",
    more: [Management.approved, once],
    examples: [
      "ampoule tokens create ci --project shop --environment staging --lifetime 90d",
      "ampoule tokens create deploy --level write --environment production --token-file deploy.token",
      "ampoule tokens create ci --stdout | gh secret set AMPOULE_API_TOKEN"
    ]
  },
  { ...Management.options, ...creation, ...destination, name: Shared.argument("NAME", "Name, such as its purpose") },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const team = yield* Management.teamOf(session, options.team)
    const projects = yield* Effect.forEach(options.projects, (name) =>
      Target.withProject(session, { project: name }, Effect.succeed)
    )
    const payload = yield* Management.payloadOf(CreateApiToken)({
      name: options.name,
      accessLevel: options.level,
      ...(projects.length === 0 ? {} : { projects }),
      ...(options.environments.length === 0 ? {} : { environments: options.environments }),
      ...(Option.isSome(options.lifetime) ? { lifetime: options.lifetime.value } : {}),
      ...(options.mcpScopes.length === 0 ? {} : { mcpScopes: options.mcpScopes })
    })
    const deliver = yield* openDestination(options)
    const token = yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.create({ path: { teamId: team.id }, payload }))
      )
    )
    yield* deliver(token)
  }, Effect.scoped)
)

const decodeId = Schema.decodeUnknownOption(TokenId)

/** A token by id, or by a name that only one token has. */
const idOf = Effect.fnUntraced(function* (managed: Management.Managed, idOrName: string) {
  const id = decodeId(idOrName)
  if (Option.isSome(id)) return id.value
  const [token, ...others] = (yield* all(managed)).filter(({ name }) => name === idOrName)
  if (token !== undefined && others.length === 0) return yield* Effect.orDie(Schema.decodeUnknown(TokenId)(token.id))
  return yield* new CliFailure({
    message:
      token === undefined ? `The team has no token ${plain(idOrName)}.` : "Several tokens have this name: use the id.",
    hint: "`ampoule tokens list` shows the tokens."
  })
})

const tokenArgument = Shared.argument("TOKEN", "Id or name of the token")

const rotate = Help.command(
  "rotate",
  {
    says: "Replace a token by a new one with the same access and expiry. The old one stops working at once.",
    more: [Management.approved, once],
    examples: ["ampoule tokens rotate ci --token-file ci.token"]
  },
  { ...Management.options, ...destination, token: tokenArgument },
  Effect.fnUntraced(function* (options) {
    const deliver = yield* openDestination(options)
    const token = yield* Management.inTeam(options, (managed) =>
      Effect.gen(function* () {
        const tokenId = yield* idOf(managed, options.token)
        const client = yield* clientOf(managed.connection)
        return yield* call(managed.connection, client.rotate({ path: { teamId: managed.team.id, tokenId } }))
      })
    )
    yield* deliver(token)
  }, Effect.scoped)
)

const revoke = Help.command(
  "revoke",
  {
    says: "Revoke a token for good, from the next request on.",
    more: [Management.approved],
    examples: ["ampoule tokens revoke ci", "ampoule tokens revoke 01980a60-4b5c-7d6e-9f70-8192a3b4c5d6 --yes"]
  },
  { ...Management.options, yes: Shared.yes, token: tokenArgument },
  Effect.fnUntraced(function* (options) {
    if (!options.yes && !(yield* Ask.confirm(`Revoke ${plain(options.token)}?`)))
      return yield* note("Nothing was revoked.")
    const id = yield* Management.inTeam(options, (managed) =>
      Effect.gen(function* () {
        const tokenId = yield* idOf(managed, options.token)
        const client = yield* clientOf(managed.connection)
        yield* call(managed.connection, client.revoke({ path: { teamId: managed.team.id, tokenId } }))
        return tokenId
      })
    )
    yield* options.json ? json({ id, revoked: true }) : note("Revoked.")
  })
)

const commands = [list, create, rotate, revoke] as const
export const tokens = Help.described(
  Command.make("tokens").pipe(Command.withSubcommands(commands)),
  { says: "List, create, rotate and revoke the API tokens of a team." },
  commands,
  true
)
