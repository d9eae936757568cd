/**
 * What open streams are told: that a list or an environment changed, look again. One look at the database for all
 * streams of this process; a stream whose credential is no longer good ends.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import type { EnvironmentId, ProjectId, TeamId } from "#schema/Ids.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Credentials, missingScopes, scopesOf } from "./Credentials.ts"
import { parseEnvironmentUri } from "./Resources.ts"

/** `resource`: the environment of this address changed. */
export type Change =
  | { readonly kind: "tools" }
  | { readonly kind: "resources" }
  | { readonly kind: "resource"; readonly uri: string }

export const perCredential = 20
export const perTeam = 200
/** Of one process. */
export const inTotal = 2_000
const pause = "3 seconds"
/** A client whose stream ended comes back after this, so that clients beyond a limit do not chase each other. */
export const retryMillis = 30_000

/** Whose share a connection counts in. A person's grant of several teams counts in one of them, always the same. */
export const teamOf = (caller: Caller): TeamId | null => caller.teams[0]?.id ?? null

interface Watcher {
  readonly bearer: Redacted.Redacted
  readonly credentialId: string
  readonly teamId: TeamId | null
  readonly queue: Queue.Queue<Change>
  uris: ReadonlyArray<string>
  /** As last told; a first look only remembers. */
  seen: ReadonlyMap<string, string> | undefined
}

