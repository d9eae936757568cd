/** A person's own sessions, listed and ended. CLI logins and agents have their own lists. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { GrantNotFound } from "#schema/Errors.ts"
import { TeamIdOut } from "#schema/Ids.ts"
import type { MySession } from "#schema/MySessionsApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { endSessions, inEachTeam } from "./Accounts.ts"
import * as Liveness from "./Liveness.ts"

const SessionRow = Schema.Struct({
  id: Schema.String,
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  lastUsedAt: Schema.DateFromSelf,
  lastUsedIp: Schema.NullOr(Schema.String),
  lastUsedUserAgent: Schema.NullOr(Schema.String),
  revokedAt: Schema.NullOr(Schema.DateFromSelf),
  managesId: Schema.NullOr(TeamIdOut),
  managesName: Schema.NullOr(Schema.String)
})

const maxListed = 200

const services = Effect.all({ sql: SqlClient.SqlClient, access: Access, audit: Audit })
type Needs = Effect.Effect.Success<typeof services>

const currentCaller = ({ access }: Needs) => access.allTeams("identity:read", { audit: "identity.read" })

/** Live sessions of the caller, most recently used first. */
const list = Effect.fn("OwnSessions.list")(function* (needs: Needs) {
  const { sql } = needs
  const caller = yield* currentCaller(needs)
  const now = yield* Clock.currentTimeMillis
  const rows = yield* Rows.findAll(
    SessionRow,
    sql`
      SELECT s.id, s.created_at, s.expires_at, s.last_used_at, s.last_used_ip, s.last_used_user_agent, s.revoked_at,
        t.id AS manages_id, t.name AS manages_name
      FROM sessions s LEFT JOIN teams t ON t.id = s.manages
      WHERE s.user_id = ${caller.user?.id ?? null} AND s.revoked_at IS NULL AND s.expires_at > ${new Date(now)}
      ORDER BY s.last_used_at DESC, s.id DESC LIMIT ${maxListed}`
  )
  return rows
    .filter((row) => Liveness.ofSession(row, now) === "live")
    .map((row): MySession => ({
      id: row.id,
      current: row.id === caller.credentialId,
      createdAt: row.createdAt.toISOString(),
      expiresAt: row.expiresAt.toISOString(),
      lastUsedAt: row.lastUsedAt.toISOString(),
      lastUsedIp: row.lastUsedIp,
      lastUsedUserAgent: row.lastUsedUserAgent,
      manages: row.managesId === null ? null : { id: row.managesId, name: row.managesName ?? "" }
    }))
})

const recordEnd = Effect.fnUntraced(function* ({ audit }: Needs, caller: Caller, ids: ReadonlyArray<string>) {
  if (ids.length === 0) return
  yield* audit.append(
    ...inEachTeam(caller.teams, {
      actor: caller,
      action: "session.end",
      outcome: "allowed",
      target: { type: "session", id: ids.length === 1 ? ids[0] : "", name: `${ids.length}` }
    })
  )
})

/** Ends a session of the caller; GRANT_NOT_FOUND for an unknown one or another person's. */
const end = Effect.fn("OwnSessions.end")(function* (needs: Needs, id: string) {
  const caller = yield* currentCaller(needs)
  yield* Rows.transaction(needs.sql, function* () {
    const own = needs.sql`id = ${id} AND user_id = ${caller.user?.id ?? null}`
    const ids = yield* endSessions(needs, own)
    if (ids.length === 0) return yield* new GrantNotFound({ message: "This session has ended already." })
    yield* recordEnd(needs, caller, ids)
  })
})

/** Ends all of the caller's sessions except the current one. */
const endOthers = Effect.fn("OwnSessions.endOthers")(function* (needs: Needs) {
  const caller = yield* currentCaller(needs)
  yield* Rows.transaction(needs.sql, function* () {
    const others = needs.sql`user_id = ${caller.user?.id ?? null} AND id <> ${caller.credentialId}`
    yield* recordEnd(needs, caller, yield* endSessions(needs, others))
  })
})

export class OwnSessions extends Effect.Service<OwnSessions>()("credentials/OwnSessions", {
  effect: Effect.map(services, (needs) => methods(needs, { list, end, endOthers }))
}) {}
