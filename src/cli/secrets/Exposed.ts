/** `ampoule exposed`: who was handed which version of a secret; names and numbers, no value. */
import * as Args from "@effect/cli/Args"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Exposed, ExposureApi, type ExposurePage, type ExposureQuery } from "#schema/ExposureApi.ts"
import { versionsText, versionText, wayText } from "#src/formats/ExposureText.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, out, plain, table } from "#src/cli/terminal/Output.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import { findLive, within } from "#src/cli/connection/Reach.ts"
import * as Target from "#src/cli/connection/Target.ts"

const api = HttpApi.make("ampoule").add(ExposureApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "exposure", httpClient: http })

const pageSize = 500
/** Lines that are printed; `--json` prints one page at a time too. */
const printedAtMost = 5_000

/** All pages, up to a bound; the first answer tells the rest. */
const whole = <A extends ExposurePage, E, R>(ask: (page: number) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const first = yield* ask(1)
    const items: Array<Exposed> = [...first.items]
    for (let page = 2, more = first.hasMore; more && items.length < printedAtMost; page++) {
      const next = yield* ask(page)
      items.push(...next.items)
      more = next.hasMore
    }
    return { ...first, items, page: 1, pageSize: items.length, hasMore: items.length < first.total }
  })

const holderText = ({ name, person, type }: Exposed["holder"]): string => {
  const kinds = new Map([
    ["api_token", "token "],
    ["oauth_client", "agent "],
    ["machine_rule", "CI rule "],
    ["backup", "backup to "]
  ])
  return `${kinds.get(type) ?? ""}${name === "" ? "no recipient" : name}${person === null ? "" : ` of ${person}`}`
}

const printed = Effect.fnUntraced(function* (options: { readonly json: boolean }, found: ExposurePage) {
  if (options.json) return yield* json(found)
  if (found.items.length === 0) yield* note("Nothing was handed out that the trail tells of.")
  else {
    yield* table(found.items, [
      ["KEY", ({ key }) => key],
      ["VERSION", ({ version }) => versionText(version)],
      ["ENVIRONMENT", ({ environment }) => environment],
      ["WHO", ({ holder }) => holderText(holder)],
      ["HOW", ({ via, way }) => `${wayText(way)} (${via})`],
      ["TIMES", ({ count }) => String(count)],
      ["LAST", ({ lastAt, lastIp }) => `${lastAt}${lastIp === "" ? "" : ` from ${lastIp}`}`]
    ])
  }
  if (found.hasMore)
    yield* note(`These are ${found.items.length} of ${found.total}: narrow with KEY, --by, --token or --since.`)
  if (typeof found.leftOutBefore === "string") {
    yield* note(`Left out: what was read last by ${plain(found.leftOutBefore)}. Narrow with --by, --token or --since.`)
  }
  yield* note(`As of ${plain(found.upTo)}.`)
  if (found.unknownBefore !== null) yield* note(`Unknown: versions of reads before ${plain(found.unknownBefore)}.`)
})

export const exposed = Help.command(
  "exposed",
  {
    says: "Show who was handed which version of a secret: people, tokens, agents, CI jobs, backups.",
    more: [
      "For owners and admins, and API tokens with audit:read. With KEY of one secret; without it of the project, which --by and --token narrow to one person or token."
    ],
    examples: [
      "ampoule exposed DATABASE_URL --env production",
      "ampoule exposed --by bob@example.com --since 2026-11-01",
      "ampoule exposed --token ci --json"
    ]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    by: Options.optional(Shared.text("by", "person", "Only what this person was handed: e-mail address or id")),
    token: Options.optional(Shared.text("token", "name-or-id", "Only what this API token or CI rule was handed")),
    since: Options.optional(Shared.text("since", "time", "Only what was handed out since this day or time")),
    key: Args.optional(Shared.keyArgument)
  },
  Effect.fnUntraced(function* (options) {
    const since = yield* Effect.transposeOption(Option.map(options.since, (text) => Shared.instant("since", text)))
    const query: ExposureQuery = {
      pageSize,
      ...Option.match(options.by, { onNone: () => ({}), onSome: (by) => ({ by }) }),
      ...Option.match(options.token, { onNone: () => ({}), onSome: (token) => ({ token }) }),
      ...Option.match(since, { onNone: () => ({}), onSome: (at) => ({ since: at.toISOString() }) })
    }
    if (Option.isNone(options.key)) {
      const name = yield* Target.project(options.project)
      const session = yield* Credential.open(options)
      const client = yield* clientOf(session)
      const found = yield* Target.withProject(session, name, (projectId) =>
        whole((page) => call(session, client.ofProject({ path: { projectId }, urlParams: { ...query, page } })))
      )
      return yield* printed(options, found)
    }
    const key = yield* parseKey(options.key.value)
    yield* within(options, ({ session, ...location }) =>
      Effect.gen(function* () {
        const client = yield* clientOf(session)
        const found = yield* whole((page) =>
          call(session, client.ofKey({ urlParams: { ...location, ...query, key, page } }))
        )
        const live = yield* Effect.option(findLive(session, location, key))
        if (!options.json && Option.isSome(live)) {
          yield* out(`${key} ${versionsText(found.versions, live.value.version)}\n`)
        }
        yield* printed(options, found)
        if (!options.json && found.renamedTo.length > 0) {
          const now = found.renamedTo.map(plain)
          yield* note(`${key} is called ${now.join(", ")} now: \`ampoule exposed ${now[0]}\`.`)
        }
        const former = found.formerly.find(() => !options.json)
        if (former !== undefined) {
          yield* note(`It was ${found.formerly.map(plain).join(", ")} before: \`ampoule exposed ${plain(former)}\`.`)
        }
      })
    )
  })
)
