/**
 * Actions that wait for a second owner or admin, where the team requires one (docs/contract/second-person.md). A use
 * case calls `check` in its transaction, before the change. The request keeps the action; an approval runs it.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Schema from "effect/Schema"
import { Forbidden } from "#schema/Errors.ts"
import {
  type SecondPersonRequestId,
  SecondPersonRequestIdOut,
  type TeamId,
  TeamIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import type { Role } from "#schema/Scopes.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Rows from "#src/database/Rows.ts"
import { days } from "#src/Days.ts"
import { methods } from "#src/Methods.ts"
import { type AuthorizationRow, columnsOf } from "#src/rows/AuthorizationRows.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import type { Action } from "./Actions.ts"
import type { Permit } from "./Permit.ts"
import type { Target } from "./Target.ts"
import { isMembershipAuthentic, membershipFields } from "./VerifiedRows.ts"
import { Waiting } from "./WaitingActions.ts"
import { peopleOf, sentenceOf } from "./WaitingSentence.ts"

const services = Effect.all({ sql: SqlClient.SqlClient, crypto: Crypto, audit: Audit, rowSeal: RowSeal })
type Needs = Effect.Effect.Success<typeof services>

/** Leaves a use case whose action waits, after its transaction has stored the request. */
export class Waits extends Data.TaggedError("Waits")<{ readonly requestId: SecondPersonRequestId }> {}

/** Fails with `Waits` when the transaction ended with one. */
export const orWaits = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<Exclude<A, Waits>, E | Waits, R> =>
  Effect.flatMap(work, (result) =>
    result instanceof Waits ? Effect.fail(result) : Effect.succeed(result as Exclude<A, Waits>)
  )

/**
 * While an approved action runs: takes the request, and answers the entries of the approval. The transaction of the
 * action does it, so that both are committed or neither.
 */
type Approval = Effect.Effect<ReadonlyArray<AuditEvent>>
const approval = FiberRef.unsafeMake<Approval | undefined>(undefined)
export const withApproval = (take: Approval) => Effect.locally(approval, take)
/** Whether an approved action runs. */
export const isApproved = Effect.map(FiberRef.get(approval), (take) => take !== undefined)

const noEvents: ReadonlyArray<AuditEvent> = []
/** Part of the use case's transaction, under its locks: entries to append. None unless an approved action runs. */
const takeApproval = Effect.flatMap(FiberRef.get(approval), (take) => take ?? Effect.succeed(noEvents))

const requestLife = days(7)
/** An abuse limit. */
const requestsPerTeam = 100

export const manages = (role: Role): boolean => role === "owner" || role === "admin"

const ManagerRow = Schema.Struct({ userId: UserIdOut, ...membershipFields })

/** Active owners and admins of the team whose rows are authentic. */
const managersOf = ({ rowSeal, sql }: Needs, teamId: TeamId) =>
  Effect.zipWith(
    rowSeal.ready,
    Rows.findAll(
      ManagerRow,
      sql`
        SELECT user_id, role, active, deactivated_at, updated_at, ruled_by, role_limit, break_glass, mac
        FROM memberships WHERE team_id = ${teamId} AND active AND role IN ('owner', 'admin')`
    ),
    (macs, rows) => rows.filter((row) => isMembershipAuthentic(macs, teamId, row.userId, row))
  )

/**
 * Owners and admins who count as a second person. A role that an issuer's rule gives is no one's decision in the team,
 * so its holder decides nothing.
 */
const decidingIn = (needs: Needs, teamId: TeamId) =>
  Effect.map(managersOf(needs, teamId), (managers) => managers.filter(({ ruledBy }) => ruledBy === null))

/** Whether the team requires a second person. A team whose row no server wrote reaches no use case. */
const isRequired = ({ rowSeal, sql }: Needs, teamId: TeamId) =>
  Effect.zipWith(
    rowSeal.ready,
    Effect.orDie(sql<AuthorizationRow<"teams"> & { readonly mac: Uint8Array | null }>`
      SELECT ${sql.literal(columnsOf("teams"))}, mac FROM teams WHERE id = ${teamId}`),
    (macs, [team]) => team !== undefined && (!macs.isAuthentic("teams", team) || team.secondPerson === true)
  )

const SlugRow = Schema.Struct({ slug: Schema.String })
const PersonRow = Schema.Struct({ id: Schema.String, email: Schema.String })

/** The whole sentence, with the slugs of the place and the addresses of people. */
const sentence = Effect.fnUntraced(function* (
  { sql }: Needs,
  { target }: Permit<Action, Target>,
  waiting: Waiting,
  action: string,
  facts: ReadonlyArray<string>
) {
  const slug =
    target.type === "team"
      ? ""
      : (yield* Rows.single(SlugRow, sql`SELECT slug FROM projects WHERE id = ${target.projectId}`)).slug
  const people = peopleOf(waiting)
  const rows =
    people.length === 0
      ? []
      : yield* Rows.findAll(PersonRow, sql`SELECT id, email FROM users WHERE id = any(${people}::uuid[])`)
  const place =
    target.type === "team" ? "" : target.type === "project" ? ` in project ${slug}` : ` in ${slug}/${target.slug}`
  return sentenceOf(waiting, action, { place, facts, emails: new Map(rows.map(({ email, id }) => [id, email])) })
})

