/** Device authorization (RFC 8628, interface 3, decisions 6): start, poll, the event stream, and a person's decision. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { CurrentCaller } from "#schema/Caller.ts"
import type {
  ApproveDevice,
  DeviceEvent,
  DevicePollResponse,
  DeviceRequest,
  DeviceStart,
  DeviceStartResponse
} from "#schema/DeviceApi.ts"
import {
  CredentialExpired,
  CredentialInvalid,
  EnvironmentNotFound,
  Forbidden,
  GrantAlreadyDecided,
  GrantNotFound,
  ProjectNotFound,
  RateLimited,
  TeamNotFound,
  ValidationFailed
} from "#schema/Errors.ts"
import type { EnvironmentId, InstallationId, ProjectId, TeamId, UserId } from "#schema/Ids.ts"
import type { Scope } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import { RateLimiter, userCodePolicy } from "#src/limits/RateLimiter.ts"
import { CliGrants, hostOf } from "./CliGrants.ts"
import { issue } from "./Issue.ts"
import { inEachTeam } from "./TeamTrails.ts"
import * as TokenText from "./TokenText.ts"
import * as UserCode from "./UserCode.ts"

export const lifetimeSeconds = 600
export const pollIntervalSeconds = 5
/** "its interval grows by 5 s" (decisions 6; RFC 8628 3.5). */
const slowDownSeconds = 5
/** Comments that keep proxies from closing a silent stream. */
const heartbeat = Duration.seconds(15)
/** How often an open stream looks for itself, should a notification get lost on its way from another process. */
const backstop = Duration.seconds(10)

/** Open streams of one code, and of all in one process; whoever finds no room polls. */
export const maxStreamsEach = 4
const maxStreams = 1_000

const purgeAfter = 86_400_000
const purgeBatch = 1_000

interface RequestRow {
  readonly id: string
  readonly status: "pending" | "approved" | "denied"
  readonly credentialProtection: "os_keychain" | "plaintext_local"
  readonly installationId: InstallationId | null
  readonly machineRequested: boolean
  readonly hostname: string | null
  readonly os: string | null
  readonly ip: string
  readonly intervalSeconds: number
  readonly lastPolledAt: Date | null
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly decidedBy: UserId | null
  readonly decidedByEmail: string | null
  readonly machine: boolean | null
  readonly teams: ReadonlyArray<{ readonly teamId: TeamId; readonly scopes: ReadonlyArray<Scope> }> | null
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly deliveredAt: Date | null
}

/** What an open stream sends: an event of interface 6, or a comment. */
export type DeviceSignal = DeviceEvent | "heartbeat"

export type State = "pending" | "approved" | "denied" | "expired" | "consumed"

/** Interface 3 as a function of a clock. A delivered and a denied request stay so; an approval not fetched in time expires. */
export const stateOf = (
  row: {
    readonly status: "pending" | "approved" | "denied"
    readonly deliveredAt: Date | null
    readonly expiresAt: Date
  },
  now: number
): State => {
  if (row.deliveredAt !== null) return "consumed"
  if (row.status === "denied") return "denied"
  return row.expiresAt.getTime() <= now ? "expired" : row.status
}

const failed = (reason: "denied" | "expired" | "consumed" | "unknown"): DevicePollResponse => ({
  status: "failed",
  reason
})

