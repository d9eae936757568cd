/**
 * Tells open streams that a list or an environment changed. One look at the database serves all streams of this
 * process; a stream whose credential ended is closed.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { EnvironmentIdOut, ProjectIdOut, type TeamId, TeamIdOut } from "#schema/Ids.ts"
import { Visibility } from "#schema/Scopes.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import * as Policy from "#src/access/Policy.ts"
import type { Hold } from "#src/http/engine/EventStream.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { Credentials, missingScopes, scopesOf, teamOf } from "./Credentials.ts"
import { parseEnvironmentUri } from "./Resources.ts"

/** `resource`: the environment of this address changed. */
export type Change =
  | { readonly kind: "tools" }
  | { readonly kind: "resources" }
  | { readonly kind: "resource"; readonly uri: string }

const pause = "3 seconds"
/** A client whose stream ended comes back after this, so that clients beyond a limit do not chase each other. */
export const retryMillis = 30_000

// Which open stream ends for a new one, so that neither a credential nor a team takes all streams of a process.

export const perCredential = 20
export const perTeam = 200
/** Of one process. */
export const inTotal = 2_000

/** Whose shares a stream counts in. */
interface StreamOwner {
  readonly credentialId: string
  readonly teamId: TeamId | null
}

/** The members with the most watchers in common, oldest first; of equals those that hold the oldest. */
const largest = <W>(watchers: ReadonlyArray<W>, of: (watcher: W) => string | null): ReadonlyArray<W> => {
  const shares = new Map<string | null, Array<W>>()
  for (const watcher of watchers) {
    const share = shares.get(of(watcher))
    if (share === undefined) shares.set(of(watcher), [watcher])
    else share.push(watcher)
  }
  const none: ReadonlyArray<W> = []
  return [...shares.values()].reduce((most, share) => (share.length > most.length ? share : most), none)
}
const byCredential = ({ credentialId }: StreamOwner) => credentialId
const byTeam = ({ teamId }: StreamOwner) => teamId

/**
 * The stream that ends for a new one: the oldest of the credential, of the team's busiest credential, or of the busiest
 * team's, whichever limit is reached. A client is never refused because of streams that others hold open.
 */
export const makesRoom = <W extends StreamOwner>(open: Iterable<W>, to: StreamOwner): W | undefined => {
  const all = [...open]
  const own = all.filter(({ credentialId }) => credentialId === to.credentialId)
  if (own.length >= perCredential) return own[0]
  const team = all.filter(({ teamId }) => teamId === to.teamId)
  if (team.length >= perTeam) return largest(team, byCredential)[0]
  if (all.length >= inTotal) return largest(largest(all, byTeam), byCredential)[0]
  return undefined
}

/** Why a stream ends. */
export type End = "credential" | "room" | "shutdown"

/** What a stream hears: calls that cost no fiber each, since there are many. */
interface Sink {
  readonly tell: (change: Change) => void
  /** Called once at most; nothing is told after it. */
  readonly end: (why: End) => void
}

interface Watcher extends StreamOwner {
  readonly bearer: Redacted.Redacted
  readonly sink: Sink
  /** The client has a list of tools that grows. */
  readonly staged: boolean
  uris: ReadonlyArray<string>
  /** What the caller saw at the last look; undefined before the first one, which only remembers. */
  seen: View | undefined
}

/** Everything that the caller can see, each part with a text that changes when the part does. */
type View = ReadonlyMap<string, string>

const TeamStateRow = Schema.Struct({ teamId: TeamIdOut, state: Schema.String })
const EnvironmentStateRow = Schema.Struct({
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  environmentId: EnvironmentIdOut,
  slug: Schema.String,
  visibility: Visibility,
  state: Schema.String
})
type EnvironmentStateRow = typeof EnvironmentStateRow.Type

interface States {
  readonly teams: ReadonlyMap<TeamId, string>
  readonly environments: ReadonlyMap<string, EnvironmentStateRow>
}

