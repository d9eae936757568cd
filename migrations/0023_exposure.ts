import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Recipients of each version of a secret (`src/trail/ExposureIndex.ts`): an index of the trail, filled after it.
 * `exposure_streams` has its progress. `exposure_writes` has the version of a key at a revision (0: deleted).
 * `exposure_reads` has the recipients, and `exposure_credentials` the owners of credentials. There are no foreign keys,
 * since the trail outlives the rows that it names.
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
  // `id`: a hash of the row's subject. Its keys are in `keys`, in the list with that hash, or (for a backup) all keys.
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
