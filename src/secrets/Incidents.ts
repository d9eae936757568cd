/**
 * Incidents (docs/contract/incidents.md): end all access of a person or credential, list the current values that it
 * received, and replace them. The list is signed when the incident opens. Replacements since then come from the trail.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "#schema/Caller.ts"
import {
  Forbidden,
  IntegrityFailure,
  PlanLimitReached,
  RouteNotFound,
  SecretNotFound,
  SecretVersionConflict
} from "#schema/Errors.ts"
import { type IncidentId, IncidentIdOut, type SecretId, type TeamId, UserIdOut } from "#schema/Ids.ts"
import type {
  AskForExposed,
  Incident,
  IncidentQuery,
  IncidentRef,
  IncidentReport,
  OpenIncident,
  ReplaceExposed
} from "#schema/IncidentApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { actorOf } from "#src/trail/Entry.ts"
import { Seal } from "#src/trail/Seal.ts"
import { change } from "#src/access/Change.ts"
import { signNote } from "#src/trail/CheckpointFile.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import { Exposure } from "#src/trail-use/Exposure.ts"
import { currentOf, type Subject } from "#src/trail/IncidentExposure.ts"
import { type IncidentItem, progress } from "#src/trail/IncidentProgress.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { vaultKeys } from "#src/trail/TrailVerification.ts"
import { AppConfig } from "#src/AppConfig.ts"
import * as Note from "#src/audit/Incident.ts"
import type { NoteKey } from "#src/audit/SignedNote.ts"
import { endedEvents, Revocation, revocationEvents } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { methods } from "#src/Methods.ts"
import { Members } from "#src/projects/Members.ts"
import * as Rows from "#src/database/Rows.ts"
import * as IncidentRows from "./IncidentRows.ts"
import { SecretStore } from "./SecretStore.ts"
import { ValueRequests } from "./ValueRequests.ts"

const services = Effect.all({
  access: Access,
  audit: Audit,
  seal: Seal,
  crypto: Crypto,
  exposure: Exposure,
  members: Members,
  requests: ValueRequests,
  revocation: Revocation,
  baseUrl: Effect.map(AppConfig, ({ baseUrl }) => baseUrl),
  sql: SqlClient.SqlClient,
  vault: Vault,
  secrets: SecretStore
})
type Needs = Effect.Effect.Success<typeof services>

/** Abuse limits: of a team, and of what one note names. */
const incidentsPerTeam = 1_000
const exposedAtMost = 10_000
const keptAtMost = 20_000

const read = { audit: "incident.read" } as const

/** A login for some projects does not see a whole team. */
const mayRead = Effect.fnUntraced(function* ({ access }: Needs, teamId: TeamId) {
  const permit = yield* access.team("audit:read", teamId, read)
  const { environmentIds, projectIds } = (yield* CurrentCaller).restrictions
  if (environmentIds !== null || projectIds !== null) {
    return yield* new Forbidden({ message: "This login is restricted to a part of the team." })
  }
  return permit
})

/** Current values that the subject received or typed, and those that it did not. */
const listOf = Effect.fnUntraced(function* (
  { exposure, sql }: Needs,
  at: { readonly teamId: TeamId; readonly subject: Subject; readonly since: string | null }
) {
  const { upTo } = yield* exposure.verifiedState()
  const rows = yield* currentOf(sql, at)
  const exposed = rows.flatMap(
    ({ certain, count, firstAt, inferred, lastAt, ways, ...one }): ReadonlyArray<Note.ExposedLine> =>
      count === null || firstAt === null || lastAt === null
        ? []
        : [
            {
              ...one,
              count,
              firstAt,
              lastAt,
              certain: certain === true,
              ways: ways ?? [],
              ...(inferred === true ? { inferred } : {}),
              replaced: null
            }
          ]
  )
  const kept = new Map<
    string,
    {
      readonly environmentId: string
      readonly environment: string
      readonly project: string
      readonly keys: Array<string>
    }
  >()
  const others = rows.filter(({ count }) => count === null)
  for (const { environment, environmentId, key, project } of others.slice(0, keptAtMost)) {
    const keptList = kept.get(environmentId)
    if (keptList === undefined) kept.set(environmentId, { environmentId, environment, project, keys: [key] })
    else keptList.keys.push(key)
  }
  return { upTo, exposed: exposed.slice(0, exposedAtMost), kept: [...kept.values()], keptCount: others.length }
})

