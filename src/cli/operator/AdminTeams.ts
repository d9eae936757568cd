/** `ampoule admin`: management of teams by the operator, on the server's machine. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import { Name } from "#schema/Values.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain } from "#src/cli/terminal/Output.ts"
import { storedName } from "./AdminAccounts.ts"
import { listCommand, where } from "./AdminList.ts"
import { adminPrograms, type TeamAccount } from "./ServerSide.ts"

const recordOf = ({ createdAt, ...team }: TeamAccount) => ({ ...team, createdAt: createdAt.toISOString() })

const teams = listCommand({
  name: "teams",
  says: "List the teams of this server, with their owners.",
  examples: ["ampoule admin teams", "ampoule admin teams --search shop --json"],
  noun: "teams",
  searched: "name",
  read: (programs, query) => programs.teams(query),
  recordOf,
  columns: [
    ["ID", (team) => team.id],
    ["NAME", (team) => `${team.name}${team.suspended ? " (suspended)" : ""}`],
    ["MEMBERS", (team) => String(team.members)],
    ["PROJECTS", (team) => String(team.projects)],
    ["OWNERS", (team) => team.owners.join(", ")]
  ]
})

const decodeName = Schema.decodeUnknown(Name)

const createTeam = Help.command(
  "create-team",
  {
    says: "Create a team, owned by an account of this server.",
    more: ["With AMPOULE_TEAM_CREATION=operators this is the only way to create a team.", where],
    examples: ["ampoule admin create-team Platform --owner ada@example.com"]
  },
  {
    owner: Shared.text("owner", "email", "E-mail address of the account that owns it, or its id"),
    json: Shared.json,
    name: Shared.argument("NAME", "Name of the team")
  },
  Effect.fnUntraced(function* (options) {
    const name = yield* Effect.mapError(decodeName(options.name), () => usage("NAME takes 1 to 100 characters."))
    const owner = yield* storedName("--owner", options.owner)
    const programs = yield* adminPrograms
    const team = yield* programs.createTeam(name, owner)
    if (options.json) return yield* json({ team: recordOf(team) })
    yield* note(`The team ${plain(team.name)} was created: ${plain(team.id)}.`)
  })
)

const id = Shared.argument("TEAM", "Id of the team, as `ampoule admin teams` lists it")
const idOf = (text: string) =>
  uuidPattern.test(text) ? Effect.succeed(text.toLowerCase()) : usage("TEAM takes the id of a team.")

const suspendTeam = Help.command(
  "suspend-team",
  {
    says: "Suspend a team: all access to it stops.",
    more: [
      "Sessions, logins, agents and tokens cannot reach anything of the team. Everything returns when the team is resumed.",
      where
    ],
    examples: ["ampoule admin suspend-team 01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30 --yes"]
  },
  { yes: Shared.yes, json: Shared.json, id },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const team = yield* idOf(options.id)
    const question = `Suspend the team ${team}? Its programs will receive no secrets.`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was changed.")
    const suspended = yield* programs.suspendTeam(team, true)
    if (options.json) return yield* json({ team: recordOf(suspended) })
    yield* note(`${plain(suspended.name)} was suspended.`)
  })
)

const resumeTeam = Help.command(
  "resume-team",
  {
    says: "Resume a suspended team.",
    more: [where],
    examples: ["ampoule admin resume-team 01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"]
  },
  { json: Shared.json, id },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const team = yield* programs.suspendTeam(yield* idOf(options.id), false)
    if (options.json) return yield* json({ team: recordOf(team) })
    yield* note(`${plain(team.name)} was resumed.`)
  })
)

const removeTeam = Help.command(
  "remove-team",
  {
    says: "Remove a team, with its projects and secrets.",
    more: [
      "All members leave it, and all of its credentials are revoked. Its secrets are deleted, and purged after 30 days. Its audit trail stays.",
      where
    ],
    examples: ["ampoule admin remove-team 01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"]
  },
  { yes: Shared.yes, json: Shared.json, id },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const team = yield* idOf(options.id)
    const question = `Remove the team ${team} with all of its secrets, for good?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was removed.")
    const removed = yield* programs.removeTeam(team)
    if (options.json) return yield* json({ removed: recordOf(removed) })
    yield* note(`The team ${plain(removed.name)} was removed.`)
  })
)

export const teamCommands = [teams, createTeam, suspendTeam, resumeTeam, removeTeam] as const
