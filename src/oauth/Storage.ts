/**
 * Where the authorization server keeps what it gives out: in our tables, hashed (decisions 2). The library's ids are the
 * credentials themselves, so none of them is stored; its clock is the system's.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Runtime from "effect/Runtime"
import { createHmac, timingSafeEqual } from "node:crypto"
import type { Adapter, AdapterPayload } from "oidc-provider"
import { Audit } from "#src/access/Audit.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import * as GrantRows from "./GrantRows.ts"
import type { Library } from "./Library.ts"

/** A refresh answer that was lost may be fetched again within this time (RFC 9700 4.14.2; security 3.7). */
export const retryMillis = 30_000

const textOf = (payload: AdapterPayload, member: string): string => {
  const value = payload[member]
  return typeof value === "string" ? value : ""
}
const seconds = (payload: AdapterPayload, now: number): Date =>
  new Date(typeof payload.exp === "number" ? payload.exp * 1_000 : now)

const withoutId = (payload: AdapterPayload): string => JSON.stringify({ ...payload, jti: undefined })

interface ProofRow {
  readonly salt: Buffer
  readonly hash: Buffer
  readonly payload: AdapterPayload
}

/** Stands for an id in a stored interaction, which names itself in its own addresses. */
const itself = "{id}"

const secretPrefix = "sha256:"
export const secretHash = (secret: string): string => secretPrefix + sha256(secret).toString("base64url")
export const secretMatches = (stored: string | undefined, given: string): boolean => {
  const a = Buffer.from(stored ?? "")
  const b = Buffer.from(secretHash(given))
  return stored?.startsWith(secretPrefix) === true && a.length === b.length && timingSafeEqual(a, b)
}

/**
 * Text of the refresh token at a place of a family: the same each time it is made, so that a lost answer can be given
 * again although nothing readable is stored.
 */
export const refreshText = (key: Redacted.Redacted<Uint8Array>, grantId: string, rotation: number): string => {
  const bytes = (what: string) =>
    createHmac("sha256", Redacted.value(key)).update(`refresh ${what}\0${grantId}\0${rotation}`).digest()
  return TokenText.print(TokenText.make("or", bytes("id").subarray(0, 12), bytes("secret")))
}

/** A grant gives nothing once no team of it stands as it stood (see `Authenticate`). */
const standing = `EXISTS (
  SELECT 1 FROM oauth_grant_teams o
  JOIN memberships m ON m.team_id = o.team_id AND ${GrantRows.membershipUnchanged}
  WHERE o.grant_id = g.id)`

