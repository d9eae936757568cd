/**
 * Creations in the same environment share a transaction: one lock, one statement, one commit. A creation that arrives
 * while such a transaction runs goes with the next one. A refusal affects only its own request. When the database
 * refuses a batch, each request gets its own transaction.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import { EnvironmentNotFound, type SecretAlreadyExists, type SecretVersionConflict } from "#schema/Errors.ts"
import { Busy, DependencyDown, isBusy, isDatabaseUnavailable, isRefusedData } from "#src/database/Dependency.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import { RequestInfo, type RequestOrigin } from "#src/database/RequestInfo.ts"
import * as Commit from "./Commit.ts"
import type { Needs, WritePermit } from "./LockedEnvironment.ts"
import type { BoxAltered } from "./SecretBoxes.ts"
import type { Refusal as DecisionRefusal } from "./WriteDecision.ts"
import {
  answered,
  type AnswerOrRequest,
  type Decider,
  ofOne,
  type Waiter,
  type WriteOptions,
  type WriteRequest
} from "./WriteRequest.ts"

type Failure = EnvironmentNotFound | BoxAltered
type Refusal = SecretAlreadyExists | SecretVersionConflict | DecisionRefusal | Failure

/** A request for one part that creates one secret. */
type Creation<A> = WriteRequest<A, Exclude<Refusal, Failure>, never>

interface Member<A> extends Creation<A> {
  readonly waiter: Waiter
  /** The statements of a batch appear below the span of its first member. */
  readonly span: Option.Option<Tracer.AnySpan>
}

type Exits<A> = ReadonlyArray<Exit.Exit<A, Refusal>>

/** Creations of one transaction at most. */
const maxMembers = 32
/** Bytes of values from which a transaction takes no further creation. */
const maxBytes = 262_144
/** Creations of one process that wait, in all environments. */
const maxWaiting = 2_000

/** The team that the connection queue charges for this batch. */
const originOf = (members: ReadonlyArray<Member<unknown>>): RequestOrigin => {
  const { id, ip, owner, userAgent, via } = members[0].waiter.origin
  return { id, ip, userAgent, via, ...(owner === undefined ? {} : { owner }) }
}

/** Whether one member alone may have made the transaction fail; else each would meet the same. */
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
  ({ span }: Member<unknown>) =>
  <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Option.isNone(span) ? effect : Effect.withParentSpan(effect, span.value)

/** A failure after the commit leads to no other transaction. */
const write = <A>(needs: Needs, members: ReadonlyArray<Member<A>>): Effect.Effect<Exits<A>, Failure> =>
  Effect.matchCauseEffect(Commit.batch(needs, members), {
    onFailure: (cause) =>
      members.length > 1 && isOfOne(cause)
        ? Effect.map(
            Effect.forEach(members, (member) => Effect.exit(write(needs, [member]))),
            (exits) => exits.map((exit) => Exit.flatMap(exit, ([own]) => own))
          )
        : Effect.failCause(cause),
    onSuccess: ({ exits, places }) => Effect.as(Commit.follow(places), exits)
  }).pipe(Effect.provideService(RequestInfo, originOf(members)), belowSpanOf(members[0]))

/** The members of each transaction, in their order. */
const portions = <A>(members: ReadonlyArray<Member<A>>): ReadonlyArray<ReadonlyArray<Member<A>>> => {
  const all: Array<Array<Member<A>>> = []
  let bytes = maxBytes
  for (const member of members) {
    if (bytes >= maxBytes) {
      all.push([])
      bytes = 0
    }
    all[all.length - 1].push(member)
    bytes += Commit.bytesOf(member)
  }
  return all
}

/** A portion that is committed stays so, whatever happens to those after it. */
const writeAll = Effect.fnUntraced(function* <A>(needs: Needs, members: ReadonlyArray<Member<A>>) {
  const exits: Array<Exit.Exit<A, Refusal>> = []
  for (const portion of portions(members)) {
    const exit = yield* Effect.exit(write(needs, portion))
    if (Exit.isSuccess(exit)) exits.push(...exit.value)
    else if (exits.length === 0) return yield* exit
    else return [...exits, ...members.slice(exits.length).map(() => Exit.failCause(exit.cause))]
  }
  return exits
})

export type CreationQueue<A> = (creation: Creation<A>) => Effect.Effect<A, Refusal>

/** The queue of this process. */
export const make = <A>(needs: Needs): Effect.Effect<CreationQueue<A>> =>
  Effect.map(Effect.runtime<never>(), (runtime) => {
    const run = (members: ReadonlyArray<Member<A>>) => writeAll(needs, members)
    const groupOf = () => ({
      join: GroupCommit.on(runtime, { run, maxBatch: maxMembers, maxInFlight: 1 }),
      waiting: 0
    })
    /** Environments that creations wait for. */
    const groups = new Map<string, ReturnType<typeof groupOf>>()
    let waiting = 0
    return (creation) =>
      Effect.flatMap(Effect.zip(RequestInfo, Effect.serviceOption(Tracer.ParentSpan)), ([origin, span]) => {
        if (waiting >= maxWaiting) return Effect.die(new Busy())
        const { answer, changes, parts, refusal } = creation
        const { environmentId } = parts[0].permit.target
        const waiter: Waiter = { origin, gone: false }
        const group = groups.get(environmentId) ?? groupOf()
        groups.set(environmentId, group)
        group.waiting++
        waiting++
        const leave = (exit: Exit.Exit<unknown, unknown>) =>
          Effect.sync(() => {
            if (Exit.isInterrupted(exit)) waiter.gone = true
            waiting--
            if (--group.waiting === 0 && groups.get(environmentId) === group) groups.delete(environmentId)
          })
        return Effect.flatten(Effect.onExit(group.join({ parts, changes, answer, refusal, waiter, span }), leave))
      })
  })

/** Creates a secret, in one transaction with other creations in the environment. */
export const create = <A>(
  needs: Needs & { readonly creations: CreationQueue<AnswerOrRequest<A>> },
  permit: WritePermit,
  changes: Decider<SecretAlreadyExists | SecretVersionConflict>,
  options: WriteOptions<A, never, never>
) => {
  const creation = ofOne(permit, changes, options, (problem) => problem)
  const created = Commit.recorded(needs, needs.creations(creation), () => creation.parts[0])
  return Effect.flatMap(created, answered)
}
