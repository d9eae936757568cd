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
/** A member by their address. */
export const memberOf = Effect.fnUntraced(function* (managed: Management.Managed, email: string) {
  const found = (yield* all(managed)).find((one) => one.email === email.toLowerCase() || one.userId === email)
  if (found !== undefined) return yield* Effect.orDie(decodeId(found.userId))
  return yield* new CliFailure({
    message: `${plain(managed.team.name)} has no member of this address.`,
    hint: "`ampoule members list` shows them."
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
    says: "Invite a person, and print the link to hand to them.",
    more: [Management.approved, "Whoever has the link can join with it once, as this address and in this role."],
    examples: ["ampoule members invite ada@example.com --role member"]
  },
  {
    ...Management.options,
    role: roleOption.pipe(
      Options.withDescription("owner, admin, member or viewer (member, unless said)"),
      Options.withDefault("member")
    ),
    email: Shared.argument("EMAIL", "Their address")
  },
  Effect.fnUntraced(function* (options) {
    const payload = yield* Management.payloadOf(Invite)({ email: options.email, role: options.role })
    const made = yield* Management.inTeam(options, ({ connection, team }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.invite({ path: { teamId: team.id }, payload }))
      )
    )
    if (options.json) return yield* json(made)
    yield* note(`The link works until ${plain(made.expiresAt)}, once:`)
    yield* out(`${plain(made.inviteUrl)}\n`)
  })
)

const emailArgument = Shared.argument("EMAIL", "Address of the member")

const update = Help.command(
  "update",
  {
    says: "Give a member another role, or switch them off and on again.",
    more: [Management.approved, "Another role revokes the API tokens that the person made."],
    examples: [
      "ampoule members update ada@example.com --role admin",
      "ampoule members update ada@example.com --active no"
    ]
  },
  {
    ...Management.options,
    role: roleOption.pipe(Options.withDescription("owner, admin, member or viewer"), Options.optional),
    active: Options.choice("active", ["yes", "no"]).pipe(
      Options.withDescription("no: the person loses the team at once, and keeps the membership"),
      Options.optional
    ),
    email: emailArgument
  },
  Effect.fnUntraced(function* (options) {
    const { active, role } = options
    if (Option.isNone(role) && Option.isNone(active)) return yield* usage("Say what to change: --role or --active.")
    const payload = yield* Management.payloadOf(UpdateMember)({
      ...(Option.isSome(role) ? { role: role.value } : {}),
      ...(Option.isSome(active) ? { active: active.value === "yes" } : {})
    })
    const changed = yield* Management.inTeam(options, (managed) =>
      Effect.gen(function* () {
        const userId = yield* memberOf(managed, options.email)
        const client = yield* clientOf(managed.connection)
        return yield* call(managed.connection, client.update({ path: { teamId: managed.team.id, userId }, payload }))
      })
    )
    yield* options.json
      ? json(changed)
      : note(`${plain(changed.email)}: ${plain(changed.role)}${changed.active ? "" : ", switched off"}.`)
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
      return yield* note("Nobody was removed.")
    }
    const userId = yield* Management.inTeam(options, (managed) =>
      Effect.gen(function* () {
        const userId = yield* memberOf(managed, options.email)
        const client = yield* clientOf(managed.connection)
        yield* call(managed.connection, client.remove({ path: { teamId: managed.team.id, userId } }))
        return userId
      })
    )
    yield* options.json ? json({ userId, deleted: true }) : note("Removed.")
  })
)

const below = [list, invite, update, remove] as const
export const members = Help.described(
  Command.make("members").pipe(Command.withSubcommands(below)),
  { says: "List, invite, change and remove the people of a team." },
  below,
  true
)
