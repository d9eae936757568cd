/** Accounts of people, the dashboard sessions that they open, and the devices that signed in before. */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { type TeamId, TeamIdOut, type UserId, UserIdOut } from "#schema/Ids.ts"
import { Plan, Role } from "#schema/Scopes.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as Policy from "#src/access/Policy.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import { days } from "#src/Days.ts"
import * as Rows from "#src/database/Rows.ts"
import * as IdentityState from "./IdentityState.ts"
import { sessionLife } from "./Liveness.ts"
import * as TokenText from "./TokenText.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
}

/** Longest stored user agent; the start identifies a browser well enough. */
export const maxUserAgent = 256

/** Witness of an account's address. `none`: the account is provisional. */
export const VouchedBy = Schema.Literal("none", "issuer", "mailbox", "operator")
export type VouchedBy = typeof VouchedBy.Type

export const AccountRow = Schema.Struct({
  id: UserIdOut,
  /** The address, or "address (by Team)" (`addressOf`). */
  email: Schema.String,
  name: Schema.String,
  passwordHash: Schema.String,
  secondFactor: Schema.Boolean,
  /** The next sign-in is good for nothing but choosing what comes back. */
  recovering: Schema.Boolean,
  /** Null: made before witnesses existed, which counts as vouched. */
  vouchedBy: Schema.NullOr(VouchedBy),
  /** The team whose invitation or issuer made the account, if one did. */
  madeBy: Schema.NullOr(TeamIdOut),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  memberships: Schema.Array(
    Schema.Struct({
      id: TeamIdOut,
      name: Schema.String,
      plan: Plan,
      role: Role,
      active: Schema.Boolean,
      signInOnly: Schema.NullOr(Schema.Array(Schema.String)),
      breakGlass: Schema.Boolean
    })
  )
})
export type AccountRow = typeof AccountRow.Type

/** Whether the account holds its address, so that no other account is made for it. */
export const isVouched = ({ vouchedBy }: Pick<AccountRow, "vouchedBy">): boolean => vouchedBy !== "none"

