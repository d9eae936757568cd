/** `ampoule sessions`: where one is signed in, and where a member is whom one manages (`MemberSessions.ts`). */
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
  Shared.text("member", "email", "A member whom you manage, instead of yourself: browsers, CLI logins and agents")
)
const ofMember =
  "With --member it needs your approval in the browser, each time: no stored credential manages anything."
const options = { ...Management.options, member }
type Asked = Management.ManagingOptions & { readonly json: boolean; readonly member: Option.Option<string> }

const listOwn = Effect.fnUntraced(function* (asked: Asked) {
  const session = yield* Credential.open(asked)
  const client = yield* clientOf(session)
  const { items } = yield* call(session, client.list())
  yield* printList(asked, items, "You are signed in nowhere.", [
    ["ID", ({ id }) => id],
    ["SINCE", ({ createdAt }) => createdAt],
    ["LAST USE", ({ lastUsedAt }) => lastUsedAt],
    ["ADDRESS", ({ lastUsedIp }) => lastUsedIp ?? ""],
    [
      "WHAT",
      ({ lastUsedUserAgent, manages }) =>
        manages ? `a command line that manages ${manages.name}` : (lastUsedUserAgent ?? "")
    ]
  ])
})

const listOf = Effect.fnUntraced(function* (asked: Asked, email: string) {
  const items = yield* Management.inTeam(asked, MemberSessions.list(email))
  yield* printList(asked, items, "The member is signed in nowhere.", [
    ["ID", ({ id }) => id],
    ["WHAT", MemberSessions.kindOf],
    ["NAME", ({ name, type }) => (type === "session" ? "" : name)],
    ["LAST USE", ({ lastUsedAt }) => lastUsedAt ?? "never"],
    ["UNTIL", ({ expiresAt }) => expiresAt ?? "no end"]
  ])
})

const listed = (asked: Asked) =>
  Option.match(asked.member, { onNone: () => listOwn(asked), onSome: (email) => listOf(asked, email) })

const list = Help.command(
  "list",
  {
    says: "List where you, or a member whom you manage, are signed in, the last used first.",
    more: [
      "Your own are browsers, and command lines that manage a team now; of a member also CLI logins and agents.",
      ofMember
    ],
    examples: [
      "ampoule sessions list",
      "ampoule sessions list --json",
      "ampoule sessions list --member bob@example.com"
    ]
  },
  options,
  listed
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
  { ...options, id: Shared.argument("ID", "Its id; `ampoule sessions list` shows it") },
  Effect.fnUntraced(function* (asked) {
    const { id } = asked
    if (!uuidPattern.test(id)) return yield* usage("That is not the id of a session.")
    if (Option.isSome(asked.member)) {
      yield* Management.inTeam(asked, MemberSessions.end(asked.member.value, id))
    } else {
      const session = yield* Credential.open(asked)
      const client = yield* clientOf(session)
      yield* call(session, client.end({ path: { sessionId: id } }))
    }
    yield* asked.json ? json({ id, ended: true }) : note("Ended.")
  })
)

const endOwn = Effect.fnUntraced(function* (asked: Asked) {
  const session = yield* Credential.open(asked)
  const client = yield* clientOf(session)
  const { items } = yield* call(session, client.list())
  for (const { id } of items) {
    // One that ended meanwhile is what was asked for.
    yield* Effect.catchIf(call(session, client.end({ path: { sessionId: id } })), isGone, () => Effect.void)
  }
  return { ended: items.length, kept: 0 }
})

const endAll = Help.command(
  "end-all",
  {
    says: "End all of your sessions, or all sessions, logins and agents of a member whom you manage.",
    more: [
      "Your own logins of the command line and agents go on: `ampoule logout`, and a new password, end those.",
      "A browser of a member opens all of their teams: it is ended where you manage them in each of these.",
      ofMember
    ],
    examples: ["ampoule sessions end-all", "ampoule sessions end-all --member bob@example.com"]
  },
  options,
  Effect.fnUntraced(function* (asked) {
    const outcome = yield* Option.match(asked.member, {
      onNone: () => endOwn(asked),
      onSome: (email) => Management.inTeam(asked, MemberSessions.endAll(email))
    })
    if (asked.json) return yield* json(outcome)
    const kept = outcome.kept === 0 ? "" : ` ${outcome.kept} go on: you do not manage the person in all of their teams.`
    yield* note(`${outcome.ended} ended.${kept}`)
  })
)

const below = [list, end, endAll] as const
export const sessions = Help.described(
  Command.make("sessions", options, listed).pipe(Command.withSubcommands(below)),
  {
    says: "See where you, or a member whom you manage, are signed in, and end it.",
    examples: ["ampoule sessions", "ampoule sessions --member bob@example.com", "ampoule sessions end-all"]
  },
  below
)
