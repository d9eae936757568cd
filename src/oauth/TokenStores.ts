/** Codes, access tokens and refresh tokens of a grant, each stored as a salted hash. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHmac } from "node:crypto"
import * as TokenText from "#src/credentials/TokenText.ts"
import * as Rows from "#src/database/Rows.ts"
import { empty, events, expiryOf, Payload, type Store, type StoreNeeds, textOf, withoutId } from "./Store.ts"

/** Time in which a client without the response may repeat a refresh (RFC 9700 4.14.2). Milliseconds. */
const retryMillis = 30_000

/**
 * Text of the refresh token at a position of its family. It is derived, so a lost response can be repeated although
 * nothing readable is stored.
 */
export const refreshText = (key: Redacted.Redacted<Uint8Array>, grantId: string, rotation: number): string => {
  const bytes = (part: string) =>
    createHmac("sha256", Redacted.value(key)).update(`refresh ${part}\0${grantId}\0${rotation}`).digest()
  return TokenText.print(TokenText.make("or", bytes("id").subarray(0, 12), bytes("secret")))
}

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
      // A derived text that already exists is stored already.
      const grantId = textOf(payload, "grantId")
      const expiresAt = expiryOf(payload, now)
      const row = yield* rowSeal.values(
        "oauth_refresh_tokens",
        { lookupId, hash, grantId, rotation, payload: withoutId(payload), expiresAt },
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
    }),
    destroy: (text) => sql`
      UPDATE oauth_refresh_tokens SET consumed_at = coalesce(consumed_at, to_timestamp(0))
      WHERE lookup_id = ${lookupId("or", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`
      UPDATE oauth_refresh_tokens SET consumed_at = coalesce(consumed_at, to_timestamp(0))
      WHERE grant_id = ${grantId}::uuid`
  }
}
