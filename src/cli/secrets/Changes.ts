/** `ampoule changes`: writes that wait for an approval. They are decided in the dashboard, like access requests. */
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

/** The failure of a write that waits for an approval: nothing is written yet. */
export const stillWaiting = (session: Connection, request: ChangeRequest) =>
  new CliFailure({
    message: `Nothing was written yet. The change ${plain(request.id)} waits for an approval.`,
    hint: `Owners, admins and approvers of the environment decide at ${Pending.pageOf(session.url, request)}`
  })

/**
 * Runs a write of secrets. Fails when it waits for an approval, because nothing is written yet and scripts must not
 * continue.
 */
export const requireWritten = Effect.fnUntraced(function* <A extends object, E, R>(
  session: Connection,
  write: Effect.Effect<A, E, R>
) {
  const result = yield* call(session, write)
  if (!isWaiting(result)) return result as Exclude<A, ChangeRequest>
  return yield* stillWaiting(session, result)
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
    says: "List pending changes: your own, and those that you decide. It shows names, never values.",
    more: ["(conflict) means that the secret has changed since the author wrote the change."],
    examples: ["ampoule changes list", "ampoule changes list --json"]
  },
  { ...Shared.connection, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    yield* printList(options, yield* pending(session), "No change is pending.", [
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
  line: (change) => `${plain(change.user.email)} in ${plain(change.environment)}: ${plain(namesOf(change))}`
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
    says: "Show what a pending change would do, key by key. It shows names, never values.",
    more: ["+ adds or restores, ~ changes, - deletes. A conflict means that the secret has changed since."],
    examples: ["ampoule changes show 01980a5e-9f00-7a10-8b21-3c4d5e6f7083"]
  },
  { ...Shared.connection, json: Shared.json, id: waiting.id },
  Effect.fnUntraced(function* (options) {
    const id = yield* parseId(options.id)
    const session = yield* Credential.open(options)
    const request = yield* waiting.find(session, id)
    if (options.json) return yield* json(request)
    const { changes, createdAt, environment, expiresAt, project, user } = request
    yield* out(`${plain(user.email)} in ${plain(project)} / ${plain(environment)}, written ${plain(createdAt)}\n`)
    for (const { change, conflict, key } of changes) {
      const note = conflict ? "  conflict: changed since" : change === "restore" ? "  restored" : ""
      yield* out(`${signs.get(change) ?? "?"} ${plain(key)}${note}\n`)
    }
    yield* note(`Pending until ${plain(expiresAt)}. Decide at ${Pending.pageOf(session.url, request)}`)
  })
)

const commands = [list, show, waiting.approveCommand, waiting.withdrawCommand] as const
export const changes = Help.described(
  Command.make("changes").pipe(Command.withSubcommands(commands)),
  { says: "Show pending changes, and approve or withdraw them." },
  commands,
  true
)
