/** `ampoule exposed`: recipients of each version of a secret. Names and numbers, no value. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { versionsText, versionText, wayText } from "#src/formats/ExposureText.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import { bodyOf, type Link } from "#src/cli/connection/Link.ts"
import * as Target from "#src/cli/connection/Target.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import { json, note, out, plain, table } from "#src/cli/terminal/Output.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import { instant } from "#src/cli/terminal/Times.ts"
import { readItems } from "./List.ts"

const Recipient = Shape.struct({
  environmentId: Shape.string,
  environment: Shape.string,
  key: Shape.string,
  version: Shape.nullable(Shape.number),
  holder: Shape.struct({
    type: Shape.string,
    id: Shape.string,
    name: Shape.string,
    person: Shape.nullable(Shape.string)
  }),
  way: Shape.string,
  via: Shape.string,
  lastIp: Shape.string,
  firstAt: Shape.string,
  lastAt: Shape.string,
  count: Shape.number
})
type Recipient = Shape.Of<typeof Recipient>

const Counts = Shape.struct({
  people: Shape.number,
  tokens: Shape.number,
  agents: Shape.number,
  rules: Shape.number,
  backups: Shape.number
})

const report = {
  upTo: Shape.string,
  checkedAt: Shape.optional(Shape.string),
  unknownBefore: Shape.nullable(Shape.string),
  leftOutBefore: Shape.optional(Shape.nullable(Shape.string)),
  items: Shape.array(Recipient),
  page: Shape.number,
  pageSize: Shape.number,
  total: Shape.number,
  hasMore: Shape.boolean
} as const

/** `ExposurePage`. */
export const OfProject = Shape.struct(report)
type OfProject = Shape.Of<typeof OfProject>

/** `SecretExposure`. */
export const OfKey = Shape.struct({
  key: Shape.string,
  formerly: Shape.array(Shape.string),
  renamedTo: Shape.array(Shape.string),
  versions: Shape.array(Shape.struct({ version: Shape.nullable(Shape.number), handedTo: Counts, heldBy: Counts })),
  ...report
})

const pageSize = "500"
/** Maximum number of lines; `--json` also collects up to this many. */
const printedAtMost = 5_000

/** All pages, up to a bound; the other members come from the first page. */
const allPages = <A extends OfProject, E, R>(ask: (page: number) => Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const first = yield* ask(1)
    const items: Array<Recipient> = [...first.items]
    for (let page = 2, more = first.hasMore; more && items.length < printedAtMost; page++) {
      const next = yield* ask(page)
      items.push(...next.items)
      more = next.hasMore
    }
    return { ...first, items, page: 1, pageSize: items.length, hasMore: items.length < first.total }
  })

const holderText = ({ name, person, type }: Recipient["holder"]): string => {
  const kinds = new Map([
    ["api_token", "token "],
    ["oauth_client", "agent "],
    ["machine_rule", "CI rule "],
    ["backup", "backup to "]
  ])
  return `${kinds.get(type) ?? ""}${name === "" ? "no recipient" : name}${person === null ? "" : ` of ${person}`}`
}

const print = Effect.fnUntraced(function* (options: { readonly json: boolean }, exposure: OfProject) {
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

export interface ExposedOptions extends Choice.ConnectionOptions, Target.TargetOptions {
  readonly json: boolean
  readonly by: Option.Option<string>
  readonly token: Option.Option<string>
  readonly since: Option.Option<string>
  readonly key: Option.Option<string>
}

/** Members of a query without those that are left out. */
type Query = Readonly<Record<string, string | undefined>>

const ask = <A>(server: Link, path: string, query: Query, shape: Shape.Shape<A>) =>
  Effect.flatMap(server.ask({ path, query }), (answer) => bodyOf(server, answer, shape))

const ofProject = Effect.fnUntraced(function* (options: ExposedOptions, query: Query) {
  const server = yield* Choice.open(options)
  const name = yield* Target.project(options.project, server)
  const exposure = yield* Target.withProject(server, name, (projectId) =>
    allPages((page) => ask(server, `/projects/${projectId}/exposure`, { ...query, page: String(page) }, OfProject))
  )
  yield* print(options, exposure)
})

/** Secret of this key, with its present version. */
const findLive = Effect.fnUntraced(function* (server: Link, place: Query, key: string) {
  const items = yield* readItems(server, place)
  return Option.fromNullable(items.find((item) => item.key === key))
})

const ofKey = Effect.fnUntraced(function* (options: ExposedOptions, query: Query, text: string) {
  const key = yield* parseKey(text)
  const { session: server, target } = yield* Target.reach(options, Choice.open(options))
  const read = Effect.fnUntraced(function* (projectId: string) {
    const place = { projectId, environment: target.environment }
    const exposure = yield* allPages((page) =>
      ask(server, "/secrets/exposure", { ...place, ...query, key, page: String(page) }, OfKey)
    )
    const live = options.json ? Option.none() : yield* Effect.option(findLive(server, place, key))
    return { exposure, live: Option.flatten(live) }
  })
  const { exposure, live } = yield* Target.inEnvironment(server, target, read)
  if (options.json) return yield* print(options, exposure)
  if (Option.isSome(live)) yield* out(`${key} ${versionsText(exposure.versions, live.value.version)}\n`)
  yield* print(options, exposure)
  if (exposure.renamedTo.length > 0) {
    const names = exposure.renamedTo.map(plain)
    yield* note(`${key} is now called ${names.join(", ")}: \`ampoule exposed ${names[0]}\`.`)
  }
  const [former] = exposure.formerly
  if (former !== undefined) {
    yield* note(
      `It was formerly called ${exposure.formerly.map(plain).join(", ")}: \`ampoule exposed ${plain(former)}\`.`
    )
  }
})

export const showRecipients = Effect.fnUntraced(function* (options: ExposedOptions) {
  const since = yield* Effect.transposeOption(Option.map(options.since, (text) => instant("since", text)))
  const query = {
    pageSize,
    by: Option.getOrUndefined(options.by),
    token: Option.getOrUndefined(options.token),
    since: Option.getOrUndefined(since)?.toISOString()
  }
  yield* Option.isSome(options.key) ? ofKey(options, query, options.key.value) : ofProject(options, query)
})
