/**
 * Records around a grant: clients, interactions (a request that waits for a person's decision), and the grant itself.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AdapterPayload } from "oidc-provider"
import { sha256 } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/Rows.ts"
import * as ClientSecrets from "./ClientSecrets.ts"
import * as GrantRows from "./GrantRows.ts"
import { empty, Payload, PayloadRow, type Store, type StoreNeeds, withoutId } from "./Store.ts"

const ClientRow = Schema.Struct({ metadata: Payload, secretHash: Schema.NullOr(Schema.Uint8ArrayFromSelf) })

export const clients = ({ sql }: StoreNeeds): Store => ({
  ...empty,
  upsert: Effect.fnUntraced(function* (id, payload) {
    const { client_secret: secret, ...metadata } = payload
    const at = yield* DateTime.nowAsDate
    yield* sql`
      INSERT INTO oauth_clients (id, metadata, secret_hash, created_at, last_used_at)
      VALUES (${id}, ${JSON.stringify(metadata)}::jsonb,
        ${typeof secret === "string" ? Buffer.from(ClientSecrets.hashOf(secret)) : null}, ${at}, ${at})`
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

/** Stands for the id of a stored interaction, which contains its own address. */
const ownId = "{id}"

export const interactions = ({ sql }: StoreNeeds): Store => ({
  ...empty,
  upsert: Effect.fnUntraced(function* (id, payload, expiresIn = 0) {
    const now = yield* DateTime.nowAsDate
    const expiresAt = new Date(now.getTime() + expiresIn * 1_000)
    const text = withoutId(payload).replaceAll(id, ownId)
    yield* sql`
      INSERT INTO oauth_interactions (id_hash, payload, expires_at)
      VALUES (${sha256(id)}, ${text}::jsonb, ${expiresAt})
      ON CONFLICT (id_hash) DO UPDATE SET payload = excluded.payload, expires_at = excluded.expires_at`
  }),
  find: Effect.fnUntraced(function* (id) {
    const now = yield* DateTime.nowAsDate
    const row = yield* Rows.findOne(
      PayloadRow,
      sql`SELECT payload FROM oauth_interactions WHERE id_hash = ${sha256(id)} AND expires_at > ${now}`
    )
    if (row === undefined || !/^[\w-]{1,128}$/.test(id)) return undefined
    const payload: AdapterPayload = JSON.parse(JSON.stringify(row.payload).replaceAll(ownId, id))
    return { ...payload, jti: id }
  }),
  destroy: (id) => sql`DELETE FROM oauth_interactions WHERE id_hash = ${sha256(id)}`
})

/** A grant gives nothing once its person's membership has changed in each of its teams. */
const reachesATeam = `EXISTS (
  SELECT 1 FROM oauth_grant_teams o
  JOIN memberships m ON m.team_id = o.team_id AND ${GrantRows.membershipUnchanged}
  WHERE o.grant_id = g.id)`

/** Rows are inserted by the consent (`OAuthGrants.give`); the library reads them and ends them. */
export const grants = (needs: StoreNeeds): Store => {
  const { sql } = needs
  return {
    ...empty,
    upsert: (id, payload) => sql`UPDATE oauth_grants SET payload = ${withoutId(payload)}::jsonb WHERE id = ${id}`,
    find: Effect.fnUntraced(function* (id) {
      const now = yield* DateTime.nowAsDate
      const row = yield* Rows.findOne(
        PayloadRow,
        sql`
          SELECT payload FROM oauth_grants g
          WHERE g.id = ${id}::uuid AND g.revoked_at IS NULL AND g.expires_at > ${now} AND ${sql.literal(reachesATeam)}`
      )
      return row === undefined ? undefined : { ...row.payload, jti: id }
    }),
    destroy: (id) => GrantRows.revoke(needs, id)
  }
}
