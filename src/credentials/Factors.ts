/** Proofs of a second factor: a code of the authenticator app, or a recovery code. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type RateLimited, SecondFactorFailed } from "#schema/Errors.ts"
import { type UserId, UserIdOut } from "#schema/Ids.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import { sealedColumns } from "#src/rows/SealedColumns.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import type { KeyRing } from "#src/crypto/KeyRing.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import type { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Attempts from "#src/limits/Attempts.ts"
import { factorPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Authenticators from "./Authenticators.ts"
import * as RecoveryCodes from "./RecoveryCodes.ts"
import * as SignInSteps from "./SignInSteps.ts"
import * as Totp from "./Totp.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly crypto: Crypto
  readonly rowSeal: RowSeal
  readonly keys: ServiceKeys
  readonly limiter: RateLimiter
}

export const TotpRow = Schema.Struct({
  id: Schema.String,
  userId: UserIdOut,
  sealed: Schema.Uint8ArrayFromSelf,
  confirmed: Schema.Boolean,
  usedStep: Schema.Number,
  createdAt: Schema.DateFromSelf,
  lastUsedAt: Schema.NullOr(Schema.DateFromSelf),
  suspendedAt: Schema.NullOr(Schema.DateFromSelf),
  ...Authenticators.stateFields,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
type TotpRow = typeof TotpRow.Type

/** Key of the apps' secrets, wrapped by the vault. Fetch it before a transaction, since the vault may be slow. */
export const keyOf = ({ keys }: Pick<Needs, "keys">): Effect.Effect<KeyRing> =>
  Effect.orDie(dieWhenVaultIsDown(keys.ring("second-factors")))

export const seal = (key: KeyRing, at: Pick<TotpRow, "id" | "userId">, secret: Uint8Array, salt: Uint8Array): Buffer =>
  ServiceBox.seal(key, sealedColumns.totp_factors.placeOf(at), secret, salt)

export const open = (key: KeyRing, row: TotpRow) =>
  Effect.orDie(ServiceBox.open(key, sealedColumns.totp_factors.placeOf(row), row.sealed))

/** The person's app, or undefined when none is in use or the MAC of its row fails. */
export const totpOf = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  userId: UserId,
  confirmed: boolean
) {
  const macs = yield* rowSeal.ready
  const row = yield* Rows.findOne(
    TotpRow,
    sql`
      SELECT id, user_id, sealed, confirmed, used_step, created_at, last_used_at, suspended_at, young_until,
        closed_teams, mac
      FROM totp_factors WHERE user_id = ${userId} AND confirmed = ${confirmed} AND suspended_at IS NULL`
  )
  return row !== undefined && macs.isAuthentic("totp_factors", row) ? row : undefined
})

/** The time step of the typed code; undefined for a wrong, old or used code. */
export const stepOf = Effect.fnUntraced(function* (key: KeyRing, row: TotpRow, typed: Redacted.Redacted) {
  const secret = yield* open(key, row)
  const step = Totp.matchingStep(secret, Redacted.value(typed), {
    millis: yield* Clock.currentTimeMillis,
    usedStep: row.usedStep
  })
  secret.fill(0)
  return step
})

const isOfApp = (typed: Redacted.Redacted) => Totp.isCode(Redacted.value(typed))

/**
 * Part of the caller's transaction: uses up the code, and returns its proof. Of two simultaneous uses, one succeeds.
 * `entered`: as in `Authenticators.proofOf`.
 */
export const use = Effect.fnUntraced(function* (
  needs: Needs,
  key: KeyRing,
  userId: UserId,
  typed: Redacted.Redacted,
  entered: boolean
) {
  if (!isOfApp(typed)) {
    const code = yield* RecoveryCodes.use(needs, userId, Redacted.value(typed))
    if (code === undefined) return yield* new SecondFactorFailed()
    return yield* Authenticators.proofOf(needs, userId, code, { entered })
  }
  const { rowSeal, sql } = needs
  const row = yield* totpOf(needs, userId, true)
  const step = row === undefined ? undefined : yield* stepOf(key, row, typed)
  if (row === undefined || step === undefined) return yield* new SecondFactorFailed()
  const used = yield* rowSeal.update(
    "totp_factors",
    sql`id = ${row.id} AND used_step < ${step} AND suspended_at IS NULL`,
    () => ({ usedStep: step }),
    { last_used_at: new Date(yield* Clock.currentTimeMillis) }
  )
  if (used === 0) return yield* new SecondFactorFailed()
  return yield* Authenticators.proofOf(needs, userId, row, { entered })
})

/**
 * Buckets that count wrong codes. A known device and a session have their own attempts. All other browsers share the
 * person's, so that a thief of the password cannot guess from many addresses. Recovery codes cannot be guessed: they
 * count per address, so that another's guesses never block a person with a new device.
 */
const bucketsOf = (
  userId: UserId,
  from: { readonly device: string | null; readonly session?: string },
  typed: Redacted.Redacted
) =>
  Effect.map(RequestInfo, ({ ip }) =>
    from.session !== undefined
      ? [`factor:session:${from.session}`, `factor:${userId}:${addressBucket(ip)}`]
      : from.device !== null
        ? [`factor:device:${from.device}`]
        : isOfApp(typed)
          ? [`factor:user:${userId}`]
          : [`factor:recovery:${userId}:${addressBucket(ip)}`]
  )

/** Runs `work` as one attempt; SECOND_FACTOR_FAILED counts. */
export const attempt = <A, E, R>(
  { limiter }: Pick<Needs, "limiter">,
  userId: UserId,
  from: Parameters<typeof bucketsOf>[1],
  typed: Redacted.Redacted,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E | RateLimited, R> =>
  Effect.flatMap(bucketsOf(userId, from, typed), (buckets) =>
    Attempts.attempt(limiter, { buckets, policy: factorPolicy }, work, (error) => error instanceof SecondFactorFailed)
  )

/** Part of the caller's transaction: removes all second factors, and sign-ins that wait for one. */
export const removeAll = Effect.fnUntraced(function* (
  { rowSeal, sql }: Pick<Needs, "rowSeal" | "sql">,
  userId: UserId
) {
  yield* RowJournal.remove(sql, "totp_factors", sql`user_id = ${userId}`)
  yield* RowJournal.remove(sql, "passkeys", sql`user_id = ${userId}`)
  yield* RecoveryCodes.remove({ sql }, userId)
  yield* SignInSteps.endOf({ sql }, userId)
  yield* rowSeal.update("users", sql`id = ${userId}`, () => ({ secondFactor: false }))
  // Logins approved with the factor lose its proof.
  const without = () => ({ factorAt: null })
  yield* rowSeal.update("device_requests", sql`decided_by = ${userId} AND delivered_at IS NULL`, without)
  yield* rowSeal.update("cli_grants", sql`user_id = ${userId} AND revoked_at IS NULL`, without)
  yield* rowSeal.update("oauth_grants", sql`user_id = ${userId} AND revoked_at IS NULL`, without)
})

/**
 * Part of the caller's transaction, after the removal of one factor: without another factor, removes recovery codes
 * too. Returns whether a factor remains.
 */
export const finishRemoval = Effect.fnUntraced(function* (needs: Pick<Needs, "rowSeal" | "sql">, userId: UserId) {
  const hasFactor = yield* Rows.exists(needs.sql`
    SELECT 1 FROM totp_factors WHERE user_id = ${userId} AND confirmed
    UNION ALL SELECT 1 FROM passkeys WHERE user_id = ${userId} LIMIT 1`)
  if (!hasFactor) yield* removeAll(needs, userId)
  return hasFactor
})
