/**
 * Where the authorization server keeps what it gives out: in our tables, hashed. The library's ids are the credentials
 * themselves, so none of them is stored; its clock is the system's.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import type { Adapter } from "oidc-provider"
import { Audit } from "#src/access/Audit.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import type { Library } from "./Library.ts"
import * as RequestStores from "./RequestStores.ts"
import { empty, type Store, type StoreNeeds } from "./Store.ts"
import * as TokenStores from "./TokenStores.ts"

/** By the library's names of them. */
const storesOf = (needs: StoreNeeds): ReadonlyMap<string, Store> =>
  new Map([
    ["Client", RequestStores.clients(needs)],
    ["Interaction", RequestStores.interactions(needs)],
    ["Grant", RequestStores.grants(needs)],
    ["AuthorizationCode", TokenStores.codes(needs)],
    ["AccessToken", TokenStores.accessTokens(needs)],
    ["RefreshToken", TokenStores.refreshTokens(needs)]
  ])

/** The library's adapter of a kind of record, by its name. */
export const makeAdapter = Effect.fnUntraced(function* ({ errors }: Library) {
  const needs: StoreNeeds = {
    sql: yield* SqlClient.SqlClient,
    crypto: yield* Crypto,
    audit: yield* Audit,
    errors
  }
  const stores = storesOf(needs)
  const runtime = yield* Effect.runtime<never>()
  /** The library waits for promises. Its own errors pass through as they are; ours end the request. */
  const run = <A>(effect: Effect.Effect<A, unknown>): Promise<A> =>
    Runtime.runPromiseExit(runtime)(effect).then((exit) => {
      if (exit._tag === "Success") return exit.value
      throw Cause.squash(exit.cause)
    })

  return (name: string): Adapter => {
    // The dashboard's session says who a person is; the library's own session is not kept, nor any other record.
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
