/**
 * Credentials under an older pepper (docs/security.md, "Service keys"). A hash cannot be renewed without its credential,
 * so each is renewed at its next use. The operator sees what remains, and can end it.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TeamIdOut } from "#schema/Ids.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as Rows from "#src/database/Rows.ts"
import * as KeyUses from "#src/rows/KeyUses.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import * as Accounts from "./Accounts.ts"
import * as Revocation from "./Revocation.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly audit: Audit
}

/** Names of the credentials of a table, in the plural. */
const labels: Readonly<Record<KeyUses.PepperedTable, string>> = {
  api_tokens: "API tokens",
  cli_grants: "command-line logins",
  sessions: "sessions",
  oauth_refresh_tokens: "connected agents",
  invitations: "invitations",
  password_resets: "links for a new password",
  known_devices: "known browsers",
  recovery_codes: "recovery codes",
  setup_codes: "setup codes",
  device_requests: "device requests",
  oauth_access_tokens: "access tokens of agents",
  oauth_codes: "codes of agents",
  sign_in_steps: "sign-ins under way",
  passkey_challenges: "challenges of passkeys"
}
const isPeppered = (table: string): table is KeyUses.PepperedTable => Object.hasOwn(labels, table)
const tables: ReadonlyArray<KeyUses.PepperedTable> = Object.keys(labels).filter(isPeppered)

const CredentialRow = Schema.Struct({
  type: Schema.Literal("api_token", "cli_grant"),
  id: Schema.String,
  name: Schema.String,
  /** The team of a token, the person of a login. */
  owner: Schema.String,
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf)
})
type OldCredential = typeof CredentialRow.Type

interface OldCredentials {
  readonly counts: ReadonlyArray<{ readonly label: string; readonly count: number }>
  /** API tokens and command-line logins, the longest unused first. */
  readonly listed: ReadonlyArray<OldCredential>
}

/** Tokens and logins that a list names; the counts include the others. */
const listLimit = 200

/** Credentials under a pepper older than `newest`. */
export const find = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, newest: number) {
  const at = { newest, now: yield* DateTime.nowAsDate }
  const counts: Array<OldCredentials["counts"][number]> = []
  for (const table of tables) {
    const count = yield* Rows.count(
      sql`SELECT count(*)::int AS n FROM ${sql(table)} WHERE ${KeyUses.isOfOldPepper(sql, table, at)}`
    )
    if (count > 0) counts.push({ label: labels[table], count })
  }
  const tokens = sql`id IN (SELECT id FROM api_tokens WHERE ${KeyUses.isOfOldPepper(sql, "api_tokens", at)})`
  const logins = sql`id IN (SELECT id FROM cli_grants WHERE ${KeyUses.isOfOldPepper(sql, "cli_grants", at)})`
  const listed = yield* Rows.findAll(
    CredentialRow,
    sql`
      SELECT * FROM (
        SELECT 'api_token' AS type, a.id::text AS id, a.name, t.name AS owner, a.last_used_at
        FROM api_tokens a JOIN teams t ON t.id = a.team_id WHERE a.${tokens}
        UNION ALL
        SELECT 'cli_grant', c.id::text, coalesce(c.hostname, ''), u.email, c.last_used_at
        FROM cli_grants c JOIN users u ON u.id = c.user_id WHERE c.${logins}
      ) AS old ORDER BY last_used_at NULLS FIRST, id LIMIT ${listLimit}`
  )
  return { counts, listed } satisfies OldCredentials
})

const AgentRow = Schema.Struct({ type: Schema.Literal("oauth_grant"), id: Schema.String, name: Schema.String })
const TokenRow = Schema.Struct({
  type: Schema.Literal("api_token"),
  id: Schema.String,
  name: Schema.String,
  teamId: TeamIdOut
})
const LoginRow = Schema.Struct({ type: Schema.Literal("cli_grant"), id: Schema.String, name: Schema.String })

/** Rows that one transaction ends. */
const batch = 500
const bySystem = { actor: "system", teamId: null } as const

/** Repeats a transaction that ends at most one batch. Returns the number of ended credentials. */
const inBatches = Effect.fnUntraced(function* <E, R>(
  { audit, sql }: Needs,
  endSome: Effect.Effect<ReadonlyArray<AuditEvent>, E, R>
) {
  let ended = 0
  for (;;) {
    const events = yield* Rows.transaction(sql, function* () {
      const events = yield* endSome
      if (events.length > 0) yield* audit.append(...events)
      return events
    })
    ended += events.length
    if (events.length < batch) return ended
  }
})

const endAgents = (needs: Needs, where: ReturnType<typeof KeyUses.isOfOldPepper>) =>
  inBatches(
    needs,
    Effect.gen(function* () {
      const { sql } = needs
      const rows = yield* Rows.findAll(
        AgentRow,
        RowJournal.noteEnds(sql, "oauth_grants")`
          UPDATE oauth_grants SET revoked_at = ${yield* DateTime.nowAsDate}, mac = ''
          WHERE revoked_at IS NULL AND id IN (
            SELECT r.grant_id FROM oauth_refresh_tokens r JOIN oauth_grants g ON g.id = r.grant_id
            WHERE g.revoked_at IS NULL AND r.lookup_id IN (SELECT lookup_id FROM oauth_refresh_tokens WHERE ${where})
            LIMIT ${batch})
          RETURNING 'oauth_grant' AS type, id, client_name AS name`
      )
      return Revocation.endedEvents(bySystem, rows)
    })
  )