const locationKey = (projectId: string, slug: string) => `${projectId}/${slug}`

/** Of each team: a text that changes when one of its projects or environments is made, renamed or deleted. */
const readTeams = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, teamIds: ReadonlyArray<TeamId>) {
  const rows = yield* Rows.findAll(
    TeamStateRow,
    sql`
      SELECT t.id AS team_id, concat_ws('/',
          (SELECT max(p.updated_at) FROM projects p WHERE p.team_id = t.id),
          (SELECT max(e.updated_at) FROM environments e WHERE e.team_id = t.id),
          (SELECT count(*) FROM environments e WHERE e.team_id = t.id)) AS state
      FROM teams t WHERE t.id = any(${teamIds}::uuid[])`
  )
  return new Map(rows.map(({ state, teamId }) => [teamId, state]))
})

/** Streams that open while a statement is under way share the next one. */
const teamLooks = (sql: SqlClient.SqlClient) =>
  GroupCommit.make({
    maxBatch: 128,
    maxInFlight: 1,
    run: (batch: ReadonlyArray<ReadonlyArray<TeamId>>) =>
      Effect.map(readTeams(sql, [...new Set(batch.flat())]), (states) => batch.map(() => states))
  })

const services = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return {
    sql,
    teamStates: yield* teamLooks(sql),
    credentials: yield* Credentials,
    stopping: yield* Deferred.make<void>(),
    scope: yield* Effect.scope,
    open: new Set<Watcher>(),
    /** Open streams of each credential and each team. */
    shares: new Map<string, number>(),
    /** What was found last of the teams that streams are open for, by a look at all streams or by a new stream. */
    latest: yield* Ref.make<ReadonlyMap<TeamId, string>>(new Map())
  }
})
type Needs = Effect.Effect.Success<typeof services>

const readEnvironments = Effect.fnUntraced(function* (
  { sql }: Needs,
  locations: ReadonlyArray<NonNullable<ReturnType<typeof parseEnvironmentUri>>>
) {
  const rows = yield* Rows.findAll(
    EnvironmentStateRow,
    sql`
      SELECT e.team_id, e.project_id, e.id AS environment_id, e.slug, p.visibility, concat(e.id, '/', e.revision) AS state
      FROM unnest(${locations.map((one) => one.projectId)}::uuid[], ${locations.map((one) => one.environment)}::text[])
        AS q (project_id, slug)
      JOIN environments e ON e.project_id = q.project_id AND e.slug = q.slug AND e.deleted_at IS NULL
      JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL`
  )
  return new Map(rows.map((row) => [locationKey(row.projectId, row.slug), row]))
})

const noEnvironments: States["environments"] = new Map()

/** Most streams follow none. */
const environmentStates = (needs: Needs, uris: ReadonlyArray<string>): Effect.Effect<States["environments"]> => {
  if (uris.length === 0) return Effect.succeed(noEnvironments)
  const locations = [...new Set(uris)].flatMap((uri) => parseEnvironmentUri(uri) ?? [])
  return locations.length === 0 ? Effect.succeed(noEnvironments) : readEnvironments(needs, locations)
}

const viewOf = (caller: Caller, uris: ReadonlyArray<string>, { environments, teams }: States): View => {
  const view = new Map<string, string>()
  view.set("tools", scopesOf(caller).join(" "))
  view.set("resources", caller.teams.map(({ id, role }) => `${id} ${role} ${teams.get(id)}`).join())
  if (missingScopes(caller, ["secrets:read"]).length > 0) return view
  for (const uri of uris) {
    const location = parseEnvironmentUri(uri)
    const row =
      location === undefined ? undefined : environments.get(locationKey(location.projectId, location.environment))
    view.set(uri, row !== undefined && Policy.environmentVisible(caller, row) ? row.state : "")
  }
  return view
}

