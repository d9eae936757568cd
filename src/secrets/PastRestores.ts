/**
 * Restores an environment to a moment, in one transaction (docs/contract/secrets.md, "Back to a moment"). Names and
 * versions decide the steps. The steps are written only if nothing changed since.
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

/** The step for a key that existed then and differs now. */
interface Step {
  readonly past: PastStates.Past & { readonly version: number }
  /**
   * `write`: the key exists, with another text or secret. `restore`: the secret was deleted at this version.
   * `continue`: the secret was deleted at a later version, or has another key now. `create`: neither is possible.
   */
  readonly how: "write" | "restore" | "continue" | "create"
}

interface Plan {
  readonly revision: number
  readonly steps: ReadonlyArray<Step>
  readonly gone: ReadonlyArray<{ readonly key: string }>
  readonly summary: Pick<EnvironmentRestoration, "created" | "updated" | "deleted" | "renamed" | "lost" | "unknown">
}

const howOf = (
  past: PastStates.Past,
  live: ReadonlyMap<string, unknown>,
  then: ReadonlyMap<string, unknown>,
  proposes: boolean
): Step["how"] => {
  if (live.has(past.key)) return "write"
  if (!past.isLive && past.currentKey === past.key && past.currentVersion === past.version) return "restore"
  // A change request holds texts alone; and a key that another secret has now stays with it.
  return proposes || (past.isLive && then.has(past.currentKey)) ? "create" : "continue"
}

