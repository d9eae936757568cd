import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Management from the command line (docs/contract/management.md): a session that a login asked for and its person
 * approved, for one team. A row without `manages` is what it was, and keeps its MAC; a program of the release before
 * does not believe one that has it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // `manages`: the team; `login_id`: the login that asked, with which the session ends; `asked_by`: whose login it is.
  yield* sql`ALTER TABLE sessions ADD COLUMN manages uuid, ADD COLUMN login_id uuid`
  yield* sql`
    ALTER TABLE device_requests ADD COLUMN manages uuid, ADD COLUMN login_id uuid, ADD COLUMN asked_by uuid`
})
