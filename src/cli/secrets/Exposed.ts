/** `ampoule exposed`: recipients of each version of a secret. Names and numbers, no value. */
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
/** Maximum number of lines; `--json` also collects up to this many. */
const printedAtMost = 5_000

/** All pages, up to a bound; the other members come from the first page. */
const allPages = <A extends ExposurePage, E, R>(ask: (page: number) => Effect.Effect<A, E, R>) =>
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

const print = Effect.fnUntraced(function* (options: { readonly json: boolean }, exposure: ExposurePage) {
  if (options.json) return yield* json(exposure)
  if (exposure.items.length === 0) yield* note("The trail records no access.")
  else {
    yield* table(exposure.items, [
      ["KEY", ({ key }) => key],
      ["VERSION", ({ version }) => versionText(version)],
      ["ENVIRONMENT", ({ environment }) => environment],
      ["WHO", ({ holder }) => holderText(holder)],
      ["HOW", ({ via, way }) => `${wayText(way)} (${via})`],
      ["TIMES", ({ count }) => String(count)],
      ["LAST", ({ lastAt, lastIp }) => `${lastAt}${lastIp === "" ? "" : ` from ${lastIp}`}`]
    ])
  }
  if (exposure.hasMore)
    yield* note(`These are ${exposure.items.length} of ${exposure.total}: narrow with KEY, --by, --token or --since.`)
  if (typeof exposure.leftOutBefore === "string") {
    yield* note(
      `Left out: reads whose last reader is ${plain(exposure.leftOutBefore)}. Narrow with --by, --token or --since.`
    )
  }
  yield* note(`As of ${plain(exposure.upTo)}.`)
  if (exposure.unknownBefore !== null)
    yield* note(`Unknown: versions of reads before ${plain(exposure.unknownBefore)}.`)
})

export const exposed = Help.command(
  "exposed",
  {
    says: "Show who received which version of a secret: people, tokens, agents, CI jobs, backups.",
    more: [
      "For owners and admins, and API tokens with audit:read. KEY selects one secret. Without it the command covers the project; --by and --token select one person or token."
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
    by: Options.optional(Shared.text("by", "person", "Only values that this person received: e-mail address or id")),
    token: Options.optional(Shared.text("token", "name-or-id", "Only values that this API token or CI rule received")),
    since: Options.optional(Shared.text("since", "time", "Only values that were handed out since this day or time")),
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
      const session = yield* Credential.open(options)
      const name = yield* Target.project(options.project, session)
      const client = yield* clientOf(session)
      const exposure = yield* Target.withProject(session, name, (projectId) =>
        allPages((page) => call(session, client.ofProject({ path: { projectId }, urlParams: { ...query, page } })))
      )
      return yield* print(options, exposure)
    }
    const key = yield* parseKey(options.key.value)
    yield* within(options, ({ session, ...location }) =>
      Effect.gen(function* () {
        const client = yield* clientOf(session)
        const exposure = yield* allPages((page) =>
          call(session, client.ofKey({ urlParams: { ...location, ...query, key, page } }))
        )
        const live = yield* Effect.option(findLive(session, location, key))
        if (!options.json && Option.isSome(live)) {
          yield* out(`${key} ${versionsText(exposure.versions, live.value.version)}\n`)
        }
        yield* print(options, exposure)
        if (!options.json && exposure.renamedTo.length > 0) {
          const names = exposure.renamedTo.map(plain)
          yield* note(`${key} is now called ${names.join(", ")}: \`ampoule exposed ${names[0]}\`.`)
        }
        const former = exposure.formerly.find(() => !options.json)
        if (former !== undefined) {
          yield* note(
            `It was formerly called ${exposure.formerly.map(plain).join(", ")}: \`ampoule exposed ${plain(former)}\`.`
          )
        }
      })
    )
  })
)
