import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Management from the command line (docs/contract/management.md): a session for one team, requested by a login and
 * approved by its person. A row without `manages` is unchanged and keeps its MAC. The previous release rejects a row
 * with it.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // `manages`: the team; `login_id`: the requesting login, whose end also ends the session; `asked_by`: person of the
  // login.
  yield* sql`ALTER TABLE sessions ADD COLUMN manages uuid, ADD COLUMN login_id uuid`
  yield* sql`
    ALTER TABLE device_requests ADD COLUMN manages uuid, ADD COLUMN login_id uuid, ADD COLUMN asked_by uuid`
})
