/** `ampoule members`: people of a team, each command after an approval (`Management.ts`). */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { UserId } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { Invite, MembersApi, UpdateMember } from "#schema/TeamsApi.ts"
import { addressOf } from "#schema/Values.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Management from "./Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, list as printList, note, out, plain } from "#src/cli/terminal/Output.ts"

const api = HttpApi.make("ampoule").add(MembersApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "members", httpClient: http })

const all = ({ connection, team }: Management.Managed) =>
  Effect.flatMap(clientOf(connection), (client) =>
    Effect.map(call(connection, client.list({ path: { teamId: team.id } })), ({ items }) => items)
  )

const decodeId = Schema.decodeUnknown(UserId)
/** Member by e-mail address. */
export const memberOf = Effect.fnUntraced(function* (managed: Management.Managed, email: string) {
  const items = yield* all(managed)
  const named = items.find((one) => one.email.toLowerCase() === email.toLowerCase() || one.userId === email)
  // A provisional account is named "address (by Team)".
  const atAddress = items.filter((one) => addressOf(one.email) === email.toLowerCase())
  const member = named ?? (atAddress.length === 1 ? atAddress[0] : undefined)
  if (member !== undefined) return yield* Effect.orDie(decodeId(member.userId))
  return yield* new CliFailure({
    message: `${plain(managed.team.name)} has no member with this address.`,
    hint: "`ampoule members list` shows the members."
  })
})

const list = Help.command(
  "list",
  { says: "List the people of a team.", more: [Management.approved], examples: ["ampoule members list --json"] },
  Management.options,
  Effect.fnUntraced(function* (options) {
    const items = yield* Management.inTeam(options, all)
    yield* printList(options, items, "The team has no member.", [
      ["E-MAIL", ({ email }) => email],
      ["NAME", ({ name }) => name],
      ["ROLE", ({ role }) => role],
      ["ACTIVE", ({ active }) => (active ? "yes" : "no")]
    ])
  })
)

const roleOption = Options.choice("role", Role.literals)

const invite = Help.command(
  "invite",
  {
    says: "Invite a person, and print the link to give to them.",
    more: [Management.approved, "The link works once: its holder joins with this address and in this role."],
    examples: ["ampoule members invite ada@example.com --role member"]
  },
  {
    ...Management.options,
    role: roleOption.pipe(
      Options.withDescription("owner, admin, member or viewer (default: member)"),
      Options.withDefault("member")
    ),
    email: Shared.argument("EMAIL", "E-mail address of the person")
  },
  Effect.fnUntraced(function* (options) {
    const payload = yield* Management.payloadOf(Invite)({ email: options.email, role: options.role })
    const invitation = yield* Management.inTeam(options, ({ connection, team }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.invite({ path: { teamId: team.id }, payload }))
      )
    )
    if (options.json) return yield* json(invitation)
    if ("requestId" in invitation) return yield* note(Management.waits(invitation))
    yield* note(`The link works until ${plain(invitation.expiresAt)}, once:`)
    yield* out(`${plain(invitation.inviteUrl)}\n`)
  })
)

const emailArgument = Shared.argument("EMAIL", "Address of the member")

const update = Help.command(
  "update",
  {
    says: "Change the role of a member, or deactivate and activate them.",
    more: [Management.approved, "A new role revokes the API tokens that the person created."],
    examples: [
      "ampoule members update ada@example.com --role admin",
      "ampoule members update ada@example.com --active no"
    ]
  },
  {
    ...Management.options,
    role: roleOption.pipe(Options.withDescription("owner, admin, member or viewer"), Options.optional),
    active: Options.choice("active", ["yes", "no"]).pipe(
      Options.withDescription("no: the person loses access to the team at once, and stays a member"),
      Options.optional
    ),
    email: emailArgument
  },
  Effect.fnUntraced(function* (options) {
    const { active, role } = options
    if (Option.isNone(role) && Option.isNone(active)) return yield* usage("Use --role or --active.")
    const payload = yield* Management.payloadOf(UpdateMember)({
      ...(Option.isSome(role) ? { role: role.value } : {}),
      ...(Option.isSome(active) ? { active: active.value === "yes" } : {})
    })
    const updated = yield* Management.inTeam(options, (managed) =>
      Effect.gen(function* () {
        const userId = yield* memberOf(managed, options.email)
        const client = yield* clientOf(managed.connection)
        return yield* call(managed.connection, client.update({ path: { teamId: managed.team.id, userId }, payload }))
      })
    )
    yield* options.json
      ? json(updated)
      : note(
          "requestId" in updated
            ? Management.waits(updated)
            : `${plain(updated.email)}: ${plain(updated.role)}${updated.active ? "" : ", deactivated"}.`
        )
  })
)

const remove = Help.command(
  "remove",
  {
    says: "Remove a person from the team.",
    more: [Management.approved],
    examples: ["ampoule members remove ada@example.com", "ampoule members remove ada@example.com --yes"]
  },
  { ...Management.options, yes: Shared.yes, email: emailArgument },
  Effect.fnUntraced(function* (options) {
    if (!options.yes && !(yield* Ask.confirm(`Remove ${plain(options.email)} from the team?`))) {
      return yield* note("No member was removed.")
    }
    const removed = yield* Management.inTeam(options, (managed) =>
      Effect.gen(function* () {
        const userId = yield* memberOf(managed, options.email)
        const client = yield* clientOf(managed.connection)
        const ended = yield* call(managed.connection, client.remove({ path: { teamId: managed.team.id, userId } }))
        return { userId, ...ended }
      })
    )
    yield* options.json ? json(removed) : note("Removed.")
  })
)

const commands = [list, invite, update, remove] as const
export const members = Help.described(
  Command.make("members").pipe(Command.withSubcommands(commands)),
  { says: "List, invite, change and remove members of a team." },
  commands,
  true
)
