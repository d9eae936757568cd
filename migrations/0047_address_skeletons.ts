import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Index by the Latin letters that an address looks like, for the look-up of look-alikes when an account is made
 * (`src/credentials/NewAddress.ts`). Additive: no row changes.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE INDEX users_skeleton ON users (translate(email,
    'аеорсухіјѕһԁԛԝвкмнтοανρυικτχ', 'aeopcyxijshdqwbkmhtoavpuiktx'))`
})
