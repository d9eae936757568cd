/**
 * Changes that wait for an approval (docs/contract/access.md). Their authors see and withdraw them; owners, admins and
 * approvers of the environment decide. An approved change goes through `Commit.ts`, in the name of the approver.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AuditAction } from "#schema/Audit.ts"
import { Forbidden, SecretAlreadyExists, SecretNotFound, SecretVersionConflict } from "#schema/Errors.ts"
import type { ChangeRequestId, SecretId } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as ApprovalRequests from "#src/access/ApprovalRequests.ts"
import { change } from "#src/access/Change.ts"
import * as Actions from "#src/access/Actions.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import { columns, open, recordOf, RequestRow } from "./ProposedChanges.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Change } from "./SecretChanges.ts"
import * as ValueSource from "./ValueSource.ts"
import { byOutcome, type Outcome } from "./WriteRequest.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"

const services = Effect.all({
  access: Access,
  audit: Audit,
  dataKeys: DataKeys,
  sql: SqlClient.SqlClient,
  writing: LockedEnvironment.services
})
type Needs = Effect.Effect.Success<typeof services>

const BoxRow = Schema.Struct({
  dataKeyId: Schema.String,
  sealed: Schema.NullOr(Schema.Uint8ArrayFromSelf),
  role: Role
})

const keysOf = ({ changes }: RequestRow) => changes.map(({ key }) => key)
const targetOf = ({ id, user }: RequestRow) => ({ type: "change_request", id, name: user.email })

const { notFound, list, listOfEnvironment, over, withPermit, withdraw } = ApprovalRequests.make({
  name: "ChangeRequests",
  noun: "change",
  audit: { list: "change.list", withdraw: "change.withdraw" },
  Row: RequestRow,
  columns,
  // The box of a change names its author and its keys: a row that no server wrote is refused when it is opened.
  isOwn: () => Effect.succeed(() => true),
  recordOf,
  about: (row) => ({ keys: keysOf(row), target: targetOf(row) }),
  remove: (sql, id) => sql`DELETE FROM change_requests WHERE id = ${id} AND status = 'pending' RETURNING id`
})

/** The request and the permit to approve it. A refusal needs the same right as an approval. */
const toDecide = (needs: Needs, id: ChangeRequestId, audit: AuditAction) =>
  withPermit(needs, id, audit, ({ approvers, environmentId, user }, intent) =>
    needs.access.approvalOf(environmentId, { approvers, author: user.id }, intent)
  )

/** Closes the request: of several decisions at the same time one succeeds. The box is deleted with it. */
const decided = Effect.fnUntraced(function* ({ sql }: Needs, id: ChangeRequestId, status: "approved" | "denied") {
  const isClosed = yield* Rows.exists(sql`
    UPDATE change_requests SET status = ${status}, sealed = NULL WHERE id = ${id} AND status = 'pending' RETURNING id`)
  if (!isClosed) return yield* over()
})

const deny = Effect.fn("ChangeRequests.deny")(function* (needs: Needs, id: ChangeRequestId) {
  const { event } = yield* toDecide(needs, id, "change.deny")
  return yield* change(needs, event, function* () {
    yield* decided(needs, id, "denied")
    yield* needs.audit.append(event)
    return { status: "denied" as const }
  })
})

/** Restores a deleted secret as it was, unless its key is taken or it was purged. */
const restoration = Effect.fnUntraced(function* (transaction: Transaction, key: string, id: SecretId) {
  if (transaction.live.has(key)) return yield* new SecretAlreadyExists({ field: key })
  const restored = yield* LockedEnvironment.deletedSecret(transaction, id)
  const write = restored === undefined ? undefined : yield* LockedEnvironment.earlierVersion(transaction, restored)
  return restored === undefined || write === undefined ? yield* new SecretNotFound({ field: key }) : { restored, write }
})

/** The proposed changes. Each secret must have the version that the author saw. */
const changesOf = Effect.fnUntraced(function* (
  needs: Needs,
  row: RequestRow,
  transaction: Transaction,
  proposed: Effect.Effect.Success<ReturnType<typeof open>>["changes"],
  sources: ReadonlyMap<string, ValueSource.ValueSource>
) {
  for (const { key, version } of proposed) {
    const currentVersion = transaction.live.get(key)?.version ?? 0
    if (currentVersion !== version) return yield* new SecretVersionConflict({ currentVersion, field: key })
  }
  const changes = new Map<string, Change>()
  for (const { key, written } of proposed) {
    const restores = written !== null && "restores" in written
    const source = sources.get(key)
    const write = source === undefined ? null : ValueSource.writeOf(source)
    changes.set(key, restores ? yield* restoration(transaction, key, written.restores) : write)
  }
  yield* decided(needs, row.id, "approved")
  return changes
})

/** The box of the request, and the author's role now. */
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
  if (box === undefined) return yield* notFound()
  if (box.sealed === null) return yield* over()
  if (!Actions.roleAllows(box.role, "secrets:write")) {
    return yield* new Forbidden({ message: "The role of the author does not allow this any more." })
  }
  const proposed = yield* SecretBoxes.recordingRefusals(
    needs.audit,
    event,
    open(needs.dataKeys, permit.target, row, { dataKeyId: box.dataKeyId, sealed: box.sealed })
  )
  const keys = proposed.changes.map(({ key }) => key)
  const sources = new Map(
    proposed.changes.flatMap(({ key, written }) =>
      written === null || "restores" in written ? [] : [[key, ValueSource.decided(written)] as const]
    )
  )
  const entries = (outcome: Outcome) => [event, ...writtenFor(permit, row)(outcome)]
  const written = EnvironmentWrite.write(
    needs.writing,
    permit,
    (transaction) => changesOf(needs, row, transaction, proposed.changes, sources),
    {
      keys,
      sources: [...sources.values()],
      withoutValues: proposed.withoutValues,
      entries,
      answer: () => Effect.succeed({ status: "approved" as const })
    }
  )
  // The permit needs no approval. The requests of a deleted environment are deleted with it.
  return yield* Effect.catchTags(written, { Proposed: Effect.die, ENVIRONMENT_NOT_FOUND: notFound })
})

/** The audit entries of the write name the request, and with it the author. */
const writtenFor = (permit: WritePermit, row: RequestRow) => (outcome: Outcome) => {
  const gone = [...outcome.changes].flatMap(([key, one]) => (one === null ? [key] : []))
  const restored = [...outcome.results].flatMap(([key, one]) => (one.outcome === "restored" ? [key] : []))
  return [
    ...(gone.length > 0 ? [permit.event({ audit: "secret.delete", keys: gone })] : []),
    ...(restored.length > 0 ? [permit.event({ audit: "secret.restore", keys: restored })] : []),
    ...byOutcome(permit)(outcome)
  ].map((entry) => ({ ...entry, target: targetOf(row) }))
}

export class ChangeRequests extends Effect.Service<ChangeRequests>()("secrets/ChangeRequests", {
  effect: Effect.map(services, (needs) => methods(needs, { list, listOfEnvironment, approve, deny, withdraw }))
}) {}