const accountsWhere = ({ rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">, where: Statement.Fragment, limit: number) =>
  Effect.zipWith(
    rowSeal.ready,
    Rows.findAll(
      AccountRow,
      sql`
      SELECT u.id, u.email, u.name, u.password_hash, u.second_factor, u.recovering, u.vouched_by, u.made_by, u.mac,
        (SELECT coalesce(json_agg(json_build_object('id', t.id, 'name', t.name, 'plan', t.plan, 'role', m.role,
            'active', m.active, 'signInOnly', t.sign_in_only, 'breakGlass', m.break_glass) ORDER BY t.id), '[]'::json)
          FROM memberships m JOIN teams t ON t.id = m.team_id WHERE m.user_id = u.id) AS memberships
      FROM users u WHERE ${where} LIMIT ${limit}`
    ),
    (macs, rows) => rows.filter((row) => macs.isAuthentic("users", row))
  )

/** The account, or undefined when none exists or the MAC of its row fails. */
export const find = (needs: Pick<Needs, "rowSeal" | "sql">, id: UserId) =>
  Effect.map(accountsWhere(needs, needs.sql`u.id = ${id}`, 1), (rows) => rows[0])

/** Accounts of one address at most: the list that a sign-in goes through. */
export const accountsPerAddress = 500

/**
 * All accounts of an address, the one that is named by it first. The only look-up of a person by an address
 * (`test/credentials/byAddress.test.ts`).
 */
export const atAddress = (needs: Pick<Needs, "rowSeal" | "sql">, address: string) =>
  accountsWhere(
    needs,
    needs.sql`${hasAddress(needs.sql, address)} ORDER BY u.email <> ${address}, u.id`,
    accountsPerAddress
  )

/** Condition on `users u`, for look-ups among the people of one team. */
export const hasAddress = (sql: SqlClient.SqlClient, address: string): Statement.Fragment =>
  sql`split_part(u.email, ' ', 1) = ${address}`

/** Class of the advisory locks of addresses, an arbitrary constant. */
const addressLocks = 97_109_114

/**
 * Locks addresses to the end of the transaction. The first lock of every transaction that makes, moves, renames or
 * vouches for an account; teams follow, then rows of `users`. Two addresses may share a hash, so the hashes are in order.
 */
export const lockAddresses = ({ sql }: Pick<Needs, "sql">, ...addresses: ReadonlyArray<string>) =>
  Rows.run(sql`
    SELECT pg_advisory_xact_lock(${addressLocks}::int, hash)
    FROM (SELECT DISTINCT hashtext(address) AS hash FROM unnest(${addresses}::text[]) AS address ORDER BY hash) AS ordered`)

/** Events that concern a person, not a team: one entry in the trail of each of their teams, or one without a team. */
export const inEachTeam = (
  teams: ReadonlyArray<{ readonly id: TeamId }>,
  event: Omit<AuditEvent, "teamId">
): ReadonlyArray<AuditEvent> =>
  teams.length === 0 ? [{ ...event, teamId: null }] : teams.map(({ id }) => ({ ...event, teamId: id }))

// Known devices: browsers that signed in to an account before. Each has its own sign-in attempts, so that wrong
// passwords from elsewhere cannot lock the person out. The cookie opens nothing. It ends 90 days after the last
// sign-in, and with the password that it signed in with.

export interface KnownDevice {
  readonly id: string
  readonly userId: UserId
  readonly text: Redacted.Redacted
}

export const deviceLife = days(90)
/** Repeated sign-ins must not fill the table: the oldest devices of an account are deleted. */
const devicesPerPerson = 32

const devicePattern = /^([0-9A-Za-z]{16})\.([0-9A-Za-z]{43})$/
const DeviceRow = Schema.Struct({ id: Schema.String, userId: UserIdOut, ...TokenText.ProofRow.fields })

/** The known device of the presented cookie, when it signed in to one of the accounts before. */
export const findDevice = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  text: Redacted.Redacted | null,
  ...userIds: ReadonlyArray<UserId>
) {
  const match = text === null ? null : devicePattern.exec(Redacted.value(text))
  if (text === null || match === null) return null
  const [, lookupId, secret] = match
  const row = yield* Rows.findOne(
    DeviceRow,
    sql`
      SELECT id, user_id, salt, hash FROM known_devices
      WHERE lookup_id = ${lookupId} AND user_id = ANY(${userIds}::uuid[]) AND expires_at > ${yield* DateTime.nowAsDate}`
  )
  const macs = yield* rowSeal.ready
  if (!TokenText.verify(macs, "kd", row, secret)) return null
  if (macs.isOldPepper(row.hash))
    yield* Rows.run(
      sql`UPDATE known_devices SET hash = ${TokenText.hash(macs, "kd", row.salt, secret)} WHERE id = ${row.id}`
    )
  const device: KnownDevice = { id: row.id, userId: row.userId, text }
  return device
})

/** Part of the transaction that opens a session. Returns the text of the device cookie. */
const rememberDevice = Effect.fnUntraced(function* (needs: Needs, userId: UserId, device: KnownDevice | null) {
  const { crypto, rowSeal, sql } = needs
  const now = yield* DateTime.nowAsDate
  const expiresAt = new Date(now.getTime() + deviceLife)
  const renewed =
    device !== null &&
    (yield* Rows.exists(sql`
      UPDATE known_devices SET expires_at = ${expiresAt} WHERE id = ${device.id} AND user_id = ${userId} RETURNING id`))
  if (renewed) return device.text
  const lookupId = yield* crypto.lookupId
  const secret = Redacted.value(yield* crypto.credentialSecret)
  const salt = yield* crypto.randomBytes(16)
  const hash = TokenText.hash(yield* rowSeal.ready, "kd", salt, secret)
  yield* Rows.run(sql`
    INSERT INTO known_devices (id, lookup_id, salt, hash, user_id, created_at, expires_at)
    VALUES (${yield* crypto.uuid}, ${lookupId}, ${salt}, ${hash}, ${userId}, ${now}, ${expiresAt})`)
  yield* Rows.run(sql`
    DELETE FROM known_devices WHERE user_id = ${userId} AND id NOT IN (
      SELECT id FROM known_devices WHERE user_id = ${userId} ORDER BY expires_at DESC, id DESC LIMIT ${devicesPerPerson})`)
  return Redacted.make(`${lookupId}.${secret}`)
})

