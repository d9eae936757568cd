/** Sealed boxes of one environment: opened many at a time, all or none. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { IntegrityFailure } from "#schema/Errors.ts"
import type { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { recordDenials } from "#src/access/Change.ts"
import { dieOfVault } from "#src/database/Dependency.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"
import type { DataKey, DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { metadataOf, type OpenSecret, type SecretMetadata } from "./SecretMetadata.ts"
import type { SealedRow } from "./SecretRows.ts"

/**
 * Lets other requests have their turn: large environments must not hold them up. (`Effect.yieldNow` goes on before the
 * event loop looks at its sockets.)
 */
export const turn = Effect.async<void>((resume) => {
  const waiting = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(waiting))
})

/** Bytes that are opened between turns, each box counted with its share of fixed work: some 30 boxes, 2 ms. */
const pieceBytes = 32_768

/**
 * A stored box, or the key that sealed it, is not in its own place. The caller receives INTEGRITY_FAILURE. The denial
 * is recorded after the transaction, since its entry uses another connection.
 */
export class BoxAltered extends Data.TaggedError("BoxAltered")<{
  /** Keys of boxes that did not open; empty: unknown. */
  readonly keys: ReadonlyArray<string>
}> {}

/** A data key that does not open counts as an altered box. */
const keyIntact = <A, E>(self: Effect.Effect<A, E>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E, IntegrityFailure> => error instanceof IntegrityFailure,
    () => new BoxAltered({ keys: [] })
  )

/** Around a read, or around the transaction of a write: a refusal is recorded before it is answered. */
export const recordingRefusals = <A, E, R>(audit: Audit, event: AuditEvent, work: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    recordDenials(audit, event, work),
    (error): error is Extract<E, BoxAltered> => error instanceof BoxAltered,
    ({ keys }) => {
      const refusal = new IntegrityFailure()
      const named = keys.length === 0 ? event : { ...event, keys }
      const entry = { ...named, outcome: "denied", reason: refusal._tag } as const
      return Effect.zipRight(audit.record(entry), Effect.fail(refusal))
    }
  )

export const contextOf = (
  target: EnvironmentTarget,
  secret: SecretMetadata,
  dataKey: DataKey
): Envelope.ValueContext => ({
  teamId: target.teamId,
  projectId: target.projectId,
  environmentId: target.environmentId,
  secretId: secret.id,
  key: secret.key,
  kind: secret.kind,
  version: secret.version,
  dataKeyId: dataKey.id,
  instance: dataKey.instance
})

export const open = Effect.fnUntraced(function* (
  dataKeys: DataKeys,
  target: EnvironmentTarget,
  rows: ReadonlyArray<SealedRow>
) {
  const ids = new Set(rows.map((row) => row.dataKeyId))
  const keys = yield* keyIntact(Effect.catchTag(dataKeys.byId(target, ids), "VaultUnavailable", dieOfVault))
  const opened: Array<OpenSecret> = []
  let sinceTurn = 0
  for (const row of rows) {
    const key = keys.get(row.dataKeyId)
    if (key === undefined) return yield* Effect.dieMessage("a data key was requested and not returned")
    const text = Envelope.openValue(key.key, contextOf(target, row, key), row.sealed)
    if (Either.isLeft(text)) return yield* new BoxAltered({ keys: [row.key] })
    // New members first: keeps one hidden class.
    opened.push({ text: text.right, ...metadataOf(row) })
    sinceTurn += row.sealed.length + 1024
    if (sinceTurn > pieceBytes) {
      sinceTurn = 0
      yield* turn
    }
  }
  return opened
})

/** The data key that new boxes of the environment are sealed under: `id`, or one that is made now. */
export const activeKey = (dataKeys: DataKeys, target: EnvironmentTarget, id: string | null) =>
  keyIntact(
    Effect.catchTag(
      id === null
        ? dataKeys.active(target)
        : Effect.flatMap(dataKeys.byId(target, [id]), (keys) => Effect.orDie(Effect.fromNullable(keys.get(id)))),
      "VaultUnavailable",
      dieOfVault
    )
  )
