/**
 * Rotation of service keys while servers run (docs/security.md, "Service keys"):
 *
 *   1. create the next generation; servers load it within seconds and verify with it
 *   2. activate it: servers write with it
 *   3. give rows of older generations the newest one
 *   4. remove each older generation that no row and no client needs
 *
 * Each step can be interrupted, and the same call continues. Earlier programs do not start any more from step 2 on.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type * as Duration from "effect/Duration"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as KeyGenerations from "#src/crypto/KeyGenerations.ts"
import type { ServiceKeyName } from "#src/crypto/KeyGenerations.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { type OnProgress, retrying, type Turn, type UnopenedRow } from "#src/crypto/RotationTurn.ts"
import type { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import type { Vault } from "#src/crypto/Vault.ts"
import * as KeyUses from "#src/rows/KeyUses.ts"
import * as Reseal from "#src/rows/Reseal.ts"
import * as ResealEnds from "./ResealEnds.ts"

export interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
  readonly crypto: Crypto
  readonly keys: ServiceKeys
}

/** Milliseconds after which no server writes with an older generation: `goodForMillis` of ServiceKeys.ts, twice. */
const restMillis = 120_000
/** Several looks of each server. */
const loadTime = "30 seconds"

/** Keys whose rows a rotation gives the newest generation. */
const resealed: ReadonlySet<ServiceKeyName> = new Set([
  "row-seals",
  "password-hashes",
  "second-factors",
  "issuer-secrets",
  "audit-entries"
])

export interface KeyGeneration {
  readonly name: ServiceKeyName
  readonly generation: number
  readonly use: "writes" | "verifies" | "coming"
  /** Rows that need it. Null where the key has one generation. */
  readonly rows: number | null
  readonly createdAt: Date
}

const ofName = (rows: ReadonlyArray<KeyGenerations.KeyRow>, name: ServiceKeyName) =>
  rows.filter((row) => row.name === name)

const rowsPerGeneration = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, name: ServiceKeyName) {
  return name === "audit-entries"
    ? yield* ResealEnds.endsPerGeneration(sql)
    : yield* KeyUses.rowsPerGeneration(sql, name, yield* DateTime.nowAsDate)
})

/** All generations, and the rows that need those of a key with several. */
export const generations = Effect.fnUntraced(function* ({ sql }: Pick<Needs, "sql">) {
  const rows = yield* KeyGenerations.rowsOf(sql, KeyGenerations.names)
  const result: Array<KeyGeneration> = []
  for (const name of KeyGenerations.names) {
    const own = ofName(rows, name)
    const newest = KeyGenerations.writingOf(own)
    const counts = own.length > 1 ? yield* rowsPerGeneration(sql, name) : undefined
    for (const { createdAt, generation, state } of own) {
      const use = state === "coming" ? "coming" : generation === newest?.generation ? "writes" : "verifies"
      result.push({
        name,
        generation,
        use,
        rows: counts === undefined ? null : (counts.get(generation) ?? 0),
        createdAt
      })
    }
  }
  return result
})

/** Number of rows with a MAC. */
export const rowCount = ({ sql }: Pick<Needs, "sql">) =>
  Effect.map(rowsPerGeneration(sql, "row-seals"), (counts) => [...counts.values()].reduce((sum, n) => sum + n, 0))

/** Whether a rotation was begun and its rows are not all renewed. */
export const isUnfinished = (all: ReadonlyArray<KeyGeneration>): boolean =>
  all.some(({ name, use }) => use === "coming" || (use === "verifies" && resealed.has(name)))

/**
 * Creates the next generation, or goes on with the one of an interrupted rotation; returns when servers write with it.
 * A rotation that was interrupted during the creation, by an earlier program, left keys without that generation: they
 * get it now.
 */
export const begin = Effect.fnUntraced(function* (needs: Needs, alone: boolean) {
  const { crypto, keys, sql, vault } = needs
  const all = yield* KeyGenerations.rowsOf(sql, KeyGenerations.names)
  const isComing = all.some(({ state }) => state === "coming")
  const goesOn = isComing || all.some(({ name }) => resealed.has(name) && ofName(all, name).length > 1)
  const lacking = goesOn ? KeyGenerations.withoutNewest(all) : KeyGenerations.names
  if (lacking.length > 0) {
    // All keys or none: an interruption must not leave some without a next generation.
    const now = yield* DateTime.nowAsDate
    const generation = KeyGenerations.newestOf(all) + (goesOn ? 0 : 1)
    yield* sql.withTransaction(
      KeyGenerations.begin({ sql, vault }, { bytes: crypto.randomBytes(32), generation, names: lacking, now })
    )
  } else if (!isComing) return yield* keys.look
  yield* Effect.sleep(alone ? 0 : loadTime)
  yield* KeyGenerations.activate(sql, yield* DateTime.nowAsDate)
  yield* keys.look
})

const turns = Effect.fnUntraced(function* <E, R>(
  first: string,
  turn: (after: string) => Effect.Effect<Turn<string>, E | SqlError, R>,
  onTurn: (turn: Turn<string>) => Effect.Effect<void>
) {
  let after: string | undefined = first
  while (after !== undefined) {
    const result: Turn<string> = yield* retrying(turn(after))
    yield* onTurn(result)
    after = result.last
  }
})