/** Part of a password change: no device stays known, since one of them may be the thief's. */
export const forgetDevices = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.run(sql`DELETE FROM known_devices WHERE user_id = ${userId}`)

/** A new session: the texts of the two cookies that the browser keeps. */
export interface OpenedSession {
  readonly text: Redacted.Redacted
  /** Identifies the browser at its next sign-in. */
  readonly device: Redacted.Redacted
}

/**
 * The way a session was opened: by an issuer (with its names for the person and their session there), or null for a
 * password.
 */
export interface SignInSource {
  readonly issuer: string | null
  /** The team that owns the issuer; null for an issuer of the server. */
  readonly onlyTeam: TeamId | null
  readonly subject: string | null
  readonly session: string | null
  /** Teams that it does not open until an owner confirms the identity; null: none. */
  readonly closedTeams: ReadonlyArray<TeamId> | null
  /** The only teams that require this issuer and that it opens; null: all of them. */
  readonly confirmedTeams: ReadonlyArray<TeamId> | null
}
export const byPassword: SignInSource = {
  issuer: null,
  onlyTeam: null,
  subject: null,
  session: null,
  closedTeams: null,
  confirmedTeams: null
}

/** Proof of a second factor, as a session has it. */
export interface FactorProof {
  readonly factorAt: Date | null
  /** Last proof that counts where a second one is required, if it is not `factorAt`. */
  readonly provedAt: Date | null
  /** Teams that the authenticator does not open; null: none. */
  readonly closedTeams: ReadonlyArray<TeamId> | null
}
export const noFactor: FactorProof = { factorAt: null, provedAt: null, closedTeams: null }

/** The caller's proof, for the session that replaces theirs. */
export const proofOf = ({ factorAt, provedAt }: Pick<Caller, "factorAt" | "provedAt">): FactorProof => ({
  factorAt,
  provedAt,
  closedTeams: null
})

export const closedUnion = (...lists: ReadonlyArray<ReadonlyArray<TeamId> | null>): ReadonlyArray<TeamId> | null => {
  const ids = [...new Set(lists.flatMap((list) => list ?? []))].toSorted()
  return ids.length === 0 ? null : ids
}

/**
 * Whether a session may change the whole account. A session from a team's own issuer may not when the person belongs to
 * another team. That issuer must not change how the person signs in there.
 */
export const coversAccount = (caller: Caller, { memberships }: AccountRow): boolean =>
  memberships.every(({ id }) => Policy.reaches(caller, id))

const SourceRow = Schema.Struct({
  subject: Schema.NullOr(Schema.String),
  session: Schema.NullOr(Schema.String)
})

/** The source of the caller's session, for the session that replaces it. */
export const sourceOf = ({ sql }: Pick<Needs, "sql">, caller: Caller) =>
  Effect.map(
    Rows.findOne(
      SourceRow,
      sql`
        SELECT issuer_subject AS subject, issuer_session AS session FROM sessions
        WHERE id = ${caller.credentialId}`
    ),
    (row): SignInSource => ({
      issuer: caller.issuer,
      onlyTeam: caller.onlyTeam,
      subject: row?.subject ?? null,
      session: row?.session ?? null,
      closedTeams: caller.closedTeams,
      confirmedTeams: caller.confirmedTeams
    })
  )

/**
 * Part of the caller's transaction. `device`: the known device that the browser presented, if it is this person's.
 * `proof`: the person's last proof of a second factor, if any.
 */