/** The list as the response has it. */
const toldOf = (list: {
  readonly exposed: ReadonlyArray<Note.ExposedLine>
  readonly kept: ReadonlyArray<Note.UnexposedLine>
}) => {
  const out = new Set(Note.stillExposed(list.exposed))
  return {
    exposed: list.exposed.map((one) => IncidentRows.exposedOf(one, out.has(one))),
    kept: list.kept.map(({ environment, keys, project }) => ({ project, environment, keys }))
  }
}

const report = Effect.fn("Incidents.report")(function* (needs: Needs, teamId: TeamId, query: IncidentQuery) {
  yield* mayRead(needs, teamId)
  const subject = yield* IncidentRows.subjectOf(needs.sql, teamId, query)
  const since = query.since ?? null
  const list = yield* listOf(needs, { teamId, subject, since })
  const { keptCount, upTo } = list
  const answer: IncidentReport = { teamId, subject, since, upTo, keptCount, ...toldOf(list) }
  return answer
})

/** Ends all access of the subject, with an entry for each. */
const end = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, subject: Subject, deactivate: boolean) {
  const { access, audit, members, revocation } = needs
  if (subject.type === "person") {
    // A person who left has no access any more, but keeps the values that they received.
    const work = members.endAccess(teamId, UserIdOut.make(subject.id), { deactivate }, "incident")
    return yield* Effect.catchTag(work, "MEMBER_NOT_FOUND", () => Effect.void)
  }
  const action = subject.type === "token" ? "tokens:manage" : "members:manage"
  const permit = yield* access.team(action, teamId, { audit: "incident.open" })
  yield* change(needs, permit.event(), function* () {
    const by = { actor: permit.caller, teamId }
    const events =
      subject.type === "token"
        ? revocationEvents(permit.caller, yield* revocation.tokenInTeam(subject.id, teamId))
        : endedEvents(by, yield* revocation.loginInTeam(subject.id, teamId))
    if (events.length > 0) yield* audit.append(...events)
  })
})

/** The subject's list, signed. */
const noteOf = Effect.fnUntraced(function* (
  needs: Needs,
  head: Omit<Note.Head, "at" | "countsAuthors" | "kept" | "listedAt" | "upTo">,
  teamId: TeamId
) {
  const subject = { ...head.subject, type: IncidentRows.typeOf(head.subject.type) }
  const { exposed, kept, keptCount, upTo } = yield* listOf(needs, { teamId, subject, since: head.since })
  const listedAt = new Date(yield* Clock.currentTimeMillis).toISOString()
  const burnDown: Note.BurnDown = {
    head: { ...head, upTo, listedAt, at: head.openedAt, kept: keptCount, countsAuthors: true },
    exposed,
    kept
  }
  return { upTo, note: yield* dieWhenVaultIsDown(signNote(needs.vault, Note.text(burnDown))) }
})

/**
 * Ends access, lists values and signs the list. Entries of this process are in the list; those of others follow within
 * seconds.
 */
const open = Effect.fn("Incidents.open")(function* (
  needs: Needs,
  teamId: TeamId,
  { deactivate = false, ...query }: OpenIncident
) {
  const { audit, crypto, sql } = needs
  const permit = yield* needs.access.team("members:manage", teamId, { audit: "incident.open" })
  const subject = yield* IncidentRows.subjectOf(sql, teamId, query)
  yield* end(needs, teamId, subject, deactivate)
  yield* Effect.orDie(dieWhenVaultIsDown(needs.seal.now))
  const id = IncidentIdOut.make(yield* crypto.uuid)
  const openedAt = new Date(yield* Clock.currentTimeMillis)
  const openedBy = actorOf(permit.caller)
  const since = query.since ?? null
  const head = { id, team: teamId, subject, since, openedAt: openedAt.toISOString(), openedBy }
  const { note, upTo } = yield* noteOf(needs, head, teamId)
  yield* change(needs, permit.event(), function* () {
    const n = yield* Rows.count(sql`SELECT count(*) AS n FROM incidents WHERE team_id = ${teamId}`)
    if (n >= incidentsPerTeam) return yield* new PlanLimitReached()
    yield* Rows.run(
      sql`INSERT INTO incidents ${sql.insert({ id, team_id: teamId, opened_at: openedAt, up_to: new Date(upTo), note })}`
    )
    yield* audit.append(permit.event({ target: { type: "incident", id, name: `${subject.type}: ${subject.name}` } }))
  })
  return yield* readIncident(needs, permit, id)
})