const changesBetween = (before: View, after: View): ReadonlyArray<Change> =>
  [...after].flatMap(([part, state]): ReadonlyArray<Change> => {
    const earlier = before.get(part)
    if (earlier === undefined || earlier === state) return []
    return part === "tools" || part === "resources" ? [{ kind: part }] : [{ kind: "resource", uri: part }]
  })

/** Callers of these streams as of now, by credential; streams whose credential ended have none. */
const callersOf = ({ credentials }: Needs, watchers: ReadonlyArray<Watcher>) => {
  const bearers = new Map(watchers.map(({ bearer }) => [Redacted.value(bearer), bearer]))
  return Effect.forEach(
    bearers,
    ([text, bearer]) => Effect.map(Effect.option(credentials.check(bearer)), (caller) => [text, caller] as const),
    { concurrency: 64 }
  ).pipe(Effect.map((callers) => new Map(callers)))
}

type Callers = ReadonlyMap<string, Option.Option<Caller>>

/** How many streams its credential and its team have after `change`. */
const count = ({ shares }: Needs, { credentialId, teamId }: StreamOwner, change: 1 | 0 | -1) => {
  const one = (name: string) => {
    const streams = (shares.get(name) ?? 0) + change
    if (streams > 0) shares.set(name, streams)
    else shares.delete(name)
    return streams
  }
  return { ofCredential: one(`credential ${credentialId}`), ofTeam: one(`team ${teamId}`) }
}

/** Whether it was open. */
const forget = (needs: Needs, watcher: Watcher): boolean => {
  const was = needs.open.delete(watcher)
  if (was) count(needs, watcher, -1)
  return was
}

/** No more is told to the watcher, wherever a look is at. */
const close = (needs: Needs, watcher: Watcher, why: End) => {
  if (forget(needs, watcher)) watcher.sink.end(why)
}

/** A client that was given more exchanges its code meanwhile, and lists the tools with what it got. */
const exchange = "10 seconds"

/**
 * The credential ended. It may have made way for one with more scopes: a client whose list of tools grows is told to look
 * at the list once more, and nothing else.
 */
const expel = (needs: Needs, watcher: Watcher) => {
  if (!watcher.staged) return Effect.sync(() => close(needs, watcher, "credential"))
  if (!forget(needs, watcher)) return Effect.void
  const last = Effect.sync(() => {
    watcher.sink.tell({ kind: "tools" })
    watcher.sink.end("credential")
  })
  const waited = Effect.raceFirst(Effect.sleep(exchange), Deferred.await(needs.stopping))
  return Effect.asVoid(Effect.forkIn(Effect.zipRight(waited, last), needs.scope))
}

const idsOf = ({ teams }: Caller): ReadonlyArray<TeamId> => teams.map(({ id }) => id)

const teamsOf = (callers: Callers): ReadonlyArray<TeamId> => {
  const ids = [...callers.values()].flatMap((caller) => (caller._tag === "Some" ? idsOf(caller.value) : []))
  return [...new Set(ids)]
}

/** Compares what each caller sees with what it saw, and tells the difference. */
const look = Effect.fnUntraced(function* (
  needs: Needs,
  watchers: ReadonlyArray<Watcher>,
  callers: Callers,
  teams: States["teams"]
) {
  const states: States = {
    teams,
    environments: yield* environmentStates(
      needs,
      watchers.flatMap(({ uris }) => uris)
    )
  }
  // Most streams of a credential follow no resource, and see the same.
  const plain = new Map<Caller, View>()
  const seenBy = (caller: Caller, uris: ReadonlyArray<string>) => {
    const known = uris.length === 0 ? plain.get(caller) : undefined
    if (known !== undefined) return known
    const view = viewOf(caller, uris, states)
    if (uris.length === 0) plain.set(caller, view)
    return view
  }
  for (const watcher of watchers) {
    // It may have ended during the look.
    if (!needs.open.has(watcher)) continue
    const caller = callers.get(Redacted.value(watcher.bearer))
    if (caller === undefined || caller._tag === "None") {
      yield* expel(needs, watcher)
      continue
    }
    const view = seenBy(caller.value, watcher.uris)
    if (watcher.seen !== undefined) changesBetween(watcher.seen, view).forEach(watcher.sink.tell)
    watcher.seen = view
  }
})

