import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Known devices of sign-ins, tokens only for `/mcp`, and reset links created by the operator. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Grants no access, only a separate limit of attempts for the device. Stored like a credential nevertheless.
  yield* sql`CREATE TABLE known_devices (
    id uuid PRIMARY KEY,
    lookup_id text NOT NULL UNIQUE,
    salt bytea NOT NULL,
    hash bytea NOT NULL,
    user_id uuid NOT NULL REFERENCES users (id),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
  )`
  yield* sql`CREATE INDEX known_devices_user ON known_devices (user_id)`
  yield* sql`CREATE INDEX known_devices_age ON known_devices (expires_at)`
  yield* sql`ALTER TABLE api_tokens ADD COLUMN mcp_only boolean NOT NULL DEFAULT false`
  // Null: created by the operator on the server. An earlier release treats such a link as revoked.
  yield* sql`ALTER TABLE password_resets ALTER COLUMN created_by DROP NOT NULL`
})
