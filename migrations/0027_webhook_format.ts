import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/** Format of a webhook's message: the event as JSON, or a message that Slack accepts. */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE webhooks ADD COLUMN format text NOT NULL DEFAULT 'json' CHECK (format IN ('json', 'slack'))`
})
