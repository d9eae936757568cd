/**
 * An environment goes back to what it held at a moment, in one transaction (docs/contract/secrets.md, "Back to a
 * moment"). What is to be done is decided by names and versions; it is written when nothing changed meanwhile.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { SecretVersionConflict, ValidationFailed } from "#schema/Errors.ts"
import type { EnvironmentId, ProjectId, SecretId } from "#schema/Ids.ts"
import type { EnvironmentRestoration } from "#schema/SecretResponses.ts"
import type { RestoreEnvironment } from "#schema/SecretRequests.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import type { Transaction, WritePermit } from "./LockedEnvironment.ts"
import * as Guesses from "./Guesses.ts"
import * as PastStates from "./PastStates.ts"
import * as SecretBoxes from "./SecretBoxes.ts"
import type { Change } from "./SecretChanges.ts"
import { metadataOf } from "./SecretMetadata.ts"
import * as SecretRows from "./SecretRows.ts"
import type { Needs } from "./SourcedWrites.ts"
import type { Write } from "./ValueSource.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"
import type { Outcome } from "./WriteRequest.ts"

/** What becomes of a key that was there then and is not as it was. */
interface Step {
  readonly past: PastStates.Past & { readonly version: number }
  /**
   * `write`: the key is there, with another text or secret. `restore`: the secret was deleted at this version.
   * `continue`: the secret was deleted at a later one, or has another key now. `create`: neither can be.
   */
  readonly how: "write" | "restore" | "continue" | "create"
}

interface Plan {
  readonly revision: number
  readonly steps: ReadonlyArray<Step>
  readonly gone: ReadonlyArray<{ readonly key: string }>
  readonly told: Pick<EnvironmentRestoration, "created" | "updated" | "deleted" | "renamed" | "lost" | "unknown">
}

const howOf = (
  past: PastStates.Past,
  live: ReadonlyMap<string, unknown>,
  then: ReadonlyMap<string, unknown>,
  proposes: boolean
): Step["how"] => {
  if (live.has(past.key)) return "write"
  if (!past.isLive && past.currentKey === past.key && past.currentVersion === past.version) return "restore"
  // A change that waits holds texts alone; and a key that was taken over by now is not taken away.
  return proposes || (past.isLive && then.has(past.currentKey)) ? "create" : "continue"
}

/**
 * Keys whose text of now is the one of then. Only for callers who may have values: for others each is a guess, and every
 * other version counts as another text.
 */
const equalTexts = Effect.fnUntraced(function* (
  { audit, dataKeys, sql }: Needs,
  permit: WritePermit,
  pairs: ReadonlyArray<{ readonly key: string; readonly now: PastStates.At; readonly past: PastStates.At }>
) {
  if (pairs.length === 0 || !Guesses.readsValues({ permit })) return new Set<string>()
  const textsOf = Effect.fnUntraced(function* (wanted: ReadonlyArray<PastStates.At>) {
    const rows = yield* PastStates.boxes(sql, permit.target, wanted)
    const opened = yield* SecretBoxes.open(dataKeys, permit.target, rows)
    return new Map(opened.map(({ id, kind, text }) => [id, `${kind} ${text}`]))
  })
  const work = Effect.zip(textsOf(pairs.map(({ now }) => now)), textsOf(pairs.map(({ past }) => past)))
  const [now, then] = yield* SecretBoxes.recordingRefusals(audit, permit.event(), work)
  return new Set(pairs.filter((pair) => now.get(pair.now.id) === then.get(pair.past.id)).map(({ key }) => key))
})