export const make = Effect.fnUntraced(function* ({ errors }: Library) {
  const sql = yield* SqlClient.SqlClient
  const crypto = yield* Crypto
  const audit = yield* Audit
  const alive = sql.literal(standing)

  const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

  const proofOf = Effect.fnUntraced(function* (text: string) {
    const token = TokenText.parse(text)
    if (token === undefined) return yield* Effect.dieMessage("a token without our format")
    const salt = yield* crypto.randomBytes(16)
    return { lookupId: token.id, salt, hash: TokenText.hash(salt, token.secret) }
  })

  const found = <Row extends ProofRow>(text: string, row: Row | undefined): Row | undefined => {
    const token = TokenText.parse(text)
    return token !== undefined && TokenText.verify(row, token.secret) ? row : undefined
  }
  const lookupOf = (kind: TokenText.TokenKind, text: string): string | undefined => {
    const token = TokenText.parse(text)
    return token?.kind === kind ? token.id : undefined
  }

  type Store = {
    readonly upsert: (
      id: string,
      payload: AdapterPayload,
      expiresIn: number | undefined
    ) => Effect.Effect<void, unknown>
    readonly find: (id: string) => Effect.Effect<AdapterPayload | undefined, unknown>
    readonly consume: (id: string) => Effect.Effect<void, unknown>
    readonly destroy: (id: string) => Effect.Effect<void, unknown>
    readonly revokeByGrantId: (grantId: string) => Effect.Effect<void, unknown>
  }
  const nothing: Store = {
    upsert: () => Effect.void,
    find: () => Effect.succeed(undefined),
    consume: () => Effect.void,
    destroy: () => Effect.void,
    revokeByGrantId: () => Effect.void
  }

  const clients: Store = {
    ...nothing,
    upsert: Effect.fnUntraced(function* (id, payload) {
      const { client_secret: secret, ...metadata } = payload
      const at = yield* now
      yield* sql`
        INSERT INTO oauth_clients (id, metadata, secret_hash, created_at, last_used_at)
        VALUES (${id}, ${JSON.stringify(metadata)}::jsonb,
          ${typeof secret === "string" ? Buffer.from(secretHash(secret)) : null}, ${at}, ${at})`
    }),
    find: Effect.fnUntraced(function* (id) {
      if (!/^[0-9A-Za-z]{16,64}$/.test(id)) return undefined
      const rows = yield* sql<{ readonly metadata: AdapterPayload; readonly secretHash: Buffer | null }>`
        SELECT metadata, secret_hash FROM oauth_clients WHERE id = ${id}`
      const [row] = rows
      if (row === undefined) return undefined
      return row.secretHash === null
        ? row.metadata
        : { ...row.metadata, client_secret: row.secretHash.toString("latin1") }
    })
  }

  const interactions: Store = {
    ...nothing,
    upsert: Effect.fnUntraced(function* (id, payload, expiresIn = 0) {
      const at = yield* Clock.currentTimeMillis
      const expiresAt = new Date(at + expiresIn * 1_000)
      const text = withoutId(payload).replaceAll(id, itself)
      yield* sql`
        INSERT INTO oauth_interactions (id_hash, payload, expires_at)
        VALUES (${sha256(id)}, ${text}::jsonb, ${expiresAt})
        ON CONFLICT (id_hash) DO UPDATE SET payload = excluded.payload, expires_at = excluded.expires_at`
    }),
    find: Effect.fnUntraced(function* (id) {
      const rows = yield* sql<{ readonly payload: AdapterPayload }>`
        SELECT payload FROM oauth_interactions WHERE id_hash = ${sha256(id)} AND expires_at > ${yield* now}`
      const [row] = rows
      if (row === undefined || !/^[\w-]{1,128}$/.test(id)) return undefined
      const payload: AdapterPayload = JSON.parse(JSON.stringify(row.payload).replaceAll(itself, id))
      return { ...payload, jti: id }
    }),
    destroy: (id) => sql`DELETE FROM oauth_interactions WHERE id_hash = ${sha256(id)}`
  }

  /** Rows are made by the consent (`OAuthGrants.give`); the library reads them and ends them. */
  const grants: Store = {
    ...nothing,
    upsert: (id, payload) => sql`UPDATE oauth_grants SET payload = ${withoutId(payload)}::jsonb WHERE id = ${id}`,
    find: Effect.fnUntraced(function* (id) {
      const rows = yield* sql<{ readonly payload: AdapterPayload }>`
        SELECT payload FROM oauth_grants g
        WHERE g.id = ${id}::uuid AND g.revoked_at IS NULL AND g.expires_at > ${yield* now} AND ${alive}`
      const [row] = rows
      return row === undefined ? undefined : { ...row.payload, jti: id }
    }),
    destroy: (id) => GrantRows.revoke({ sql, audit }, id)
  }

  const codes: Store = {
    upsert: Effect.fnUntraced(function* (text, payload) {
      const { hash, lookupId, salt } = yield* proofOf(text)
      const at = yield* Clock.currentTimeMillis
      yield* sql`
        INSERT INTO oauth_codes (lookup_id, salt, hash, grant_id, payload, expires_at)
        VALUES (${lookupId}, ${salt}, ${hash}, ${textOf(payload, "grantId")}::uuid, ${withoutId(payload)}::jsonb,
          ${seconds(payload, at)})`
    }),
    find: Effect.fnUntraced(function* (text) {
      const id = lookupOf("oc", text)
      if (id === undefined) return undefined
      const rows = yield* sql<ProofRow & { readonly consumedAt: Date | null }>`
        SELECT salt, hash, payload, consumed_at FROM oauth_codes WHERE lookup_id = ${id}`
      const row = found(text, rows[0])
      if (row === undefined) return undefined
      const consumed = row.consumedAt === null ? {} : { consumed: Math.floor(row.consumedAt.getTime() / 1_000) }
      return { ...row.payload, ...consumed, jti: text }
    }),
    /** Of parallel redemptions one goes on. */
    consume: Effect.fnUntraced(function* (text) {
      const rows = yield* sql`
        UPDATE oauth_codes SET consumed_at = ${yield* now}
        WHERE lookup_id = ${lookupOf("oc", text) ?? ""} AND consumed_at IS NULL RETURNING lookup_id`
      if (rows.length === 0) return yield* Effect.fail(new errors.InvalidGrant("authorization code already consumed"))
    }),
    destroy: (text) => sql`DELETE FROM oauth_codes WHERE lookup_id = ${lookupOf("oc", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`
      UPDATE oauth_codes SET consumed_at = coalesce(consumed_at, expires_at) WHERE grant_id = ${grantId}::uuid`
  }

  const accessTokens: Store = {
    ...nothing,
    upsert: Effect.fnUntraced(function* (text, payload) {
      const { hash, lookupId, salt } = yield* proofOf(text)
      const at = yield* Clock.currentTimeMillis
      const grantId = textOf(payload, "grantId")
      const renewed = textOf(payload, "gty").includes("refresh_token")
      yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`
            INSERT INTO oauth_access_tokens
              (lookup_id, salt, hash, grant_id, audience, scopes, payload, created_at, expires_at)
            VALUES (${lookupId}, ${salt}, ${hash}, ${grantId}::uuid, ${textOf(payload, "aud")},
              ${textOf(payload, "scope").split(" ").filter(Boolean)}::text[], ${withoutId(payload)}::jsonb,
              ${new Date(at)}, ${seconds(payload, at)})`
          yield* sql`
            UPDATE oauth_clients SET last_used_at = ${new Date(at)} WHERE id = ${textOf(payload, "clientId")}`
          yield* audit.append(...(yield* GrantRows.events({ sql }, grantId, renewed ? "oauth.refresh" : "oauth.issue")))
        })
      )
    }),
    find: Effect.fnUntraced(function* (text) {
      const id = lookupOf("oa", text)
      if (id === undefined) return undefined
      const rows = yield* sql<ProofRow>`SELECT salt, hash, payload FROM oauth_access_tokens WHERE lookup_id = ${id}`
      const row = found(text, rows[0])
      return row === undefined ? undefined : { ...row.payload, jti: text }
    }),
    destroy: (text) => sql`DELETE FROM oauth_access_tokens WHERE lookup_id = ${lookupOf("oa", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`DELETE FROM oauth_access_tokens WHERE grant_id = ${grantId}::uuid`
  }

  /** Used lately, and nothing was made of what it gave: the answer was lost, or two processes of one client raced. */
  const retryable = (at: Date) => sql`
    (r.consumed_at > ${new Date(at.getTime() - retryMillis)} AND NOT EXISTS (
      SELECT 1 FROM oauth_refresh_tokens n
      WHERE n.grant_id = r.grant_id AND n.rotation = r.rotation + 1 AND n.consumed_at IS NOT NULL))`

  const refreshTokens: Store = {
    upsert: Effect.fnUntraced(function* (text, payload) {
      const { hash, lookupId, salt } = yield* proofOf(text)
      const at = yield* Clock.currentTimeMillis
      const rotation = typeof payload["rotations"] === "number" ? payload["rotations"] : 0
      // The text follows from the family and the place in it: made again, it is the token that stands there.
      yield* sql`
        INSERT INTO oauth_refresh_tokens (lookup_id, salt, hash, grant_id, rotation, payload, expires_at)
        VALUES (${lookupId}, ${salt}, ${hash}, ${textOf(payload, "grantId")}::uuid, ${rotation},
          ${withoutId(payload)}::jsonb, ${seconds(payload, at)})
        ON CONFLICT (lookup_id) DO NOTHING`
    }),
    find: Effect.fnUntraced(function* (text) {
      const id = lookupOf("or", text)
      if (id === undefined) return undefined
      const rows = yield* sql<ProofRow & { readonly consumedAt: Date | null; readonly again: boolean | null }>`
        SELECT r.salt, r.hash, r.payload, r.consumed_at, ${retryable(yield* now)} AS again
        FROM oauth_refresh_tokens r WHERE r.lookup_id = ${id}`
      const row = found(text, rows[0])
      if (row === undefined) return undefined
      const consumed =
        row.consumedAt === null || row.again === true ? {} : { consumed: Math.floor(row.consumedAt.getTime() / 1_000) }
      return { ...row.payload, ...consumed, jti: text }
    }),
    consume: Effect.fnUntraced(function* (text) {
      const at = yield* now
      const rows = yield* sql`
        UPDATE oauth_refresh_tokens r SET consumed_at = coalesce(r.consumed_at, ${at})
        WHERE r.lookup_id = ${lookupOf("or", text) ?? ""} AND (r.consumed_at IS NULL OR ${retryable(at)})
        RETURNING r.lookup_id`
      if (rows.length === 0) return yield* Effect.fail(new errors.InvalidGrant("refresh token already used"))
    }),
    destroy: (text) => sql`
      UPDATE oauth_refresh_tokens SET consumed_at = coalesce(consumed_at, to_timestamp(0))
      WHERE lookup_id = ${lookupOf("or", text) ?? ""}`,
    revokeByGrantId: (grantId) => sql`
      UPDATE oauth_refresh_tokens SET consumed_at = coalesce(consumed_at, to_timestamp(0))
      WHERE grant_id = ${grantId}::uuid`
  }

  const stores: Readonly<Record<string, Store>> = {
    Client: clients,
    Interaction: interactions,
    Grant: grants,
    AuthorizationCode: codes,
    AccessToken: accessTokens,
    RefreshToken: refreshTokens
  }

  const runtime = yield* Effect.runtime<never>()
  /** The library waits for promises; its own errors go through as they are, ours end the request. */
  const run = <A>(effect: Effect.Effect<A, unknown>): Promise<A> =>
    Runtime.runPromise(runtime)(Effect.either(effect)).then((exit) => {
      if (exit._tag === "Right") return exit.right
      throw exit.left
    })

  const adapter = (name: string): Adapter => {
    // The dashboard's session says who a person is; the library's own is not kept, nor anything else it may want.
    const store = stores[name] ?? nothing
    return {
      upsert: (id, payload, expiresIn) => run(store.upsert(id, payload, expiresIn)),
      find: (id) => run(store.find(id)),
      findByUserCode: () => Promise.resolve(undefined),
      findByUid: () => Promise.resolve(undefined),
      consume: (id) => run(store.consume(id)),
      destroy: (id) => run(store.destroy(id)),
      revokeByGrantId: (grantId) => run(store.revokeByGrantId(grantId))
    }
  }

  return { adapter } as const
})
