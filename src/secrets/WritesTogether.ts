/**
 * Creations that want the same environment go together: one lock, one statement, one commit. Whoever comes while such a
 * transaction is under way goes with the next one. Each is checked in the order in which they came, against what those
 * before it leave, and has its own revision, entry and answer, after the commit. What one of them is refused for is its
 * own; where the database refuses one, each has a transaction of its own.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { EnvironmentNotFound, type SecretAlreadyExists, type SecretVersionConflict } from "#schema/Errors.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { Busy, DependencyDown, isBusy, isDatabaseUnavailable, isRefusedData } from "#src/database/Dependency.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as Guesses from "./Guesses.ts"
import { begin, type Needs, type Transaction, type WritePermit } from "./LockedEnvironment.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Changes, FieldOf } from "./SecretChanges.ts"
import * as SecretRowChanges from "./SecretRowChanges.ts"
import type { ValueSource } from "./ValueSource.ts"
import * as WriteDecision from "./WriteDecision.ts"
import * as WriteTransaction from "./WriteTransaction.ts"

type Failed = EnvironmentNotFound | SecretBoxes.BoxAltered
type Refused = SecretAlreadyExists | SecretVersionConflict | WriteDecision.Refusal | Failed

/** A secret that is to be created. */
export interface Creation {
  readonly permit: WritePermit
  readonly key: string
  readonly source: ValueSource
  readonly field: FieldOf
  readonly changes: (transaction: Transaction) => Effect.Effect<Changes, SecretAlreadyExists | SecretVersionConflict>
  readonly entries: (outcome: WriteTransaction.Outcome) => ReadonlyArray<AuditEvent>
}

interface Member extends Creation {
  readonly origin: RequestOrigin
  /** Its request's, where requests are traced: the statements of a transaction stand below that of its first member. */
  readonly span: Option.Option<Tracer.AnySpan>
  /** Nobody waits for it any more. */
  gone: boolean
}

type Settled = Exit.Exit<WriteTransaction.Outcome, Refused>

/** Of one transaction at most. */
const together = 32
/** Bytes of values, where one transaction takes no further member. */
const bytesTogether = 262_144
/** Bytes of values that are checked and sealed before other requests have their turn. */
const bytesAtOnce = 32_768
/** Of one process, whatever their environments. */
const mostWaiting = 2_000

const bytesOf = ({ source }: Member) => Buffer.byteLength(source(undefined).text)

/** Whose turn it is where connections are waited for: all of them are of one team. */
const originOf = (members: ReadonlyArray<Member>): RequestOrigin => {
  const { id, ip, owner, userAgent, via } = members[0].origin
  return { id, ip, userAgent, via, ...(owner === undefined ? {} : { owner }) }
}