/** By names and versions. `only`: the keys that it is about; unset: all. */
const planOf = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit, at: Date, only?: ReadonlySet<string>) {
  const { sql } = needs
  const { proposes, target } = permit
  const isMeant = ({ key }: { readonly key: string }) => only?.has(key) ?? true
  const held = yield* PastStates.held(sql, target)
  const now = { ...held, live: held.live.filter(isMeant) }
  const heldThen = yield* PastStates.heldAt(sql, target, at)
  const then = new Map([...heldThen].filter(([, past]) => isMeant(past)))
  const live = new Map(now.live.map((one) => [one.key, one]))
  const all: Array<Step> = []
  const pairs: Array<{ readonly key: string; readonly now: PastStates.At; readonly past: PastStates.At }> = []
  const lost: Array<string> = []
  for (const past of then.values()) {
    const { id, key, version } = past
    const current = live.get(key)
    if (current?.id === id && current.version === version) continue
    if (version === null) {
      lost.push(key)
      continue
    }
    all.push({ past: { ...past, version }, how: howOf(past, live, then, proposes) })
    if (current !== undefined) pairs.push({ key, now: current, past: { id, version } })
  }
  const equal = yield* equalTexts(needs, permit, pairs)
  const steps = all.filter(({ past }) => !equal.has(past.key))
  const renamed = steps
    .filter(({ how, past }) => how === "continue" && past.isLive)
    .map(({ past }) => ({ from: past.currentKey, to: past.key }))
  const moved = new Set(renamed.map(({ from }) => from))
  // A text that the plan did not keep cannot come back: what the key holds now stays.
  const gone = now.live.filter(({ key }) => !then.has(key) && !moved.has(key))
  const keysOf = (which: (step: Step) => boolean) =>
    steps
      .filter(which)
      .map(({ past }) => past.key)
      .sort()
  const isRenamed = ({ how, past }: Step) => how === "continue" && past.isLive
  // Whatever was deleted since is kept for 30 days: what was purged was gone then, unless the moment is older.
  const isOld = at.getTime() < (yield* Clock.currentTimeMillis) - SecretRows.purgeDelay
  const plan: Plan = {
    revision: now.revision,
    steps,
    gone,
    told: {
      created: keysOf((step) => step.how !== "write" && !isRenamed(step)),
      updated: keysOf(({ how }) => how === "write"),
      deleted: gone.map(({ key }) => key),
      renamed,
      lost: lost.sort(),
      unknown: isOld ? now.purged.filter((key) => !then.has(key)) : []
    }
  }
  return plan
})

const conflict = (revision: number) =>
  new SecretVersionConflict({
    currentVersion: revision,
    field: "expectedRevision",
    message: "The environment was changed meanwhile. Look at the preview again."
  })

/** The changes that the plan comes to, under the lock; texts are opened here. */
const changesOf = Effect.fnUntraced(function* (transaction: Transaction, { gone, revision, steps }: Plan) {
  const { dataKeys, facts, permit, sql } = transaction
  if (facts.revision !== revision) return yield* conflict(facts.revision)
  const wanted = steps.map(({ past: { id, version } }) => ({ id, version }))
  const rows = yield* PastStates.boxes(sql, permit.target, wanted)
  const opened = yield* SecretBoxes.open(dataKeys, permit.target, rows)
  const kept = new Map(opened.map((secret, i) => [secret.id, { secret, pinned: rows[i]?.pinned ?? false }]))
  const changes = new Map<string, Change>(gone.map(({ key }) => [key, null]))
  for (const { how, past } of steps) {
    const found = kept.get(past.id)
    if (found === undefined) return yield* conflict(facts.revision)
    const { kind, text } = found.secret
    const write: Write = { kind, pinned: found.pinned, text, from: "stored" }
    const secret = { ...metadataOf(found.secret), version: past.currentVersion }
    if (how === "restore") changes.set(past.key, { restored: { ...secret, key: past.key }, write })
    else if (how === "continue") changes.set(past.key, { continued: { ...secret, key: past.currentKey }, write })
    else changes.set(past.key, write)
  }
  return changes
})

/** The entries of each write, as if it were alone. */
const writesOf =
  (permit: WritePermit, { told }: Plan) =>
  ({ changes, results }: Outcome) => {
    const moved = new Set(told.renamed.map(({ to }) => to))
    const gone = [...changes].flatMap(([key, change]) => (change === null ? [key] : []))
    const restored = [...results].flatMap(([key, one]) => (one.outcome === "restored" ? [key] : []))
    const others = new Map([...results].filter(([key]) => !moved.has(key)))
    const back = [...others].flatMap(([key, { outcome }]) => (outcome === "updated" ? [key] : []))
    const made = [...others].flatMap(([key, { outcome }]) => (outcome === "created" ? [key] : []))
    return [
      ...(gone.length > 0 ? [permit.event({ audit: "secret.delete", keys: gone })] : []),
      ...(restored.length > 0 ? [permit.event({ audit: "secret.restore", keys: restored })] : []),
      ...told.renamed.map(({ from, to }) => permit.event({ audit: "secret.rename", keys: [from, to] })),
      // Earlier texts: nobody who was handed one is told that it was replaced.
      ...(back.length > 0 ? [permit.event({ audit: "secret.rollback", keys: back })] : []),
      ...(made.length > 0 ? [permit.event({ audit: "secret.create", keys: made })] : [])
    ]
  }

