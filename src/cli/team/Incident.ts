/**
 * `ampoule incident`: shows exposed values and the progress of their replacement. Revoking and writing need a signed-in
 * person, like decisions about access.
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
import { instant } from "#src/cli/terminal/Times.ts"
import { json, list as printList, note, out, plain, table } from "#src/cli/terminal/Output.ts"
import { doubtText, hasTypedText, waysText } from "#src/formats/ExposureText.ts"
import { identity } from "#src/cli/connection/Routes.ts"

const api = HttpApi.make("ampoule").add(IncidentsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "incidents", httpClient: http })

/** Team of the option, or the only one that the user manages. */
const teamOf = Effect.fnUntraced(function* (session: Connection, option: Option.Option<string>) {
  const client = yield* identity(session)
  const { teams } = yield* call(session, client.me())
  const managed = teams.filter(({ role }) => role === "owner" || role === "admin")
  const matches = Option.match(option, {
    onNone: () => managed,
    onSome: (text) => managed.filter(({ id, name }) => id === text || name === text)
  })
  const [one, other] = matches
  if (one === undefined)
    return yield* new CliFailure({ message: "You do not manage such a team: this needs an owner or admin." })
  if (other === undefined) return TeamIdOut.make(one.id)
  return yield* usage(`Use --team: you manage ${matches.map(({ name }) => plain(name)).join(", ")}.`)
})

const state = (value: Incident["exposed"][number]): string => {
  const { out: isOut, replaced, uses } = value
  if (replaced !== null) {
    const what = replaced.version === null ? "deleted" : `replaced by v${replaced.version}`
    return `${what} ${replaced.at} by ${replaced.by.name}`
  }
  if (hasTypedText(value)) return `TO CHECK: typed its text around ${uses.join(", ")}`
  if (uses.length > 0) return `${isOut ? "follows" : "followed"} ${uses.join(", ")}`
  return "TO REPLACE"
}

const bracketed = (text: string | undefined) => (text === undefined ? [] : [`(${text})`])

const printReport = Effect.fnUntraced(function* ({ exposed, kept, keptCount, upTo }: IncidentReport) {
  if (exposed.length === 0) yield* note("The trail records no access to a current value.")
  else {
    yield* table(exposed, [
      ["KEY", ({ key, renamedTo }) => (renamedTo === null ? key : `${key} (now ${renamedTo})`)],
      ["VERSION", (value) => [`v${value.version}`, ...bracketed(doubtText(value))].join(" ")],
      ["WHERE", (one) => `${one.project} / ${one.environment}${one.protected ? " (protected)" : ""}`],
      ["HOW", ({ ways = [] }) => waysText(ways)],
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

const subjectOf = (options: {
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
    says: "Respond to a leak: show the current values that a person, token or login received, and open the page that replaces them.",
    more: [
      "For owners and admins. The command itself revokes nothing; you do that on the page, signed in. The page also writes generated values on request, and has a page of its own for each person with a vendor's key.",
      "--id shows the progress of an incident. --note prints its signed burn-down, which `ampoule audit verify FILE --incident NOTE` checks offline. Without options it lists the team's incidents."
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
    team: Options.optional(Shared.text("team", "name-or-id", "Team, if you manage several")),
    person: Options.optional(Shared.text("person", "person", "Person who received the values: e-mail address or id")),
    token: Options.optional(Shared.text("token", "name-or-id", "API token or CI rule that received the values")),
    grant: Options.optional(Shared.text("grant", "id", "CLI login or connected agent that received the values")),
    since: Options.optional(Shared.text("since", "time", "Only values that were handed out since this day or time")),
    id: Options.optional(Shared.text("id", "incident", "Id of an open incident")),
    note: Shared.flag("note", "With --id: print the signed burn-down")
  },
  Effect.fnUntraced(function* (options) {
    const subject = subjectOf(options)
    if (subject.length > 1 || (subject.length === 1 && Option.isSome(options.id))) {
      return yield* usage("Give one of --person, --token, --grant and --id.")
    }
    if (options.note && Option.isNone(options.id)) return yield* usage("--note needs --id.")
    const since = yield* Effect.transposeOption(Option.map(options.since, (text) => instant("since", text)))
    const session = yield* Credential.open(options)
    const teamId = yield* teamOf(session, options.team)
    const client = yield* clientOf(session)
    if (Option.isSome(options.id)) {
      const incidentId = yield* Effect.mapError(decodeId(options.id.value), () =>
        usage("That is not the id of an incident.")
      )
      const path = { teamId, incidentId }
      if (options.note) return yield* out((yield* call(session, client.note({ path }))).note)
      const incident = yield* call(session, client.show({ path }))
      if (options.json) return yield* json(incident)
      yield* printReport(incident)
      const stillOut = incident.exposed.filter((one) => one.out).length
      yield* note(`${stillOut} of ${incident.exposed.length} have not been replaced yet.`)
      return yield* note(pageOf(session.url, teamId, `/${incident.id}`))
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
    const sinceParam = Option.match(since, { onNone: () => ({}), onSome: (at) => ({ since: at.toISOString() }) })
    const urlParams: IncidentQuery = { [one[0]]: one[1], ...sinceParam }
    const report = yield* call(session, client.report({ path: { teamId }, urlParams }))
    if (options.json) return yield* json(report)
    yield* printReport(report)
    yield* note("Nothing was revoked yet. Revoke it and replace the values on this page, signed in:")
    const query = new URLSearchParams([[...one], ...Object.entries(sinceParam)]).toString()
    yield* Browser.offer(pageOf(session.url, teamId, `/new?${query}`), options)
  })
)