/** Refresh tokens of releases that derived them from a key: a holder of that key can compute them. */
const isDerived = (sql: SqlClient.SqlClient, now: Date) =>
  sql`payload ->> 'random' IS NULL AND consumed_at IS NULL AND expires_at > ${now}`

/** Number of connected agents that a rotation ends. */
export const derivedCount = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const now = yield* DateTime.nowAsDate
  return yield* Rows.count(sql`
    SELECT count(DISTINCT r.grant_id)::int AS n FROM oauth_refresh_tokens r JOIN oauth_grants g ON g.id = r.grant_id
    WHERE g.revoked_at IS NULL
      AND r.lookup_id IN (SELECT lookup_id FROM oauth_refresh_tokens WHERE ${isDerived(sql, now)})`)
})

/**
 * Ends connected agents whose refresh token was derived from a key, and deletes all such tokens. Before their rows get a
 * new MAC, so that a copy of one is worth nothing later.
 */
export const endDerived = Effect.fnUntraced(function* (needs: Needs) {
  const { sql } = needs
  const ended = yield* endAgents(needs, isDerived(sql, yield* DateTime.nowAsDate))
  yield* sql`DELETE FROM ${sql("oauth_refresh_tokens")} WHERE payload ->> 'random' IS NULL`
  return ended
})

const endTokens = (needs: Needs, newest: number) =>
  inBatches(
    needs,
    Effect.gen(function* () {
      const { sql } = needs
      const now = yield* DateTime.nowAsDate
      const rows = yield* Rows.findAll(
        TokenRow,
        RowJournal.noteEnds(sql, "api_tokens")`
          UPDATE api_tokens SET revoked_at = ${now}, mac = ''
          WHERE id IN (
            SELECT id FROM api_tokens WHERE ${KeyUses.isOfOldPepper(sql, "api_tokens", { newest, now })} LIMIT ${batch})
          RETURNING 'api_token' AS type, id, name, team_id`
      )
      return rows.map(({ teamId, ...target }): AuditEvent => ({
        actor: "system",
        action: "token.revoke",
        outcome: "allowed",
        teamId,
        target
      }))
    })
  )

const endLogins = (needs: Needs, newest: number) =>
  inBatches(
    needs,
    Effect.gen(function* () {
      const { sql } = needs
      const now = yield* DateTime.nowAsDate
      const rows = yield* Rows.findAll(
        LoginRow,
        RowJournal.noteEnds(sql, "cli_grants")`
          UPDATE cli_grants SET revoked_at = ${now}, mac = ''
          WHERE id IN (
            SELECT id FROM cli_grants WHERE ${KeyUses.isOfOldPepper(sql, "cli_grants", { newest, now })} LIMIT ${batch})
          RETURNING 'cli_grant' AS type, id, coalesce(hostname, '') AS name`
      )
      return Revocation.endedEvents(bySystem, rows)
    })
  )

const endSessions = (needs: Needs, newest: number) =>
  inBatches(
    needs,
    Effect.gen(function* () {
      const { sql } = needs
      const at = { newest, now: yield* DateTime.nowAsDate }
      const old = sql`
        id IN (SELECT id FROM sessions WHERE ${KeyUses.isOfOldPepper(sql, "sessions", at)} LIMIT ${batch})`
      return (yield* Accounts.endSessions({ sql }, old)).map((id): AuditEvent => ({
        ...bySystem,
        action: "session.end",
        outcome: "allowed",
        target: { type: "session", id, name: "" }
      }))
    })
  )

const InvitationRow = Schema.Struct({ id: Schema.String, email: Schema.String, teamId: TeamIdOut })

const endLinks = Effect.fnUntraced(function* (needs: Needs, newest: number) {
  const { sql } = needs
  const at = { newest, now: yield* DateTime.nowAsDate }
  yield* RowJournal.end(sql, "password_resets", { used_at: at.now }, KeyUses.isOfOldPepper(sql, "password_resets", at))
  // A device without a row gets new attempts, as any other browser.
  yield* sql`DELETE FROM ${sql("known_devices")} WHERE ${KeyUses.isOfOldPepper(sql, "known_devices", at)}`
  return yield* inBatches(
    needs,
    Effect.gen(function* () {
      const rows = yield* Rows.findAll(
        InvitationRow,
        RowJournal.noteEnds(sql, "invitations")`
          UPDATE invitations SET revoked_at = ${at.now}, mac = ''
          WHERE id IN (SELECT id FROM invitations WHERE ${KeyUses.isOfOldPepper(sql, "invitations", at)} LIMIT ${batch})
          RETURNING id, email, team_id`
      )
      return rows.map(({ email, id, teamId }): AuditEvent => ({
        actor: "system",
        action: "member.invite_withdraw",
        outcome: "allowed",
        teamId,
        target: { type: "invitation", id, name: email }
      }))
    })
  )
})

/**
 * Ends the credentials that still need an older pepper. Recovery codes stay, since a person may have nothing else; codes
 * and challenges that live for minutes end by themselves. Returns the number of ended ones.
 */
export const endAll = Effect.fn("OldCredentials.endAll")(function* (needs: Needs, newest: number) {
  const { sql } = needs
  const now = yield* DateTime.nowAsDate
  const agents = yield* endAgents(needs, KeyUses.isOfOldPepper(sql, "oauth_refresh_tokens", { newest, now }))
  const tokens = yield* endTokens(needs, newest)
  const logins = yield* endLogins(needs, newest)
  const sessions = yield* endSessions(needs, newest)
  return agents + tokens + logins + sessions + (yield* endLinks(needs, newest))
})
