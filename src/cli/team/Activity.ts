/** `ampoule activity`: events of a project as sentences. Names and times only; the trail has no values. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ActivityApi, type ActivityQuery } from "#schema/ActivityApi.ts"
import type { AuditEntry } from "#schema/Audit.ts"
import { comparedWith, wordsOf } from "#src/formats/AuditWords.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { withHint, ServerRefused, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { instant } from "#src/cli/terminal/Times.ts"
import { json, note, table } from "#src/cli/terminal/Output.ts"
import * as Target from "#src/cli/connection/Target.ts"

const api = HttpApi.make("ampoule").add(ActivityApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "activity", httpClient: http })

const largestPage = 200
/** Entries per call; older ones need --until. */
const maximumEntries = 2_000

const actors = new Map([
  ["api_token", "token "],
  ["oauth_client", "agent "]
])
const ways = new Map([
  ["cli", "by the command line"],
  ["mcp", "as an agent"],
  ["dashboard", "on the dashboard"],
  ["rest", "by the API"]
])

const shownKeys = 5
const keysOf = (keys: ReadonlyArray<string>): string =>
  keys.length === 0
    ? ""
    : ` ${keys.slice(0, shownKeys).join(", ")}${keys.length > shownKeys ? ` and ${keys.length - shownKeys} more` : ""}`

/** `ada@example.com changed a secret DATABASE_URL in staging, by the command line`. */
const sentenceOf = (entry: AuditEntry): string => {
  const { action, actor, compared = [], environment, keys, outcome, reason, target, via } = entry
  const who = actor.type === "system" ? "the server" : `${actors.get(actor.type) ?? ""}${actor.name}`
  const what = keys.length === 0 && target !== undefined && target.name !== "" ? ` ${target.name}` : keysOf(keys)
  const others = compared.length === 0 ? "" : `, compared with ${comparedWith(compared)}`
  const where = environment === undefined ? "" : ` in ${environment}${others}`
  const did = `${who} ${wordsOf(action)}${what}${where}, ${ways.get(via) ?? via}`
  return outcome === "denied" ? `refused${reason === undefined ? "" : ` (${reason})`}: ${did}` : did
}

/** The newest `count` entries, and whether the trail has more. */
const entries = Effect.fnUntraced(function* (
  session: Connection,
  path: { readonly projectId: Effect.Effect.Success<ReturnType<typeof projectIdOf>> },
  query: ActivityQuery,
  count: number
) {
  const client = yield* clientOf(session)
  const all: Array<AuditEntry> = []
  let cursor: string | null = null
  do {
    const limit = Math.min(largestPage, count - all.length)
    const urlParams: ActivityQuery = { ...query, limit, ...(cursor === null ? {} : { cursor }) }
    const { items, nextCursor } = yield* call(session, client.list({ path, urlParams }))
    all.push(...items)
    cursor = nextCursor
  } while (cursor !== null && all.length < count)
  return { items: all, hasMore: cursor !== null }
})

const projectIdOf = (session: Connection, name: Target.ProjectName) => Target.withProject(session, name, Effect.succeed)

/** Adds the roles that may read the trail to a refusal. */
const withReaders = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.mapError(self, (error) =>
    error instanceof ServerRefused && error.code === "FORBIDDEN"
      ? withHint(error, "Only owners and admins of the team, and API tokens with audit:read, can read the activity.")
      : error
  )

const timeOption = (name: "since" | "until", option: Option.Option<string>) =>
  Effect.map(Effect.transposeOption(Option.map(option, (text) => instant(name, text))), (time) =>
    Option.match(time, { onNone: () => ({}), onSome: (date) => ({ [name]: date.toISOString() }) })
  )

export const activity = Help.command(
  "activity",
  {
    says: "Show the activity of a project, newest first: who changed, read or ran what.",
    more: ["For owners and admins, and API tokens with audit:read. --env selects one environment."],
    examples: [
      "ampoule activity",
      "ampoule activity --env production --since 7d",
      "ampoule activity --key DATABASE_URL --limit 10 --json"
    ]
  },
  {
    ...Shared.connection,
    project: Shared.project,
    json: Shared.json,
    environment: Options.optional(Shared.text("env", "slug", "Only this environment of the project")),
    key: Options.optional(Shared.text("key", "key", "Only entries about this key")),
    since: Options.optional(Shared.text("since", "time", "Only entries from this day or time on: 2026-11-21, 2h, 7d")),
    until: Options.optional(Shared.text("until", "time", "Only entries before this day or time")),
    limit: Options.integer("limit").pipe(
      Options.withDescription("Maximum number of entries (1 to 2000, default 50)"),
      Options.withDefault(50)
    )
  },
  Effect.fnUntraced(function* (options) {
    if (options.limit < 1 || options.limit > maximumEntries)
      return yield* usage("--limit takes a whole number from 1 to 2000.")
    const environment = yield* Effect.transposeOption(Option.map(options.environment, Target.slug))
    const key = yield* Effect.transposeOption(Option.map(options.key, parseKey))
    const query: ActivityQuery = {
      ...Option.match(environment, { onNone: () => ({}), onSome: (environment) => ({ environment }) }),
      ...Option.match(key, { onNone: () => ({}), onSome: (key) => ({ key }) }),
      ...(yield* timeOption("since", options.since)),
      ...(yield* timeOption("until", options.until))
    }
    const session = yield* Credential.open(options)
    const projectId = yield* projectIdOf(session, yield* Target.project(options.project, session))
    const page = yield* withReaders(entries(session, { projectId }, query, options.limit))
    if (options.json) return yield* json(page)
    if (page.items.length === 0) return yield* note("The trail has no such entries.")
    yield* table(page.items, [
      ["WHEN", ({ at }) => at],
      ["WHAT", sentenceOf]
    ])
    if (page.hasMore)
      yield* note(`There are more entries: use a larger --limit, or --until ${page.items.at(-1)?.at ?? ""}.`)
  })
)
