/** Opens a session for a person who proved their identity, by any way of sign-in, and records refusals. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { MyTeam, Person } from "#schema/IdentityApi.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Rows from "#src/database/Rows.ts"
import * as AccountNotices from "./AccountNotices.ts"
import * as Accounts from "./Accounts.ts"
import * as TokenText from "./TokenText.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly audit: Audit
  readonly rowSeal: RowSeal
}

/** Cookies of a browser before its sign-in, valid or not. */
export interface PresentedCookies {
  readonly session: Redacted.Redacted | null
  readonly device: Redacted.Redacted | null
  /** Sign-in step of a correct password. */
  readonly step: Redacted.Redacted | null
  /** Identifies the browser of a passkey's challenge. */
  readonly passkey: Redacted.Redacted | null
}

const SessionProofRow = Schema.Struct({ id: Schema.String, ...TokenText.ProofRow.fields })

const endText = Effect.fnUntraced(function* (needs: Needs, text: Redacted.Redacted | null) {
  const { sql } = needs
  const row = yield* TokenText.prove(needs, "ss", text, (id) =>
    Rows.findOne(
      SessionProofRow,
      sql`SELECT id, salt, hash FROM sessions WHERE lookup_id = ${id} AND revoked_at IS NULL`
    )
  )
  if (row !== undefined) yield* Accounts.endSessions(needs, sql`id = ${row.id}`)
})

export interface SignInResult {
  readonly user: Person
  readonly teams: ReadonlyArray<MyTeam>
  readonly session: Accounts.OpenedSession
}

export interface CheckedCookies {
  readonly session: Redacted.Redacted | null
  readonly device: Accounts.KnownDevice | null
}

/**
 * `prove`: a further proof, in the transaction that opens the session. None: since the check, the password, address or second factor of the account changed.
 */
export const openChecked = <E>(
  needs: Needs,
  account: Accounts.AccountRow,
  cookies: CheckedCookies,
  {
    by = Accounts.byPassword,
    prove,
    renewedHash
  }: {
    readonly prove: Effect.Effect<Accounts.FactorProof, E>
    readonly renewedHash?: string | undefined
    readonly by?: Accounts.SignInSource
  }
) =>
  Rows.transaction(needs.sql, function* () {
    const { audit, rowSeal, sql } = needs
    // Locked to the end: a change of password or address either precedes this check, or waits and then ends the
    // session.
    const isCurrent = yield* Rows.exists(sql`
      SELECT 1 FROM users WHERE id = ${account.id} AND password_hash = ${account.passwordHash}
        AND second_factor = ${account.secondFactor} AND email = ${account.email} FOR NO KEY UPDATE`)
    if (!isCurrent) return Option.none<SignInResult>()
    const proof = yield* prove
    if (renewedHash !== undefined) {
      yield* rowSeal.update("users", sql`id = ${account.id}`, () => ({ passwordHash: renewedHash }))
    }
    yield* endText(needs, cookies.session)
    const last = yield* Accounts.lastActiveTeam(needs, account.id)
    const opening = { ...by, closedTeams: Accounts.closedUnion(by.closedTeams, proof.closedTeams) }
    const open = account.memberships.filter((team) => team.active && Policy.letsIn(opening, team))
    const teams = open.map(({ id, name, plan, role }): MyTeam => ({ id, name, role, plan }))
    const active = teams.find((team) => team.id === last) ?? teams[0]
    const isNew = cookies.device === null && (yield* Accounts.hasSignedIn(needs, account.id))
    const session = yield* Accounts.openSession(needs, account.id, active?.id ?? null, {
      device: cookies.device,
      proof,
      by
    })
    const actor = { userId: account.id, email: account.email }
    if (isNew) {
      yield* AccountNotices.record(needs, account.id, "new_device")
      yield* audit.append(...Accounts.inEachTeam(teams, { actor, action: "session.new_device", outcome: "allowed" }))
    }
    const person: Person = { id: account.id, email: account.email, name: account.name }
    const entry = { actor, action: "session.create", outcome: "allowed" } as const
    const alarmTeams = open.filter((team) => Policy.breaksGlass(by, team))
    yield* audit.append(
      ...Accounts.inEachTeam(teams, by.issuer === null ? entry : { ...entry, target: targetOf(by.issuer) }),
      ...alarmTeams.map(({ id }): AuditEvent => ({ ...entry, action: "session.break_glass", teamId: id }))
    )
    return Option.some<SignInResult>({ user: person, teams, session })
  })

const targetOf = (issuer: string) => ({ type: "sign_in_issuer", id: issuer, name: issuer })

/** A person who is deactivated in every team cannot sign in. A person without any team can, and may make one. */
export const isShutOut = ({ memberships }: Accounts.AccountRow) =>
  memberships.length > 0 && !memberships.some((team) => team.active)

const refusalOf = (account: Accounts.AccountRow | undefined, reason: string) =>
  Accounts.inEachTeam(account?.memberships ?? [], {
    actor: account === undefined ? "system" : { userId: account.id, email: account.email },
    action: "session.create",
    outcome: "denied",
    reason
  })

export const recordRefusal = (
  { audit }: Pick<Needs, "audit">,
  account: Accounts.AccountRow | undefined,
  reason: string
) => audit.record(...refusalOf(account, reason))

/** A refused attempt at all accounts of an address; none of them: an attempt at an unknown address. */
export const recordRefusals = (
  { audit }: Pick<Needs, "audit">,
  accounts: ReadonlyArray<Accounts.AccountRow>,
  reason: string
) =>
  audit.record(
    ...(accounts.length === 0 ? refusalOf(undefined, reason) : accounts.flatMap((one) => refusalOf(one, reason)))
  )
