import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Who was handed which version of a secret (`src/trail/ExposureIndex.ts`): an index of the trail, filled behind it.
 * `exposure_streams` says how far it is, `exposure_writes` at which revision a key got which version (0: deleted),
 * `exposure_reads` who was handed what, `exposure_credentials` whose a credential is. Nothing here is a foreign key: the
 * trail outlives what it names.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`CREATE TABLE exposure_streams (stream uuid PRIMARY KEY, seq bigint NOT NULL, hash bytea NOT NULL)`
  yield* sql`CREATE TABLE exposure_writes (
    environment_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    version integer NOT NULL,
    PRIMARY KEY (environment_id, key, revision)
  )`
  // `id`: a hash of what a row is about. Keys stand in `keys`, in the list of that hash, or (a backup) are all.
  yield* sql`CREATE TABLE exposure_reads (
    id bytea PRIMARY KEY,
    project_id uuid NOT NULL,
    environment_id uuid NOT NULL,
    keys text[] NOT NULL,
    key_list bytea,
    versions integer[],
    revision bigint,
    way text NOT NULL,
    via text NOT NULL,
    actor_type text NOT NULL,
    actor_id text NOT NULL,
    actor_name text COLLATE "C" NOT NULL,
    ip text COLLATE "C" NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    count bigint NOT NULL
  )`
  yield* sql`CREATE INDEX exposure_reads_project ON exposure_reads (project_id, environment_id)`
  yield* sql`CREATE TABLE exposure_credentials (
    id text PRIMARY KEY,
    owner_type text NOT NULL,
    owner_id text NOT NULL,
    owner_name text NOT NULL
  )`
})
