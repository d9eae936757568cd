/** `ampoule changes`: writes that wait for an approval. People decide in the dashboard, or here with a session. */
import * as Command from "@effect/cli/Command"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type ChangeRequest, ChangeRequestsApi } from "#schema/ChangeRequestsApi.ts"
import { ChangeRequestId } from "#schema/Ids.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import * as Pending from "#src/cli/connection/Pending.ts"
import { json, list as printList, note, plain } from "#src/cli/terminal/Output.ts"
import * as ChangeDecisions from "./ChangeDecisions.ts"

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

const show = Help.command(
  "show",
  {
    says: "Show what a pending change would do, key by key. It shows names; with --reveal the values too.",
    more: [
      "+ adds or restores, ~ changes, - deletes. A conflict means that the secret has changed since.",
      "--reveal needs the session of a person who may decide. The audit trail records it as a read."
    ],
    examples: [
      "ampoule changes show 01980a5e-9f00-7a10-8b21-3c4d5e6f7083",
      "ampoule changes show 01980a5e-9f00-7a10-8b21-3c4d5e6f7083 --reveal"
    ]
  },
  { ...Shared.connection, json: Shared.json, reveal: ChangeDecisions.options.reveal, id: waiting.id },
  Effect.fnUntraced(function* (options) {
    const id = yield* parseId(options.id)
    const session = yield* Credential.open(options)
    const request = yield* waiting.find(session, id)
    const revealed = options.reveal ? yield* ChangeDecisions.reveal(session, request) : undefined
    if (options.json) return yield* json(revealed === undefined ? request : { ...request, revealed })
    yield* ChangeDecisions.print(request, revealed)
    yield* note(`Pending until ${plain(request.expiresAt)}. Decide at ${Pending.pageOf(session.url, request)}`)
  })
)

const approve = Help.command(
  "approve",
  {
    says: "Open the page where a change is approved or denied. With --digest or --reveal, approve it here.",
    more: [
      "A login of the command line cannot approve: you decide in the browser, signed in. --digest and --reveal need the session of a person.",
      "--digest approves the content that was revealed with it; other content is refused. --reveal shows the values, asks, and approves what it showed."
    ],
    examples: [
      "ampoule changes approve 01980a5e-9f00-7a10-8b21-3c4d5e6f7083",
      "ampoule changes approve 01980a5e-9f00-7a10-8b21-3c4d5e6f7083 --reveal"
    ]
  },
  { ...Shared.connection, ...ChangeDecisions.options, yes: Shared.yes, noBrowser: Shared.noBrowser, id: waiting.id },
  Effect.fnUntraced(function* (options) {
    const id = yield* parseId(options.id)
    const session = yield* Credential.open(options)
    const request = yield* waiting.find(session, id)
    if (options.reveal || Option.isSome(options.digest)) {
      return yield* ChangeDecisions.approve(session, request, options)
    }
    yield* waiting.openPage(session, request, options)
  })
)

const commands = [list, show, approve, waiting.withdrawCommand] as const
export const changes = Help.described(
  Command.make("changes").pipe(Command.withSubcommands(commands)),
  { says: "Show pending changes, and approve or withdraw them." },
  commands,
  true
)
