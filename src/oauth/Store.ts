/**
 * The library's store of one kind of record, its payloads, and the operations on grants that the consent page shares.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AdapterPayload } from "oidc-provider"
import { TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import type { Library } from "./Library.ts"

export interface Store {
  readonly upsert: (
    id: string,
    payload: AdapterPayload,
    expiresIn: number | undefined
  ) => Effect.Effect<unknown, unknown>
  readonly find: (id: string) => Effect.Effect<AdapterPayload | undefined, unknown>
  readonly consume: (id: string) => Effect.Effect<unknown, unknown>
  readonly destroy: (id: string) => Effect.Effect<unknown, unknown>
  readonly revokeByGrantId: (grantId: string) => Effect.Effect<unknown, unknown>
}

/** A store without records. */
export const empty: Store = {
  upsert: () => Effect.void,
  find: () => Effect.succeed(undefined),
  consume: () => Effect.void,
  destroy: () => Effect.void,
  revokeByGrantId: () => Effect.void
}

export interface StoreNeeds {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly audit: Audit
  readonly rowSeal: RowSeal
  /** The library's own errors, for responses that it makes. */
  readonly errors: Library["errors"]
}

/** A record as the library writes it; every member of its type is optional. */
export const Payload = Schema.declare(
  (value): value is AdapterPayload => typeof value === "object" && value !== null && !Array.isArray(value)
)
export const PayloadRow = Schema.Struct({ payload: Payload })

export const textOf = (payload: AdapterPayload, member: string): string => {
  const value = payload[member]
  return typeof value === "string" ? value : ""
}

export const expiryOf = (payload: AdapterPayload, now: Date): Date =>
  typeof payload.exp === "number" ? new Date(payload.exp * 1_000) : now

/** The payload for the database, without the id, which is the credential. */
export const withoutId = (payload: AdapterPayload): AdapterPayload => {
  const { jti: _jti, ...stored } = payload
  return stored
}

/**
 * SQL condition of a membership unchanged since the consent: see `accessTokenRows` in
 * `src/credentials/CredentialRows.ts`.
 */
export const membershipUnchanged = "m.user_id = g.user_id AND m.active AND m.updated_at <= g.created_at"

const GrantTeamRow = Schema.Struct({
  userId: UserIdOut,
  email: Schema.String,
  clientName: Schema.String,
  teamId: Schema.NullOr(TeamIdOut)
})

/** One entry of the trail per team of the grant. */
export const events = Effect.fnUntraced(function* (
  { sql }: Pick<StoreNeeds, "sql">,
  grantId: string,
  action: AuditEvent["action"]
) {
  const rows = yield* Rows.findAll(
    GrantTeamRow,
    sql`
      SELECT g.user_id, u.email, g.client_name, o.team_id
      FROM oauth_grants g JOIN users u ON u.id = g.user_id LEFT JOIN oauth_grant_teams o ON o.grant_id = g.id
      WHERE g.id = ${grantId}`
  )
  return rows.map((row): AuditEvent => ({
    actor: { userId: row.userId, email: row.email },
    action,
    outcome: "allowed",
    teamId: row.teamId,
    target: { type: "oauth_grant", id: grantId, name: row.clientName }
  }))
})

/** Revokes the grant and all its credentials, from the next request on every process. */
export const revoke = Effect.fnUntraced(function* ({ audit, sql }: Pick<StoreNeeds, "sql" | "audit">, grantId: string) {
  const at = yield* DateTime.nowAsDate
  yield* Rows.transaction(sql, function* () {
    const isFirst = yield* Rows.exists(
      RowJournal.noteEnds(sql, "oauth_grants")`
      UPDATE oauth_grants SET revoked_at = ${at}, mac = '' WHERE id = ${grantId} AND revoked_at IS NULL RETURNING id`
    )
    if (isFirst) yield* audit.append(...(yield* events({ sql }, grantId, "oauth.revoke")))
  })
})
