/**
 * Changes that wait for an approval (docs/contract/access.md). Their authors see and withdraw them; owners, admins and
 * approvers of the environment decide. An approved change goes through `Commit.ts`, in the name of the approver.
 */
import type { KeyObject } from "node:crypto"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AuditAction } from "#schema/Audit.ts"
import type { RevealedChanges } from "#schema/ChangeRequestsApi.ts"
import { ChangesDiffer, Forbidden, SecretAlreadyExists, SecretNotFound, SecretVersionConflict } from "#schema/Errors.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { type ChangeRequestId, type TeamId, UserIdOut } from "#schema/Ids.ts"
import { Role } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as ApprovalRequests from "#src/access/ApprovalRequests.ts"
import { change } from "#src/access/Change.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import { isApproved, manages, orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import { keyFacts } from "#src/access/WaitingSentence.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { contentMac } from "#src/crypto/ContentMac.ts"
import { safeEqual } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { methods } from "#src/Methods.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as Rows from "#src/database/Rows.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import { columns, open, proposedSource, recordOf, RequestRow } from "./ProposedChanges.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Change, Restoration } from "./SecretChanges.ts"
import * as ValueSource from "./ValueSource.ts"
import { byOutcome, type Outcome } from "./WriteRequest.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"

const services = Effect.all({
  access: Access,
  audit: Audit,
  dataKeys: DataKeys,
  secondPerson: SecondPerson,
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
interface ToDecide {
  readonly row: RequestRow
  readonly permit: WritePermit
}
const toDecide = (needs: Needs, id: ChangeRequestId, audit: AuditAction) =>
  withPermit(needs, id, audit, ({ approvers, environmentId, teamId, user }, intent) =>
    Effect.flatMap(mayApproveOwn(needs, teamId), (isOwnOpen) =>
      needs.access.approvalOf(
        environmentId,
        { approvers, author: isOwnOpen && audit !== "change.deny" ? null : user.id },
        intent
      )
    )
  )

/** Where the team requires a second person, the approval of an owner's or admin's own change waits for that person. */
const mayApproveOwn = Effect.fnUntraced(function* ({ secondPerson }: Needs, teamId: TeamId) {
  const role = Policy.teamOf(yield* CurrentCaller, teamId)?.role ?? null
  if (role === null || !manages(role)) return false
  return (yield* isApproved) || (yield* secondPerson.isRequired(teamId))
})

const Viewer = Schema.Struct({
  userId: UserIdOut,
  email: Schema.String,
  /** The request of the reveal. */
  from: Schema.Struct({
    id: Schema.String,
    ip: Schema.String,
    userAgent: Schema.NullOr(Schema.String),
    via: Schema.Literal("rest", "mcp", "dashboard", "cli")
  })
})
type Viewer = typeof Viewer.Type
/** A list of viewers, each with its MAC. A writer of the database can store anything here. */
const DecisionRow = Schema.Struct({ seenBy: Schema.Unknown })
const StoredViewer = Schema.Struct({ ...Viewer.fields, mac: Schema.String })
const decodeViewer = Schema.decodeUnknownOption(StoredViewer)

/** MAC of a viewer, bound to the request and its environment. */
const viewerMac = (row: RequestRow, dataKey: KeyObject, { email, from, userId }: Viewer): string => {
  const at = Envelope.boxContext("ampoule change seen v1", row.environmentId, row.id)
  const { id, ip, userAgent, via } = from
  return contentMac(dataKey, at, JSON.stringify([userId, email, id, ip, userAgent, via]))
}

/** One viewer per person. What no server wrote is dropped: it must neither enter the trail nor keep a decision. */
const viewersOf = (row: RequestRow, dataKey: KeyObject, stored: unknown): ReadonlyArray<Viewer> => {
  const viewers = new Map<string, Viewer>()
  for (const one of Array.isArray(stored) ? stored : []) {
    const viewer = Option.getOrUndefined(decodeViewer(one))
    if (viewer === undefined || viewers.has(viewer.userId)) continue
    const { mac, ...seen } = viewer
    if (safeEqual(Buffer.from(mac), Buffer.from(viewerMac(row, dataKey, seen)))) viewers.set(viewer.userId, seen)
  }
  return [...viewers.values()]
}

/**
 * Closes the request: of several decisions at the same time one succeeds. The box is deleted with it. Returns the stored
 * people to whom it was revealed.
 */
const decided = Effect.fnUntraced(function* ({ sql }: Needs, id: ChangeRequestId, status: "approved" | "denied") {
  const row = yield* Rows.findOne(
    DecisionRow,
    sql`
      WITH pending AS (SELECT id, seen_by FROM change_requests WHERE id = ${id} AND status = 'pending' FOR UPDATE)
      UPDATE change_requests r SET status = ${status}, sealed = NULL, seen_by = '[]'
      FROM pending WHERE r.id = pending.id RETURNING pending.seen_by`
  )
  return row === undefined ? yield* over() : row.seenBy
})

const deny = Effect.fn("ChangeRequests.deny")(function* (needs: Needs, id: ChangeRequestId) {
  const { event } = yield* toDecide(needs, id, "change.deny")
  return yield* change(needs, event, function* () {
    yield* decided(needs, id, "denied")
    yield* needs.audit.append(event)
    return { status: "denied" as const }
  })
})

/** The box of a pending request, and the author's role now. */
const boxOf = Effect.fnUntraced(function* ({ sql }: Needs, row: RequestRow) {
  const box = yield* Rows.findOne(
    BoxRow,
    sql`
      SELECT r.data_key_id, r.sealed, m.role FROM change_requests r
      JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.user_id AND m.active
      WHERE r.id = ${row.id}`
  )
  if (box === undefined) return yield* notFound()
  const { dataKeyId, role, sealed } = box
  return sealed === null ? yield* over() : { dataKeyId, role, sealed }
})

type Content = Effect.Effect.Success<ReturnType<typeof open>>

/** Deleted secrets that the change restores, by key, each with the text that it had. */
const restorationsOf = Effect.fnUntraced(function* (at: LockedEnvironment.Opening, { changes }: Content) {
  const restorations = new Map<string, Restoration>()
  for (const { key, written } of changes) {
    if (written === null || !("restores" in written)) continue
    const restored = yield* LockedEnvironment.deletedSecret(at, written.restores)
    const write = restored === undefined ? undefined : yield* LockedEnvironment.earlierVersion(at, restored)
    if (restored === undefined || write === undefined) return yield* new SecretNotFound({ field: key })
    restorations.set(key, { restored, write })
  }
  return restorations
})

/**
 * Names the content of a request: author, reason, keys, kinds, texts, references and the versions that they replace. A
 * restored text counts as it is now.
 */
const digestOf = (row: RequestRow, content: Content, restorations: ReadonlyMap<string, Restoration>): string => {
  const { author, changes, dataKey, reason = null, withoutValues } = content
  const fields = changes.map(({ change, key, refs, version, written }) => {
    const restoration = restorations.get(key)
    const text = restoration?.write ?? (written === null || "restores" in written ? null : written)
    const restored = restoration === undefined ? null : [restoration.restored.id, restoration.restored.version]
    return [
      key,
      change,
      version,
      refs ?? null,
      restored,
      text === null ? null : [text.kind, text.pinned, text.from, text.text]
    ]
  })
  const at = Envelope.boxContext("ampoule change digest v1", row.environmentId, row.id)
  return contentMac(dataKey, at, JSON.stringify([author, reason, withoutValues, fields]))
}

/** The proposed changes, and the digest of what is written. Each secret must have the version that the author saw. */
const changesOf = Effect.fnUntraced(function* (
  row: RequestRow,
  transaction: Transaction,
  content: Content,
  sources: ReadonlyMap<string, ValueSource.ValueSource>,
  digest: string | undefined
) {
  const { live } = transaction
  for (const { key, version } of content.changes) {
    const currentVersion = live.get(key)?.version ?? 0
    if (currentVersion !== version) return yield* new SecretVersionConflict({ currentVersion, field: key })
  }
  const restorations = yield* restorationsOf(transaction, content)
  for (const key of restorations.keys()) if (live.has(key)) return yield* new SecretAlreadyExists({ field: key })
  const own = digestOf(row, content, restorations)
  if (digest !== undefined && !safeEqual(Buffer.from(digest), Buffer.from(own))) return yield* new ChangesDiffer()
  const changes = new Map<string, Change>()
  for (const { key } of content.changes) {
    const source = sources.get(key)
    changes.set(key, restorations.get(key) ?? (source === undefined ? null : ValueSource.writeOf(source)))
  }
  return { changes, digest: own }
})

/** Opens the request; a refusal or an altered box is recorded. */
const opened = Effect.fnUntraced(function* (needs: Needs, { permit, row }: ToDecide) {
  const box = yield* boxOf(needs, row)
  return { role: box.role, content: yield* open(needs.dataKeys, permit.target, row, box) }
})

/** Texts before and after, and the entries of reading them: `versions` of live secrets and of those that come back. */
const revealed = Effect.fnUntraced(function* (needs: Needs, { permit, row }: ToDecide) {
  const denial = permit.refusalOf("secrets:read_values")
  if (denial !== undefined) return yield* denial
  const { content } = yield* opened(needs, { permit, row })
  const at = { dataKeys: needs.dataKeys, sql: needs.sql, permit, at: new Date(yield* Clock.currentTimeMillis) }
  const restorations = yield* restorationsOf(at, content)
  const keys = content.changes.map(({ key }) => key)
  const { secrets } = yield* OpenSecrets.named(needs, permit, keys, false)
  const before = new Map(secrets.map(({ key, text }) => [key, text]))
  const readOf = (read: ReadonlyArray<{ readonly key: string; readonly version: number }>) =>
    read.length === 0
      ? []
      : [
          permit.event({
            audit: "secret.read",
            keys: read.map(({ key }) => key),
            versions: read.map(({ version }) => version),
            target: targetOf(row)
          })
        ]
  const reveal: RevealedChanges = {
    changes: content.changes.map(({ key, written }) => {
      const text = written !== null && "text" in written ? written.text : restorations.get(key)?.write.text
      return { key, before: before.get(key) ?? null, after: text ?? null }
    }),
    digest: digestOf(row, content, restorations)
  }
  return {
    reveal,
    dataKey: content.dataKey,
    reads: [...readOf(secrets), ...readOf([...restorations.values()].map(({ restored }) => restored))]
  }
})

/** Texts leave after their entries are committed. The approval adds a read of the new versions for each viewer. */
const reveal = Effect.fn("ChangeRequests.reveal")(function* (needs: Needs, id: ChangeRequestId) {
  const { event, permit, row } = yield* toDecide(needs, id, "change.reveal")
  const user = permit.caller.user
  if (user === null) return yield* Effect.dieMessage("only a person decides")
  const { dataKey, reads, reveal } = yield* SecretBoxes.recordingRefusals(
    needs.audit,
    event,
    revealed(needs, { permit, row })
  )
  const { ip, id: requestId, userAgent, via } = yield* RequestInfo
  const viewer: Viewer = { userId: user.id, email: user.email, from: { id: requestId, ip, userAgent, via } }
  yield* change(needs, event, function* () {
    const seen = yield* Rows.findOne(
      DecisionRow,
      needs.sql`SELECT seen_by FROM change_requests WHERE id = ${id} AND status = 'pending' FOR UPDATE`
    )
    if (seen === undefined) return yield* over()
    const earlier = viewersOf(row, dataKey, seen.seenBy)
    const viewers = earlier.some(({ userId }) => userId === user.id) ? earlier : [...earlier, viewer]
    const stored = viewers.map((one) => ({ ...one, mac: viewerMac(row, dataKey, one) }))
    yield* Rows.run(needs.sql`
      UPDATE change_requests SET seen_by = ${JSON.stringify(stored)}::jsonb WHERE id = ${id}`)
    yield* needs.audit.append({ ...event, digest: reveal.digest }, ...reads)
  })
  return reveal
})

/** Of an owner's or admin's own change, where the team requires a second person: whether they may approve it now. */
const ownDecision = Effect.fnUntraced(function* (
  needs: Needs,
  { event, permit, row }: ToDecide & { readonly event: AuditEvent },
  digest: string | undefined
) {
  if (row.user.id !== permit.caller.user?.id || (yield* isApproved)) return
  const waiting = { kind: "change_request", requestId: row.id, ...(digest === undefined ? {} : { digest }) } as const
  const count = row.changes.length
  const about = `approving one's own change of ${count} ${count === 1 ? "key" : "keys"}`
  const facts = keyFacts(recordOf(permit.caller, row).changes)
  const work = change(needs, event, function* () {
    const result = yield* needs.secondPerson.checkOwn(permit, waiting, about, facts)
    // The team has dropped the setting meanwhile.
    return result === false ? yield* new Forbidden() : result
  })
  yield* orWaits(work)
})

/** `digest`: of the content that the approver saw. */
const approve = Effect.fn("ChangeRequests.approve")(function* (needs: Needs, id: ChangeRequestId, digest?: string) {
  const { event, permit, row } = yield* toDecide(needs, id, "change.approve")
  yield* ownDecision(needs, { event, permit, row }, digest)
  const { content, role } = yield* SecretBoxes.recordingRefusals(needs.audit, event, opened(needs, { permit, row }))
  if (!Actions.byRole[role].has("secrets:write")) {
    return yield* new Forbidden({ message: "The role of the author does not allow this any more." })
  }
  const sources = new Map(
    content.changes.flatMap(({ key, written }) =>
      written === null || "restores" in written ? [] : [[key, proposedSource(written)] as const]
    )
  )
  const viewers: Array<Viewer> = []
  const approvals: Array<AuditEvent> = []
  let approved = event
  const changes = Effect.fnUntraced(function* (transaction: Transaction) {
    const proposed = yield* changesOf(row, transaction, content, sources, digest)
    approved = { ...event, digest: proposed.digest }
    approvals.push(...(yield* needs.secondPerson.take))
    const stored = yield* decided(needs, row.id, "approved")
    viewers.splice(0, viewers.length, ...viewersOf(row, content.dataKey, stored))
    return proposed.changes
  })
  const written = EnvironmentWrite.write(needs.writing, permit, changes, {
    keys: content.changes.map(({ key }) => key),
    sources: [...sources.values()],
    withoutValues: content.withoutValues,
    entries: (outcome) => [
      ...approvals,
      approved,
      ...writtenFor(permit, row)(outcome),
      ...seenBefore(permit, row, viewers)(outcome)
    ],
    answer: () => Effect.succeed({ status: "approved" as const })
  })
  // The permit needs no approval. The requests of a deleted environment are deleted with it.
  return yield* Effect.catchTags(written, { Proposed: Effect.die, ENVIRONMENT_NOT_FOUND: notFound })
})

/** Reads of the new versions, by the people who saw their texts before the approval. */
const seenBefore = (permit: WritePermit, row: RequestRow, viewers: ReadonlyArray<Viewer>) => (outcome: Outcome) => {
  const keys = [...outcome.results].flatMap(([key, { outcome }]) =>
    outcome === "created" || outcome === "updated" ? [key] : []
  )
  if (keys.length === 0) return []
  return viewers.map(({ email, from, userId }) => ({
    ...permit.event({ audit: "secret.read", keys, target: targetOf(row) }),
    actor: { userId, email },
    from
  }))
}

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
  effect: Effect.map(services, (needs) => methods(needs, { list, listOfEnvironment, reveal, approve, deny, withdraw }))
}) {}