const altered = new IntegrityFailure({ message: "The list of this incident is not what was signed." })
const notFound = () => new RouteNotFound({ message: "No such incident." })

const keysOf = ({ vault }: Needs) => dieWhenVaultIsDown(vaultKeys(vault))

const opened = (note: string, keys: ReadonlyArray<NoteKey>) =>
  Either.match(Note.open(note, keys), { onLeft: () => altered, onRight: (one) => Effect.succeed(one) })

const NoteRow = Schema.Struct({ note: Schema.String, openedAt: Schema.DateFromSelf, upTo: Schema.DateFromSelf })

const followed = (exposed: ReadonlyArray<Note.ExposedLine>, openedAt: Date) =>
  exposed.map(({ environmentId, key, version }): IncidentItem => ({
    environmentId,
    key,
    version,
    openedAt: openedAt.getTime()
  }))

/**
 * The signed list, with replacements since. A list that was signed before all earlier reads were counted is made once
 * more.
 */
const burnDownOf = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, id: IncidentId) {
  const { sql } = needs
  const find = Rows.findOne(
    NoteRow,
    sql`SELECT note, opened_at, up_to FROM incidents WHERE id = ${id} AND team_id = ${teamId}`
  )
  const row = yield* Effect.filterOrFail(find, (row) => row !== undefined, notFound)
  const keys = yield* keysOf(needs)
  const first = yield* opened(row.note, keys)
  const { at: _at, countsAuthors: _counts, kept: _kept, listedAt: _listedAt, upTo: _upTo, ...head } = first.head
  const isEarly = row.upTo.getTime() < row.openedAt.getTime()
  const again = isEarly ? yield* noteOf(needs, head, teamId) : undefined
  if (again !== undefined) {
    yield* Rows.run(sql`UPDATE incidents SET note = ${again.note}, up_to = ${new Date(again.upTo)} WHERE id = ${id}`)
  }
  const current = again === undefined ? first : yield* opened(again.note, keys)
  const since = yield* progress(sql, teamId, followed(current.exposed, row.openedAt))
  const burnDown: Note.BurnDown = {
    kept: current.kept,
    head: { ...current.head, at: new Date(yield* Clock.currentTimeMillis).toISOString() },
    exposed: current.exposed.map((one, i) => ({ ...one, ...since(i) }))
  }
  return burnDown
})

const readIncident = Effect.fnUntraced(function* (
  needs: Needs,
  permit: TeamPermit<"audit:read" | "members:manage">,
  id: IncidentId
) {
  const { teamId } = permit.target
  const burnDown = yield* burnDownOf(needs, teamId, id)
  const { kept, openedAt, openedBy, since, subject, upTo } = burnDown.head
  const answer: Incident = {
    id: IncidentIdOut.make(id),
    teamId,
    subject,
    since,
    upTo,
    keptCount: kept,
    openedAt,
    openedBy,
    ...toldOf(burnDown)
  }
  return answer
})

const show = Effect.fn("Incidents.show")(function* (needs: Needs, teamId: TeamId, id: IncidentId) {
  return yield* readIncident(needs, yield* mayRead(needs, teamId), id)
})

/** One statement for the state of all values. A list that will be made once more is shown as it was signed. */
const listOfLast = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, ...bounds: readonly [number?, number?]) {
  const incidents: Array<Note.BurnDown> = []
  const values: Array<IncidentItem> = []
  const rows = yield* IncidentRows.listed(needs.sql, teamId, ...bounds)
  const keys = yield* keysOf(needs)
  for (const { note, openedAt } of rows) {
    const one = yield* opened(note, keys)
    incidents.push(one)
    values.push(...followed(one.exposed, openedAt))
  }
  const since = yield* progress(needs.sql, teamId, values)
  let place = 0
  const items = rows.map(({ id }, i): IncidentRef => {
    const { exposed, head } = incidents[i]
    const now = exposed.map((one) => ({ ...one, ...since(place++) }))
    const { openedAt, subject } = head
    return { id, subject, openedAt, exposed: exposed.length, out: Note.stillExposed(now).length }
  })
  return items
})

