/** A person's name. `EmailAddress.ts` changes the address, which signs them in. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Forbidden } from "#schema/Errors.ts"
import { UserIdOut } from "#schema/Ids.ts"
import type { ChangeMe } from "#schema/SessionApi.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { inEachTeam } from "./Accounts.ts"
import { accountOf } from "./FactorChanges.ts"

const PersonRow = Schema.Struct({ id: UserIdOut, email: Schema.String, name: Schema.String })

const services = Effect.all({ sql: SqlClient.SqlClient, access: Access, audit: Audit, rowSeal: RowSeal })
type Needs = Effect.Effect.Success<typeof services>

/** All teams see the name, so a session from one of several teams' issuers may not change it (FORBIDDEN). */
const change = Effect.fn("Profile.change")(function* (needs: Needs, { name }: ChangeMe) {
  const { access, audit, sql } = needs
  const caller = yield* access.allTeams("identity:read", { audit: "account.update" })
  const account = yield* accountOf(needs, caller)
  return yield* Rows.transaction(sql, function* () {
    const row = yield* Rows.findOne(
      PersonRow,
      sql`
        UPDATE users SET name = ${name}, updated_at = ${yield* DateTime.nowAsDate}
        WHERE id = ${account.id} RETURNING id, email, name`
    )
    if (row === undefined) return yield* new Forbidden()
    yield* audit.append(
      ...inEachTeam(account.memberships, {
        actor: caller,
        action: "account.update",
        outcome: "allowed",
        target: { type: "user", id: account.id, name }
      })
    )
    return row
  })
})

export class Profile extends Effect.Service<Profile>()("credentials/Profile", {
  effect: Effect.map(services, (needs) => methods(needs, { change }))
}) {}