interface EnvironmentState {
  readonly teamId: TeamId
  readonly projectId: ProjectId
  readonly environmentId: EnvironmentId
  readonly slug: string
  readonly state: string
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
const byCredential = ({ credentialId }: Pick<Watcher, "credentialId">) => credentialId
const byTeam = ({ teamId }: Pick<Watcher, "teamId">) => teamId

/**
 * The stream that ends for a new one: the oldest of the credential, of the team's busiest credential, or of the busiest
 * team's, whichever limit is reached. Nobody is refused for what others hold open.
 */
export const makesRoom = <W extends Pick<Watcher, "credentialId" | "teamId">>(
  open: Iterable<W>,
  to: Pick<Watcher, "credentialId" | "teamId">
): W | undefined => {
  const all = [...open]
  const own = all.filter(({ credentialId }) => credentialId === to.credentialId)
  if (own.length >= perCredential) return own[0]
  const team = all.filter(({ teamId }) => teamId === to.teamId)
  if (team.length >= perTeam) return largest(team, byCredential)[0]
  if (all.length >= inTotal) return largest(largest(all, byTeam), byCredential)[0]
  return undefined
}

const place = (projectId: string, slug: string) => `${projectId}/${slug}`

export class Changes extends Effect.Service<Changes>()("mcp/Changes", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const credentials = yield* Credentials
    const open = new Set<Watcher>()

    /** Of each team: a text that changes when a project or environment of it is made, renamed or deleted. */
    const teamStates = Effect.fnUntraced(function* (teamIds: ReadonlyArray<TeamId>) {
      const rows = yield* sql<{ readonly teamId: TeamId; readonly state: string }>`
        SELECT t.id AS team_id, concat_ws('/',
            (SELECT max(p.updated_at) FROM projects p WHERE p.team_id = t.id),
            (SELECT max(e.updated_at) FROM environments e WHERE e.team_id = t.id),
            (SELECT count(*) FROM environments e WHERE e.team_id = t.id)) AS state
        FROM teams t WHERE t.id = any(${teamIds}::uuid[])`
      return new Map(rows.map(({ state, teamId }) => [teamId, state]))
    })

    const environmentStates = Effect.fnUntraced(function* (uris: ReadonlyArray<string>) {
      const places = [...new Set(uris)].flatMap((uri) => parseEnvironmentUri(uri) ?? [])
      if (places.length === 0) return new Map<string, EnvironmentState>()
      const rows = yield* sql<EnvironmentState>`
        SELECT e.team_id, e.project_id, e.id AS environment_id, e.slug, concat(e.id, '/', e.revision) AS state
        FROM unnest(${places.map((one) => one.projectId)}::uuid[], ${places.map((one) => one.environment)}::text[])
          AS q (project_id, slug)
        JOIN environments e ON e.project_id = q.project_id AND e.slug = q.slug AND e.deleted_at IS NULL
        JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL`
      return new Map(rows.map((row) => [place(row.projectId, row.slug), row]))
    })

    /** What the caller can know of, each with a text that changes when it does. */
    const viewOf = (
      caller: Caller,
      uris: ReadonlyArray<string>,
      teams: ReadonlyMap<TeamId, string>,
      environments: ReadonlyMap<string, EnvironmentState>
    ): ReadonlyMap<string, string> => {
      const view = new Map<string, string>()
      view.set("tools", scopesOf(caller).join(" "))
      view.set("resources", caller.teams.map(({ id, role }) => `${id} ${role} ${teams.get(id)}`).join())
      if (missingScopes(caller, ["secrets:read"]).length > 0) return view
      for (const uri of uris) {
        const at = parseEnvironmentUri(uri)
        const state = at === undefined ? undefined : environments.get(place(at.projectId, at.environment))
        view.set(uri, state !== undefined && Policy.environmentVisible(caller, state) ? state.state : "")
      }
      return view
    }

    const changesOf = (
      before: ReadonlyMap<string, string>,
      after: ReadonlyMap<string, string>
    ): ReadonlyArray<Change> =>
      [...after].flatMap(([what, state]): ReadonlyArray<Change> => {
        const known = before.get(what)
        if (known === undefined || known === state) return []
        return what === "tools" || what === "resources" ? [{ kind: what }] : [{ kind: "resource", uri: what }]
      })

    const look = Effect.fnUntraced(function* (watchers: ReadonlyArray<Watcher>) {
      if (watchers.length === 0) return
      const callers = new Map(
        yield* Effect.forEach(
          new Set(watchers.map(({ bearer }) => Redacted.value(bearer))),
          (text) => Effect.map(Effect.option(credentials.check(text)), (caller) => [text, caller] as const),
          { concurrency: 64 }
        )
      )
      const teamIds = [...callers.values()].flatMap((caller) =>
        caller._tag === "Some" ? caller.value.teams.map(({ id }) => id) : []
      )
      const teams = yield* teamStates([...new Set(teamIds)])
      const environments = yield* environmentStates(watchers.flatMap(({ uris }) => uris))
      for (const watcher of watchers) {
        // Ended while we looked.
        if (!open.has(watcher)) continue
        const caller = callers.get(Redacted.value(watcher.bearer))
        if (caller === undefined || caller._tag === "None") {
          yield* Queue.shutdown(watcher.queue)
          continue
        }
        const view = viewOf(caller.value, watcher.uris, teams, environments)
        if (watcher.seen !== undefined) yield* Queue.offerAll(watcher.queue, changesOf(watcher.seen, view))
        watcher.seen = view
      }
    })

    /**
     * Changes from now on, until the scope closes, the credential ends, or the stream makes room for another. `follow`
     * replaces the resources that are watched.
     */
    const watch = Effect.fnUntraced(function* (
      caller: Caller,
      bearer: Redacted.Redacted,
      uris: ReadonlyArray<string>
    ): Effect.fn.Return<
      { readonly changes: Stream.Stream<Change>; readonly follow: (uris: ReadonlyArray<string>) => void },
      never,
      Scope.Scope
    > {
      const watcher: Watcher = {
        bearer,
        credentialId: caller.credentialId,
        teamId: teamOf(caller),
        queue: yield* Queue.sliding<Change>(64),
        uris,
        seen: undefined
      }
      yield* Effect.acquireRelease(
        Effect.suspend(() => {
          const ended = makesRoom(open, watcher)
          if (ended !== undefined) open.delete(ended)
          open.add(watcher)
          return ended === undefined ? Effect.void : Queue.shutdown(ended.queue)
        }),
        () =>
          Effect.zipRight(
            Effect.sync(() => open.delete(watcher)),
            Queue.shutdown(watcher.queue)
          )
      )
      yield* Effect.orDie(look([watcher]))
      return {
        changes: Stream.fromQueue(watcher.queue),
        follow: (uris) => {
          watcher.uris = uris
        }
      }
    })

    yield* Housekeeping.every(
      pause,
      Effect.suspend(() => look([...open]))
    )

    return { watch, look: Effect.suspend(() => Effect.orDie(look([...open]))) } as const
  })
}) {}
