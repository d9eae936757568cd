/** `ampoule changes`: writes that wait for an approval. Decisions are made in the dashboard, as those of `access`. */
import * as Command from "@effect/cli/Command"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ChangeRequest, ChangeRequestsApi } from "#schema/ChangeRequestsApi.ts"
import { ChangeRequestId } from "#schema/Ids.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import * as Pending from "#src/cli/connection/Pending.ts"
import { json, list as printList, note, out, plain } from "#src/cli/terminal/Output.ts"

const api = HttpApi.make("ampoule").add(ChangeRequestsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "changeRequests", httpClient: http })

const isWaiting = (answer: object): answer is ChangeRequest => "changes" in answer && "mayDecide" in answer

/** A write of secrets. One that waits for an approval has written nothing: scripts must not go on as if it had. */
export const written = Effect.fnUntraced(function* <A extends object, E, R>(
  session: Connection,
  write: Effect.Effect<A, E, R>
) {
  const answer = yield* call(session, write)
  if (!isWaiting(answer)) return answer as Exclude<A, ChangeRequest>
  return yield* new CliFailure({
    message: `Nothing is written yet. The change waits for an approval as ${plain(answer.id)}.`,
    hint: `Owners, admins and approvers of the environment decide at ${Pending.pageOf(session.url, answer)}`
  })
})

const pending = Effect.fnUntraced(function* (session: Connection) {
  const client = yield* clientOf(session)
  return (yield* call(session, client.list())).items
})

const namesOf = ({ changes }: ChangeRequest) =>
  changes.map(({ change, conflict, key }) => `${change} ${key}${conflict ? " (conflict)" : ""}`).join(", ")

const list = Help.command(
  "list",
  {
    says: "List changes that wait: your own, and those that wait for your decision. Names, never values.",
    more: ["A conflict: the secret has another version than when the change was written."],
    examples: ["ampoule changes list", "ampoule changes list --json"]
  },
  { ...Shared.connection, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    yield* printList(options, yield* pending(session), "No change waits.", [
      ["ID", ({ id }) => id],
      ["PROJECT", ({ project }) => project],
      ["ENVIRONMENT", ({ environment }) => environment],
      ["WHO", ({ user }) => user.email],
      ["YOURS TO DECIDE", ({ mayDecide }) => (mayDecide ? "yes" : "no")],
      ["CHANGES", namesOf]
    ])
  })
)

const decodeId = Schema.decodeUnknown(ChangeRequestId)
const parseId = (text: string) => Effect.mapError(decodeId(text), () => usage("That is not the id of a change."))
const waiting = Pending.of({
  what: "change",
  command: "changes",
  list: "changes list",
  example: "01980a5e-9f00-7a10-8b21-3c4d5e6f7083",
  parseId,
  pending,
  withdraw: (session, requestId) =>
    Effect.flatMap(clientOf(session), (client) => call(session, client.withdraw({ path: { requestId } }))),
  tell: (change) => `${plain(change.user.email)} in ${plain(change.environment)}: ${plain(namesOf(change))}`
})

const signs = new Map([
  ["create", "+"],
  ["update", "~"],
  ["delete", "-"],
  ["restore", "+"]
])

const show = Help.command(
  "show",
  {
    says: "Show what a change that waits would do, key by key. Names, never values.",
    more: ["+ adds or restores, ~ changes, - deletes. A conflict: the secret has another version than the author saw."],
    examples: ["ampoule changes show 01980a5e-9f00-7a10-8b21-3c4d5e6f7083"]
  },
  { ...Shared.connection, json: Shared.json, id: waiting.id },
  Effect.fnUntraced(function* (options) {
    const id = yield* parseId(options.id)
    const session = yield* Credential.open(options)
    const found = yield* waiting.find(session, id)
    if (options.json) return yield* json(found)
    const { changes, createdAt, environment, expiresAt, project, user } = found
    yield* out(`${plain(user.email)} in ${plain(project)} / ${plain(environment)}, written ${plain(createdAt)}\n`)
    for (const { change, conflict, key } of changes) {
      const note = conflict ? "  conflict: changed since" : change === "restore" ? "  restored" : ""
      yield* out(`${signs.get(change) ?? "?"} ${plain(key)}${note}\n`)
    }
    yield* note(`Waits until ${plain(expiresAt)}. Decide at ${Pending.pageOf(session.url, found)}`)
  })
)

const below = [list, show, waiting.approveCommand, waiting.withdrawCommand] as const
export const changes = Help.described(
  Command.make("changes").pipe(Command.withSubcommands(below)),
  { says: "See what waits for an approval, and decide." },
  below,
  true
)
