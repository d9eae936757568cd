/**
 * Device authorization (RFC 8628): start, poll, the event stream, and a person's decision. The poll that delivers the
 * credential creates it, so the database never stores it in plaintext.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { DevicePollResponse } from "#schema/DeviceApi.ts"
import { TeamIdOut, type UserId } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { inEachTeam } from "./Accounts.ts"
import { CliGrants } from "./CliGrants.ts"
import { approve, deny, progress, show } from "./DeviceApproval.ts"
import * as DeviceRequests from "./DeviceRequests.ts"
import * as Management from "./Management.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  access: Access,
  audit: Audit,
  bus: EventBus,
  limiter: RateLimiter,
  grants: CliGrants,
  rowSeal: RowSeal,
  baseUrl: Effect.map(AppConfig, (config) => config.baseUrl),
  streams: Effect.sync(DeviceRequests.openStreams)
})
type Needs = Effect.Effect.Success<typeof services>

/** RFC 8628 3.5: a device that polls too fast waits 5 seconds longer from then on. */
const slowDownSeconds = 5

const failure = (reason: "denied" | "expired" | "consumed" | "unknown"): DevicePollResponse => ({
  status: "failed",
  reason
})

const TeamRow = Schema.Struct({ id: TeamIdOut, name: Schema.String })

/**
 * Part of the poll's transaction, which locks the request's row. Memberships are checked once more, so that a team that
 * the approver lost is not delivered. A change that takes a membership away waits for the row, then finds the grant.
 */
const deliver = Effect.fnUntraced(function* (
  { audit, grants, sql }: Needs,
  row: DeviceRequests.RequestRow,
  decidedBy: UserId
) {
  const approvedScopes = new Map((row.teams ?? []).map(({ scopes, teamId }) => [teamId, scopes]))
  const memberships = yield* Rows.findAll(
    TeamRow,
    sql`
      SELECT t.id, t.name FROM memberships m JOIN teams t ON t.id = m.team_id
      WHERE m.user_id = ${decidedBy} AND m.active AND m.team_id = any(${[...approvedScopes.keys()]}::uuid[])
      ORDER BY t.id`
  )
  const teams = memberships.map((team) => ({ ...team, scopes: approvedScopes.get(team.id) ?? [] }))
  // The approver has lost every approved team.
  if (teams.length === 0) return failure("denied")
  const machine = row.machine === true
  const { projectIds, environmentIds } = row
  const grant = yield* grants.mint({ ...row, userId: decidedBy, machine, teams })
  const now = yield* Clock.currentTimeMillis
  const isMarked = yield* Rows.exists(
    RowJournal.noteEnds(sql, "device_requests")`
    UPDATE device_requests SET delivered_at = ${new Date(now)}, grant_id = ${grant.id}, mac = ''
    WHERE id = ${row.id} AND delivered_at IS NULL RETURNING id`
  )
  // The row is locked, so this cannot happen; if it did, a defect rolls the second credential back.
  if (!isMarked) return yield* Effect.dieMessage("device request delivered twice")
  const email = row.decidedByEmail ?? ""
  yield* audit.append(
    ...inEachTeam(teams, {
      actor: { userId: decidedBy, email },
      action: "grant.issue",
      outcome: "allowed",
      target: { type: "cli_grant", id: grant.id, name: row.hostname ?? "" }
    })
  )
  const answer: DevicePollResponse = {
    status: machine ? "granted-machine" : "granted",
    credential: Redacted.value(grant.text),
    grantId: grant.id,
    expiresAt: grant.expiresAt.toISOString(),
    user: { id: decidedBy, email },
    teams,
    restrictions: { projectIds, environmentIds }
  }
  return answer
})

const step = function* (needs: Needs, id: string) {
  const row = yield* DeviceRequests.lock(needs, id)
  if (row === undefined) return failure("unknown")
  const now = yield* Clock.currentTimeMillis
  const state = DeviceRequests.stateOf(row, now)
  if (state === "approved" && row.decidedBy !== null) {
    return yield* (row.manages === null ? deliver : Management.deliver)(needs, row, row.decidedBy)
  }
  if (state !== "pending") return failure(state === "approved" ? "unknown" : state)
  const tooSoon = row.lastPolledAt !== null && now - row.lastPolledAt.getTime() < row.intervalSeconds * 1_000
  const interval = row.intervalSeconds + (tooSoon ? slowDownSeconds : 0)
  yield* Rows.run(needs.sql`
    UPDATE device_requests SET last_polled_at = ${new Date(now)}, interval_seconds = ${interval} WHERE id = ${id}`)
  const answer: DevicePollResponse = tooSoon ? { status: "pending", reason: "slow_down" } : { status: "pending" }
  return answer
}

/** Has a response for every state; never fails. */
const poll = Effect.fn("DeviceGrants.poll")(function* (needs: Needs, deviceCode: Redacted.Redacted) {
  const id = yield* DeviceRequests.idOf(needs, deviceCode)
  return id === undefined ? failure("unknown") : yield* Rows.transaction(needs.sql, () => step(needs, id))
})

const { events, live, start } = DeviceRequests

export class DeviceGrants extends Effect.Service<DeviceGrants>()("credentials/DeviceGrants", {
  effect: Effect.map(services, (needs) =>
    methods(needs, {
      start,
      poll,
      live,
      events,
      show,
      progress,
      approve,
      deny,
      startManagement: Management.start,
      approveManagement: Management.approve
    })
  )
}) {}
