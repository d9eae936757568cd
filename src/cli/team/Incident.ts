/**
 * `ampoule incident`: a bad day. It tells what was handed out and how far the replacing is; what ends and writes things
 * needs a signed-in person, as decisions of `access` do.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { IncidentId, TeamIdOut } from "#schema/Ids.ts"
import { type Incident, type IncidentQuery, type IncidentReport, IncidentsApi } from "#schema/IncidentApi.ts"
import * as Browser from "#src/cli/terminal/Browser.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, list as printList, note, out, plain, table } from "#src/cli/terminal/Output.ts"
import { identity } from "#src/cli/connection/Routes.ts"

const api = HttpApi.make("ampoule").add(IncidentsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "incidents", httpClient: http })

/** The team that is named, or the only one that the person manages. */
const teamOf = Effect.fnUntraced(function* (session: Connection, named: Option.Option<string>) {
  const client = yield* identity(session)
  const { teams } = yield* call(session, client.me())
  const managed = teams.filter(({ role }) => role === "owner" || role === "admin")
  const fits = Option.match(named, {
    onNone: () => managed,
    onSome: (text) => managed.filter(({ id, name }) => id === text || name === text)
  })
  const [one, other] = fits
  if (one === undefined)
    return yield* new CliFailure({ message: "You manage no such team: owners and admins do this." })
  if (other === undefined) return TeamIdOut.make(one.id)
  return yield* usage(`Say --team: you manage ${fits.map(({ name }) => plain(name)).join(", ")}.`)
})

const state = ({ out: isOut, replaced, uses }: Incident["exposed"][number]): string => {
  if (replaced !== null) {
    const what = replaced.version === null ? "deleted" : `replaced by v${replaced.version}`
    return `${what} ${replaced.at} by ${replaced.by.name}`
  }
  if (uses.length > 0) return `${isOut ? "follows" : "followed"} ${uses.join(", ")}`
  return "TO REPLACE"
}

const printed = Effect.fnUntraced(function* ({ exposed, kept, keptCount, upTo }: IncidentReport) {
  if (exposed.length === 0) yield* note("No current value was handed out that the trail tells of.")
  else {
    yield* table(exposed, [
      ["KEY", ({ key, renamedTo }) => (renamedTo === null ? key : `${key} (now ${renamedTo})`)],
      ["VERSION", ({ certain, version }) => `v${version}${certain ? "" : " (or earlier)"}`],
      ["WHERE", (one) => `${one.project} / ${one.environment}${one.protected ? " (protected)" : ""}`],
      ["TIMES", ({ count }) => String(count)],
      ["LAST", ({ lastAt }) => lastAt],
      ["STATE", state]
    ])
  }
  yield* note(`Not handed out: ${keptCount} current values.`)
  for (const { environment, keys, project } of kept) {
    yield* note(`  ${plain(project)} / ${plain(environment)}: ${keys.map(plain).join(" ")}`)
  }
  yield* note(`As of ${plain(upTo)}.`)
})

const pageOf = (url: string, teamId: string, rest: string) => `${url}/app/teams/${teamId}/incidents${rest}`

const decodeId = Schema.decodeUnknown(IncidentId)

const chosen = (options: {
  readonly person: Option.Option<string>
  readonly token: Option.Option<string>
  readonly grant: Option.Option<string>
}): ReadonlyArray<readonly [string, string]> =>
  (["person", "token", "grant"] as const).flatMap((name) =>
    Option.match(options[name], { onNone: () => [], onSome: (text) => [[name, text] as const] })
  )

export const incident = Help.command(
  "incident",
  {
    says: "A bad day: show which current values somebody was handed, and go to the page that ends and replaces them.",
    more: [
      "For owners and admins. It ends nothing by itself: the page does, signed in. There, generated values are written on request, and a person who holds a vendor's key gets a page of their own.",
      "With --id how far an incident is; with --note its signed burn-down, which `ampoule audit verify FILE --incident NOTE` checks offline. Without anything the incidents of the team."
    ],
    examples: [
      "ampoule incident --person bob@example.com --since 2026-11-01",
      "ampoule incident --token ci",
      "ampoule incident --id 01980a70-1b2c-7d3e-8f40-5162738495a6 --note > incident.note"
    ]
  },
  {
    ...Shared.connection,
    json: Shared.json,
    noBrowser: Shared.noBrowser,
    team: Options.optional(Shared.text("team", "name-or-id", "The team, when you manage several")),
    person: Options.optional(Shared.text("person", "person", "What this person was handed: e-mail address or id")),
    token: Options.optional(Shared.text("token", "name-or-id", "What this API token or CI rule was handed")),
    grant: Options.optional(Shared.text("grant", "id", "What this CLI login or connected agent was handed")),
    since: Options.optional(Shared.text("since", "time", "Only what was handed out since this day or time")),
    id: Options.optional(Shared.text("id", "incident", "An incident that is open")),
    note: Shared.flag("note", "With --id: print the signed burn-down")
  },
  Effect.fnUntraced(function* (options) {
    const subject = chosen(options)
    if (subject.length > 1 || (subject.length === 1 && Option.isSome(options.id))) {
      return yield* usage("Give one of --person, --token, --grant and --id.")
    }
    if (options.note && Option.isNone(options.id)) return yield* usage("--note needs --id.")
    const since = yield* Effect.transposeOption(Option.map(options.since, (text) => Shared.instant("since", text)))
    const session = yield* Credential.open(options)
    const teamId = yield* teamOf(session, options.team)
    const client = yield* clientOf(session)
    if (Option.isSome(options.id)) {
      const incidentId = yield* Effect.mapError(decodeId(options.id.value), () =>
        usage("That is no id of an incident.")
      )
      const path = { teamId, incidentId }
      if (options.note) return yield* out((yield* call(session, client.note({ path }))).note)
      const found = yield* call(session, client.show({ path }))
      if (options.json) return yield* json(found)
      yield* printed(found)
      const left = found.exposed.filter((one) => one.out).length
      yield* note(`${left} of ${found.exposed.length} are still as they were handed out.`)
      return yield* note(pageOf(session.url, teamId, `/${found.id}`))
    }
    const [one] = subject
    if (one === undefined) {
      const { items } = yield* call(session, client.list({ path: { teamId } }))
      return yield* printList(options, items, "No incident.", [
        ["ID", ({ id }) => id],
        ["OPENED", ({ openedAt }) => openedAt],
        ["ABOUT", ({ subject: { name, type } }) => `${type} ${name}`],
        ["HANDED OUT", ({ exposed }) => String(exposed)],
        ["STILL OUT", ({ out: left }) => String(left)]
      ])
    }
    const asked = Option.match(since, { onNone: () => ({}), onSome: (at) => ({ since: at.toISOString() }) })
    const urlParams: IncidentQuery = { [one[0]]: one[1], ...asked }
    const found = yield* call(session, client.report({ path: { teamId }, urlParams }))
    if (options.json) return yield* json(found)
    yield* printed(found)
    yield* note("Nothing has ended yet. End it, and replace the values, on this page, signed in:")
    const query = new URLSearchParams([[...one], ...Object.entries(asked)]).toString()
    yield* Browser.offer(pageOf(session.url, teamId, `/new?${query}`), options)
  })
)
