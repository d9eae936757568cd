import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Actions that wait for a second owner or admin (docs/contract/second-person.md). Additive: the previous release can
 * serve beside it, and does not wait. A request ends with the membership of its author.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE teams ADD COLUMN second_person boolean NOT NULL DEFAULT false`
  yield* sql`
    CREATE TABLE second_person_requests (
      id uuid PRIMARY KEY,
      team_id uuid NOT NULL,
      user_id uuid NOT NULL,
      payload jsonb NOT NULL,
      about text NOT NULL,
      status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied')),
      created_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      mac bytea,
      FOREIGN KEY (team_id, user_id) REFERENCES memberships (team_id, user_id) ON DELETE CASCADE
    )`
  yield* sql`CREATE INDEX second_person_requests_team ON second_person_requests (team_id, user_id)`
  yield* sql`COMMENT ON COLUMN second_person_requests.mac IS 'Over all that decides; empty: decided'`
})
