/** Leaked credentials that no request presents: agents' refresh tokens, invitations, and links that set a password. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TeamIdOut } from "#schema/Ids.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import * as Rows from "#src/database/Rows.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly rowSeal: RowSeal
}

const Row = Schema.Struct({
  ...TokenText.ProofRow.fields,
  id: Schema.String,
  name: Schema.String,
  person: Schema.NullOr(Schema.String),
  teams: Schema.Array(TeamIdOut),
  isLive: Schema.Boolean
})

const types = { or: "oauth_token", iv: "invitation", pr: "password_reset" } as const
const hasType = (kind: TokenText.TokenKind): kind is keyof typeof types => Object.hasOwn(types, kind)

const rowOf = (sql: SqlClient.SqlClient, kind: keyof typeof types, lookupId: string, now: Date) => {
  switch (kind) {
    case "or":
      return sql`
        SELECT r.salt, r.hash, g.id, g.client_name AS name, u.email AS person,
          g.revoked_at IS NULL AND r.expires_at > ${now} AS is_live,
          ARRAY(SELECT t.team_id FROM oauth_grant_teams t WHERE t.grant_id = g.id) AS teams
        FROM oauth_refresh_tokens r JOIN oauth_grants g ON g.id = r.grant_id JOIN users u ON u.id = g.user_id
        WHERE r.lookup_id = ${lookupId}`
    case "iv":
      return sql`
        SELECT i.salt, i.hash, i.id, i.email AS name, NULL AS person, ARRAY[i.team_id] AS teams,
          i.accepted_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > ${now} AS is_live
        FROM invitations i WHERE i.lookup_id = ${lookupId}`
    case "pr":
      return sql`
        SELECT p.salt, p.hash, p.id, '' AS name, u.email AS person, p.used_at IS NULL AND p.expires_at > ${now} AS is_live,
          ARRAY(SELECT m.team_id FROM memberships m WHERE m.user_id = u.id AND m.active) AS teams
        FROM password_resets p JOIN users u ON u.id = p.user_id WHERE p.lookup_id = ${lookupId}`
  }
}

/** The credential that such a text proves, live or ended. */
export const prove = Effect.fnUntraced(function* (needs: Needs, token: TokenText.TokenText) {
  const { kind } = token
  if (!hasType(kind)) return undefined
  const now = yield* DateTime.nowAsDate
  const find = (id: string) => Rows.findOne(Row, rowOf(needs.sql, kind, id, now))
  const row = yield* TokenText.prove(needs, kind, TokenText.print(token), find)
  if (row === undefined) return undefined
  const { hash: _hash, salt: _salt, ...credential } = row
  return { type: types[kind], ...credential }
})

/** Part of the caller's transaction. */
export const end = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  type: "invitation" | "password_reset",
  id: string,
  by: Pick<AuditEvent, "actor" | "teamId">
) {
  const now = yield* DateTime.nowAsDate
  const isEnded =
    type === "invitation"
      ? yield* Rows.exists(
          RowJournal.noteEnds(sql, "invitations")`
          UPDATE invitations SET revoked_at = ${now}, mac = ''
          WHERE id = ${id}::uuid AND accepted_at IS NULL AND revoked_at IS NULL RETURNING id`
        )
      : yield* Rows.exists(
          RowJournal.noteEnds(sql, "password_resets")`
          UPDATE password_resets SET used_at = ${now}, mac = ''
          WHERE id = ${id}::uuid AND used_at IS NULL RETURNING id`
        )
  const event: AuditEvent = {
    ...by,
    action: type === "invitation" ? "member.invite_withdraw" : "password.reset_link",
    outcome: "allowed",
    target: { type, id, name: "" }
  }
  // The end of a password link has no entry; the entry of the leak covers it.
  return isEnded && type === "invitation" ? [event] : []
})
