/**
 * The one way to write secrets. One transaction locks the environments, decides the changes of each request, counts
 * guesses and checks. One statement for each environment commits rows, audit entry and outbox. Cached snapshots follow.
 * A call takes one request for one or several environments, or a batch of creations in one environment.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import type { SqlError } from "@effect/sql/SqlError"
import * as Predicate from "effect/Predicate"
import type { RequestOrigin } from "#src/database/RequestInfo.ts"
import * as Values from "#src/audit/Values.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import * as Composition from "./Composition.ts"
import * as Guesses from "./Guesses.ts"
import { begin, lockAll, type Needs, type Transaction } from "./LockedEnvironment.ts"
import * as ProposedChanges from "./ProposedChanges.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Changes } from "./SecretChanges.ts"
import * as SecretRowChanges from "./SecretRowChanges.ts"
import * as WriteDecision from "./WriteDecision.ts"
import type { SnapshotChange } from "./WriteDecision.ts"
import type { Once, Outcome, Part, WriteRequest } from "./WriteRequest.ts"
import { originOf } from "./ValueSource.ts"

/** An environment while its transaction runs. */
interface Place {
  readonly begun: Transaction
  /** The state after the requests so far. */
  transaction: Transaction
  readonly rows: Array<SecretRowChanges.RowChanges>
  readonly events: Array<AuditEvent>
  readonly origins: Array<RequestOrigin>
  readonly affected: Set<string>
  last: SnapshotChange | undefined
}

/** The part under way: the audit entry of a refusal names its environment. */
interface Progress {
  part: Part
}

// --- begin, lock ---

/** Several environments are locked in one order. Each is read once, with all that any of the requests names in it. */
const lock = Effect.fnUntraced(function* (needs: Needs, parts: ReadonlyArray<Part>, progress: Progress) {
  const byEnvironment = new Map<string, Array<Part>>()
  for (const part of parts) {
    const { environmentId } = part.permit.target
    const siblings = byEnvironment.get(environmentId)
    if (siblings === undefined) byEnvironment.set(environmentId, [part])
    else siblings.push(part)
  }
  if (byEnvironment.size > 1) {
    yield* lockAll(
      needs,
      [...byEnvironment.values()].map(([{ permit }]) => permit)
    )
  }
  const places = new Map<string, Place>()
  for (const [id, siblings] of byEnvironment) {
    progress.part = siblings[0]
    const begun = yield* begin(needs, siblings[0].permit, {
      keys: siblings.flatMap(({ keys = [] }) => keys),
      ids: siblings.flatMap(({ ids = [] }) => ids),
      sources: siblings.flatMap(({ sources = [] }) => sources)
    })
    places.set(id, {
      begun,
      transaction: begun,
      rows: [],
      events: [],
      origins: [],
      affected: new Set(),
      last: undefined
    })
  }
  return places
})

type Places = Effect.Effect.Success<ReturnType<typeof lock>>

const placeOf = (places: Places, { permit }: Part): Place => {
  const place = places.get(permit.target.environmentId)
  if (place === undefined) throw new Error("a part was not locked")
  return place
}

/** The environment under the permit of one part, as the requests before it leave it. */
const transactionOf = (places: Places, part: Part): Transaction => ({
  ...placeOf(places, part).transaction,
  permit: part.permit,
  withoutValues: part.withoutValues ?? false,
  versions: new Map()
})

// --- changes, guesses, decide ---

/**
 * The entry of a text says whether its author typed it, who holds it then, or whether the secret had it before, whose
 * holders have it still. Of one write, texts of each origin are in an entry of their own.
 */
const byOrigin = ({ changes, results }: Outcome, event: AuditEvent): ReadonlyArray<AuditEvent> => {
  const { action, keys } = event
  if (keys === undefined || !Values.textActions.includes(action)) return [event]
  const isTyped = (key: string) => originOf(changes.get(key)) === "caller"
  // Without a new version, no text came back.
  const isEarlier = (key: string) =>
    originOf(changes.get(key)) === "stored" && results.get(key)?.outcome !== "unchanged"
  const origins = [
    { keys: keys.filter(isTyped), typed: true },
    { keys: keys.filter(isEarlier), typed: false, earlier: true },
    { keys: keys.filter((key) => !isTyped(key) && !isEarlier(key)), typed: false }
  ]
  return origins.filter((part) => part.keys.length > 0).map((part) => ({ ...event, ...part }))
}

/**
 * Audit entries name the versions and the revision: to roll back unseen, a writer of the database would have to forge
 * these as well.
 */
const withVersions = ({ live, revision, versions }: Transaction, event: AuditEvent): AuditEvent =>
  event.keys === undefined
    ? event
    : { ...event, versions: event.keys.map((key) => versions.get(key) ?? live.get(key)?.version ?? 0), revision }

interface DecidedPart {
  readonly outcome: Outcome
  readonly rows: SecretRowChanges.RowChanges | undefined
  readonly snapshot: SnapshotChange | undefined
}