export class DeviceGrants extends Effect.Service<DeviceGrants>()("credentials/DeviceGrants", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const bus = yield* EventBus
    const limiter = yield* RateLimiter
    const grants = yield* CliGrants
    const { baseUrl } = yield* AppConfig

    const columns = sql.literal(`
      r.id, r.status, r.credential_protection, r.installation_id, r.machine_requested, r.hostname, r.os, r.ip,
      r.interval_seconds, r.last_polled_at, r.created_at, r.expires_at, r.decided_by, u.email AS decided_by_email,
      r.machine, r.teams, r.project_ids, r.environment_ids, r.delivered_at
      FROM device_requests r LEFT JOIN users u ON u.id = r.decided_by`)

    /** Starts are counted where requests are, before their shape is looked at (`http/AddressLimit.ts`). */
    const start = Effect.fn("DeviceGrants.start")(function* (asked: DeviceStart | null) {
      const { ip } = yield* RequestInfo
      const now = yield* Clock.currentTimeMillis
      const id = yield* crypto.uuid
      const { proof, text } = yield* issue(crypto, "dc")
      const insert = Effect.gen(function* () {
        const userCode = yield* crypto.randomText(UserCode.alphabet, UserCode.length)
        const rows = yield* sql`
          INSERT INTO device_requests (id, lookup_id, salt, hash, user_code_hash, status, credential_protection,
            installation_id, machine_requested, hostname, os, ip, interval_seconds, created_at, expires_at)
          VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${UserCode.hash(userCode)}, 'pending',
            ${asked?.credentialProtection ?? "os_keychain"}, ${asked?.installationId ?? null},
            ${asked?.machineCredential === "grant"}, ${asked?.host?.hostname ?? null}, ${asked?.host?.os ?? null}, ${ip},
            ${pollIntervalSeconds}, ${new Date(now)}, ${new Date(now + lifetimeSeconds * 1_000)})
          ON CONFLICT (user_code_hash) DO NOTHING RETURNING id`
        return rows.length > 0 ? Option.some(userCode) : Option.none()
      })
      // A code that another request holds is drawn again; with 20^8 codes the second draw is already rare.
      const userCode = UserCode.print(
        yield* Effect.repeat(insert, { until: Option.isSome }).pipe(Effect.flatten, Effect.orDie)
      )
      const verificationUri = `${baseUrl}/device`
      const started: DeviceStartResponse = {
        deviceCode: Redacted.value(text),
        userCode,
        verificationUri,
        verificationUriComplete: `${verificationUri}?code=${userCode}`,
        expiresInSeconds: lifetimeSeconds,
        pollIntervalSeconds
      }
      return started
    })

    /** Id of the request whose code this is; none for anything else. */
    const idOf = Effect.fnUntraced(function* (deviceCode: Redacted.Redacted) {
      const token = TokenText.parse(Redacted.value(deviceCode))
      if (token?.kind !== "dc") return undefined
      const rows = yield* sql<{ readonly id: string; readonly salt: Buffer; readonly hash: Buffer }>`
        SELECT id, salt, hash FROM device_requests WHERE lookup_id = ${token.id}`
      return TokenText.verify(rows[0], token.secret) ? rows[0].id : undefined
    })

    const deliver = Effect.fnUntraced(function* (row: RequestRow, decidedBy: UserId) {
      const chosen = row.teams ?? []
      const standing = yield* sql<{ readonly id: TeamId; readonly name: string }>`
        SELECT t.id, t.name FROM memberships m JOIN teams t ON t.id = m.team_id
        WHERE m.user_id = ${decidedBy} AND m.active AND m.team_id = any(${chosen.map((t) => t.teamId)}::uuid[])
        ORDER BY t.id`
      const teams = standing.map((team) => ({
        ...team,
        scopes: chosen.find(({ teamId }) => teamId === team.id)?.scopes ?? []
      }))
      // Whoever approved has left all the teams since: what was approved cannot be had any more.
      if (teams.length === 0) return failed("denied")
      const machine = row.machine === true
      const grant = yield* grants.mint({
        userId: decidedBy,
        machine,
        teams,
        projectIds: row.projectIds,
        environmentIds: row.environmentIds,
        hostname: row.hostname,
        os: row.os,
        installationId: row.installationId,
        credentialProtection: row.credentialProtection
      })
      const now = yield* Clock.currentTimeMillis
      const delivered = yield* sql`
        UPDATE device_requests SET delivered_at = ${new Date(now)}, grant_id = ${grant.id}
        WHERE id = ${row.id} AND delivered_at IS NULL RETURNING id`
      // The row is locked, so this cannot happen; if it did, a defect rolls the second credential back.
      if (delivered.length === 0) return yield* Effect.dieMessage("device request delivered twice")
      const email = row.decidedByEmail ?? ""
      yield* audit.append(
        ...inEachTeam(
          teams.map((team) => team.id),
          {
            actor: { userId: decidedBy, email },
            action: "grant.issue",
            outcome: "allowed",
            target: { type: "cli_grant", id: grant.id, name: row.hostname ?? "" }
          }
        )
      )
      const answer: DevicePollResponse = {
        status: machine ? "granted-machine" : "granted",
        credential: Redacted.value(grant.text),
        grantId: grant.id,
        expiresAt: grant.expiresAt.toISOString(),
        user: { id: decidedBy, email },
        teams,
        restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds }
      }
      return answer
    })

    const step = Effect.fnUntraced(function* (id: string) {
      const rows = yield* sql<RequestRow>`SELECT ${columns} WHERE r.id = ${id} FOR UPDATE OF r`
      if (rows.length === 0) return failed("unknown")
      const row = rows[0]
      const now = yield* Clock.currentTimeMillis
      const state = stateOf(row, now)
      if (state === "approved" && row.decidedBy !== null) return yield* deliver(row, row.decidedBy)
      if (state !== "pending") return failed(state === "approved" ? "unknown" : state)
      const tooSoon = row.lastPolledAt !== null && now - row.lastPolledAt.getTime() < row.intervalSeconds * 1_000
      yield* sql`
        UPDATE device_requests
        SET last_polled_at = ${new Date(now)}, interval_seconds = ${row.intervalSeconds + (tooSoon ? slowDownSeconds : 0)}
        WHERE id = ${id}`
      const answer: DevicePollResponse = tooSoon ? { status: "pending", reason: "slow_down" } : { status: "pending" }
      return answer
    })

    /** Answers in every state; the answer that delivers mints the credential in the same transaction. */
    const poll = Effect.fn("DeviceGrants.poll")(
      function* (deviceCode: Redacted.Redacted) {
        const id = yield* idOf(deviceCode)
        return id === undefined ? failed("unknown") : yield* sql.withTransaction(step(id))
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    const topic = (id: string) => `device:${id}`
    /** The decision stands, told or not: an open stream also looks for itself. */
    const tell = (id: string) => Effect.catchAllDefect(bus.publish(topic(id)), () => Effect.void)

    const decisionOf = (id: string) =>
      Effect.map(sql<RequestRow>`SELECT ${columns} WHERE r.id = ${id}`, ([row]): Option.Option<DeviceEvent> =>
        row === undefined || row.status === "pending"
          ? Option.none()
          : Option.some({
              event: row.status,
              ...(row.decidedByEmail === null ? {} : { email: row.decidedByEmail })
            })
      )

    /** The request of a code that is still good for something; consumed is as unknown as never issued. */
    const live = Effect.fnUntraced(
      function* (deviceCode: Redacted.Redacted) {
        const id = yield* idOf(deviceCode)
        const rows = id === undefined ? [] : yield* sql<RequestRow>`SELECT ${columns} WHERE r.id = ${id}`
        if (rows.length === 0) return yield* new CredentialInvalid()
        const state = stateOf(rows[0], yield* Clock.currentTimeMillis)
        if (state === "consumed") return yield* new CredentialInvalid()
        if (state === "expired") return yield* new CredentialExpired()
        return rows[0]
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** Streams that are open in this process, by request: anybody can have a code, and each stream costs look-ups. */
    const streams = new Map<string, number>()
    let streaming = 0
    const isFull = (id: string) => streaming >= maxStreams || (streams.get(id) ?? 0) >= maxStreamsEach

    /**
     * What the stream of a device code sends: `connected`, then the decision, comments in between. Ends after the
     * decision, and silently when the code expires.
     */
    const events = Effect.fn("DeviceGrants.events")(function* (deviceCode: Redacted.Redacted) {
      const { expiresAt, id } = yield* live(deviceCode)
      if (isFull(id)) return yield* new RateLimited({ retryAfterSeconds: pollIntervalSeconds })
      const left = Duration.millis(Math.max(0, expiresAt.getTime() - (yield* Clock.currentTimeMillis)))

      // Listening starts before the first look, so that no decision falls between the two.
      const decision = Stream.unwrapScoped(
        Effect.map(bus.subscribe(topic(id)), (notified) =>
          Stream.merge(notified, Stream.fromSchedule(Schedule.spaced(backstop))).pipe(
            Stream.mapEffect(() => decisionOf(id)),
            (later) => Stream.concat(Stream.fromEffect(decisionOf(id)), later),
            Stream.filterMap((decided) => decided),
            Stream.take(1),
            Stream.interruptAfter(left)
          )
        )
      ).pipe(Stream.orDie)
      const comments = Stream.as(Stream.fromSchedule(Schedule.spaced(heartbeat)), "heartbeat" as const)
      const connected: DeviceEvent = { event: "connected" }
      const signals = Stream.concat(Stream.make(connected), Stream.merge(decision, comments, { haltStrategy: "left" }))
      // Counted when it begins, so that an answer nobody took holds nothing.
      const taken = Effect.acquireRelease(
        Effect.sync(() => {
          if (isFull(id)) return false
          streams.set(id, (streams.get(id) ?? 0) + 1)
          streaming++
          return true
        }),
        (taken) =>
          Effect.sync(() => {
            if (!taken) return
            const others = (streams.get(id) ?? 1) - 1
            if (others === 0) streams.delete(id)
            else streams.set(id, others)
            streaming--
          })
      )
      return Stream.unwrapScoped(Effect.map(taken, (taken) => (taken ? signals : Stream.empty)))
    })

    /**
     * The request that a person's entry names. Wrong entries are limited per session and per address: each is counted
     * before it is looked up and uncounted when it was right, so that parallel guesses do not slip past.
     */
    const entered = Effect.fnUntraced(function* (typed: string) {
      const { credentialId } = yield* CurrentCaller
      const { ip } = yield* RequestInfo
      const session = `user-code:session:${credentialId}`
      const address = `user-code:${addressBucket(ip)}`
      yield* limiter.take(session, userCodePolicy)
      yield* Effect.tapError(limiter.take(address, userCodePolicy), () => limiter.giveBack(session))
      const code = UserCode.canonical(typed)
      const rows =
        code === undefined
          ? []
          : yield* sql<RequestRow>`SELECT ${columns} WHERE r.user_code_hash = ${UserCode.hash(code)}`
      if (code === undefined || rows.length === 0) return yield* new GrantNotFound()
      yield* limiter.giveBack(session)
      yield* limiter.giveBack(address)
      return { code, row: rows[0] }
    })

    const targetOf = (row: RequestRow) => ({ type: "device_request", id: row.id, name: row.hostname ?? "" })

    const show = Effect.fn("DeviceGrants.show")(
      function* (typed: string) {
        const caller = yield* CurrentCaller
        const { code, row } = yield* entered(typed)
        const state = stateOf(row, yield* Clock.currentTimeMillis)
        yield* audit.record({
          actor: caller,
          action: "device.view",
          outcome: "allowed",
          teamId: null,
          target: targetOf(row)
        })
        const request: DeviceRequest = {
          userCode: UserCode.print(code),
          createdAt: row.createdAt.toISOString(),
          expiresAt: row.expiresAt.toISOString(),
          ip: row.ip,
          host: hostOf(row),
          credentialProtection: row.credentialProtection,
          machineRequested: row.machineRequested,
          status: state === "consumed" ? "approved" : state
        }
        return request
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /**
     * What became of a request that the person decided: `consumed` once the device has what was approved. Adds no entry to
     * the trail, which has the decision; GRANT_NOT_FOUND for a request that is undecided or another's to decide.
     */
    const progress = Effect.fn("DeviceGrants.progress")(
      function* (typed: string) {
        const { user } = yield* CurrentCaller
        const { row } = yield* entered(typed)
        if (row.decidedBy === null || row.decidedBy !== user?.id) return yield* new GrantNotFound()
        return stateOf(row, yield* Clock.currentTimeMillis)
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** Fails unless the person sees all of these: live, and in a team of theirs. */
    const seesRestrictions = Effect.fnUntraced(function* (
      teams: ReadonlyArray<TeamId>,
      projectIds: ReadonlyArray<ProjectId> | null,
      environmentIds: ReadonlyArray<EnvironmentId> | null
    ) {
      if (projectIds !== null) {
        const [{ n }] = yield* sql<{ readonly n: number }>`
          SELECT count(*)::int AS n FROM projects
          WHERE id = any(${projectIds}::uuid[]) AND team_id = any(${teams}::uuid[]) AND deleted_at IS NULL`
        if (n < projectIds.length) return yield* new ProjectNotFound()
      }
      if (environmentIds !== null) {
        const [{ n }] = yield* sql<{ readonly n: number }>`
          SELECT count(*)::int AS n FROM environments e
          JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
          WHERE e.id = any(${environmentIds}::uuid[]) AND e.team_id = any(${teams}::uuid[]) AND e.deleted_at IS NULL`
        if (n < environmentIds.length) return yield* new EnvironmentNotFound()
      }
    })

    /** Writes the decision if there is still one to take. */
    const decide = Effect.fnUntraced(function* (
      row: RequestRow,
      userId: UserId,
      decision:
        | { readonly status: "denied" }
        | {
            readonly status: "approved"
            readonly teams: ReadonlyArray<{ readonly teamId: TeamId; readonly scopes: ReadonlyArray<Scope> }>
            readonly projectIds: ReadonlyArray<ProjectId> | null
            readonly environmentIds: ReadonlyArray<EnvironmentId> | null
            readonly machine: boolean
          }
    ) {
      const now = new Date(yield* Clock.currentTimeMillis)
      const granted = decision.status === "approved" ? decision : undefined
      const rows = yield* sql`
        UPDATE device_requests SET status = ${decision.status}, decided_by = ${userId}, decided_at = ${now},
          machine = ${granted?.machine ?? null},
          teams = ${granted === undefined ? null : JSON.stringify(granted.teams)}::jsonb,
          project_ids = ${granted?.projectIds ?? null}::uuid[],
          environment_ids = ${granted?.environmentIds ?? null}::uuid[]
        WHERE id = ${row.id} AND status = 'pending' AND expires_at > ${now} RETURNING id`
      if (rows.length > 0) return
      const after = yield* sql<{ readonly status: string }>`SELECT status FROM device_requests WHERE id = ${row.id}`
      if (after.length === 0 || after[0].status === "pending") return yield* new GrantNotFound()
      return yield* new GrantAlreadyDecided()
    })

    const signedIn = Effect.flatMap(CurrentCaller, (caller) =>
      caller.user === null
        ? Effect.dieMessage("a decision needs a person")
        : Effect.succeed({ caller, user: caller.user })
    )

    /** Only what the person may do now can be given away; the credential itself is made when it is fetched. */
    const approve = Effect.fn("DeviceGrants.approve")(
      function* (typed: string, body: ApproveDevice) {
        const { caller, user } = yield* signedIn
        const twice = body.teams.findIndex(({ teamId }, at) => body.teams.findIndex((t) => t.teamId === teamId) < at)
        if (twice >= 0) return yield* new ValidationFailed({ field: `teams.${twice}.teamId` })
        const { row } = yield* entered(typed)
        const target = targetOf(row)

        const teams = body.teams.map(({ scopes, teamId }) => ({
          team: Policy.teamOf(caller, teamId),
          teamId,
          scopes: [...new Set<Scope>(scopes)]
        }))
        if (teams.some(({ team }) => team === undefined)) return yield* new TeamNotFound()
        const projectIds = body.projectIds === undefined ? null : [...new Set(body.projectIds)]
        const environmentIds = body.environmentIds === undefined ? null : [...new Set(body.environmentIds)]
        yield* seesRestrictions(
          caller.teams.map((team) => team.id),
          projectIds,
          environmentIds
        )
        const above = teams.find(
          ({ scopes, team }) => !scopes.every((scope) => Policy.roleAllows(team?.role ?? "viewer", scope))
        )
        if (above !== undefined) {
          yield* audit.record({
            actor: caller,
            action: "device.approve",
            outcome: "denied",
            reason: "FORBIDDEN",
            teamId: above.teamId,
            target
          })
          return yield* new Forbidden()
        }

        yield* sql.withTransaction(
          Effect.gen(function* () {
            // Held to the end: a new password comes before this and is seen, or after and takes the approval back.
            const [session] = yield* sql<{ readonly revokedAt: Date | null }>`
              SELECT revoked_at FROM sessions WHERE id = ${caller.credentialId} FOR SHARE`
            if (session !== undefined && session.revokedAt !== null) return yield* new Forbidden()
            yield* decide(row, user.id, {
              status: "approved",
              teams: teams.map(({ scopes, teamId }) => ({ teamId, scopes })),
              projectIds,
              environmentIds,
              // Unattended use is offered only to a request that asked for it, where it stays on unless switched off.
              machine: row.machineRequested && body.machine !== false
            })
            yield* audit.append(
              ...inEachTeam(
                teams.map(({ teamId }) => teamId),
                { actor: caller, action: "device.approve", outcome: "allowed", target }
              )
            )
          })
        )
        yield* tell(row.id)
        return { status: "approved" as const }
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    const deny = Effect.fn("DeviceGrants.deny")(
      function* (typed: string) {
        const { caller, user } = yield* signedIn
        const { row } = yield* entered(typed)
        yield* sql.withTransaction(
          Effect.gen(function* () {
            yield* decide(row, user.id, { status: "denied" })
            yield* audit.append({
              actor: caller,
              action: "device.deny",
              outcome: "allowed",
              teamId: null,
              target: targetOf(row)
            })
          })
        )
        yield* tell(row.id)
        return { status: "denied" as const }
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** Forgets requests a day after their codes died: until then a late poll still learns what became of it. */
    const purge = Effect.gen(function* () {
      const before = new Date((yield* Clock.currentTimeMillis) - purgeAfter)
      return yield* sql`
        DELETE FROM device_requests WHERE id IN
          (SELECT id FROM device_requests WHERE expires_at < ${before} ORDER BY expires_at LIMIT ${purgeBatch})
        RETURNING id`.pipe(Effect.map((rows) => rows.length))
    }).pipe(Effect.repeat({ while: (purged) => purged === purgeBatch }))

    // A failed purge is tried again an hour later; it never fails a request.
    yield* Housekeeping.every("1 hour", purge)

    return { start, poll, live, events, show, progress, approve, deny, purge: Effect.orDie(purge) } as const
  })
}) {}
