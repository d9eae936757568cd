/** Lifetimes of credentials (docs/contract/credentials.md). Pure: rows and a time in, a state out. */
import { days } from "#src/Days.ts"

export type Life = "live" | "expired" | "revoked"

/** Limit without use, for CLI grants and for tokens without an expiry date (from older versions). */
export const idleLimit = days(90)
export const grantLife = days(180)
/** Time that tokens still work after their creator is deactivated. */
export const creatorGrace = days(7)
/** Sessions end after 12 hours without use, and after 7 days in any case. */
const sessionIdleLimit = days(0.5)
export const sessionLife = days(7)
/** Management from the command line: 10 minutes in any case. Milliseconds. */
export const managementLife = 10 * 60_000

/** Inclusive, by the contract: "expiry date reached - refused from then on". */
const isReached = (date: Date, now: number): boolean => date.getTime() <= now
const isOlder = (date: Date, span: number, now: number): boolean => date.getTime() + span <= now

interface CreatedRow {
  readonly revokedAt: Date | null
  /** Null: the creator left the team. */
  readonly creatorActive: boolean | null
  readonly creatorDeactivatedAt: Date | null
}

/** A trust rule lives as long as its creator's tokens would, without an expiry date. */
export const ofRule = (row: CreatedRow, now: number): Life => {
  if (row.revokedAt !== null || row.creatorActive === null) return "revoked"
  if (row.creatorActive) return "live"
  return row.creatorDeactivatedAt === null || isOlder(row.creatorDeactivatedAt, creatorGrace, now) ? "expired" : "live"
}

export const ofToken = (
  row: CreatedRow & {
    readonly createdAt: Date
    readonly expiresAt: Date | null
    readonly lastUsedAt: Date | null
  },
  now: number
): Life => {
  const life = ofRule(row, now)
  if (life !== "live") return life
  if (row.expiresAt === null) return isOlder(row.lastUsedAt ?? row.createdAt, idleLimit, now) ? "expired" : "live"
  return isReached(row.expiresAt, now) ? "expired" : "live"
}

export const ofGrant = (
  row: {
    readonly createdAt: Date
    readonly expiresAt: Date
    readonly lastUsedAt: Date | null
    readonly revokedAt: Date | null
    readonly teams: number
  },
  now: number
): Life => {
  if (row.revokedAt !== null || row.teams === 0) return "revoked"
  if (isReached(row.expiresAt, now) || isOlder(row.createdAt, grantLife, now)) return "expired"
  return isOlder(row.lastUsedAt ?? row.createdAt, idleLimit, now) ? "expired" : "live"
}

export const ofSession = (
  row: { readonly expiresAt: Date; readonly lastUsedAt: Date; readonly revokedAt: Date | null },
  now: number
): Life => {
  if (row.revokedAt !== null) return "revoked"
  return isReached(row.expiresAt, now) || isOlder(row.lastUsedAt, sessionIdleLimit, now) ? "expired" : "live"
}

/** Ends also with the login that started it, and with its team. */
export const ofManagement = (
  row: Parameters<typeof ofSession>[0] & { readonly loginLives: boolean; readonly teams: number },
  now: number
): Life => (row.loginLives && row.teams > 0 ? ofSession(row, now) : "revoked")

/** Ends with its consent, and when the person is in none of its teams. */
export const ofAccessToken = (
  row: { readonly expiresAt: Date; readonly revokedAt: Date | null; readonly teams: number },
  now: number
): Life => {
  if (row.revokedAt !== null || row.teams === 0) return "revoked"
  return isReached(row.expiresAt, now) ? "expired" : "live"
}
