/**
 * Changes that wait for an approval (docs/contract/access.md): their authors see and withdraw them; owners, admins and
 * the environment's approvers decide. An approved one is written by the one write path, as the one who approves.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AuditAction } from "#schema/Audit.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import {
  Forbidden,
  GrantAlreadyDecided,
  GrantNotFound,
  SecretAlreadyExists,
  SecretNotFound,
  SecretVersionConflict
} from "#schema/Errors.ts"
import type { ChangeRequestId, EnvironmentId, SecretId } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import * as Policy from "#src/access/Policy.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import { columns, open, recordOf, RequestRow } from "./ProposedChanges.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Change } from "./SecretChanges.ts"
import { SecretWrites } from "./SecretWrites.ts"
import * as WriteTransaction from "./WriteTransaction.ts"

const services = Effect.all({
  access: Access,
  audit: Audit,
  dataKeys: DataKeys,
  sql: SqlClient.SqlClient,
  writes: SecretWrites
})
type Needs = Effect.Effect.Success<typeof services>

/** A list shows all that can be pending where one person decides, within reason. */
const listLimit = 500

const BoxRow = Schema.Struct({
  dataKeyId: Schema.String,
  sealed: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  role: Role
})

/** A request is seen by its author, and by who decides about the environment's; to others it is not there. */
const sees = (caller: Caller, row: RequestRow): boolean => {
  const role = Policy.teamOf(caller, row.teamId)?.role ?? null
  const userId = caller.user?.id
  return (
    userId !== undefined &&
    role !== null &&
    Policy.environmentVisible(caller, row) &&
    (userId === row.user.id || Policy.decidesRequests(role, userId, row.approvers))
  )
}

const pending = Effect.fnUntraced(function* ({ sql }: Needs, caller: Caller, environmentId: EnvironmentId | null) {
  const userId = caller.user?.id ?? null
  const all = caller.teams.filter(({ scopes }) => scopes === null || scopes.includes("secrets:read"))
  const managed = all.filter(({ role }) => role !== null && Policy.roleAllows(role, "access:manage"))
  const rows = yield* Rows.findAll(
    RequestRow,
    sql`
      SELECT ${columns(sql)}
      WHERE r.team_id = any(${all.map(({ id }) => id)}::uuid[]) AND r.status = 'pending'
        AND (${environmentId}::uuid IS NULL OR r.environment_id = ${environmentId})
        AND r.expires_at > ${new Date(yield* Clock.currentTimeMillis)}
        AND (r.user_id = ${userId} OR r.team_id = any(${managed.map(({ id }) => id)}::uuid[])
          OR ${userId}::uuid = any(e.approvers))
      ORDER BY r.id LIMIT ${listLimit}`
  )
  return { items: rows.filter((row) => sees(caller, row)).map((row) => recordOf(caller, row)) }
})

const list = Effect.fn("ChangeRequests.list")(function* (needs: Needs) {
  const { caller } = yield* needs.access.eachTeam("secrets:read", { audit: "change.list" })
  return yield* pending(needs, caller, null)
})

const listOfEnvironment = Effect.fn("ChangeRequests.listOfEnvironment")(function* (needs: Needs, id: EnvironmentId) {
  const permit = yield* needs.access.environmentWithId("secrets:read", id, { audit: "change.list" })
  return yield* pending(needs, permit.caller, id)
})

// The same for one that is not there and one that is not shown.
const gone = () => new GrantNotFound({ message: "No such change." })
const over = () => new GrantAlreadyDecided({ message: "This change was already decided." })

const seen = Effect.fnUntraced(function* ({ sql }: Needs, id: ChangeRequestId) {
  const row = yield* Rows.findOne(
    RequestRow,
    sql`SELECT ${columns(sql)} WHERE r.id = ${id} AND r.expires_at > ${new Date(yield* Clock.currentTimeMillis)}`
  )
  return row !== undefined && sees(yield* CurrentCaller, row) ? row : yield* gone()
})

const intentOf = (audit: AuditAction, row: RequestRow) => ({ audit, keys: row.changes.map(({ key }) => key) })
const targetOf = ({ id, user }: RequestRow) => ({ type: "change_request", id, name: user.email })

/** The request, and the permit of who may approve it: what denies the approval denies the refusal of it, too. */
const toDecide = Effect.fnUntraced(function* (needs: Needs, id: ChangeRequestId, audit: AuditAction) {
  const row = yield* seen(needs, id)
  const by = { approvers: row.approvers, author: row.user.id }
  const permit = yield* Effect.catchTag(
    needs.access.approvalOf(row.environmentId, by, intentOf(audit, row)),
    "ENVIRONMENT_NOT_FOUND",
    gone
  )
  return { row, permit, event: permit.event({ keys: intentOf(audit, row).keys, target: targetOf(row) }) }
})

/** Takes the request from those who decide at the same time. Its box goes with the decision. */
const decided = Effect.fnUntraced(function* ({ sql }: Needs, id: ChangeRequestId, status: "approved" | "denied") {
  const taken = yield* Rows.exists(sql`
    UPDATE change_requests SET status = ${status}, sealed = NULL WHERE id = ${id} AND status = 'pending' RETURNING id`)
  if (!taken) return yield* over()
})

