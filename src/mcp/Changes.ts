/**
 * Notifies open streams of changes to a list or an environment. One query of the database serves all streams of this
 * process. A stream closes when its credential ends.
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

/** `resource` means a change of the environment with this address. */
export type Change =
  | { readonly kind: "tools" }
  | { readonly kind: "resources" }
  | { readonly kind: "resource"; readonly uri: string }

const pause = "3 seconds"
/** Delay of a client's reconnect, so that clients beyond a limit do not evict each other in a loop. */
export const retryMillis = 30_000

// Limits of open streams, so that neither a credential nor a team takes all streams of a process.

export const perCredential = 20
export const perTeam = 200
/** Streams of one process. */
export const inTotal = 2_000

/** The credential and the team whose limits a stream counts against. */
interface StreamOwner {
  readonly credentialId: string
  readonly teamId: TeamId | null
}

/**
 * The largest group of watchers with equal keys, oldest first. Among equal sizes, the group with the oldest watcher.
 */
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
 * The stream to end for a new one, if a limit is reached: the oldest of the credential, of the team's busiest
 * credential, or of the busiest team's. Streams of other clients never cause a refusal.
 */
export const streamToEvict = <W extends StreamOwner>(open: Iterable<W>, to: StreamOwner): W | undefined => {
  const all = [...open]
  const own = all.filter(({ credentialId }) => credentialId === to.credentialId)
  if (own.length >= perCredential) return own[0]
  const team = all.filter(({ teamId }) => teamId === to.teamId)
  if (team.length >= perTeam) return largest(team, byCredential)[0]
  if (all.length >= inTotal) return largest(largest(all, byTeam), byCredential)[0]
  return undefined
}

/** Reason for the end of a stream. */
export type End = "credential" | "room" | "shutdown"

/** Receiver of a stream's events: plain calls, since a fiber for each of many streams costs too much. */
interface Sink {
  readonly tell: (change: Change) => void
  /** Called at most once, after the last change. */
  readonly end: (why: End) => void
}

interface Watcher extends StreamOwner {
  readonly bearer: Redacted.Redacted
  readonly sink: Sink
  /** True if the client's list of tools grows with its scopes. */
  readonly staged: boolean
  uris: ReadonlyArray<string>
  /** The caller's view at the last look; undefined before the first look, which reports no changes. */
  lastView: View | undefined
}

/** All parts that the caller can see, each with a text that changes whenever the part changes. */
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

/** One text per team, which changes when a project or an environment is created, renamed or deleted. */
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

/** Batches look-ups: streams that open during a statement share the next one. */
const teamStateBatches = (sql: SqlClient.SqlClient) =>
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
    teamStates: yield* teamStateBatches(sql),
    credentials: yield* Credentials,
    stopping: yield* Deferred.make<void>(),
    scope: yield* Effect.scope,
    open: new Set<Watcher>(),
    /** Open streams of each credential and each team. */
    shares: new Map<string, number>(),
    /** Last known states of the teams with open streams, from a look at all streams or from a new stream. */
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

/** Skips the statement for streams without resources, which most are. */
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

/** Current callers of these streams by credential; none for an ended credential. */
const callersOf = ({ credentials }: Needs, watchers: ReadonlyArray<Watcher>) => {
  const bearers = new Map(watchers.map(({ bearer }) => [Redacted.value(bearer), bearer]))
  return Effect.forEach(
    bearers,
    ([text, bearer]) => Effect.map(Effect.option(credentials.check(bearer)), (caller) => [text, caller] as const),
    { concurrency: 64 }
  ).pipe(Effect.map((callers) => new Map(callers)))
}

type Callers = ReadonlyMap<string, Option.Option<Caller>>

/** Adds `change` to the streams of the owner's credential and team, and returns both counts. */
const count = ({ shares }: Needs, { credentialId, teamId }: StreamOwner, change: 1 | 0 | -1) => {
  const one = (name: string) => {
    const streams = (shares.get(name) ?? 0) + change
    if (streams > 0) shares.set(name, streams)
    else shares.delete(name)
    return streams
  }
  return { ofCredential: one(`credential ${credentialId}`), ofTeam: one(`team ${teamId}`) }
}

/** Removes the watcher; true if it was open. */
const forget = (needs: Needs, watcher: Watcher): boolean => {
  const was = needs.open.delete(watcher)
  if (was) count(needs, watcher, -1)
  return was
}

/** Ends the watcher. A look that runs at this moment sends it no more changes. */
const close = (needs: Needs, watcher: Watcher, why: End) => {
  if (forget(needs, watcher)) watcher.sink.end(why)
}

