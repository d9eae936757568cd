/** How long a credential lives (docs/contract/credentials.md), as functions of a clock. Pure: rows and a time in, a state out. */
import { days } from "#src/Days.ts"

export type Life = "live" | "expired" | "revoked"

/** A token without expiry (an older rule) and a CLI grant stop after 90 days without use. */
export const idleLimit = days(90)
/** A CLI grant lives for at most 180 days. */
export const grantLife = days(180)
/** Tokens of a deactivated creator work for 7 more days. */
export const creatorGrace = days(7)
/** Sessions: 12 h idle, 7 d absolute */
const sessionIdleLimit = days(0.5)
export const sessionLife = days(7)
/** Management from the command line: 10 minutes, never longer. */
export const managementLife = 10 * 60_000

/** A date reached is a date passed: "expiry date reached - refused from then on". */
const reached = (date: Date, now: number): boolean => date.getTime() <= now
const since = (date: Date, span: number, now: number): boolean => date.getTime() + span <= now

interface CreatedRow {
  readonly revokedAt: Date | null
  /** Null: the creator is not in the team any more. */
  readonly creatorActive: boolean | null
  readonly creatorDeactivatedAt: Date | null
}

/** A trust rule works as long as a token of its creator would, but does not expire. */
export const ofRule = (row: CreatedRow, now: number): Life => {
  if (row.revokedAt !== null || row.creatorActive === null) return "revoked"
  if (row.creatorActive) return "live"
  return row.creatorDeactivatedAt === null || since(row.creatorDeactivatedAt, creatorGrace, now) ? "expired" : "live"
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
  if (row.expiresAt === null) return since(row.lastUsedAt ?? row.createdAt, idleLimit, now) ? "expired" : "live"
  return reached(row.expiresAt, now) ? "expired" : "live"
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
  if (reached(row.expiresAt, now) || since(row.createdAt, grantLife, now)) return "expired"
  return since(row.lastUsedAt ?? row.createdAt, idleLimit, now) ? "expired" : "live"
}

export const ofSession = (
  row: { readonly expiresAt: Date; readonly lastUsedAt: Date; readonly revokedAt: Date | null },
  now: number
): Life => {
  if (row.revokedAt !== null) return "revoked"
  return reached(row.expiresAt, now) || since(row.lastUsedAt, sessionIdleLimit, now) ? "expired" : "live"
}

/** A management session lives minutes, and with the login that asked for it; without its team it is good for nothing. */
export const ofManagement = (
  row: Parameters<typeof ofSession>[0] & { readonly loginLives: boolean; readonly teams: number },
  now: number
): Life => (row.loginLives && row.teams > 0 ? ofSession(row, now) : "revoked")

/**
 * An OAuth access token lives with its consent: revoked with it, and when the person holds none of its teams any more.
 */
export const ofAccessToken = (
  row: { readonly expiresAt: Date; readonly revokedAt: Date | null; readonly teams: number },
  now: number
): Life => {
  if (row.revokedAt !== null || row.teams === 0) return "revoked"
  return reached(row.expiresAt, now) ? "expired" : "live"
}