const PendingRow = Schema.Struct({
  id: SecondPersonRequestIdOut,
  teamId: TeamIdOut,
  userId: UserIdOut,
  payload: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  status: Schema.String,
  createdAt: Schema.DateFromSelf,
  expiresAt: Schema.DateFromSelf,
  mac: Schema.NullOr(Schema.Uint8ArrayFromSelf)
})

/** The person's pending request for exactly this action: a person who asks twice has one request. */
const pendingRequest = Effect.fnUntraced(function* (
  { rowSeal, sql }: Needs,
  at: { readonly teamId: TeamId; readonly userId: string; readonly payload: object; readonly now: Date }
) {
  const macs = yield* rowSeal.ready
  const rows = yield* Rows.findAll(
    PendingRow,
    sql`
      SELECT ${sql.literal(columnsOf("second_person_requests"))}, mac FROM second_person_requests
      WHERE team_id = ${at.teamId} AND user_id = ${at.userId} AND status = 'pending' AND expires_at > ${at.now}
        AND payload = ${JSON.stringify(at.payload)}::jsonb
      ORDER BY id LIMIT 1`
  )
  return rows.find((row) => macs.isAuthentic("second_person_requests", row))
})

/**
 * Part of the use case's transaction, after its checks. Undefined: the action happens now. Else the request is stored,
 * and the transaction ends with the `Waits`. Without another active owner or admin it happens, with an alarm.
 * `action`: the start of the sentence that the second person reads; `facts` adds what the input does not have.
 */
const check = Effect.fnUntraced(function* (
  needs: Needs,
  permit: Permit<Action, Target>,
  waiting: Waiting,
  action: string,
  facts: ReadonlyArray<string> = []
) {
  const { audit, crypto, rowSeal, sql } = needs
  const { teamId } = permit.target
  const { user } = permit.caller
  if (yield* isApproved) {
    yield* audit.append(...(yield* takeApproval))
    return undefined
  }
  if (user === null || !(yield* isRequired(needs, teamId))) return undefined
  const about = yield* sentence(needs, permit, waiting, action, facts)
  const others = (yield* decidingIn(needs, teamId)).filter(({ userId }) => userId !== user.id)
  if (others.length === 0) {
    const target = { type: "user", id: user.id, name: about }
    yield* audit.append(permit.event({ audit: "access.break_glass", target }))
    return undefined
  }
  const now = new Date(yield* Clock.currentTimeMillis)
  // The sentence that the second person reads is under the MAC too.
  const payload = { ...Schema.encodeSync(Waiting)(waiting), about }
  const same = yield* pendingRequest(needs, { teamId, userId: user.id, payload, now })
  if (same !== undefined) return new Waits({ requestId: same.id })
  const open = yield* Rows.count(sql`
    SELECT count(*) AS n FROM second_person_requests
    WHERE team_id = ${teamId} AND status = 'pending' AND expires_at > ${now}`)
  if (open >= requestsPerTeam) {
    return yield* new Forbidden({
      message: `${requestsPerTeam} requests of this team wait already. Decide about them first.`
    })
  }
  const id = SecondPersonRequestIdOut.make(yield* crypto.uuid)
  const row = yield* rowSeal.values(
    "second_person_requests",
    {
      id,
      teamId,
      userId: user.id,
      payload,
      status: "pending",
      createdAt: now,
      expiresAt: new Date(now.getTime() + requestLife)
    },
    { about }
  )
  yield* Rows.run(sql`INSERT INTO second_person_requests ${row}`)
  yield* audit.append(
    permit.event({ audit: "second_person.request", target: { type: "second_person_request", id, name: about } })
  )
  return new Waits({ requestId: id })
})

/**
 * As `check`, for a decision about one's own request, which is refused elsewhere. True: the person may decide, because
 * another one approved it (`take` follows under the locks) or no other exists. False: the team does not require a second
 * person.
 */
const checkOwn = Effect.fnUntraced(function* (
  needs: Needs,
  permit: Permit<Action, Target>,
  waiting: Waiting,
  action: string,
  facts: ReadonlyArray<string> = []
) {
  if (yield* isApproved) return true
  if (!(yield* isRequired(needs, permit.target.teamId))) return false
  return (yield* check(needs, permit, waiting, action, facts)) ?? true
})

/**
 * Part of the transaction that ended another person's role as owner or admin. An alarm when the caller is the only one
 * left who decides: from then on the caller's actions wait for no other person.
 */
const alarmIfAlone = Effect.fnUntraced(function* (
  needs: Needs,
  permit: Permit<Action, Target>,
  former: { readonly userId: UserId; readonly email: string; readonly role: Role }
) {
  const { teamId } = permit.target
  const by = permit.caller.user?.id
  if (!manages(former.role) || former.userId === by || !(yield* isRequired(needs, teamId))) return
  if ((yield* decidingIn(needs, teamId)).some(({ userId }) => userId !== by)) return
  const name = `${former.email}, the last other ${former.role} who could decide, has this role no more`
  yield* needs.audit.append(
    permit.event({ audit: "access.break_glass", target: { type: "user", id: former.userId, name } })
  )
})

export class SecondPerson extends Effect.Service<SecondPerson>()("access/SecondPerson", {
  effect: Effect.map(services, (needs) => ({
    ...methods(needs, { alarmIfAlone, check, checkOwn, decidingIn, isRequired, managersOf }),
    take: takeApproval
  }))
}) {}
