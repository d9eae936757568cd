import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Provisional accounts (docs/sign-in.md). Additive: an account of before keeps its MAC and counts as vouched. The
 * previous release treats an account that is made from now on as forged until it is upgraded.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Witness of the address; null: an account of before this migration, which counts as vouched.
  yield* sql`
    ALTER TABLE users ADD COLUMN vouched_by text CHECK (vouched_by IN ('none', 'issuer', 'mailbox', 'operator'))`
  // Team whose invitation or issuer made the account. No foreign key, since the row's MAC covers the id.
  yield* sql`ALTER TABLE users ADD COLUMN made_by uuid`
  // Several accounts may have one address; the unique column holds "address (by Team)" for all but one of them.
  yield* sql`CREATE INDEX users_address ON users (split_part(email, ' ', 1))`
  yield* sql`CREATE INDEX users_address_skeleton ON users (translate(split_part(email, ' ', 1),
    'аеорсухіјѕһԁԛԝвкмнтοανρυικτχ', 'aeopcyxijshdqwbkmhtoavpuiktx'))`
})
