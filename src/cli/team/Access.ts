/**
 * `ampoule access`: access to an environment, and requests for it. They are decided in the dashboard, because no stored
 * credential may decide.
 */
import * as Command from "@effect/cli/Command"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AccessRequestsApi } from "#schema/AccessRequestsApi.ts"
import { type EnvironmentAccess, EnvironmentAccessApi, type WayIn } from "#schema/EnvironmentAccessApi.ts"
import { AccessRequestId } from "#schema/Ids.ts"
import { GrantLevel } from "#schema/Scopes.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { type CliError, withHint, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, list as printList, note, out, plain, table } from "#src/cli/terminal/Output.ts"
import * as Pending from "#src/cli/connection/Pending.ts"
import * as SealingKeys from "#src/cli/sealed/Keys.ts"
import * as Target from "#src/cli/connection/Target.ts"

const api = HttpApi.make("ampoule").add(AccessRequestsApi)
const reachApi = HttpApi.make("ampoule").add(EnvironmentAccessApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "accessRequests", httpClient: http })

const duration = /^([1-9]\d{0,3})([hd])$/
const hoursOf = Effect.fnUntraced(function* (text: string) {
  const [, count, unit] = duration.exec(text) ?? []
  const hours = Number(count) * (unit === "d" ? 24 : 1)
  if (!(hours >= 1 && hours <= 168)) return yield* usage("--for takes 1h to 168h, or 1d to 7d.")
  return hours
})

const request = Help.command(
  "request",
  {
    says: "Request access to an environment for some hours. Owners, admins and its approvers decide.",
    more: [
      "Levels: names, run (run programs with its values), values (read them), write; each includes those before it."
    ],
    examples: ['ampoule access request --env production --for 2h --why "Incident 42"']
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    for: Shared.text("for", "duration", "Duration, from the approval on: 2h, 3d"),
    why: Shared.text("why", "reason", "Reason for the request, shown to the approvers and kept in the audit trail"),
    level: Options.choice("level", GrantLevel.literals).pipe(
      Options.withDescription("names, run, values or write (default: values)"),
      Options.withDefault("values")
    )
  },
  Effect.fnUntraced(function* (options) {
    const hours = yield* hoursOf(options.for)
    const { session, target } = yield* Target.reach(options, Credential.open(options))
    const envId = yield* SealingKeys.environmentId(session, target)
    const client = yield* clientOf(session)
    const payload = { level: options.level, hours, reason: options.why }
    const request = yield* call(session, client.create({ path: { envId }, payload }))
    if (options.json) return yield* json(request)
    yield* note(`Requested ${plain(request.level)} of ${plain(request.environment)} for ${request.hours} h.`)
    yield* note(`Owners, admins and its approvers decide at ${Pending.pageOf(session.url, request)}`)
    yield* out(`${plain(request.id)}\n`)
  })
)

const pending = Effect.fnUntraced(function* (session: Connection) {
  const client = yield* clientOf(session)
  return (yield* call(session, client.list())).items
})

const wayText = ({ grant, mcpOnly, name, person, role, way }: WayIn): string => {
  const nameText = name === null ? "" : ` ${name}`
  switch (way) {
    case "role":
      return `role ${role}`
    case "grant": {
      const of = grant?.wholeProject === true ? "grant of the whole project" : "grant"
      const why = grant === null || grant.reason === null ? "" : `: ${grant.reason}`
      return `${of} by ${grant?.givenBy.email ?? ""}${why}`
    }
    case "api_token":
      return `API token${nameText}${mcpOnly ? " (only /mcp)" : ""}, created by ${person.email}`
    case "machine_rule":
      return `CI rule${nameText}, created by ${person.email}`
    case "cli_grant":
      return `login${nameText}`
    case "oauth_grant":
      return `agent${nameText}`
    default:
      return way
  }
}

const isOfPerson = ({ way }: WayIn) => way !== "api_token" && way !== "machine_rule"