export const openSession = Effect.fnUntraced(function* (
  needs: Needs,
  userId: UserId,
  activeTeamId: TeamId | null,
  {
    by = byPassword,
    proof: { closedTeams, factorAt, provedAt } = noFactor,
    device = null
  }: { readonly device?: KnownDevice | null; readonly proof?: FactorProof; readonly by?: SignInSource } = {}
) {
  const { crypto, rowSeal, sql } = needs
  const now = yield* DateTime.nowAsDate
  const { ip, userAgent } = yield* RequestInfo
  const { proof, text } = yield* TokenText.issue(needs, "ss")
  const { hash, lookupId, salt } = proof
  const graceEnd = yield* IdentityState.graceOf(needs, userId, by)
  const expiresAt = new Date(Math.min(now.getTime() + sessionLife, graceEnd))
  const row = yield* rowSeal.values(
    "sessions",
    {
      id: yield* crypto.uuid,
      lookupId,
      hash,
      userId,
      createdAt: now,
      expiresAt,
      factorAt,
      manages: null,
      loginId: null,
      issuer: by.issuer,
      onlyTeam: by.onlyTeam,
      provedAt,
      closedTeams: closedUnion(by.closedTeams, closedTeams),
      confirmedTeams: by.confirmedTeams
    },
    {
      salt,
      active_team_id: by.onlyTeam ?? activeTeamId,
      issuer_subject: by.subject,
      issuer_session: by.session,
      last_used_at: now,
      last_used_ip: ip,
      last_used_user_agent: userAgent?.slice(0, maxUserAgent) ?? null
    }
  )
  yield* Rows.run(sql`INSERT INTO sessions ${row}`)
  const session: OpenedSession = { text, device: yield* rememberDevice(needs, userId, device) }
  return session
})

const EndedSessionRow = Schema.Struct({ id: Schema.String })

/** Part of the caller's transaction: ends the live sessions that meet the condition. Returns their ids. */
export const endSessions = Effect.fnUntraced(function* ({ sql }: Pick<Needs, "sql">, condition: Statement.Fragment) {
  const rows = yield* Rows.findAll(
    EndedSessionRow,
    RowJournal.noteEnds(sql, "sessions")`
      UPDATE sessions SET revoked_at = ${yield* DateTime.nowAsDate}, mac = ''
      WHERE ${condition} AND revoked_at IS NULL RETURNING id`
  )
  return rows.map(({ id }) => id)
})

const ActiveTeamRow = Schema.Struct({ activeTeamId: Schema.NullOr(TeamIdOut) })

export const activeTeamOf = ({ sql }: Pick<Needs, "sql">, sessionId: string) =>
  Effect.map(
    Rows.findOne(ActiveTeamRow, sql`SELECT active_team_id FROM sessions WHERE id = ${sessionId}`),
    (row) => row?.activeTeamId ?? null
  )

/** The active team of the person's newest session. */
export const lastActiveTeam = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Effect.map(
    Rows.findOne(
      ActiveTeamRow,
      sql`SELECT active_team_id FROM sessions
        WHERE user_id = ${userId} AND manages IS NULL ORDER BY created_at DESC LIMIT 1`
    ),
    (row) => row?.activeTeamId ?? null
  )

/** Whether the person had a browser session before, as far back as sessions are stored. */
export const hasSignedIn = ({ sql }: Pick<Needs, "sql">, userId: UserId) =>
  Rows.exists(sql`SELECT 1 FROM sessions WHERE user_id = ${userId} LIMIT 1`)

const SessionEndRow = Schema.Struct({ revokedAt: Schema.NullOr(Schema.DateFromSelf) })

/**
 * Whether the session ended. Locks its row to the end of the caller's transaction. A new password either ends the
 * session before this check, or waits and revokes the result.
 */
export const hasEnded = ({ sql }: Pick<Needs, "sql">, sessionId: string) =>
  Effect.map(
    Rows.findOne(SessionEndRow, sql`SELECT revoked_at FROM sessions WHERE id = ${sessionId} FOR SHARE`),
    (row) => row !== undefined && row.revokedAt !== null
  )