const decidePart = Effect.fnUntraced(function* (
  transaction: Transaction,
  changes: Changes,
  { field, permit, reason }: Part
) {
  const { results, rows, snapshot } = yield* WriteDecision.decide(transaction, changes, field)
  const waits = permit.proposes && changes.size > 0
  const pending = waits ? yield* ProposedChanges.keep(transaction, changes, reason) : undefined
  const outcome: Outcome = { transaction, changes, results, pending }
  const decided: DecidedPart = waits ? { outcome, rows: undefined, snapshot: undefined } : { outcome, rows, snapshot }
  return decided
})

const decide = Effect.fnUntraced(function* <A, E, R>(places: Places, write: WriteRequest<A, E, R>, progress: Progress) {
  const { parts, refusal } = write
  const transactions = parts.map((part) => transactionOf(places, part))
  const changes = yield* write.changes(transactions)
  yield* Effect.mapError(Guesses.count(transactions, changes), refusal)
  const decided: Array<DecidedPart> = []
  for (const [i, part] of parts.entries()) {
    progress.part = part
    decided.push(
      yield* Effect.mapError(decidePart(transactions[i], changes[i], part), (error) =>
        error instanceof SecretBoxes.BoxAltered ? error : refusal(error)
      )
    )
  }
  const answer = yield* write.answer(decided.map(({ outcome }) => outcome))
  return { answer, decided }
})

/** The environment as a creation leaves it, for the next request of the batch. */
const afterCreation = (
  transaction: Transaction,
  { boxes, dataKeyId, totals, written }: SecretRowChanges.RowChanges,
  { after, revision }: SnapshotChange
): Transaction => {
  const created = written.map(
    ({ createdAt, id, key, kind, pinned, refs, updatedAt, version }, i): SecretRowChanges.LiveRow => ({
      id,
      key,
      kind,
      version,
      createdAt,
      updatedAt,
      pinned,
      refs,
      dataKeyId,
      sealed: boxes[i]
    })
  )
  return {
    ...transaction,
    live: new Map([...transaction.live, ...created.map((row) => [row.key, row] as const)]),
    byId: new Map([...transaction.byId, ...created.map((row) => [row.id, row] as const)]),
    lastVersions: new Map([...transaction.lastVersions, ...created.map(({ key, version }) => [key, version] as const)]),
    stored: Effect.succeed(after),
    facts: { ...transaction.facts, ...totals, revision, dataKeyId }
  }
}

/** Keeps the decisions of one request for the statement. `more`: other requests of the batch follow. */
const accept = <A, E, R>(
  places: Places,
  { parts, waiter }: WriteRequest<A, E, R>,
  decided: ReadonlyArray<DecidedPart>,
  more: boolean
) => {
  for (const [i, { outcome, rows, snapshot }] of decided.entries()) {
    const place = placeOf(places, parts[i])
    if (outcome.pending === undefined) {
      for (const event of parts[i].entries(outcome).flatMap((one) => byOrigin(outcome, one))) {
        place.events.push(withVersions(outcome.transaction, event))
        if (waiter !== undefined) place.origins.push(waiter.origin)
      }
    }
    if (rows === undefined) continue
    place.rows.push(rows)
    if (snapshot === undefined) continue
    for (const key of snapshot.affected) place.affected.add(key)
    place.last = snapshot
    if (more) place.transaction = afterCreation(outcome.transaction, rows, snapshot)
  }
}

/** UTF-8 bytes of the values of a request. */
export const bytesOf = ({ parts }: Pick<WriteRequest<unknown, unknown, unknown>, "parts">) => {
  let bytes = 0
  for (const { sources = [] } of parts) {
    for (const source of sources) bytes += source.bytes
  }
  return bytes
}

/** Bytes of values that are checked and sealed before other requests of the process have their turn. */
const bytesAtOnce = 32_768

/** Each request of a batch is refused or accepted by itself, in their order. */
const decideAll = Effect.fnUntraced(function* <A, E, R>(
  places: Places,
  writes: ReadonlyArray<WriteRequest<A, E, R>>,
  progress: Progress
) {
  const exits: Array<Exit.Exit<A, E | SecretBoxes.BoxAltered>> = []
  let bytes = 0
  for (const [i, write] of writes.entries()) {
    const { waiter } = write
    const decision = waiter?.gone === true ? undefined : yield* Effect.either(decide(places, write, progress))
    if (decision === undefined || waiter?.gone === true) {
      exits.push(Exit.interrupt(FiberId.none))
      continue
    }
    if (Either.isLeft(decision)) {
      // The altered row may concern another request alone: each gets its own transaction.
      if (decision.left instanceof SecretBoxes.BoxAltered && writes.length > 1) return yield* decision.left
      exits.push(Exit.fail(decision.left))
      continue
    }
    accept(places, write, decision.right.decided, i < writes.length - 1)
    exits.push(Exit.succeed(decision.right.answer))
    // From here on an interruption of the caller undoes nothing.
    if (waiter !== undefined) waiter.origin.committed = true
    if (writes.length === 1) continue
    bytes += bytesOf(write)
    if (bytes < bytesAtOnce) continue
    bytes = 0
    yield* SecretBoxes.turn
  }
  return exits
})

