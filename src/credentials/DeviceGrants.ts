/**
 * Device authorization (RFC 8628): start, poll, the event stream, and a person's decision. The poll that delivers the
 * credential mints it, so nothing plaintext waits in the database.
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

const failed = (reason: "denied" | "expired" | "consumed" | "unknown"): DevicePollResponse => ({
  status: "failed",
  reason
})

const TeamRow = Schema.Struct({ id: TeamIdOut, name: Schema.String })

/**
 * Part of the poll's transaction, which holds the request's row. Memberships are looked at once more: a team that the
 * approver lost since is not delivered, and a change that
 * takes a membership away while this runs waits for the row, then finds the grant.
 */
const deliver = Effect.fnUntraced(function* (
  { audit, grants, sql }: Needs,
  row: DeviceRequests.RequestRow,
  decidedBy: UserId
) {
  const chosen = new Map((row.teams ?? []).map(({ scopes, teamId }) => [teamId, scopes]))
  const memberships = yield* Rows.findAll(
    TeamRow,
    sql`
      SELECT t.id, t.name FROM memberships m JOIN teams t ON t.id = m.team_id
      WHERE m.user_id = ${decidedBy} AND m.active AND m.team_id = any(${[...chosen.keys()]}::uuid[])
      ORDER BY t.id`
  )
  const teams = memberships.map((team) => ({ ...team, scopes: chosen.get(team.id) ?? [] }))
  // The approver has lost all the teams since: what was approved cannot be had any more.
  if (teams.length === 0) return failed("denied")
  const machine = row.machine === true
  const { projectIds, environmentIds } = row
  const grant = yield* grants.mint({ ...row, userId: decidedBy, machine, teams })
  const now = yield* Clock.currentTimeMillis
  const delivered = yield* Rows.exists(
    RowJournal.ending(sql, "device_requests")`
    UPDATE device_requests SET delivered_at = ${new Date(now)}, grant_id = ${grant.id}, mac = ''
    WHERE id = ${row.id} AND delivered_at IS NULL RETURNING id`
  )
  // The row is locked, so this cannot happen; if it did, a defect rolls the second credential back.
  if (!delivered) return yield* Effect.dieMessage("device request delivered twice")
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
  if (row === undefined) return failed("unknown")
  const now = yield* Clock.currentTimeMillis
  const state = DeviceRequests.stateOf(row, now)
  if (state === "approved" && row.decidedBy !== null) {
    return yield* (row.manages === null ? deliver : Management.deliver)(needs, row, row.decidedBy)
  }
  if (state !== "pending") return failed(state === "approved" ? "unknown" : state)
  const tooSoon = row.lastPolledAt !== null && now - row.lastPolledAt.getTime() < row.intervalSeconds * 1_000
  const interval = row.intervalSeconds + (tooSoon ? slowDownSeconds : 0)
  yield* Rows.run(needs.sql`
    UPDATE device_requests SET last_polled_at = ${new Date(now)}, interval_seconds = ${interval} WHERE id = ${id}`)
  const answer: DevicePollResponse = tooSoon ? { status: "pending", reason: "slow_down" } : { status: "pending" }
  return answer
}

/** Answers in every state. */
const poll = Effect.fn("DeviceGrants.poll")(function* (needs: Needs, deviceCode: Redacted.Redacted) {
  const id = yield* DeviceRequests.idOf(needs, deviceCode)
  return id === undefined ? failed("unknown") : yield* Rows.transaction(needs.sql, () => step(needs, id))
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
