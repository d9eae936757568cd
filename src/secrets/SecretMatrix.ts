/**
 * Keys of a project by environment, with versions and equal values. Values are compared here and go nowhere; the result
 * says only which cells of a row are equal.
 */
import * as Effect from "effect/Effect"
import type { ProjectId } from "#schema/Ids.ts"
import type { SecretKind } from "#schema/Values.ts"
import type { Access } from "#src/access/Access.ts"
import { diffPolicy, type RateLimiter } from "#src/limits/RateLimiter.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import * as Guesses from "./Guesses.ts"
import * as SecretRows from "./SecretRows.ts"

interface Needs extends OpenSecrets.Caches {
  readonly access: Access
  readonly limiter: RateLimiter
}

/** Environments of one matrix. */
export const maxColumns = 12

interface MatrixCell {
  readonly kind: SecretKind
  readonly version: number
  /** Cells of a row with the same number hold the same value; null: not compared. */
  readonly like: number | null
}
export interface MatrixRow {
  readonly key: string
  /** One for each environment; null: the environment has no such key. */
  readonly cells: ReadonlyArray<MatrixCell | null>
  /** The number of its secrets. */
  readonly tags: ReadonlyArray<string>
}
interface Matrix {
  readonly rows: ReadonlyArray<MatrixRow>
  /** False: nothing to compare, or too many comparisons in the last minute. */
  readonly compared: boolean
}

type Values = ReadonlyMap<string, string>

/** Values by environment that may be compared; undefined: not now. */
const comparable = Effect.fnUntraced(function* (needs: Needs, permits: ReadonlyArray<Guesses.ComparePermit>) {
  if (permits.length < 2) return undefined
  const { caller } = permits[0]
  const counted = yield* Effect.either(needs.limiter.take(Guesses.bucketOf({ caller }), diffPolicy))
  if (counted._tag === "Left") return undefined
  const readsAll = permits.every((permit) => Guesses.readsValues({ permit }))
  const origins = readsAll ? [] : yield* Effect.forEach(permits, (permit) => Guesses.originsOf(needs.sql, permit))
  const opened = yield* Effect.forEach(permits, (permit) => OpenSecrets.valuesByKey(needs, permit))
  // A write in between: its author may be without a right to these values.
  if (origins.some(({ revision }, i) => revision !== opened[i].revision)) return undefined
  return opened.map(({ revision, values }, i) => {
    if (readsAll) return { revision, values }
    const { withoutValues } = origins[i]
    const kept: Values = new Map([...values].filter(([key]) => !withoutValues.has(key)))
    return { revision, values: kept }
  })
})

/** Numbers for the values of one row, from 0 in the order of first use. */
const classes = (texts: ReadonlyArray<string | undefined>): ReadonlyArray<number | null> => {
  const seen: Array<string> = []
  return texts.map((text) => {
    if (text === undefined) return null
    const at = seen.indexOf(text)
    return at >= 0 ? at : seen.push(text) - 1
  })
}

const isWhole = ({ cells }: MatrixRow) => cells.every((cell) => cell !== null && cell.like === 0)

/**
 * A caller with a right to all values sees all that is equal. Others see it for texts of authors with a right to
 * values, but not for their own texts: so they learn nothing by writing a guess. (`/secrets/diff` compares those too,
 * and counts them.)
 */
export const matrix = Effect.fnUntraced(function* (
  needs: Needs,
  projectId: ProjectId,
  environments: ReadonlyArray<string>
) {
  const permits = yield* Effect.forEach(environments.slice(0, maxColumns), (environment) =>
    needs.access.environment("secrets:read", { projectId, environment }, { audit: "secret.diff" })
  )
  const names = yield* Effect.forEach(permits, (permit) =>
    Effect.map(SecretRows.names(needs.sql, permit), (rows) => new Map(rows.map((row) => [row.key, row])))
  )
  const compared = yield* comparable(needs, permits)
  const keys = [...new Set(names.flatMap((rows) => [...rows.keys()]))].sort()
  const rows = keys.map((key): MatrixRow => {
    const cells = names.map((rows) => rows.get(key))
    const likes = classes(cells.map((row, i) => (row === undefined ? undefined : compared?.[i]?.values.get(key))))
    return {
      key,
      cells: cells.map((row, i) =>
        row === undefined ? null : { kind: row.kind, version: row.version, like: likes[i] }
      ),
      tags: [...new Set(cells.flatMap((row) => row?.tags ?? []))].sort()
    }
  })
  if (compared !== undefined) {
    const differing = rows.filter((row) => !isWhole(row)).map(({ key }) => key)
    // One entry for one comparison, of the first environment.
    const others = permits.map(({ target: { environmentId, slug } }, i) => ({
      environmentId,
      environment: slug,
      revision: compared[i].revision
    }))
    const event = { keys: differing, revision: compared[0].revision, compared: others.slice(1) }
    yield* needs.audit.record(permits[0].event(event))
  }
  const answer: Matrix = { rows, compared: compared !== undefined }
  return answer
})