/**
 * Keys with the same text now and then. Only for callers who may have values: for others the comparison is a guess, and
 * every other version counts as another text.
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

/** The plan, by names and versions. `only`: the keys to restore; undefined: all. */
const planOf = Effect.fnUntraced(function* (needs: Needs, permit: WritePermit, at: Date, only?: ReadonlySet<string>) {
  const { sql } = needs
  const { proposes, target } = permit
  const isMeant = ({ key }: { readonly key: string }) => only?.has(key) ?? true
  const current = yield* PastStates.current(sql, target)
  const now = { ...current, live: current.live.filter(isMeant) }
  const statesThen = yield* PastStates.statesAt(sql, target, at)
  const then = new Map([...statesThen].filter(([, past]) => isMeant(past)))
  const live = new Map(now.live.map((one) => [one.key, one]))
  const all: Array<Step> = []
  const pairs: Array<{ readonly key: string; readonly now: PastStates.At; readonly past: PastStates.At }> = []
  const lost: Array<string> = []
  for (const past of then.values()) {
    const { id, key, version } = past
    const liveSecret = live.get(key)
    if (liveSecret?.id === id && liveSecret.version === version) continue
    if (version === null) {
      lost.push(key)
      continue
    }
    all.push({ past: { ...past, version }, how: howOf(past, live, then, proposes) })
    if (liveSecret !== undefined) pairs.push({ key, now: liveSecret, past: { id, version } })
  }
  const equal = yield* equalTexts(needs, permit, pairs)
  const steps = all.filter(({ past }) => !equal.has(past.key))
  const renamed = steps
    .filter(({ how, past }) => how === "continue" && past.isLive)
    .map(({ past }) => ({ from: past.currentKey, to: past.key }))
  const moved = new Set(renamed.map(({ from }) => from))
  // A text that the plan of the team did not keep cannot come back: the key stays as it is.
  const gone = now.live.filter(({ key }) => !then.has(key) && !moved.has(key))
  const keysOf = (which: (step: Step) => boolean) =>
    steps
      .filter(which)
      .map(({ past }) => past.key)
      .sort()
  const isRenamed = ({ how, past }: Step) => how === "continue" && past.isLive
  // Deleted secrets are kept for 30 days: a purged one was gone then, unless the moment is older.
  const isOld = at.getTime() < (yield* Clock.currentTimeMillis) - SecretRows.purgeDelay
  const plan: Plan = {
    revision: now.revision,
    steps,
    gone,
    summary: {
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

/** The changes of the plan, decided under the lock. Texts are opened here. */
const changesOf = Effect.fnUntraced(function* (transaction: Transaction, { gone, revision, steps }: Plan) {
  const { dataKeys, facts, permit, sql } = transaction
  if (facts.revision !== revision) return yield* conflict(facts.revision)
  const versions = steps.map(({ past: { id, version } }) => ({ id, version }))
  const rows = yield* PastStates.boxes(sql, permit.target, versions)
  const opened = yield* SecretBoxes.open(dataKeys, permit.target, rows)
  const kept = new Map(opened.map((secret, i) => [secret.id, { secret, pinned: rows[i]?.pinned ?? false }]))
  const changes = new Map<string, Change>(gone.map(({ key }) => [key, null]))
  for (const { how, past } of steps) {
    const version = kept.get(past.id)
    if (version === undefined) return yield* conflict(facts.revision)
    const { kind, text } = version.secret
    const write: Write = { kind, pinned: version.pinned, text, from: "stored" }
    const secret = { ...metadataOf(version.secret), version: past.currentVersion }
    if (how === "restore") changes.set(past.key, { restored: { ...secret, key: past.key }, write })
    else if (how === "continue") changes.set(past.key, { continued: { ...secret, key: past.currentKey }, write })
    else changes.set(past.key, write)
  }
  return changes
})

/** The entries of each write, as if it were alone. */
const writesOf =
  (permit: WritePermit, { summary }: Plan) =>
  ({ changes, results }: Outcome) => {
    const moved = new Set(summary.renamed.map(({ to }) => to))
    const gone = [...changes].flatMap(([key, change]) => (change === null ? [key] : []))
    const restored = [...results].flatMap(([key, one]) => (one.outcome === "restored" ? [key] : []))
    const others = new Map([...results].filter(([key]) => !moved.has(key)))
    const back = [...others].flatMap(([key, { outcome }]) => (outcome === "updated" ? [key] : []))
    const created = [...others].flatMap(([key, { outcome }]) => (outcome === "created" ? [key] : []))
    return [
      ...(gone.length > 0 ? [permit.event({ audit: "secret.delete", keys: gone })] : []),
      ...(restored.length > 0 ? [permit.event({ audit: "secret.restore", keys: restored })] : []),
      ...summary.renamed.map(({ from, to }) => permit.event({ audit: "secret.rename", keys: [from, to] })),
      // Earlier texts come back: an entry of a replacement would wrongly close the exposure of their readers.
      ...(back.length > 0 ? [permit.event({ audit: "secret.rollback", keys: back })] : []),
      ...(created.length > 0 ? [permit.event({ audit: "secret.create", keys: created })] : [])
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
    ...plan.summary
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
  // One entry names the purpose of all of them.
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

/** A write as its audit entry describes it, and the options of the caller who takes it back. */
export interface TakeBack extends PastStates.WriteEntry {
  readonly preview: boolean
  readonly expectedRevision?: number
}

/** Takes one write back while its keys have not changed since: they return to their state just before it. */
export const takeBack = Effect.fnUntraced(function* (needs: Needs, taken: TakeBack) {
  const { environmentId, expectedRevision, keys, preview } = taken
  const intent = { audit: "secret.rollback", keys } as const
  const permit = yield* needs.access.environmentWithId("secrets:write", environmentId, intent)
  const moment = (yield* PastStates.unchangedSince(needs.sql, [taken])).get(taken.id)
  if (moment === undefined) return yield* changedSince(permit.target.revision)
  const at = new Date(moment.getTime() - 1)
  const plan = yield* planOf(needs, permit, at, new Set(keys))
  const reason = `undo of entry ${taken.id}`
  const entries = (outcome: Outcome) => writesOf(permit, plan)(outcome).map((event) => ({ ...event, reason }))
  return yield* carryOut(needs, { permit, at, preview, expectedRevision, plan, entries })
})

/** The writes of a project that can be taken back now. */
export const canTakeBack = Effect.fnUntraced(function* (
  { access, sql }: Needs,
  projectId: ProjectId,
  entries: ReadonlyArray<PastStates.WriteEntry>
) {
  yield* access.project("secrets:read", projectId, { audit: "secret.history" })
  const own = yield* PastStates.environmentsOf(sql, projectId)
  const reversible = yield* PastStates.unchangedSince(
    sql,
    entries.filter(({ environmentId }) => own.has(environmentId))
  )
  return new Set(reversible.keys())
})