// --- rows, entry, outbox ---

/** Rows of a batch as those of one write: creations change no row that another one made. */
const joined = (all: ReadonlyArray<SecretRowChanges.RowChanges>): SecretRowChanges.RowChanges | undefined =>
  all.length < 2
    ? all[0]
    : {
        ...all[all.length - 1],
        written: all.flatMap(({ written }) => written),
        boxes: all.flatMap(({ boxes }) => boxes)
      }

/** One statement for each environment. `ends`: the last one commits the transaction. */
const writeRows = Effect.fnUntraced(function* ({ audit, sql }: Needs, places: Places, ends: boolean) {
  const changed = [...places.values()].filter(({ events, rows }) => events.length + rows.length > 0)
  for (const [i, { begun, events, origins, rows }] of changed.entries()) {
    const all = joined(rows)
    yield* audit.appendWith(
      {
        changes: all === undefined ? undefined : SecretRowChanges.changing(sql, begun.permit.target, all),
        // With several environments an earlier statement, or a change that waits, may have moved the head.
        head: places.size === 1 ? (begun.facts.head ?? undefined) : undefined,
        origins,
        ends: ends && i === changed.length - 1
      },
      events
    )
  }
})

/** `ends`: nothing follows in the transaction. */
const writeAll = Effect.fnUntraced(function* <A, E, R>(
  needs: Needs,
  writes: ReadonlyArray<WriteRequest<A, E, R>>,
  progress: Progress,
  ends: boolean
) {
  const places = yield* lock(
    needs,
    writes.flatMap(({ parts }) => parts),
    progress
  )
  const exits = yield* decideAll(places, writes, progress)
  yield* writeRows(needs, places, ends)
  return { exits, places: [...places.values()] }
})

// --- snapshots ---

/** After the commit: updates cached snapshots. A missing snapshot is rebuilt from the database. */
const updateSnapshots = Effect.fnUntraced(function* ({ affected, begun, last }: Place) {
  if (last === undefined) return
  const { permit, snapshots } = begun
  const { environmentId } = permit.target
  const { after, revision } = last
  const before = begun.facts.revision
  for (const representation of ["materialized", "source"] as const) {
    if (!snapshots.holds(environmentId, before, representation)) continue
    const live = [...affected].filter((key) => after.has(key))
    const texts =
      representation === "source"
        ? Either.right(new Map([...after].map(([key, entry]) => [key, Composition.sourceOf(entry)])))
        : Composition.resolve(after, live)
    if (Either.isLeft(texts)) continue
    const values = new Map([...affected].map((key) => [key, texts.right.get(key) ?? null]))
    yield* snapshots.follow(environmentId, representation, before, { revision, values })
  }
})

// --- the two ways in ---

const dieOfSql = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, SqlError> => Predicate.isTagged(error, "SqlError"),
    (error) => Effect.die(error)
  )

/** Creations of one environment: one exit for each, in their order. */
export const batch = <A, E, R>(needs: Needs, writes: ReadonlyArray<WriteRequest<A, E, R>>) =>
  writeAll(needs, writes, { part: writes[0].parts[0] }, true).pipe(needs.sql.withTransaction, dieOfSql)

/** Cached snapshots follow what was committed. */
export const follow = (places: ReadonlyArray<Place>) => Effect.forEach(places, updateSnapshots, { discard: true })

/** Around the outermost transaction: a refusal of the part under way is recorded, then answered. */
export const recorded = <A, E, R>(needs: Needs, self: Effect.Effect<A, E, R>, partOf: () => Part) =>
  Effect.catchAll(self, (error) => {
    const { keys, permit } = partOf()
    return SecretBoxes.recordingRefusals(needs.audit, permit.event({ keys }), Effect.fail(error))
  })

interface Answered<A> {
  readonly answer: A
  readonly places: ReadonlyArray<Place>
}

/** A refusal is a failure of the transaction: it undoes what the request wrote beside secrets, too. */
const answer = Effect.fnUntraced(function* <A, E, R, E2>(
  needs: Needs,
  write: WriteRequest<A, E, R>,
  progress: Progress,
  once: Once<A, E2> | undefined
) {
  const repeated = once === undefined ? undefined : yield* once.find
  if (repeated !== undefined) {
    const answered: Answered<A> = { answer: repeated.answer, places: [] }
    return answered
  }
  const { exits, places } = yield* writeAll(needs, [write], progress, once === undefined)
  const answered: Answered<A> = { answer: yield* exits[0], places }
  if (once !== undefined) yield* once.keep(answered.answer)
  return answered
})

/** One request; with `once`, a repeated request gets the answer that was stored for it. */
export const request = Effect.fnUntraced(function* <A, E, R, E2 = never>(
  needs: Needs,
  write: WriteRequest<A, E, R>,
  once?: Once<A, E2>
) {
  const progress: Progress = { part: write.parts[0] }
  const transaction = answer(needs, write, progress, once).pipe(needs.sql.withTransaction, dieOfSql)
  const answered = yield* recorded(needs, transaction, () => progress.part)
  yield* follow(answered.places)
  return answered.answer
})
