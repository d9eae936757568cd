import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Generations of service keys, and the id of the database in their contexts (docs/security.md, "Service keys"). It only
 * adds: `service_keys` keeps the keys of the previous release, which serves beside it until the first rotation. Servers
 * draw the id at their start, so that a migrated and unused database is still empty.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE instance (
    id smallint PRIMARY KEY CHECK (id = 1),
    instance_id text NOT NULL,
    created_at timestamptz NOT NULL
  )`
  yield* sql`CREATE TABLE service_key_generations (
    name text NOT NULL,
    generation integer NOT NULL CHECK (generation BETWEEN 1 AND 65535),
    root_key_id text NOT NULL,
    wrapped bytea NOT NULL,
    state text NOT NULL CHECK (state IN ('coming', 'active')),
    created_at timestamptz NOT NULL,
    active_at timestamptz,
    PRIMARY KEY (name, generation)
  )`
  yield* sql`ALTER TABLE oauth_refresh_tokens ADD COLUMN next bytea`
  yield* sql`
    CREATE INDEX oauth_refresh_tokens_next ON oauth_refresh_tokens (consumed_at) WHERE next IS NOT NULL`
  yield* sql`COMMENT ON COLUMN oauth_refresh_tokens.next IS 'The next token, sealed for the time of a repeated refresh'`
})
