/** `ampoule sessions`: the browsers in which one is signed in. Logins of the command line are not among them. */
import * as Command from "@effect/cli/Command"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import { uuidPattern } from "#schema/Ids.ts"
import { MySessionsApi } from "#schema/MySessionsApi.ts"
import { call, type Connection } from "./Client.ts"
import * as Credential from "./Credential.ts"
import { ServerRefused, usage } from "./Failure.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { list as printList, note } from "./Output.ts"

const api = HttpApi.make("ampoule").add(MySessionsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "mySessions", httpClient: http })

const isGone = (error: unknown) => error instanceof ServerRefused && error.code === "GRANT_NOT_FOUND"

const list = Help.command(
  "list",
  {
    says: "List where you are signed in, the last used first: browsers, and command lines that manage a team now.",
    examples: ["ampoule sessions list", "ampoule sessions list --json"]
  },
  { ...Shared.connection, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const client = yield* clientOf(session)
    const { items } = yield* call(session, client.list())
    yield* printList(options, items, "You are signed in nowhere.", [
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
)

const end = Help.command(
  "end",
  {
    says: "End one of your sessions.",
    examples: ["ampoule sessions end 01980a5d-44aa-7f00-b1c2-3d4e5f607182"]
  },
  {
    ...Shared.connection,
    id: Shared.argument("ID", "Id of the session; `ampoule sessions list` shows it")
  },
  Effect.fnUntraced(function* (options) {
    if (!uuidPattern.test(options.id)) return yield* usage("That is not the id of a session.")
    const session = yield* Credential.open(options)
    const client = yield* clientOf(session)
    yield* call(session, client.end({ path: { sessionId: options.id } }))
    yield* note("Ended.")
  })
)

const endAll = Help.command(
  "end-all",
  {
    says: "End all of your sessions.",
    more: ["Logins of the command line and agents go on: `ampoule logout`, and a new password, end those."],
    examples: ["ampoule sessions end-all"]
  },
  Shared.connection,
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const client = yield* clientOf(session)
    const { items } = yield* call(session, client.list())
    for (const { id } of items) {
      // One that ended meanwhile is what was asked for.
      yield* Effect.catchIf(call(session, client.end({ path: { sessionId: id } })), isGone, () => Effect.void)
    }
    yield* note(`${items.length} ended.`)
  })
)

const below = [list, end, endAll] as const
export const sessions = Help.described(
  Command.make("sessions").pipe(Command.withSubcommands(below)),
  { says: "See the browsers in which you are signed in, and end sessions." },
  below,
  true
)
