/** Codes, access tokens and refresh tokens of a grant, each stored as a salted hash. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Envelope from "#src/crypto/Envelope.ts"
import type { KeyRing } from "#src/crypto/KeyRing.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import * as Rows from "#src/database/Rows.ts"
import { empty, events, expiryOf, Payload, type Store, type StoreNeeds, textOf, withoutId } from "./Store.ts"

/** Time in which a client without the response may repeat a refresh (RFC 9700 4.14.2). Milliseconds. */
const retryMillis = 30_000

const NextRow = Schema.Struct({ next: Schema.Uint8ArrayFromSelf })

/**
 * Random text of the refresh token at a position of its family. Until the client uses it, for 30 s at most, its
 * predecessor's row keeps it sealed: a lost response can be repeated, and parallel refreshes get the same token.
 */
export const refreshText = Effect.fnUntraced(function* (
  { crypto, ring, sql }: Pick<StoreNeeds, "crypto" | "sql"> & { readonly ring: KeyRing },
  grantId: string,
  rotation: number
) {
  const text = TokenText.print(TokenText.make("or", yield* crypto.randomBytes(12), yield* crypto.randomBytes(32)))
  if (rotation === 0) return text
  const place: ServiceBox.Place = { purpose: "next refresh token", ids: [grantId, String(rotation)] }
  const sealed = ServiceBox.seal(ring, place, Buffer.from(text), yield* crypto.randomBytes(Envelope.saltLength))
  const row = yield* Rows.findOne(
    NextRow,
    sql`
      UPDATE oauth_refresh_tokens SET next = coalesce(next, ${sealed})
      WHERE grant_id = ${grantId}::uuid AND rotation = ${rotation - 1} RETURNING next`
  )
  return row === undefined ? text : (yield* Effect.orDie(ServiceBox.open(ring, place, row.next))).toString()
})

/** Clears sealed tokens whose time is over. */
export const forgetNext = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const now = yield* DateTime.nowAsDate
  yield* sql`
    UPDATE oauth_refresh_tokens SET next = NULL
    WHERE next IS NOT NULL AND consumed_at < ${new Date(now.getTime() - retryMillis)}`
})

/** Marks payloads, which are under the MAC: releases before derived the texts of their tokens from a key. */
const randomMark = "random"

const TokenRow = Schema.Struct({ ...TokenText.ProofRow.fields, payload: Payload })
const CodeRow = Schema.Struct({
  ...TokenRow.fields,
  lookupId: Schema.String,
  grantId: Schema.String,
  expiresAt: Schema.DateFromSelf,
  consumedAt: Schema.NullOr(Schema.DateFromSelf),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})
const RefreshRow = Schema.Struct({
  ...CodeRow.fields,
  rotation: Schema.Number,
  again: Schema.NullOr(Schema.Boolean)
})

const proofOf = Effect.fnUntraced(function* ({ crypto, rowSeal }: StoreNeeds, text: string) {
  const token = TokenText.parse(text)
  if (token === undefined) return yield* Effect.dieMessage("a token without our format")
  const salt = yield* crypto.randomBytes(16)
  return { lookupId: token.id, salt, hash: TokenText.hash(yield* rowSeal.ready, token.kind, salt, token.secret) }
})

const lookupId = (kind: TokenText.TokenKind, text: string): string | undefined => {
  const token = TokenText.parse(text)
  return token?.kind === kind ? token.id : undefined
}

/** Marks a used code or token for the library. */
const consumption = (consumedAt: Date | null) =>
  consumedAt === null ? {} : { consumed: Math.floor(consumedAt.getTime() / 1_000) }

