import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Passkeys of people (docs/contract/credentials.md, "Passkeys"), and challenges that wait for a passkey. Additive, but
 * the previous release would request a code from a person whose only factor is a passkey.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // `credential_id`: base64url, as browsers send it. `counter`: what the authenticator counted at its last use; 0: it does not count.
  yield* sql`CREATE TABLE passkeys (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users (id),
    credential_id text NOT NULL UNIQUE,
    public_key bytea NOT NULL,
    counter bigint NOT NULL,
    name text NOT NULL,
    transports text[] NOT NULL,
    synced boolean NOT NULL,
    created_at timestamptz NOT NULL,
    last_used_at timestamptz,
    mac bytea
  )`
  yield* sql`CREATE INDEX passkeys_user ON passkeys (user_id)`
  // `bound_to`: the pending sign-in, or the session, that requested the challenge.
  yield* sql`CREATE TABLE passkey_challenges (
    id uuid PRIMARY KEY,
    challenge text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    purpose text NOT NULL,
    user_id uuid REFERENCES users (id),
    bound_to uuid,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    mac bytea
  )`
  yield* sql`CREATE INDEX passkey_challenges_age ON passkey_challenges (expires_at)`
  // The person declined to add a passkey, and is not asked again.
  yield* sql`ALTER TABLE users ADD COLUMN proposal_declined boolean NOT NULL DEFAULT false`
})
