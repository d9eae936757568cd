/** `ampoule admin`: management of people and their accounts by the operator, on the server's machine. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Email } from "#schema/Values.ts"
import { accounts, recordOf, storedName, teamsOf } from "./AdminAccounts.ts"
import { listCommand, where } from "./AdminList.ts"
import { teamCommands } from "./AdminTeams.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, out, plain } from "#src/cli/terminal/Output.ts"
import { adminPrograms } from "./ServerSide.ts"

const email = Shared.argument("EMAIL", "E-mail address of the account, or its id")
const decodeEmail = Schema.decodeUnknownOption(Email)

const evenLastOwner = Shared.flag("even-last-owner", "Allow this even if a team loses its last active owner")

const users = listCommand({
  name: "users",
  says: "List the accounts of this server and the teams that they belong to.",
  examples: ["ampoule admin users", "ampoule admin users --search @example.com --json"],
  noun: "accounts",
  searched: "e-mail address",
  read: (programs, query) => programs.users({ ...query, unvouched: false }),
  recordOf,
  columns: [
    ["E-MAIL", (account) => account.email],
    ["NAME", (account) => account.name],
    ["SINCE", (account) => account.createdAt.toISOString().slice(0, 10)],
    ["TEAMS", (account) => teamsOf(account)]
  ]
})

const resetLink = Help.command(
  "reset-link",
  {
    says: "Print a link that sets a new password: for an owner who lost theirs.",
    more: [
      "Using the link ends the person's sessions, CLI logins and connected agents, and revokes the API tokens that they created.",
      where
    ],
    examples: ["ampoule admin reset-link ada@example.com"]
  },
  { json: Shared.json, email },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const link = yield* programs.resetLink(yield* storedName("EMAIL", options.email))
    const url = Redacted.value(link.url)
    if (options.json) return yield* json({ resetUrl: url, expiresAt: link.expiresAt.toISOString() })
    yield* out(`${url}\n`)
    yield* note(
      `The link sets a new password, once, until ${link.expiresAt.toISOString()}. It opens the account: give it only to that person.`
    )
  })
)

const changeEmail = Help.command(
  "change-email",
  {
    says: "Change the e-mail address of an account, for a person who cannot do it themselves.",
    more: [
      "The person signs in with the new address from then on, and their sessions end. The old address receives a notice. First make sure that the request comes from this person.",
      where
    ],
    examples: [
      "ampoule admin change-email ada@example.com ada.lovelace@example.com",
      "ampoule admin change-email ada@example.com ada.lovelace@example.com --yes"
    ]
  },
  {
    yes: Shared.yes,
    json: Shared.json,
    email,
    to: Shared.argument("NEW", "New e-mail address of the account")
  },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const address = yield* storedName("EMAIL", options.email)
    const to = yield* Effect.mapError(decodeEmail(options.to), () => usage("NEW takes an e-mail address."))
    const question = `Change the address of the account ${plain(address)} to ${plain(to)}?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was changed.")
    const account = yield* programs.changeEmail(address, to)
    if (options.json) return yield* json({ account: recordOf(account) })
    yield* note(`${plain(account.email)} now signs in to the account, instead of ${plain(address)}.`)
  })
)

const removeFactor = Help.command(
  "remove-factor",
  {
    says: "Remove a person's second factor, after they lost the phone and the recovery codes.",
    more: [
      "Afterwards the password alone signs the person in, and their sessions end. First make sure that the request comes from this person.",
      where
    ],
    examples: ["ampoule admin remove-factor ada@example.com", "ampoule admin remove-factor ada@example.com --yes"]
  },
  { yes: Shared.yes, json: Shared.json, email },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const address = yield* storedName("EMAIL", options.email)
    const question = `Remove the second factor of ${plain(address)}? Afterwards their password alone signs them in.`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was removed.")
    const account = yield* programs.removeFactor(address)
    if (options.json) return yield* json({ account: recordOf(account) })
    yield* note(`${plain(account.email)} no longer has a second factor.`)
  })
)

const removeUser = Help.command(
  "remove-user",
  {
    says: "Remove an account, for example one that uses another person's e-mail address.",
    more: [
      "The person leaves all teams; sessions, CLI logins and connected agents end, and the API tokens that they created are revoked. Secrets and the audit trail stay. The address is free again, so its owner can be invited.",
      where
    ],
    examples: ["ampoule admin remove-user mallory@example.com", "ampoule admin remove-user cfo@example.com --yes"]
  },
  {
    evenLastOwner,
    yes: Shared.yes,
    json: Shared.json,
    email
  },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const address = yield* storedName("EMAIL", options.email)
    const question = `Remove the account of ${plain(address)} from this server, for good?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was removed.")
    const removed = yield* programs.removeUser(address, { evenLastOwner: options.evenLastOwner })
    if (options.json) return yield* json({ removed: recordOf(removed) })
    const teams = removed.memberships.length === 0 ? "" : ` It belonged to ${plain(teamsOf(removed))}.`
    yield* note(`The account of ${plain(removed.email)} was removed.${teams} The address can be invited again.`)
  })
)

const deactivateUser = Help.command(
  "deactivate-user",
  {
    says: "Deactivate a person in all teams of this server, until they are activated again.",
    more: [
      "Sessions, CLI logins and connected agents end. API tokens that the person created keep working for 7 days, as with every deactivation.",
      where
    ],
    examples: ["ampoule admin deactivate-user grace@example.com --yes"]
  },
  { evenLastOwner, yes: Shared.yes, json: Shared.json, email },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const address = yield* storedName("EMAIL", options.email)
    const question = `Deactivate ${plain(address)} in all teams?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was changed.")
    const account = yield* programs.setUserActive(address, false, { evenLastOwner: options.evenLastOwner })
    if (options.json) return yield* json({ account: recordOf(account) })
    yield* note(`${plain(account.email)} was deactivated.`)
  })
)

const activateUser = Help.command(
  "activate-user",
  {
    says: "Activate a deactivated person in all of their teams.",
    more: [where],
    examples: ["ampoule admin activate-user grace@example.com"]
  },
  { json: Shared.json, email },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const account = yield* programs.setUserActive(yield* storedName("EMAIL", options.email), true, {
      evenLastOwner: false
    })
    if (options.json) return yield* json({ account: recordOf(account) })
    yield* note(`${plain(account.email)} is active in ${plain(teamsOf(account)) || "no team"}.`)
  })
)

const commands = [
  users,
  accounts,
  deactivateUser,
  activateUser,
  resetLink,
  changeEmail,
  removeFactor,
  removeUser,
  ...teamCommands
] as const
export const admin = Help.described(
  Command.make("admin").pipe(Command.withSubcommands(commands)),
  {
    says: "Manage accounts and teams on the server: list, create, deactivate and remove them, create reset links, remove second factors."
  },
  commands,
  true
)
