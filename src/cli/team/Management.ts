/**
 * Commands that manage a team (docs/contract/management.md). The login requests an approval, which its owner grants in
 * the browser. The resulting credential stays in this process's memory, and is revoked when the command ends.
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

/** Paragraph in the help of these commands. */
export const approved = "Each run needs your approval in the browser: no stored credential can manage a team."

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

/** Team and connection of a command. `connection` manages the team, and reads nothing else. */
export interface Managed {
  readonly connection: Connection
  readonly team: Team
}

const decodeTeam = Schema.decodeSync(TeamIdSchema)
const manages = ({ role }: { readonly role: string }) => role === "owner" || role === "admin"

/** Team of the option, or the only one that the user manages. */
export const teamOf = Effect.fnUntraced(function* (session: Connection, option: Option.Option<string>) {
  const client = yield* identity(session)
  const { teams } = yield* call(session, client.me())
  if (Option.isSome(option)) {
    const matches = teams.filter(({ id, name }) => id === option.value.toLowerCase() || name === option.value)
    const [team] = matches
    if (team === undefined) {
      return yield* new CliFailure({
        message: `This login does not belong to a team ${plain(option.value)}.`,
        hint:
          teams.length === 0
            ? "It belongs to no team."
            : `It belongs to: ${teams.map(({ name }) => plain(name)).join(", ")}.`
      })
    }
    if (matches.length > 1)
      return yield* usage("Several teams have this name.", "Use --team ID: `ampoule whoami --json` shows the id.")
    if (!manages(team)) return yield* notManaged(team)
    return { id: decodeTeam(team.id), name: team.name }
  }
  const managed = teams.filter(manages)
  const [first, ...others] = managed
  if (first === undefined) return yield* notManaged(teams[0])
  if (others.length === 0) return { id: decodeTeam(first.id), name: first.name }
  if (!stdinIsTerminal()) return yield* usage("Which team?", "Use --team NAME-OR-ID.")
  const allNames = managed.map(({ name }) => name)
  const names = managed.map(({ id, name }) =>
    allNames.filter((other) => other === name).length > 1 ? String(id) : name
  )
  const chosen = yield* Ask.oneOf("Team", [names[0] ?? first.name, ...names.slice(1)])
  const team = managed[names.indexOf(chosen)] ?? first
  return { id: decodeTeam(team.id), name: team.name }
})

const notManaged = (team: { readonly name: string; readonly role: string } | undefined) =>
  new CliFailure({
    message:
      team === undefined
        ? "This login does not belong to a team."
        : `You are a ${plain(team.role)} of ${plain(team.name)}: owners and admins manage a team.`,
    hint: "Ask an owner or admin of the team."
  })

const begin = Effect.fnUntraced(function* (session: Connection, team: Team, browser: { readonly noBrowser: boolean }) {
  const client = yield* Device.client(session)
  const started = yield* call(session, client.startManagement({ payload: { teamId: team.id, host: Device.host() } }))
  yield* note(`Managing ${plain(team.name)} needs your approval: for this command alone, and 10 minutes at most.`)
  yield* Device.show(started, browser)
  const { credential } = yield* Device.wait(session, started, "The command")
  return { connection: yield* connect({ url: session.url, credential }), team } satisfies Managed
})

/** Ignores failures: an approval that has expired needs no end. */
const end = ({ connection }: Managed) =>
  Effect.flatMap(Device.client(connection), (client) => Effect.ignore(call(connection, client.endManagement())))

/** Requests the approval, runs `use` with it, and revokes it in any case. */
export const managing = <A, E extends CliError, R>(
  session: Connection,
  team: Team,
  browser: { readonly noBrowser: boolean },
  use: (managed: Managed) => Effect.Effect<A, E, R>
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(restore(begin(session, team, browser)), (managed) =>
      Effect.ensuring(restore(use(managed)), end(managed))
    )
  )

/** For a command about a team. */
export const inTeam = <A, E extends CliError, R>(
  options: ManagingOptions,
  use: (managed: Managed) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const session = yield* Credential.open(options)
    const team = yield* teamOf(session, options.team)
    return yield* managing(session, team, options, use)
  })

/** Rejects invalid input before the user approves anything. */
export const payloadOf =
  <A, I>(schema: Schema.Schema<A, I>) =>
  (input: object): Effect.Effect<A, CliFailure> =>
    Effect.mapError(Schema.decodeUnknown(schema)(input), (error) => {
      const [issue] = ParseResult.ArrayFormatter.formatErrorSync(error)
      const field = issue?.path.map(String).join(".") ?? ""
      // Only our own messages begin with "must"; all others quote the input.
      const why = issue?.message.startsWith("must ") === true ? issue.message : "is not acceptable"
      return usage(`${field === "" ? "This" : field} ${why}.`)
    })

/** Text for an action that waits for a second person. */
export const waits = ({ requestId }: { readonly requestId: string }): string =>
  `This waits until another owner or admin approves it, on the dashboard's page of requests (${plain(requestId)}). \`ampoule second-person list\` shows it.`
