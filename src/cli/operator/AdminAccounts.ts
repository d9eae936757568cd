/** `ampoule admin accounts`: witnesses of accounts' addresses (docs/sign-in.md, "Provisional accounts"). */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import { addressOf, Email } from "#schema/Values.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain } from "#src/cli/terminal/Output.ts"
import { list, listOptions, where } from "./AdminList.ts"
import { adminPrograms, type UserAccount } from "./ServerSide.ts"

const decodeEmail = Schema.decodeUnknown(Email)

/** The name of an account as the server stores it: its id, its address, or "address (by Team)". */
export const storedName = (argument: string, text: string) =>
  uuidPattern.test(text)
    ? Effect.succeed(text.toLowerCase())
    : Effect.mapBoth(decodeEmail(addressOf(text)), {
        onFailure: () => usage(`${argument} takes an e-mail address, or the id of an account.`),
        onSuccess: (address) => address + text.slice(addressOf(text).length)
      })

export const recordOf = ({ createdAt, email, id, madeBy, memberships, name, vouchedBy }: UserAccount) => ({
  id,
  email,
  name,
  createdAt: createdAt.toISOString(),
  vouchedBy,
  madeBy,
  teams: memberships.map(({ active, role, teamId, teamName }) => ({ id: teamId, name: teamName, role, active }))
})

export const teamsOf = ({ memberships }: UserAccount): string =>
  memberships.map(({ active, role, teamName }) => `${teamName} (${role}${active ? "" : ", inactive"})`).join(", ")

const stateOf = ({ madeBy, vouchedBy }: UserAccount): string =>
  vouchedBy === null
    ? "counts as vouched (made before 1.1)"
    : vouchedBy === "none"
      ? `provisional${madeBy === null ? "" : `, by ${madeBy}`}`
      : vouchedBy

const vouch = Help.command(
  "vouch",
  {
    says: "Vouch for the e-mail address of an account: it belongs to the account's person.",
    more: [
      'The account holds the address from then on, and no other one can be made for it. A provisional account with the same address is shown as "address (by Team)". First make sure that this person has the address.',
      where
    ],
    examples: ["ampoule admin accounts vouch ada@example.com", "ampoule admin accounts vouch ada@example.com --yes"]
  },
  {
    yes: Shared.yes,
    json: Shared.json,
    account: Shared.argument("ACCOUNT", "E-mail address of the account, or its id")
  },
  Effect.fnUntraced(function* (options) {
    const programs = yield* adminPrograms
    const name = yield* storedName("ACCOUNT", options.account)
    const question = `Vouch that the person of ${plain(name)} has this address?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was changed.")
    const account = yield* programs.vouch(name)
    if (options.json) return yield* json({ account: recordOf(account) })
    yield* note(`The account ${plain(account.id)} holds the address ${plain(account.email)}.`)
  })
)

const options = {
  unvouched: Shared.flag("unvouched", "Only accounts that no witness vouched for"),
  ...listOptions("accounts", "e-mail address")
}

const commands = [vouch] as const
export const accounts = Help.described(
  Command.make("accounts", options, ({ unvouched, ...query }) =>
    list(query, {
      noun: "accounts",
      read: (programs, { limit, search }) => programs.users({ limit, search, unvouched }),
      recordOf,
      columns: [
        ["E-MAIL", (account) => account.email],
        ["VOUCHED BY", stateOf],
        ["SINCE", (account) => account.createdAt.toISOString().slice(0, 10)],
        ["ID", (account) => account.id],
        ["TEAMS", teamsOf]
      ]
    })
  ).pipe(Command.withSubcommands(commands)),
  {
    says: "List the accounts of this server with the witness of their address, and vouch for one.",
    more: [where],
    examples: [
      "ampoule admin accounts",
      "ampoule admin accounts --unvouched --json",
      "ampoule admin accounts vouch ada@example.com"
    ]
  },
  commands
)
