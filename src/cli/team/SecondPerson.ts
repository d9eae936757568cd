/** `ampoule second-person`: actions that wait for another owner or admin (docs/contract/second-person.md). */
import * as Command from "@effect/cli/Command"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SecondPersonRequestId } from "#schema/Ids.ts"
import { SecondPersonApi, type SecondPersonRequest } from "#schema/SecondPersonApi.ts"
import * as Browser from "#src/cli/terminal/Browser.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Management from "./Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, list as printList, note, out, plain } from "#src/cli/terminal/Output.ts"

const api = HttpApi.make("ampoule").add(SecondPersonApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "secondPerson", httpClient: http })

const stateOf = ({ hasLink, mayDecide, status }: SecondPersonRequest) => {
  if (status === "approved") return hasLink ? "approved: make your link" : "approved: its author makes the link"
  return mayDecide ? "yours to decide" : "waits"
}

const list = Help.command(
  "list",
  {
    says: "List what waits for another owner or admin, in a team that requires a second person.",
    more: [Management.approved],
    examples: ["ampoule second-person list", "ampoule second-person list --json"]
  },
  Management.options,
  Effect.fnUntraced(function* (options) {
    const items = yield* Management.inTeam(options, ({ connection, team }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        Effect.map(call(connection, client.list({ path: { teamId: team.id } })), ({ items }) => items)
      )
    )
    yield* printList(options, items, "Nothing waits for a second person.", [
      ["ID", ({ id }) => id],
      ["WHO", ({ user }) => user.email],
      ["WHAT", ({ about }) => about],
      ["STATE", stateOf],
      ["UNTIL", ({ expiresAt }) => expiresAt]
    ])
  })
)

const approve = Help.command(
  "approve",
  {
    says: "Open the page where another owner or admin approves or denies.",
    more: ["You decide in the browser, signed in: the command line decides nothing."],
    examples: ["ampoule second-person approve"]
  },
  { ...Shared.connection, noBrowser: Shared.noBrowser },
  Effect.fnUntraced(function* (options) {
    const { url } = yield* Credential.open(options)
    yield* note("Decide on this page, signed in:")
    yield* Browser.offer(`${url}/app/waiting`, options)
  })
)

const decodeId = Schema.decodeUnknown(SecondPersonRequestId)

const link = Help.command(
  "link",
  {
    says: "Print the link of your invitation or reset, once another owner or admin approved it.",
    more: [Management.approved, "It is made once, within 24 hours of the approval, for the person who asked."],
    examples: ["ampoule second-person link 01980a5e-9f00-7a10-8b21-3c4d5e6f7082"]
  },
  { ...Management.options, id: Shared.argument("ID", "Id of the request; `ampoule second-person list` shows it") },
  Effect.fnUntraced(function* (options) {
    const requestId = yield* Effect.mapError(decodeId(options.id), () => usage("That is not the id of a request."))
    const answer = yield* Management.inTeam(options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) => call(connection, client.link({ path: { requestId } })))
    )
    if (options.json) return yield* json(answer)
    yield* note("Pass this link on to the person it is for. It works once:")
    yield* out(`${plain(answer.url)}\n`)
  })
)

const commands = [list, approve, link] as const
export const secondPerson = Help.described(
  Command.make("second-person").pipe(Command.withSubcommands(commands)),
  { says: "List what waits for another owner or admin, and make an approved link." },
  commands,
  true
)