const list = Effect.fn("Incidents.list")(function* (needs: Needs, teamId: TeamId) {
  yield* mayRead(needs, teamId)
  return { items: yield* listOfLast(needs, teamId) }
})

/** The last ten incidents with values left to replace. For an overview: it opens few notes. */
const unfinished = Effect.fn("Incidents.unfinished")(function* (needs: Needs, teamId: TeamId) {
  yield* mayRead(needs, teamId)
  return (yield* listOfLast(needs, teamId, 10, 1_048_576)).filter(({ out }) => out > 0)
})

/** The burn-down as of now, signed by the key of the checkpoints. */
const note = Effect.fn("Incidents.note")(function* (needs: Needs, teamId: TeamId, id: IncidentId) {
  yield* mayRead(needs, teamId)
  const burnDown = yield* burnDownOf(needs, teamId, id)
  return { note: yield* dieWhenVaultIsDown(signNote(needs.vault, Note.text(burnDown))) }
})

/** A value of the incident that was not replaced yet, with the current row of its secret. */
const stillExposed = Effect.fnUntraced(function* (needs: Needs, teamId: TeamId, id: IncidentId, secretId: SecretId) {
  // Read first: a replacement in between finds another version.
  const version = yield* IncidentRows.versionNow(needs.sql, secretId)
  const { exposed } = yield* burnDownOf(needs, teamId, id)
  const one = exposed.find((item) => item.secretId === secretId)
  if (one === undefined) return yield* new SecretNotFound({ field: "secretId" })
  if (one.replaced !== null) {
    return yield* new SecretVersionConflict({ currentVersion: one.replaced.version ?? 0, field: "secretId" })
  }
  if (version === null) return yield* new SecretNotFound({ field: "secretId" })
  return { ...one, key: one.renames?.at(-1)?.key ?? one.key, version }
})

const generatedLength = 32

/** Writes a random value in the name of the caller. No response shows it. */
const replace = Effect.fn("Incidents.replace")(function* (
  needs: Needs,
  teamId: TeamId,
  id: IncidentId,
  { length = generatedLength, secretId }: ReplaceExposed
) {
  const permit = yield* mayRead(needs, teamId)
  const one = yield* stillExposed(needs, teamId, id, secretId)
  const write = needs.secrets.writes.updateFrom({ secretId, expectedVersion: one.version, generate: { length } })
  // A generated value has no source to copy from, and the writes of owners and admins need no approval.
  yield* Effect.catchTags(write, {
    Proposed: Effect.die,
    ENVIRONMENT_NOT_FOUND: Effect.die,
    PROJECT_NOT_FOUND: Effect.die
  })
  return yield* readIncident(needs, permit, id)
})

/** A page for the person who holds the vendor's key. */
const ask = Effect.fn("Incidents.ask")(function* (
  needs: Needs,
  teamId: TeamId,
  id: IncidentId,
  { secretId, userId }: AskForExposed
) {
  yield* mayRead(needs, teamId)
  const { environment, key, projectId } = yield* stillExposed(needs, teamId, id, secretId)
  const at = { ...IncidentRows.placeOf(projectId, environment), key, userId, note: "It was handed out on a bad day." }
  const { code, expiresAt } = yield* Effect.catchTags(needs.requests.askPerson(at), {
    ENVIRONMENT_NOT_FOUND: () => new SecretNotFound({ field: "secretId" }),
    PROJECT_NOT_FOUND: () => new SecretNotFound({ field: "secretId" })
  })
  return { url: `${needs.baseUrl}/app/provide/${code}`, expiresAt: expiresAt.toISOString() }
})

export class Incidents extends Effect.Service<Incidents>()("secrets/Incidents", {
  effect: Effect.map(services, (needs) => methods(needs, { report, open, list, unfinished, show, note, replace, ask }))
}) {}
