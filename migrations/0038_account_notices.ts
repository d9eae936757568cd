import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"

/**
 * Notices about a person's own sign-in (docs/contract/credentials.md, "Notices"), for the dashboard and, with a mail
 * server, for e-mail. Additive.
 */
export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // `mail_at`: time at which its e-mail is due; null: no e-mail, sent, or abandoned.
  yield* sql`CREATE TABLE account_notices (
    id uuid PRIMARY KEY,
    user_id uuid NOT NULL REFERENCES users (id),
    kind text NOT NULL,
    about text NOT NULL,
    ip text,
    user_agent text,
    created_at timestamptz NOT NULL,
    seen_at timestamptz,
    mail_at timestamptz,
    mail_attempts integer NOT NULL DEFAULT 0
  )`
  yield* sql`CREATE INDEX account_notices_user ON account_notices (user_id, created_at)`
  yield* sql`CREATE INDEX account_notices_mail ON account_notices (mail_at) WHERE mail_at IS NOT NULL`
})
