/**
 * Storage of the authorization server, in our tables, hashed. The library's ids are the credentials themselves, so none
 * is stored. Its clock is the system's.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import type { Adapter } from "oidc-provider"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto, sha256 } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { secretHash } from "./Clients.ts"
import type { Library } from "./Library.ts"
import {
  empty,
  membershipUnchanged,
  Payload,
  PayloadRow,
  revoke,
  type Store,
  type StoreNeeds,
  withoutId
} from "./Store.ts"
import * as TokenStores from "./TokenStores.ts"

const ClientRow = Schema.Struct({ metadata: Payload, secretHash: Schema.NullOr(Schema.Uint8ArrayFromSelf) })

const clients = ({ sql }: StoreNeeds): Store => ({
  ...empty,
  upsert: Effect.fnUntraced(function* (id, payload) {
    const { client_secret: secret, ...metadata } = payload
    const at = yield* DateTime.nowAsDate
    yield* sql`
      INSERT INTO oauth_clients (id, metadata, secret_hash, created_at, last_used_at)
      VALUES (${id}, ${JSON.stringify(metadata)}::jsonb,
        ${typeof secret === "string" ? Buffer.from(secretHash(secret)) : null}, ${at}, ${at})`
  }),
  find: Effect.fnUntraced(function* (id) {
    if (!/^[0-9A-Za-z]{16,64}$/.test(id)) return undefined
    const row = yield* Rows.findOne(ClientRow, sql`SELECT metadata, secret_hash FROM oauth_clients WHERE id = ${id}`)
    if (row === undefined) return undefined
    return row.secretHash === null
      ? row.metadata
      : { ...row.metadata, client_secret: Buffer.from(row.secretHash).toString("latin1") }
  })
})

const readPayload = Schema.decodeUnknown(Schema.parseJson(Payload))

/** Placeholder for an interaction's id, which its payload contains. */
const idPlaceholder = "{id}"

const InteractionRow = Schema.Struct({
  ...PayloadRow.fields,
  idHash: Schema.Uint8ArrayFromSelf,
  expiresAt: Schema.DateFromSelf,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

const interactions = ({ rowSeal, sql }: StoreNeeds): Store => ({
  ...empty,
  upsert: Effect.fnUntraced(function* (id, payload, expiresIn = 0) {
    const now = yield* DateTime.nowAsDate
    const expiresAt = new Date(now.getTime() + expiresIn * 1_000)
    const stored = yield* readPayload(JSON.stringify(withoutId(payload)).replaceAll(id, idPlaceholder))
    const row = yield* rowSeal.values("oauth_interactions", { idHash: sha256(id), payload: stored, expiresAt })
    yield* sql`
      INSERT INTO oauth_interactions ${row}
      ON CONFLICT (id_hash) DO UPDATE
      SET payload = excluded.payload, expires_at = excluded.expires_at, mac = excluded.mac`
  }),
  find: Effect.fnUntraced(function* (id) {
    const now = yield* DateTime.nowAsDate
    const row = yield* Rows.findOne(
      InteractionRow,
      sql`
        SELECT id_hash, payload, expires_at, mac FROM oauth_interactions
        WHERE id_hash = ${sha256(id)} AND expires_at > ${now}`
    )
    if (row === undefined || !(yield* rowSeal.ready).isAuthentic("oauth_interactions", row)) return undefined
    if (!/^[\w-]{1,128}$/.test(id)) return undefined
    const payload = yield* readPayload(JSON.stringify(row.payload).replaceAll(idPlaceholder, id))
    return { ...payload, jti: id }
  }),
  destroy: (id) => sql`DELETE FROM oauth_interactions WHERE id_hash = ${sha256(id)}`
})

/**
 * A grant needs one team with an unchanged membership, where the person proved a second factor if that team requires
 * one.
 */
const reachesTeam = `EXISTS (
  SELECT 1 FROM oauth_grant_teams o
  JOIN teams t ON t.id = o.team_id AND (g.factor_at IS NOT NULL OR NOT t.second_factor_required)
  JOIN memberships m ON m.team_id = o.team_id AND ${membershipUnchanged}
  WHERE o.grant_id = g.id)`

const Texts = Schema.Array(Schema.String)
const GrantRow = Schema.Struct({
  ...PayloadRow.fields,
  id: Schema.String,
  userId: Schema.String,
  clientId: Schema.String,
  scopes: Texts,
  projectIds: Schema.NullOr(Texts),
  environmentIds: Schema.NullOr(Texts),
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  factorAt: Schema.NullOr(Schema.DateFromSelf),
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** The consent inserts rows (`OAuthGrants.give`); the library reads and ends them. */
const grants = (needs: StoreNeeds): Store => {
  const { rowSeal, sql } = needs
  return {
    ...empty,
    upsert: (id, payload) => rowSeal.update("oauth_grants", sql`id = ${id}`, () => ({ payload: withoutId(payload) })),
    find: Effect.fnUntraced(function* (id) {
      const now = yield* DateTime.nowAsDate
      const row = yield* Rows.findOne(
        GrantRow,
        sql`
          SELECT id, user_id, client_id, scopes, project_ids, environment_ids, payload, created_at, expires_at, factor_at, mac
          FROM oauth_grants g
          WHERE g.id = ${id}::uuid AND g.revoked_at IS NULL AND g.expires_at > ${now} AND ${sql.literal(reachesTeam)}`
      )
      const isOurs = row !== undefined && (yield* rowSeal.ready).isAuthentic("oauth_grants", row)
      return isOurs ? { ...row.payload, jti: id } : undefined
    }),
    destroy: (id) => revoke(needs, id)
  }
}

/** Stores by the library's names. */
const storesOf = (needs: StoreNeeds): ReadonlyMap<string, Store> =>
  new Map([
    ["Client", clients(needs)],
    ["Interaction", interactions(needs)],
    ["Grant", grants(needs)],
    ["AuthorizationCode", TokenStores.codes(needs)],
    ["AccessToken", TokenStores.accessTokens(needs)],
    ["RefreshToken", TokenStores.refreshTokens(needs)]
  ])

/** The library's adapter for a kind of record, by name. */
export const makeAdapter = Effect.fnUntraced(function* ({ errors }: Library) {
  const needs: StoreNeeds = {
    sql: yield* SqlClient.SqlClient,
    crypto: yield* Crypto,
    audit: yield* Audit,
    rowSeal: yield* RowSeal,
    errors
  }
  const stores = storesOf(needs)
  const runtime = yield* Effect.runtime<never>()
  /** Promise of an effect for the library. Its own errors pass through unchanged; ours end the request. */
  const run = <A>(effect: Effect.Effect<A, unknown>): Promise<A> =>
    Runtime.runPromiseExit(runtime)(effect).then((exit) => {
      if (exit._tag === "Success") return exit.value
      throw Cause.squash(exit.cause)
    })

  return (name: string): Adapter => {
    // The dashboard's session identifies the person. The library's session and other records are not stored.
    const store = stores.get(name) ?? empty
    return {
      upsert: (id, payload, expiresIn) => run(Effect.asVoid(store.upsert(id, payload, expiresIn))),
      find: (id) => run(store.find(id)),
      findByUserCode: () => Promise.resolve(undefined),
      findByUid: () => Promise.resolve(undefined),
      consume: (id) => run(Effect.asVoid(store.consume(id))),
      destroy: (id) => run(Effect.asVoid(store.destroy(id))),
      revokeByGrantId: (grantId) => run(Effect.asVoid(store.revokeByGrantId(grantId)))
    }
  }
})
