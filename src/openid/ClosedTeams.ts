/**
 * Teams of the person that accept only other issuers than this session's, for a page that explains why. A session from
 * another team's issuer sees none: that team's owners choose whom it names.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "#schema/Caller.ts"
import { type TeamId, TeamIdOut, UserIdOut } from "#schema/Ids.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as Policy from "#src/access/Policy.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as VerifiedRows from "#src/access/VerifiedRows.ts"
import { methods } from "#src/Methods.ts"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import * as Rows from "#src/database/Rows.ts"
import { linkedSources } from "./Identities.ts"
import { SignInIssuers } from "./IssuerRows.ts"

const services = Effect.all({ sql: SqlClient.SqlClient, rowSeal: RowSeal, issuers: SignInIssuers })
type Needs = Effect.Effect.Success<typeof services>

export interface ClosedTeam {
  readonly id: TeamId
  readonly name: string
  /** Enabled issuers of the team. `linked`: the person's account has one already. */
  readonly issuers: ReadonlyArray<{ readonly key: string; readonly name: string; readonly linked: boolean }>
}

const Mac = Schema.NullOr(Schema.Uint8ArrayFromSelf)
const Row = Schema.Struct({
  id: TeamIdOut,
  name: Schema.String,
  plan: Schema.String,
  adminsNeedGrants: Schema.Boolean,
  tokensFollowCreators: Schema.Boolean,
  secondFactorRequired: Schema.Boolean,
  stepUpMinutes: Schema.Number,
  leakedCredentials: Schema.String,
  signInOnly: Schema.Array(Schema.String),
  suspended: Schema.Boolean,
  sessionAddresses: Schema.NullOr(Schema.Array(Schema.String)),
  secondPerson: Schema.Boolean,
  allowedKeys: Schema.NullOr(Schema.Array(Schema.String)),
  teamMac: Mac,
  userId: UserIdOut,
  ...VerifiedRows.membershipFields
})

const isValid = (macs: RowMac, row: typeof Row.Type) =>
  VerifiedRows.isTeamAuthentic(macs, row.id, row) && VerifiedRows.isMembershipAuthentic(macs, row.id, row.userId, row)

const list = Effect.fn("ClosedTeams.list")(function* ({ issuers, rowSeal, sql }: Needs) {
  const caller = yield* CurrentCaller
  const { ip } = yield* RequestInfo
  const closed: Array<ClosedTeam> = []
  if (caller.user === null || !Policy.reaches(caller, null)) return closed
  const rows = yield* Rows.findAll(
    Row,
    sql`
      SELECT t.id, t.name, t.plan, t.admins_need_grants, t.tokens_follow_creators, t.second_factor_required, t.step_up_minutes,
        t.leaked_credentials, t.sign_in_only, t.suspended, t.session_addresses, t.second_person, t.allowed_keys, t.mac AS team_mac,
        m.user_id, m.role, m.active, m.deactivated_at, m.updated_at, m.ruled_by, m.role_limit, m.break_glass, m.mac
      FROM memberships m JOIN teams t ON t.id = m.team_id
      WHERE m.user_id = ${caller.user.id} AND m.active AND t.sign_in_only IS NOT NULL AND NOT t.suspended
      ORDER BY t.name, t.id LIMIT 20`
  )
  const macs = yield* rowSeal.ready
  const valid = rows.filter(
    (row) =>
      isValid(macs, row) &&
      !Policy.letsIn(caller, row) &&
      (row.sessionAddresses === null || AddressRanges.includes(row.sessionAddresses, ip))
  )
  if (valid.length === 0) return closed
  const linked = yield* linkedSources({ rowSeal, sql }, caller.user.id)
  for (const { id, name, signInOnly } of valid) {
    const all = yield* Effect.forEach(signInOnly, (key) => issuers.find(key))
    const enabled = all.flatMap((issuer) => (issuer === undefined ? [] : [issuer]))
    closed.push({ id, name, issuers: enabled.map((one) => ({ key: one.key, name: one.name, linked: linked(one) })) })
  }
  return closed
})

export class ClosedTeams extends Effect.Service<ClosedTeams>()("openid/ClosedTeams", {
  effect: Effect.map(services, (needs) => methods(needs, { list }))
}) {}
