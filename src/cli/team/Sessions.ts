/** `ampoule sessions`: the user's own sessions, and those of a member they manage (`MemberSessions.ts`). */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { uuidPattern } from "#schema/Ids.ts"
import { MySessionsApi } from "#schema/MySessionsApi.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { ServerRefused, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Management from "./Management.ts"
import * as MemberSessions from "./MemberSessions.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, list as printList, note } from "#src/cli/terminal/Output.ts"

const api = HttpApi.make("ampoule").add(MySessionsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "mySessions", httpClient: http })

const isGone = (error: unknown) => error instanceof ServerRefused && error.code === "GRANT_NOT_FOUND"

const member = Options.optional(
  Shared.text("member", "email", "Member whom you manage, instead of yourself: browsers, CLI logins and agents")
)
const ofMember = "With --member each run needs your approval in the browser: no stored credential can manage a team."
const options = { ...Management.options, member }
type SessionOptions = Management.ManagingOptions & { readonly json: boolean; readonly member: Option.Option<string> }

const listOwn = Effect.fnUntraced(function* (options: SessionOptions) {
  const session = yield* Credential.open(options)
  const client = yield* clientOf(session)
  const { items } = yield* call(session, client.list())
  yield* printList(options, items, "You have no sessions.", [
    ["ID", ({ id }) => id],
    ["SINCE", ({ createdAt }) => createdAt],
    ["LAST USE", ({ lastUsedAt }) => lastUsedAt],
    ["ADDRESS", ({ lastUsedIp }) => lastUsedIp ?? ""],
    [
      "WHAT",
      ({ lastUsedUserAgent, manages }) =>
        manages ? `command line that manages ${manages.name}` : (lastUsedUserAgent ?? "")
    ]
  ])
})

const listOf = Effect.fnUntraced(function* (options: SessionOptions, email: string) {
  const items = yield* Management.inTeam(options, MemberSessions.list(email))
  yield* printList(options, items, "The member has no sessions.", [
    ["ID", ({ id }) => id],
    ["WHAT", MemberSessions.kindOf],
    ["NAME", ({ name, type }) => (type === "session" ? "" : name)],
    ["LAST USE", ({ lastUsedAt }) => lastUsedAt ?? "never"],
    ["UNTIL", ({ expiresAt }) => expiresAt ?? "no end"]
  ])
})

const listSessions = (options: SessionOptions) =>
  Option.match(options.member, { onNone: () => listOwn(options), onSome: (email) => listOf(options, email) })

const list = Help.command(
  "list",
  {
    says: "List your sessions, or those of a member whom you manage, last used first.",
    more: [
      "Your own list has browsers, and command lines that manage a team now. A member's list also has CLI logins and agents.",
      ofMember
    ],
    examples: [
      "ampoule sessions list",
      "ampoule sessions list --json",
      "ampoule sessions list --member bob@example.com"
    ]
  },
  options,
  listSessions
)

const end = Help.command(
  "end",
  {
    says: "End one of your sessions, or a session, login or agent of a member whom you manage.",
    more: [ofMember],
    examples: [
      "ampoule sessions end 01980a5d-44aa-7f00-b1c2-3d4e5f607182",
      "ampoule sessions end 01980a5d-44aa-7f00-b1c2-3d4e5f607182 --member bob@example.com"
    ]
  },
  { ...options, id: Shared.argument("ID", "Id of the session; `ampoule sessions list` shows it") },
  Effect.fnUntraced(function* (input) {
    const { id } = input
    if (!uuidPattern.test(id)) return yield* usage("That is not the id of a session.")
    if (Option.isSome(input.member)) {
      yield* Management.inTeam(input, MemberSessions.end(input.member.value, id))
    } else {
      const session = yield* Credential.open(input)
      const client = yield* clientOf(session)
      yield* call(session, client.end({ path: { sessionId: id } }))
    }
    yield* input.json ? json({ id, ended: true }) : note("Ended.")
  })
)

const endOwn = Effect.fnUntraced(function* (options: SessionOptions) {
  const session = yield* Credential.open(options)
  const client = yield* clientOf(session)
  const { items } = yield* call(session, client.list())
  for (const { id } of items) {
    // A session that ended in the meantime needs no error.
    yield* Effect.catchIf(call(session, client.end({ path: { sessionId: id } })), isGone, () => Effect.void)
  }
  return { ended: items.length, kept: 0 }
})

const endAll = Help.command(
  "end-all",
  {
    says: "End all of your sessions, or all sessions, logins and agents of a member whom you manage.",
    more: [
      "Your own CLI logins and agents stay: `ampoule logout` and a new password end those.",
      "A member's browser opens all of their teams, so it is ended only if you manage each of these.",
      ofMember
    ],
    examples: ["ampoule sessions end-all", "ampoule sessions end-all --member bob@example.com"]
  },
  options,
  Effect.fnUntraced(function* (input) {
    const result = yield* Option.match(input.member, {
      onNone: () => endOwn(input),
      onSome: (email) => Management.inTeam(input, MemberSessions.endAll(email))
    })
    if (input.json) return yield* json(result)
    const rest = result.kept === 0 ? "" : ` ${result.kept} stay: you do not manage the person in all of their teams.`
    yield* note(`${result.ended} ended.${rest}`)
  })
)

const commands = [list, end, endAll] as const
export const sessions = Help.described(
  Command.make("sessions", options, listSessions).pipe(Command.withSubcommands(commands)),
  {
    says: "List and end your sessions, or those of a member whom you manage.",
    examples: ["ampoule sessions", "ampoule sessions --member bob@example.com", "ampoule sessions end-all"]
  },
  commands
)