/** Row of the table: holder, level, way in, end and last use. */
const rowsOf = ({ items, requests }: EnvironmentAccess): ReadonlyArray<Readonly<Record<string, string>>> => [
  ...items.map((one) => ({
    who: isOfPerson(one) ? one.person.email : (one.name ?? one.id),
    may: one.level,
    way: wayText(one),
    until: one.until ?? (one.way === "role" ? "the role changes" : "revoked"),
    used: one.lastUsedAt ?? "never"
  })),
  ...requests.map((one) => ({
    who: one.user.email,
    may: "nothing yet",
    way: `asks for ${one.level} for ${one.hours} h (${one.id}): ${one.reason}`,
    until: one.expiresAt,
    used: ""
  }))
]

const forManagers = <A, E extends CliError, R>(self: Effect.Effect<A, E, R>) =>
  Effect.mapError(self, (error) =>
    error._tag === "ServerRefused" && error.code === "FORBIDDEN"
      ? withHint(
          error,
          "Only owners and admins can see who has access to an environment. `ampoule access requests` lists your own requests."
        )
      : error
  )

const list = Help.command(
  "list",
  {
    says: "Show who has access to an environment: people, tokens, CI rules, logins, agents and requests.",
    more: [
      "It shows the reason for each access, its end and its last use. For owners and admins; everyone can use `ampoule access requests`."
    ],
    examples: ["ampoule access list", "ampoule access list --env production --json"]
  },
  { ...Shared.inEnvironment, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const { session, target } = yield* Target.reach(options, Credential.open(options))
    const envId = yield* SealingKeys.environmentId(session, target)
    const client = yield* HttpApiClient.group(reachApi, { group: "environmentAccess", httpClient: session.http })
    const accessList = yield* forManagers(call(session, client.ofEnvironment({ path: { envId } })))
    if (options.json) return yield* json(accessList)
    yield* table(rowsOf(accessList), [
      ["WHO", ({ who = "" }) => who],
      ["MAY", ({ may = "" }) => may],
      ["BY", ({ way = "" }) => way],
      ["UNTIL", ({ until = "" }) => until],
      ["LAST USE", ({ used = "" }) => used]
    ])
    if (accessList.hasMore) yield* note("Not all tokens, rules, logins and agents are shown.")
  })
)

const requestsList = Help.command(
  "requests",
  {
    says: "List pending requests: your own, and those that you decide.",
    examples: ["ampoule access requests", "ampoule access requests --json"]
  },
  { ...Shared.connection, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    yield* printList(options, yield* pending(session), "No request is pending.", [
      ["ID", ({ id }) => id],
      ["PROJECT", ({ project }) => project],
      ["ENVIRONMENT", ({ environment }) => environment],
      ["WHO", ({ user }) => user.email],
      ["LEVEL", ({ level }) => level],
      ["HOURS", ({ hours }) => String(hours)],
      ["YOURS TO DECIDE", ({ mayDecide }) => (mayDecide ? "yes" : "no")],
      ["WHY", ({ reason }) => reason]
    ])
  })
)

const decodeId = Schema.decodeUnknown(AccessRequestId)
const requests = Pending.of({
  what: "request",
  command: "access",
  list: "access requests",
  example: "01980a5e-9f00-7a10-8b21-3c4d5e6f7082",
  parseId: (text) => Effect.mapError(decodeId(text), () => usage("That is not the id of a request.")),
  pending,
  withdraw: (session, requestId) =>
    Effect.flatMap(clientOf(session), (client) => call(session, client.withdraw({ path: { requestId } }))),
  line: ({ environment, hours, level, reason, user }) =>
    `${plain(user.email)} requests ${plain(level)} of ${plain(environment)} for ${hours} h: ${plain(reason)}`
})

const commands = [list, request, requestsList, requests.approveCommand, requests.withdrawCommand] as const
export const access = Help.described(
  Command.make("access").pipe(Command.withSubcommands(commands)),
  { says: "Show who has access to an environment, and request access." },
  commands,
  true
)
