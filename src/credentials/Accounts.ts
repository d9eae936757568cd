/** A person's account, and the session that opens it in a browser. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type TeamId, TeamIdOut, type UserId, UserIdOut } from "#schema/Ids.ts"
import { Plan, Role } from "#schema/Scopes.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/Rows.ts"
import { issue } from "./Issue.ts"
import * as KnownDevices from "./KnownDevices.ts"
import { sessionLife } from "./Liveness.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
}

/** A longer text tells nothing more about a browser. */
const maxUserAgent = 256

export const AccountRow = Schema.Struct({
  id: UserIdOut,
  email: Schema.String,
  name: Schema.String,
  passwordHash: Schema.String,
  memberships: Schema.Array(
    Schema.Struct({ id: TeamIdOut, name: Schema.String, plan: Plan, role: Role, active: Schema.Boolean })
  )
})
export type AccountRow = typeof AccountRow.Type

export const find = ({ sql }: Needs, column: "email" | "id", value: string) =>
  Rows.findOne(
    AccountRow,
    sql`
      SELECT u.id, u.email, u.name, u.password_hash,
        (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role,
            'active', m.active) ORDER BY t.id), '[]'::json)
          FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id) AS memberships
      FROM users u WHERE ${sql(column)} = ${value}`
  )

/** A fresh session: the texts of the two cookies that the browser keeps. */
export interface OpenedSession {
  readonly text: Redacted.Redacted
  /** By which the browser is known the next time. */
  readonly device: Redacted.Redacted
}

/** Part of the caller's transaction. `known`: the device that the browser presented, when it is one of this person. */
export const openSession = Effect.fnUntraced(function* (
  needs: Needs,
  userId: UserId,
  activeTeamId: TeamId | null,
  known: KnownDevices.KnownDevice | null = null
) {
  const { crypto, sql } = needs
  const now = yield* Clock.currentTimeMillis
  const { ip, userAgent } = yield* RequestInfo
  const { proof, text } = yield* issue(crypto, "ss")
  yield* Rows.run(
    sql`INSERT INTO sessions ${sql.insert({
      id: yield* crypto.uuid,
      lookup_id: proof.lookupId,
      salt: proof.salt,
      hash: proof.hash,
      user_id: userId,
      active_team_id: activeTeamId,
      created_at: new Date(now),
      expires_at: new Date(now + sessionLife),
      last_used_at: new Date(now),
      last_used_ip: ip,
      last_used_user_agent: userAgent?.slice(0, maxUserAgent) ?? null
    })}`
  )
  const opened: OpenedSession = { text, device: yield* KnownDevices.remember(needs, userId, known) }
  return opened
})

const ActiveTeamRow = Schema.Struct({ activeTeamId: Schema.NullOr(TeamIdOut) })

/** The team that a session works in. */
export const activeTeamOf = ({ sql }: Needs, sessionId: string) =>
  Effect.map(
    Rows.findOne(ActiveTeamRow, sql`SELECT active_team_id FROM sessions WHERE id = ${sessionId}`),
    (row) => row?.activeTeamId ?? null
  )

/** The team that the person's newest session worked in. */
export const lastActiveTeam = ({ sql }: Needs, userId: UserId) =>
  Effect.map(
    Rows.findOne(
      ActiveTeamRow,
      sql`SELECT active_team_id FROM sessions WHERE user_id = ${userId} ORDER BY created_at DESC LIMIT 1`
    ),
    (row) => row?.activeTeamId ?? null
  )
