/** Values of a change that waits, and its approval: with the session of a person, which no login of a command line has. */
import * as Options from "@effect/cli/Options"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import {
  ApproveChange,
  ChangeDecisionsApi,
  type ChangeRequest,
  type RevealedChanges
} from "#schema/ChangeRequestsApi.ts"
import { ChangeRequestId } from "#schema/Ids.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Pending from "#src/cli/connection/Pending.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Management from "#src/cli/team/Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, out, plain, plainText } from "#src/cli/terminal/Output.ts"

const api = HttpApi.make("ampoule").add(ChangeDecisionsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "changeDecisions", httpClient: http })

export const options = {
  reveal: Shared.flag("reveal", "Show the values before and after; the audit trail records it"),
  digest: Options.optional(
    Shared.text("digest", "DIGEST", "Approve only the content that was revealed with this digest")
  )
} as const

const signs = new Map([
  ["create", "+"],
  ["update", "~"],
  ["delete", "-"],
  ["restore", "+"]
])

type Changed = ChangeRequest["changes"][number]
const lineOf = ({ change, conflict, key, kind, references }: Changed) => {
  const facts = [
    ...(conflict ? ["conflict: changed since"] : []),
    ...(change === "restore" ? ["restored"] : []),
    ...(kind === "template" ? [`template of ${references.map(plain).join(", ")}`] : [])
  ]
  return `${signs.get(change) ?? "?"} ${plain(key)}${facts.length === 0 ? "" : `  ${facts.join(", ")}`}`
}

const indented = (label: string, text: string | null) =>
  text === null
    ? []
    : [
        `  ${label}:`,
        ...plainText(text)
          .split("\n")
          .map((line) => `    ${line}`)
      ]

/** One line for each key with its warnings, and the texts where they were revealed. */
export const print = Effect.fnUntraced(function* (request: ChangeRequest, revealed?: RevealedChanges) {
  const { changes, createdAt, environment, project, reason, user } = request
  const texts = new Map(revealed?.changes.map((one) => [one.key, one]))
  const lines = changes.flatMap((one) => {
    const { after = null, before = null } = texts.get(one.key) ?? {}
    const warnings = one.warnings.map((warning) => `  runs code: ${plain(warning)}`)
    return [lineOf(one), ...warnings, ...indented("before", before), ...indented("after", after)]
  })
  yield* out(`${plain(user.email)} in ${plain(project)} / ${plain(environment)}, written ${plain(createdAt)}\n`)
  if (reason !== null) yield* out(`Reason: ${plain(reason)}\n`)
  yield* out(`${lines.join("\n")}\n`)
  if (revealed !== undefined) yield* out(`Digest: ${plain(revealed.digest)}\n`)
})

/** Any other credential is refused, with the page where the person decides. */
const forPeople = <A, E, R>(session: Connection, request: ChangeRequest, what: string, work: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    call(session, work),
    (error) => error._tag === "ServerRefused" && error.code === "CREDENTIAL_KIND_NOT_ACCEPTED",
    () =>
      new CliFailure({
        message: `Only a signed-in person ${what}: a login of the command line and an API token do not.`,
        hint: `Sign in and decide at ${Pending.pageOf(session.url, request)}`
      })
  )

const decodeId = Schema.decodeSync(ChangeRequestId)
const pathOf = ({ id }: ChangeRequest) => ({ requestId: decodeId(id) })

export const reveal = Effect.fnUntraced(function* (session: Connection, request: ChangeRequest) {
  const client = yield* clientOf(session)
  return yield* forPeople(session, request, "sees the values of a change", client.reveal({ path: pathOf(request) }))
})

interface ApproveOptions {
  readonly digest: Option.Option<string>
  readonly reveal: boolean
  readonly yes: boolean
}

/** Approves what was revealed: the content of the given digest, or what this command has just shown. */
export const approve = Effect.fnUntraced(function* (
  session: Connection,
  request: ChangeRequest,
  { digest, reveal: reveals, yes }: ApproveOptions
) {
  const revealed = reveals ? yield* reveal(session, request) : undefined
  if (revealed !== undefined) yield* print(request, revealed)
  const payload = yield* Management.payloadOf(ApproveChange)({
    digest: Option.getOrElse(digest, () => revealed?.digest ?? "")
  })
  if (reveals && !yes && !(yield* Ask.confirm("Approve this change?"))) return yield* note("Nothing was decided.")
  const client = yield* clientOf(session)
  const approval = client.approve({ path: pathOf(request), payload })
  const answer = yield* forPeople(session, request, "approves a change", approval)
  yield* note("requestId" in answer ? Management.waits(answer) : "Approved. The change is written.")
})