interface Restoring {
  readonly permit: WritePermit
  readonly at: Date
  readonly preview: boolean
  readonly expectedRevision: number | undefined
  readonly plan: Plan
  readonly entries: (outcome: Outcome) => ReadonlyArray<AuditEvent>
}

const carryOut = Effect.fnUntraced(function* (needs: Needs, restoring: Restoring) {
  const { at, entries, expectedRevision, permit, plan, preview } = restoring
  if (expectedRevision !== undefined && expectedRevision !== plan.revision) return yield* conflict(plan.revision)
  const answer = (revision: number): EnvironmentRestoration => ({
    environmentId: permit.target.environmentId,
    environment: permit.target.slug,
    at: at.toISOString(),
    preview,
    revision,
    ...plan.told
  })
  if (preview) return answer(plan.revision)
  const ids: ReadonlyArray<SecretId> = plan.steps.map(({ past }) => past.id)
  return yield* EnvironmentWrite.write(needs, permit, (transaction) => changesOf(transaction, plan), {
    keys: [...plan.steps.map(({ past }) => past.key), ...plan.gone.map(({ key }) => key)],
    ids,
    field: "at",
    entries,
    answer: ({ transaction }) => Effect.succeed(answer(transaction.revision))
  })
})

export const restoreEnvironment = Effect.fnUntraced(function* (
  needs: Needs,
  id: EnvironmentId,
  { at: asked, expectedRevision, preview = false }: RestoreEnvironment
) {
  const permit = yield* needs.access.environmentWithId("secrets:write", id, { audit: "environment.restore" })
  const at = new Date(asked)
  if (at.getTime() > (yield* Clock.currentTimeMillis)) {
    return yield* new ValidationFailed({ field: "at", message: "must not be in the future" })
  }
  const plan = yield* planOf(needs, permit, at)
  const target = { type: "environment", id, name: at.toISOString() }
  // One entry says what all of them were for.
  const entries = (outcome: Outcome) => [permit.event({ target }), ...writesOf(permit, plan)(outcome)]
  return yield* carryOut(needs, { permit, at, preview, expectedRevision, plan, entries })
})

// --- one write ---

const changedSince = (revision: number) =>
  new SecretVersionConflict({
    currentVersion: revision,
    field: "expectedRevision",
    message: "It cannot be taken back: what it wrote was changed since."
  })

/** A write as the trail has it, and who asks for it to be taken back. */
export interface TakeBack extends PastStates.WriteEntry {
  readonly preview: boolean
  readonly expectedRevision?: number
}

/** Takes one write back, while nothing that it wrote was changed since: its keys are as they were just before it. */
export const takeBack = Effect.fnUntraced(function* (needs: Needs, taken: TakeBack) {
  const { environmentId, expectedRevision, keys, preview } = taken
  const intent = { audit: "secret.rollback", keys } as const
  const permit = yield* needs.access.environmentWithId("secrets:write", environmentId, intent)
  const moment = (yield* PastStates.standing(needs.sql, [taken])).get(taken.id)
  if (moment === undefined) return yield* changedSince(permit.target.revision)
  const at = new Date(moment.getTime() - 1)
  const plan = yield* planOf(needs, permit, at, new Set(keys))
  const reason = `undo of entry ${taken.id}`
  const entries = (outcome: Outcome) => writesOf(permit, plan)(outcome).map((event) => ({ ...event, reason }))
  return yield* carryOut(needs, { permit, at, preview, expectedRevision, plan, entries })
})

/** Which of these writes of a project can be taken back now, by what they wrote alone. */
export const canTakeBack = Effect.fnUntraced(function* (
  { access, sql }: Needs,
  projectId: ProjectId,
  entries: ReadonlyArray<PastStates.WriteEntry>
) {
  yield* access.project("secrets:read", projectId, { audit: "secret.history" })
  const own = yield* PastStates.environmentsOf(sql, projectId)
  const found = yield* PastStates.standing(
    sql,
    entries.filter(({ environmentId }) => own.has(environmentId))
  )
  return new Set(found.keys())
})