const lookAtAll = (needs: Needs) =>
  Effect.suspend(() => {
    const watchers = [...needs.open]
    // With no stream open nobody looks, and what was found grows old.
    if (watchers.length === 0) return Ref.set(needs.latest, new Map())
    return Effect.gen(function* () {
      const callers = yield* callersOf(needs, watchers)
      const teams = yield* needs.teamStates(teamsOf(callers))
      yield* Ref.set(needs.latest, teams)
      yield* look(needs, watchers, callers, teams)
    })
  })

/**
 * Where a new stream begins. What was found last will do, and what this one finds serves those that come after it until
 * the next look, which spares statements: a change since then is told, and at worst the client lists once more.
 */
const statesToBegin = (needs: Needs, teamIds: ReadonlyArray<TeamId>) =>
  Effect.flatMap(Ref.get(needs.latest), (latest) =>
    teamIds.every((id) => latest.has(id))
      ? Effect.succeed(latest)
      : Effect.tap(needs.teamStates(teamIds), (found) =>
          Ref.update(needs.latest, (before) => new Map([...before, ...found]))
        )
  )

/** Opens the watcher, and ends another stream where a limit is reached. */
const add = (needs: Needs, watcher: Watcher) => {
  const { ofCredential, ofTeam } = count(needs, watcher, 0)
  // Most find room, and who must make it is sought among all.
  const isFull = ofCredential >= perCredential || ofTeam >= perTeam || needs.open.size >= inTotal
  const ended = isFull ? makesRoom(needs.open, watcher) : undefined
  if (ended !== undefined) close(needs, ended, "room")
  needs.open.add(watcher)
  count(needs, watcher, 1)
}

interface Watching extends Sink {
  readonly staged: boolean
  readonly hold: Hold
}

/**
 * Tells changes from now on, for as long as the stream is held, until the credential ends, the server stops, or the
 * stream makes room for another. What it answers replaces the resources that are watched.
 */
const watch = Effect.fnUntraced(function* (
  needs: Needs,
  { bearer, caller }: { readonly caller: Caller; readonly bearer: Redacted.Redacted },
  uris: ReadonlyArray<string>,
  { end, hold, staged, tell }: Watching
) {
  const watcher: Watcher = {
    bearer,
    credentialId: caller.credentialId,
    teamId: teamOf(caller),
    sink: { tell, end },
    staged,
    uris,
    seen: undefined
  }
  add(needs, watcher)
  hold.until(() => forget(needs, watcher))
  // Who calls was just verified; from here on it is looked at again and again.
  const teams = yield* statesToBegin(needs, idsOf(caller))
  const environments = yield* environmentStates(needs, uris)
  if (needs.open.has(watcher)) watcher.seen ??= viewOf(caller, uris, { teams, environments })
  // The list may have grown while there was no stream.
  if (staged) tell({ kind: "tools" })
  return (next: ReadonlyArray<string>) => {
    watcher.uris = next
  }
})

/** The server stops: whatever answers without an end ends now. */
const endAll = (needs: Needs) =>
  Effect.suspend(() => {
    for (const watcher of needs.open) close(needs, watcher, "shutdown")
    return Effect.asVoid(Deferred.succeed(needs.stopping, undefined))
  })

export class Changes extends Effect.Service<Changes>()("mcp/Changes", {
  scoped: Effect.gen(function* () {
    const needs = yield* services
    yield* Housekeeping.every(pause, lookAtAll(needs))
    return methods(needs, { watch, look: lookAtAll, endAll })
  })
}) {}