/** Time in which a client with new scopes exchanges its code before it lists the tools again. */
const exchangeGrace = "10 seconds"

/**
 * Ends the stream of an ended credential. A credential with more scopes may have replaced it. So a client with a growing
 * list of tools first gets one notice to list them again.
 */
const endExpired = (needs: Needs, watcher: Watcher) => {
  if (!watcher.staged) return Effect.sync(() => close(needs, watcher, "credential"))
  if (!forget(needs, watcher)) return Effect.void
  const last = Effect.sync(() => {
    watcher.sink.tell({ kind: "tools" })
    watcher.sink.end("credential")
  })
  const graceOver = Effect.raceFirst(Effect.sleep(exchangeGrace), Deferred.await(needs.stopping))
  return Effect.asVoid(Effect.forkIn(Effect.zipRight(graceOver, last), needs.scope))
}

const idsOf = ({ teams }: Caller): ReadonlyArray<TeamId> => teams.map(({ id }) => id)

const teamsOf = (callers: Callers): ReadonlyArray<TeamId> => {
  const ids = [...callers.values()].flatMap((caller) => (caller._tag === "Some" ? idsOf(caller.value) : []))
  return [...new Set(ids)]
}

/** Compares each caller's view with its last one, and sends the differences. */
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
  // Most streams of a credential follow no resource and share one view.
  const plain = new Map<Caller, View>()
  const viewFor = (caller: Caller, uris: ReadonlyArray<string>) => {
    const cached = uris.length === 0 ? plain.get(caller) : undefined
    if (cached !== undefined) return cached
    const view = viewOf(caller, uris, states)
    if (uris.length === 0) plain.set(caller, view)
    return view
  }
  for (const watcher of watchers) {
    // The stream may have ended during this look.
    if (!needs.open.has(watcher)) continue
    const caller = callers.get(Redacted.value(watcher.bearer))
    if (caller === undefined || caller._tag === "None") {
      yield* endExpired(needs, watcher)
      continue
    }
    const view = viewFor(caller.value, watcher.uris)
    if (watcher.lastView !== undefined) changesBetween(watcher.lastView, view).forEach(watcher.sink.tell)
    watcher.lastView = view
  }
})

const lookAtAll = (needs: Needs) =>
  Effect.suspend(() => {
    const watchers = [...needs.open]
    // Without open streams there are no looks, so the last states would become stale.
    if (watchers.length === 0) return Ref.set(needs.latest, new Map())
    return Effect.gen(function* () {
      const callers = yield* callersOf(needs, watchers)
      const teams = yield* needs.teamStates(teamsOf(callers))
      yield* Ref.set(needs.latest, teams)
      yield* look(needs, watchers, callers, teams)
    })
  })

/**
 * States that a new stream starts from. Reusing the last states saves statements. A later change still reaches the
 * stream, and in the worst case the client lists once too often.
 */
const statesToBegin = (needs: Needs, teamIds: ReadonlyArray<TeamId>) =>
  Effect.flatMap(Ref.get(needs.latest), (latest) =>
    teamIds.every((id) => latest.has(id))
      ? Effect.succeed(latest)
      : Effect.tap(needs.teamStates(teamIds), (states) =>
          Ref.update(needs.latest, (before) => new Map([...before, ...states]))
        )
  )

/** Opens the watcher, and ends another stream if a limit is reached. */
const add = (needs: Needs, watcher: Watcher) => {
  const { ofCredential, ofTeam } = count(needs, watcher, 0)
  // Checked first, because the search for a stream to end visits all of them.
  const isFull = ofCredential >= perCredential || ofTeam >= perTeam || needs.open.size >= inTotal
  const evicted = isFull ? streamToEvict(needs.open, watcher) : undefined
  if (evicted !== undefined) close(needs, evicted, "room")
  needs.open.add(watcher)
  count(needs, watcher, 1)
}

interface Watching extends Sink {
  readonly staged: boolean
  readonly hold: Hold
}

/**
 * Sends changes from now on, until the stream is released, its credential ends, the server stops, or a new stream
 * evicts it. The returned function replaces the watched resources.
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
    lastView: undefined
  }
  add(needs, watcher)
  hold.until(() => forget(needs, watcher))
  // The caller was just verified; every look verifies it again.
  const teams = yield* statesToBegin(needs, idsOf(caller))
  const environments = yield* environmentStates(needs, uris)
  if (needs.open.has(watcher)) watcher.lastView ??= viewOf(caller, uris, { teams, environments })
  // The list may have grown before this stream opened.
  if (staged) tell({ kind: "tools" })
  return (next: ReadonlyArray<string>) => {
    watcher.uris = next
  }
})

/** Ends all streams, because the server stops. */
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