/** What a member leaves for those after it. */
const after = (transaction: Transaction, rows: SecretRowChanges.RowChanges, left: WriteDecision.Left): Transaction => {
  const { boxes, dataKeyId, totals, written } = rows
  const made = written.map(
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
  const live = new Map([...transaction.live, ...made.map((row) => [row.key, row] as const)])
  return {
    ...transaction,
    live,
    byId: new Map([...transaction.byId, ...made.map((row) => [row.id, row] as const)]),
    lastVersions: new Map([...transaction.lastVersions, ...made.map(({ key, version }) => [key, version] as const)]),
    stored: Effect.succeed(left.after),
    facts: { ...transaction.facts, ...totals, revision: left.revision, dataKeyId }
  }
}

const decide = Effect.fnUntraced(function* (transaction: Transaction, member: Member) {
  const changes = yield* member.changes(transaction)
  yield* Guesses.count([{ writing: transaction, changes }])
  const { left, results, rows } = yield* WriteDecision.decide(transaction, changes, member.field)
  const outcome: WriteTransaction.Outcome = { transaction, changes, results }
  return { outcome, left, rows }
})

/** Rows of several changes as those of one: none of them changes what another one made. */
const joined = (all: ReadonlyArray<SecretRowChanges.RowChanges>): SecretRowChanges.RowChanges => ({
  ...all[all.length - 1],
  written: all.flatMap(({ written }) => written),
  boxes: all.flatMap(({ boxes }) => boxes)
})

interface Decided {
  readonly settled: ReadonlyArray<Settled>
  readonly rows: ReadonlyArray<SecretRowChanges.RowChanges>
  readonly events: ReadonlyArray<{ readonly event: AuditEvent; readonly origin: RequestOrigin }>
  readonly left: WriteDecision.Left | undefined
}

const decideAll = Effect.fnUntraced(function* (begun: Transaction, members: ReadonlyArray<Member>) {
  const settled: Array<Settled> = []
  const rows: Array<SecretRowChanges.RowChanges> = []
  const events: Array<Decided["events"][number]> = []
  const affected = new Set<string>()
  let state = begun
  let sinceTurn = 0
  let left: WriteDecision.Left | undefined
  for (const member of members) {
    const transaction: Transaction = { ...state, permit: member.permit, versions: new Map() }
    const made = member.gone ? undefined : yield* Effect.either(decide(transaction, member))
    if (made === undefined || member.gone) {
      settled.push(Exit.interrupt(FiberId.none))
      continue
    }
    if (Either.isLeft(made)) {
      // The row may concern another one alone.
      if (made.left instanceof SecretBoxes.BoxAltered && members.length > 1) return yield* made.left
      settled.push(Exit.fail(made.left))
      continue
    }
    const { outcome } = made.right
    for (const event of member.entries(outcome)) {
      events.push({ event: WriteTransaction.withVersions(transaction, event), origin: member.origin })
    }
    settled.push(Exit.succeed(outcome))
    // From here on its fiber can take nothing back.
    member.origin.committed = true
    if (made.right.rows === undefined || made.right.left === undefined) continue
    rows.push(made.right.rows)
    for (const key of made.right.left.affected) affected.add(key)
    left = { ...made.right.left, before: begun.facts.revision, affected }
    state = after(transaction, made.right.rows, made.right.left)
    sinceTurn += bytesOf(member)
    if (sinceTurn < bytesAtOnce) continue
    sinceTurn = 0
    yield* SecretBoxes.turn
  }
  const decided: Decided = { settled, rows, events, left }
  return decided
})

const inTransaction = Effect.fnUntraced(function* (needs: Needs, members: ReadonlyArray<Member>) {
  const { audit, sql } = needs
  const { permit } = members[0]
  const named = { keys: members.map(({ key }) => key), sources: members.map(({ source }) => source) }
  const begun = yield* begin(needs, permit, named)
  const { events, left, rows, settled } = yield* decideAll(begun, members)
  const changes = rows.length === 0 ? undefined : SecretRowChanges.changing(sql, permit.target, joined(rows))
  const origins = events.map(({ origin }) => origin)
  yield* audit.appendWith(
    { changes, head: begun.facts.head ?? undefined, origins, ends: true },
    events.map(({ event }) => event)
  )
  return { settled, left }
})

const transact = (needs: Needs, members: ReadonlyArray<Member>) =>
  inTransaction(needs, members).pipe(needs.sql.withTransaction, WriteTransaction.dieOfSql)

/** Whether it may have been one of several that made the transaction fail; else each would only meet the same. */
const isOfOne = (cause: Cause.Cause<unknown>) => {
  if (isRefusedData(cause)) return true
  const error = Cause.squash(cause)
  const isOfAll =
    Cause.isInterrupted(cause) ||
    isBusy(cause) ||
    isDatabaseUnavailable(cause) ||
    error instanceof DependencyDown ||
    error instanceof EnvironmentNotFound
  return !isOfAll
}

const belowSpanOf =
  ({ span }: Member) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Option.isNone(span) ? effect : Effect.withParentSpan(effect, span.value)

interface Written {
  readonly settled: ReadonlyArray<Settled>
  readonly left: WriteDecision.Left | undefined
}

/** Nothing that comes after a commit leads to another transaction. */
const write = (needs: Needs, members: ReadonlyArray<Member>): Effect.Effect<ReadonlyArray<Settled>, Failed> =>
  Effect.matchCauseEffect(transact(needs, members), {
    onFailure: (cause) =>
      members.length > 1 && isOfOne(cause)
        ? Effect.map(
            Effect.forEach(members, (member) => Effect.exit(write(needs, [member]))),
            (exits) => exits.map((exit) => Exit.flatMap(exit, ([settled]) => settled))
          )
        : Effect.failCause(cause),
    onSuccess: ({ left, settled }: Written) =>
      left === undefined
        ? Effect.succeed(settled)
        : Effect.as(WriteTransaction.leave(needs, members[0].permit, left), settled)
  }).pipe(Effect.provideService(RequestInfo, originOf(members)), belowSpanOf(members[0]))

/** As many as go together, in their order. */
const portions = (members: ReadonlyArray<Member>): ReadonlyArray<ReadonlyArray<Member>> => {
  const all: Array<Array<Member>> = []
  let bytes = bytesTogether
  for (const member of members) {
    if (bytes >= bytesTogether) {
      all.push([])
      bytes = 0
    }
    all[all.length - 1].push(member)
    bytes += bytesOf(member)
  }
  return all
}

/** What is committed stays so, whatever becomes of those after it. */
const writeAll = Effect.fnUntraced(function* (needs: Needs, members: ReadonlyArray<Member>) {
  const settled: Array<Settled> = []
  for (const portion of portions(members)) {
    const exit = yield* Effect.exit(write(needs, portion))
    if (Exit.isSuccess(exit)) settled.push(...exit.value)
    else if (settled.length === 0) return yield* exit
    else return [...settled, ...members.slice(settled.length).map(() => Exit.failCause(exit.cause))]
  }
  return settled
})

export type Together = (creation: Creation) => Effect.Effect<WriteTransaction.Outcome, Refused>

/** One for the process. */
export const make = (needs: Needs): Effect.Effect<Together> =>
  Effect.map(Effect.runtime<never>(), (runtime) => {
    const run = (members: ReadonlyArray<Member>) => writeAll(needs, members)
    const groupOf = () => ({
      join: GroupCommit.on(runtime, { run, maxBatch: together, maxInFlight: 1 }),
      waiting: 0
    })
    /** Of environments where somebody waits. */
    const groups = new Map<string, ReturnType<typeof groupOf>>()
    let waiting = 0
    return (creation) =>
      Effect.flatMap(Effect.zip(RequestInfo, Effect.serviceOption(Tracer.ParentSpan)), ([origin, span]) => {
        if (waiting >= mostWaiting) return Effect.die(new Busy())
        const { environmentId } = creation.permit.target
        const { changes, entries, field, key, permit, source } = creation
        const member: Member = { permit, key, source, field, changes, entries, origin, span, gone: false }
        const group = groups.get(environmentId) ?? groupOf()
        groups.set(environmentId, group)
        group.waiting++
        waiting++
        const left = (exit: Exit.Exit<unknown, unknown>) =>
          Effect.sync(() => {
            if (Exit.isInterrupted(exit)) member.gone = true
            waiting--
            if (--group.waiting === 0 && groups.get(environmentId) === group) groups.delete(environmentId)
          })
        return Effect.flatten(Effect.onExit(group.join(member), left))
      })
  })

/** The answer to a creation, once it is committed. */
export const create = <A, E, R>(
  needs: Needs & { readonly together: Together },
  creation: Creation,
  answer: (outcome: WriteTransaction.Outcome) => Effect.Effect<A, E, R>
) =>
  WriteTransaction.committed(needs, creation.permit, { keys: [creation.key] }, () =>
    Effect.flatMap(needs.together(creation), (outcome) => Effect.map(answer(outcome), (answer) => ({ answer })))
  )