export const codes = (needs: StoreNeeds): Store => {
  const { errors, rowSeal, sql } = needs
  return {
    upsert: Effect.fnUntraced(function* (text, payload) {
      const { hash, lookupId, salt } = yield* proofOf(needs, text)
      const now = yield* DateTime.nowAsDate
      const grantId = textOf(payload, "grantId")
      const values = { lookupId, hash, grantId, payload: withoutId(payload), expiresAt: expiryOf(payload, now) }
      yield* sql`INSERT INTO oauth_codes ${yield* rowSeal.values("oauth_codes", values, { salt })}`
    }),
    find: Effect.fnUntraced(function* (text) {
      const row = yield* TokenText.prove(needs, "oc", text, (id) =>
        Rows.findOne(
          CodeRow,
          sql`
            SELECT lookup_id, grant_id, salt, hash, payload, expires_at, consumed_at, mac
            FROM oauth_codes WHERE lookup_id = ${id}`
        )
      )
      return row === undefined || !(yield* rowSeal.ready).isAuthentic("oauth_codes", row)
        ? undefined
        : { ...row.payload, ...consumption(row.consumedAt), jti: text }
    }),
    /** Only one of parallel redemptions succeeds. */
    consume: Effect.fnUntraced(function* (text) {
      const now = yield* DateTime.nowAsDate
      const isFirst = yield* Rows.exists(sql`
        UPDATE oauth_codes SET consumed_at = ${now}
        WHERE lookup_id = ${lookupId("oc", text) ?? ""} AND consumed_at IS NULL RETURNING lookup_id`)
      if (!isFirst) return yield* Effect.fail(new errors.InvalidGrant("authorization code already consumed"))
    }),
    destroy: (text) => sql`DELETE FROM oauth_codes WHERE lookup_id = ${lookupId("oc", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`
      UPDATE oauth_codes SET consumed_at = coalesce(consumed_at, expires_at) WHERE grant_id = ${grantId}::uuid`
  }
}

export const accessTokens = (needs: StoreNeeds): Store => {
  const { audit, rowSeal, sql } = needs
  return {
    ...empty,
    upsert: Effect.fnUntraced(function* (text, payload) {
      const { hash, lookupId, salt } = yield* proofOf(needs, text)
      const now = yield* DateTime.nowAsDate
      const grantId = textOf(payload, "grantId")
      const isRenewal = textOf(payload, "gty").includes("refresh_token")
      yield* Rows.transaction(sql, function* () {
        const scopes = textOf(payload, "scope").split(" ").filter(Boolean)
        const expiresAt = expiryOf(payload, now)
        const row = yield* rowSeal.values(
          "oauth_access_tokens",
          { lookupId, hash, grantId, audience: textOf(payload, "aud"), scopes, expiresAt },
          { salt, payload: JSON.stringify(withoutId(payload)), created_at: now }
        )
        yield* sql`INSERT INTO oauth_access_tokens ${row}`
        yield* sql`UPDATE oauth_clients SET last_used_at = ${now} WHERE id = ${textOf(payload, "clientId")}`
        yield* audit.append(...(yield* events(needs, grantId, isRenewal ? "oauth.refresh" : "oauth.issue")))
      })
    }),
    find: Effect.fnUntraced(function* (text) {
      const row = yield* TokenText.prove(needs, "oa", text, (id) =>
        Rows.findOne(TokenRow, sql`SELECT salt, hash, payload FROM oauth_access_tokens WHERE lookup_id = ${id}`)
      )
      return row === undefined ? undefined : { ...row.payload, jti: text }
    }),
    destroy: (text) => sql`DELETE FROM oauth_access_tokens WHERE lookup_id = ${lookupId("oa", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`DELETE FROM oauth_access_tokens WHERE grant_id = ${grantId}::uuid`
  }
}

/** Used recently, and its successor is unused: the response was lost, or two processes of one client raced. */
const retryable = ({ sql }: StoreNeeds, now: Date) => sql`
  (r.consumed_at > ${new Date(now.getTime() - retryMillis)} AND NOT EXISTS (
    SELECT 1 FROM oauth_refresh_tokens n
    WHERE n.grant_id = r.grant_id AND n.rotation = r.rotation + 1 AND n.consumed_at IS NOT NULL))`

export const refreshTokens = (needs: StoreNeeds): Store => {
  const { errors, rowSeal, sql } = needs
  return {
    upsert: Effect.fnUntraced(function* (text, payload) {
      const { hash, lookupId, salt } = yield* proofOf(needs, text)
      const now = yield* DateTime.nowAsDate
      const rotation = typeof payload["rotations"] === "number" ? payload["rotations"] : 0
      // The token of a repeated refresh is stored already.
      const grantId = textOf(payload, "grantId")
      const expiresAt = expiryOf(payload, now)
      const row = yield* rowSeal.values(
        "oauth_refresh_tokens",
        { lookupId, hash, grantId, rotation, payload: { ...withoutId(payload), [randomMark]: true }, expiresAt },
        { salt }
      )
      yield* sql`INSERT INTO oauth_refresh_tokens ${row} ON CONFLICT (lookup_id) DO NOTHING`
    }),
    find: Effect.fnUntraced(function* (text) {
      const now = yield* DateTime.nowAsDate
      const row = yield* TokenText.prove(needs, "or", text, (id) =>
        Rows.findOne(
          RefreshRow,
          sql`
            SELECT r.lookup_id, r.grant_id, r.rotation, r.salt, r.hash, r.payload, r.expires_at, r.consumed_at, r.mac,
              ${retryable(needs, now)} AS again
            FROM oauth_refresh_tokens r WHERE r.lookup_id = ${id}`
        )
      )
      if (row === undefined || !(yield* rowSeal.ready).isAuthentic("oauth_refresh_tokens", row)) return undefined
      return { ...row.payload, ...consumption(row.again === true ? null : row.consumedAt), jti: text }
    }),
    consume: Effect.fnUntraced(function* (text) {
      const now = yield* DateTime.nowAsDate
      const isAllowed = yield* Rows.exists(sql`
        UPDATE oauth_refresh_tokens r SET consumed_at = coalesce(r.consumed_at, ${now})
        WHERE r.lookup_id = ${lookupId("or", text) ?? ""} AND (r.consumed_at IS NULL OR ${retryable(needs, now)})
        RETURNING r.lookup_id`)
      if (!isAllowed) return yield* Effect.fail(new errors.InvalidGrant("refresh token already used"))
      yield* sql`
        UPDATE oauth_refresh_tokens p SET next = NULL FROM oauth_refresh_tokens r
        WHERE r.lookup_id = ${lookupId("or", text) ?? ""} AND p.grant_id = r.grant_id AND p.rotation = r.rotation - 1
          AND p.next IS NOT NULL`
    }),
    destroy: (text) => sql`
      UPDATE oauth_refresh_tokens SET consumed_at = coalesce(consumed_at, to_timestamp(0)), next = NULL
      WHERE lookup_id = ${lookupId("or", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`
      UPDATE oauth_refresh_tokens SET consumed_at = coalesce(consumed_at, to_timestamp(0)), next = NULL
      WHERE grant_id = ${grantId}::uuid`
  }
}
