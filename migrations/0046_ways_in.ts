import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * States of what lets a person in (docs/security.md, "Ways in"). A row with the defaults keeps its MAC. Additive; the
 * previous release treats a row with another state as forged, and so refuses it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Time at which an authenticator was put out of use, until its person confirms it.
  for (const table of ["passkeys", "totp_factors", "sign_in_identities"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN suspended_at timestamptz`
  }
  // Until then the authenticator opens nothing that asks for a second proof.
  for (const table of ["passkeys", "totp_factors", "recovery_codes"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN young_until timestamptz`
  }
  // Teams that the row does not open until an owner confirms it.
  const tables = ["passkeys", "totp_factors", "recovery_codes", "sign_in_identities", "sessions", "sign_in_steps"]
  for (const table of tables) yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN closed_teams uuid[]`
  // Of the teams that require an issuer, the only ones that it opens; null: all that require this issuer.
  for (const table of ["sign_in_identities", "sessions", "sign_in_steps"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN confirmed_teams uuid[]`
  }
  // Reason to believe that the identity is the account's person; null: linked before this migration.
  yield* sql`ALTER TABLE sign_in_identities ADD COLUMN witness text`
  // Address that the issuer stated at the last sign-in, for the owner who confirms the identity.
  yield* sql`ALTER TABLE sign_in_identities ADD COLUMN address text`
  // Last proof that counts for a second one; null: the time of the factor.
  yield* sql`ALTER TABLE sessions ADD COLUMN proved_at timestamptz`
  // A sign-in that is good for nothing but confirming what comes back.
  yield* sql`ALTER TABLE sign_in_steps ADD COLUMN recovery boolean NOT NULL DEFAULT false`
  // The person has to choose what comes back before the next session.
  yield* sql`ALTER TABLE users ADD COLUMN recovering boolean NOT NULL DEFAULT false`
})
