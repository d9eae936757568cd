/**
 * Commands that manage a team (docs/contract/management.md): the login asks, its person approves in the browser, and what
 * comes of it stays in the memory of this process, which gives it back when the command is done.
 */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { type TeamId, TeamId as TeamIdSchema } from "#schema/Ids.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call, connect, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import * as Device from "#src/cli/connection/Device.ts"
import { type CliError, CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, plain, stdinIsTerminal } from "#src/cli/terminal/Output.ts"
import { identity } from "#src/cli/connection/Routes.ts"

export interface ManagingOptions extends Credential.ConnectionOptions {
  readonly team: Option.Option<string>
  readonly noBrowser: boolean
}

/** What the help of these commands says of it. */
export const approved = "It needs your approval in the browser, each time: no stored credential manages anything."

export const options = {
  ...Shared.connection,
  team: Options.optional(
    Shared.text("team", "name-or-id", "Team to manage; needed when you are an owner or admin of several")
  ),
  noBrowser: Shared.noBrowser,
  json: Shared.json
} as const

interface Team {
  readonly id: TeamId
  readonly name: string
}

/** What a command does with the team; `connection` manages it and reads nothing else. */
export interface Managed {
  readonly connection: Connection
  readonly team: Team
}

const decodeTeam = Schema.decodeSync(TeamIdSchema)
const manages = ({ role }: { readonly role: string }) => role === "owner" || role === "admin"

/** The team that is named, or the only one that the person manages. */
export const teamOf = Effect.fnUntraced(function* (session: Connection, wanted: Option.Option<string>) {
  const client = yield* identity(session)
  const { teams } = yield* call(session, client.me())
  if (Option.isSome(wanted)) {
    const named = teams.filter(({ id, name }) => id === wanted.value.toLowerCase() || name === wanted.value)
    const [team] = named
    if (team === undefined) {
      return yield* new CliFailure({
        message: `This login has no team ${plain(wanted.value)}.`,
        hint: teams.length === 0 ? "It has none." : `It has: ${teams.map(({ name }) => plain(name)).join(", ")}.`
      })
    }
    if (named.length > 1)
      return yield* usage("Several teams have this name.", "Say --team ID: `ampoule whoami` shows it.")
    if (!manages(team)) return yield* notManaged(team)
    return { id: decodeTeam(team.id), name: team.name }
  }
  const own = teams.filter(manages)
  const [first, ...others] = own
  if (first === undefined) return yield* notManaged(teams[0])
  if (others.length === 0) return { id: decodeTeam(first.id), name: first.name }
  if (!stdinIsTerminal()) return yield* usage("Which team?", "Say --team NAME-OR-ID.")
  const seen = own.map(({ name }) => name)
  const names = own.map(({ id, name }) => (seen.filter((other) => other === name).length > 1 ? String(id) : name))
  const chosen = yield* Ask.oneOf("Team", [names[0] ?? first.name, ...names.slice(1)])
  const team = own[names.indexOf(chosen)] ?? first
  return { id: decodeTeam(team.id), name: team.name }
})

const notManaged = (team: { readonly name: string; readonly role: string } | undefined) =>
  new CliFailure({
    message:
      team === undefined
        ? "This login has no team."
        : `You are a ${plain(team.role)} of ${plain(team.name)}: owners and admins manage a team.`,
    hint: "Ask an owner or admin of the team."
  })

const begin = Effect.fnUntraced(function* (session: Connection, team: Team, asked: { readonly noBrowser: boolean }) {
  const client = yield* Device.client(session)
  const started = yield* call(session, client.startManagement({ payload: { teamId: team.id, host: Device.host() } }))
  yield* note(`Managing ${plain(team.name)} needs your approval: for this command alone, and 10 minutes at most.`)
  yield* Device.show(started, asked)
  const { credential } = yield* Device.wait(session, started, "The command")
  return { connection: yield* connect({ url: session.url, credential }), team } satisfies Managed
})

/** What has ended by itself needs no end. */
const end = ({ connection }: Managed) =>
  Effect.flatMap(Device.client(connection), (client) => Effect.ignore(call(connection, client.endManagement())))

/** Asks for the approval, does it, and gives the approval back, whatever came of it. */
export const managing = <A, E extends CliError, R>(
  session: Connection,
  team: Team,
  asked: { readonly noBrowser: boolean },
  use: (managed: Managed) => Effect.Effect<A, E, R>
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(restore(begin(session, team, asked)), (managed) =>
      Effect.ensuring(restore(use(managed)), end(managed))
    )
  )

/** For a command about a team. */
export const inTeam = <A, E extends CliError, R>(
  asked: ManagingOptions,
  use: (managed: Managed) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const session = yield* Credential.open(asked)
    const team = yield* teamOf(session, asked.team)
    return yield* managing(session, team, asked, use)
  })

/** What the server would refuse is refused before anybody approves anything. */
export const payloadOf =
  <A, I>(schema: Schema.Schema<A, I>) =>
  (given: object): Effect.Effect<A, CliFailure> =>
    Effect.mapError(Schema.decodeUnknown(schema)(given), (error) => {
      const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
      const field = issue?.path.map(String).join(".") ?? ""
      // Our own sentences begin so; any other quotes what was given.
      const why = issue?.message.startsWith("must ") === true ? issue.message : "is not acceptable"
      return usage(`${field === "" ? "This" : field} ${why}.`)
    })