const deny = Effect.fn("ChangeRequests.deny")(function* (needs: Needs, id: ChangeRequestId) {
  const { event } = yield* toDecide(needs, id, "change.deny")
  return yield* change(needs, event, function* () {
    yield* decided(needs, id, "denied")
    yield* needs.audit.append(event)
    return { status: "denied" as const }
  })
})

/** A deleted secret comes back as it was, unless its key is taken or it was purged. */
const restoration = Effect.fnUntraced(function* (transaction: Transaction, key: string, id: SecretId) {
  if (transaction.live.has(key)) return yield* new SecretAlreadyExists({ field: key })
  const restored = yield* LockedEnvironment.deletedSecret(transaction, id)
  const write = restored === undefined ? undefined : yield* LockedEnvironment.earlierVersion(transaction, restored)
  return restored === undefined || write === undefined ? yield* new SecretNotFound({ field: key }) : { restored, write }
})

/** What was proposed, when each of its secrets has the version that the author saw. */
const changesOf = Effect.fnUntraced(function* (
  needs: Needs,
  row: RequestRow,
  transaction: Transaction,
  proposed: Effect.Effect.Success<ReturnType<typeof open>>["changes"]
) {
  for (const { key, version } of proposed) {
    const currentVersion = transaction.live.get(key)?.version ?? 0
    if (currentVersion !== version) return yield* new SecretVersionConflict({ currentVersion, field: key })
  }
  const changes = new Map<string, Change>()
  for (const { key, written } of proposed) {
    const restores = written !== null && "restores" in written
    changes.set(key, restores ? yield* restoration(transaction, key, written.restores) : written)
  }
  yield* decided(needs, row.id, "approved")
  return changes
})

/** The box under the request's own lock, and the author's role now. */
const boxOf = ({ sql }: Needs, row: RequestRow) =>
  Rows.findOne(
    BoxRow,
    sql`
      SELECT r.data_key_id, r.sealed, m.role FROM change_requests r
      JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.user_id AND m.active
      WHERE r.id = ${row.id}`
  )

const approve = Effect.fn("ChangeRequests.approve")(function* (needs: Needs, id: ChangeRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "change.approve")
  const box = yield* boxOf(needs, row)
  if (box === undefined) return yield* gone()
  if (box.sealed === null) return yield* over()
  if (!Policy.roleAllows(box.role, "secrets:write")) {
    return yield* new Forbidden({ message: "The role of the author does not allow this any more." })
  }
  const proposed = yield* SecretBoxes.recordingRefusals(
    needs.audit,
    event,
    open(needs.dataKeys, permit.target, row, { dataKeyId: box.dataKeyId, sealed: box.sealed })
  )
  const keys = proposed.changes.map(({ key }) => key)
  const entries = (outcome: WriteTransaction.Outcome) => [event, ...writtenFor(permit, row)(outcome)]
  const written = needs.writes.write(permit, (transaction) => changesOf(needs, row, transaction, proposed.changes), {
    keys,
    sources: proposed.changes.flatMap(({ written }) =>
      written === null || "restores" in written ? [] : [() => written]
    ),
    steered: proposed.withoutValues,
    entries,
    answer: () => Effect.succeed({ status: "approved" as const })
  })
  // The permit writes directly; an environment that is gone takes its requests with it.
  return yield* Effect.catchTags(written, { Proposed: Effect.die, ENVIRONMENT_NOT_FOUND: gone })
})

/** The entries of the write itself name the request, and with it the author. */
const writtenFor = (permit: WritePermit, row: RequestRow) => (outcome: WriteTransaction.Outcome) => {
  const gone = [...outcome.changes].flatMap(([key, one]) => (one === null ? [key] : []))
  const restored = [...outcome.results].flatMap(([key, one]) => (one.outcome === "restored" ? [key] : []))
  return [
    ...(gone.length > 0 ? [permit.event({ audit: "secret.delete", keys: gone })] : []),
    ...(restored.length > 0 ? [permit.event({ audit: "secret.restore", keys: restored })] : []),
    ...WriteTransaction.byOutcome(permit)(outcome)
  ].map((entry) => ({ ...entry, target: targetOf(row) }))
}

const withdraw = Effect.fn("ChangeRequests.withdraw")(function* (needs: Needs, id: ChangeRequestId) {
  const row = yield* seen(needs, id)
  const permit = yield* Effect.catchTag(
    needs.access.environmentWithId("secrets:read", row.environmentId, intentOf("change.withdraw", row)),
    "ENVIRONMENT_NOT_FOUND",
    gone
  )
  const event = permit.event({ keys: intentOf("change.withdraw", row).keys, target: targetOf(row) })
  yield* change(needs, event, function* () {
    if (row.user.id !== permit.caller.user?.id) return yield* new Forbidden({ message: "Its author can withdraw it." })
    const withdrawn = yield* Rows.exists(needs.sql`
      DELETE FROM change_requests WHERE id = ${id} AND status = 'pending' RETURNING id`)
    if (!withdrawn) return yield* over()
    yield* needs.audit.append(event)
  })
})

export class ChangeRequests extends Effect.Service<ChangeRequests>()("secrets/ChangeRequests", {
  effect: Effect.map(services, (needs) => methods(needs, { list, listOfEnvironment, approve, deny, withdraw }))
}) {}