/** Passes after the first are for rows that were locked, or written with the older key meanwhile. */
const maxPasses = 50

/** Gives all rows the newest generation. Returns the number of changed rows, and those that no server wrote. */
export const reseal = Effect.fn("ServiceKeyRotation.reseal")(function* (
  needs: Pick<Needs, "crypto" | "sql"> & { readonly keys: Pick<ServiceKeys, "ring"> },
  onProgress: OnProgress
) {
  const { crypto, keys, sql } = needs
  const rings: Reseal.Rings = {
    rows: yield* keys.ring("row-seals"),
    credentials: yield* keys.ring("credential-pepper"),
    passwords: yield* keys.ring("password-hashes"),
    factors: yield* keys.ring("second-factors"),
    issuers: yield* keys.ring("issuer-secrets")
  }
  const entries = yield* keys.ring("audit-entries")
  const counts = yield* retrying(rowsPerGeneration(sql, "row-seals"))
  const total = [...counts].reduce((sum, [of, n]) => (of < rings.rows.newest.generation ? sum + n : sum), 0)
  const refused = new Map<string, UnopenedRow>()
  let done = 0
  const onTurn = (turn: Turn<string>) => {
    for (const one of turn.refused) refused.set(rowName(one), one)
    done += turn.done
    return turn.done > 0 ? onProgress({ done, total: Math.max(done, total) }) : Effect.void
  }
  yield* onProgress({ done, total })
  for (let pass = 0; pass < maxPasses; pass++) {
    const before = done
    for (const table of Reseal.tables)
      yield* turns(Reseal.beforeAll, (after) => Reseal.batch({ sql, crypto, rings }, table, after), onTurn)
    yield* turns(ResealEnds.beforeAll, (after) => ResealEnds.batch(sql, entries, after), onTurn)
    if (done === before && pass > 0) break
    yield* Effect.sleep("200 millis")
  }
  const marks = yield* retrying(Reseal.resealMarks({ sql, crypto, rings }))
  yield* onTurn({ last: undefined, ...marks })
  return { done, refused: [...refused.values()] }
})

/** Waits until no server writes with an older generation. */
export const rest = Effect.fnUntraced(function* ({ sql }: Pick<Needs, "sql">, alone: boolean) {
  const rows = yield* KeyGenerations.rowsOf(sql, KeyGenerations.names)
  const activeAt = Math.max(0, ...rows.map((row) => row.activeAt?.getTime() ?? 0))
  const now = (yield* DateTime.nowAsDate).getTime()
  const wait: Duration.DurationInput = alone ? 0 : Math.max(0, activeAt + restMillis - now)
  yield* Effect.sleep(wait)
})

const rowName = ({ name, table }: UnopenedRow) => `${table} ${name}`

/**
 * Older generations of a key that nothing needs. Rows that no server wrote (`refused`) need none: each excuses itself
 * alone, since a forged row must not stand in for a genuine one.
 */
const unneeded = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  name: ServiceKeyName,
  older: ReadonlyArray<KeyGenerations.KeyRow>,
  refused: ReadonlyArray<UnopenedRow>
) {
  if (!resealed.has(name)) {
    const counts = yield* rowsPerGeneration(sql, name)
    return older.filter(({ generation }) => (counts.get(generation) ?? 0) === 0)
  }
  // One row more than can be excused is enough to know.
  const of = { generations: older.map(({ generation }) => generation), limit: refused.length + 1 }
  const rows = yield* name === "audit-entries"
    ? ResealEnds.endsThatNeed(sql, of)
    : Reseal.rowsThatNeed(sql, name, { ...of, now: yield* DateTime.nowAsDate })
  const excused = new Set(refused.map(rowName))
  return rows.every((row) => excused.has(rowName(row))) ? older : []
})

/** Removes older generations that nothing needs. Returns them. `refused`: from a whole pass of `reseal`. */
export const removeUnused = Effect.fnUntraced(function* (
  { sql }: Pick<Needs, "sql">,
  { alone, refused }: { readonly alone: boolean; readonly refused: ReadonlyArray<UnopenedRow> }
) {
  const now = (yield* DateTime.nowAsDate).getTime()
  const rows = yield* KeyGenerations.rowsOf(sql, KeyGenerations.names)
  const removed: Array<Pick<KeyGeneration, "generation" | "name">> = []
  for (const name of KeyGenerations.names) {
    const own = ofName(rows, name)
    const newest = KeyGenerations.writingOf(own)
    if (newest === undefined || own.length === 1) continue
    const life = KeyUses.minutesOf(name) * 60_000
    const restUntil = (newest.activeAt?.getTime() ?? now) + Math.max(alone ? 0 : restMillis, life)
    if (now < restUntil) continue
    const older = own.filter((row) => row.generation < newest.generation)
    for (const row of yield* unneeded(sql, name, older, refused)) {
      yield* KeyGenerations.remove(sql, row)
      removed.push({ name, generation: row.generation })
    }
  }
  return removed
})

/** A generation goes some time after its last use: hashes are renewed at the next use of their credential. */
export const layer = Layer.scopedDiscard(
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Housekeeping.every("1 hour", removeUnused({ sql }, { alone: false, refused: [] }), "older service keys")
  )
)
