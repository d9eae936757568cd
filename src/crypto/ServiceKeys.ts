/**
 * Keys that all processes of one service share, for MACs, hashes and boxes. 256 bits each, in the database, wrapped by
 * the vault. Each key has generations (docs/security.md, "Service keys"): `KeyGenerations.ts` has their rows.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { IntegrityFailure } from "#schema/Errors.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { Crypto } from "./Crypto.ts"
import * as KeyGenerations from "./KeyGenerations.ts"
import type { ServiceKeyName } from "./KeyGenerations.ts"
import * as KeyRing from "./KeyRing.ts"
import { Vault } from "./Vault.ts"

/** The interval at which a process looks for new and removed generations. */
const lookEvery = "5 seconds"
/** Milliseconds after the last look. A later request looks first, so that no process writes with a removed key. */
const goodForMillis = 60_000

interface StoredRing {
  readonly ring: KeyRing.KeyRing
  readonly state: string
}

const stateOf = (rows: ReadonlyArray<KeyGenerations.KeyRow>): string =>
  rows.map(({ bound, generation, state }) => `${generation} ${bound} ${state}`).join(", ")

export class ServiceKeys extends Effect.Service<ServiceKeys>()("crypto/ServiceKeys", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const crypto = yield* Crypto
    const needs = { sql, vault }
    const rings = new Map<ServiceKeyName, StoredRing>()
    /** The highest generation that was removed, by name. A row of it that comes back is not believed. */
    const highestRemoved = new Map<ServiceKeyName, number>()
    let version = 0
    let goodUntil = performance.now() + goodForMillis

    /** Adopts the rows of a key; unwraps only those that are new here. */
    const adopt = Effect.fnUntraced(function* (name: ServiceKeyName, stored: ReadonlyArray<KeyGenerations.KeyRow>) {
      const earlier = rings.get(name)
      for (const generation of earlier?.ring.live.keys() ?? []) {
        if (stored.some((row) => row.generation === generation)) continue
        highestRemoved.set(name, Math.max(generation, highestRemoved.get(name) ?? 0))
      }
      const rows = stored.filter((row) => row.generation > (highestRemoved.get(name) ?? 0))
      if (earlier !== undefined && earlier.state === stateOf(rows)) return earlier.ring
      const ring = yield* KeyGenerations.ringOf(needs, rows, earlier?.ring)
      if (earlier !== undefined) version++
      if (ring === undefined) rings.delete(name)
      else rings.set(name, { ring, state: stateOf(rows) })
      return ring
    })

    const make = Effect.fnUntraced(function* (name: ServiceKeyName) {
      const bytes = yield* crypto.randomBytes(32)
      yield* KeyGenerations.create(needs, name, Redacted.make(bytes), yield* DateTime.nowAsDate)
      bytes.fill(0)
    })

    /** Returns the ring, created on first use. If two processes start at once, only one creates it. */
    const ring = Effect.fn("ServiceKeys.ring")(
      function* (name: ServiceKeyName) {
        const earlier = rings.get(name)
        if (earlier !== undefined) return earlier.ring
        let rows = yield* KeyGenerations.rowsOf(sql, [name])
        // A key that does not open is not replaced, since what it wrote would be lost.
        if (KeyGenerations.writingOf(rows) === undefined) {
          yield* make(name)
          rows = yield* KeyGenerations.rowsOf(sql, [name])
        }
        return (yield* adopt(name, rows)) ?? (yield* new IntegrityFailure())
      },
      Effect.catchTag("SqlError", Effect.die)
    )

    /** Looks for new and removed generations of the keys in use here. */
    const look = Effect.gen(function* () {
      const startedAt = performance.now()
      const names = [...rings.keys()]
      const rows = names.length === 0 ? [] : yield* KeyGenerations.rowsOf(sql, names)
      for (const name of names) {
        yield* adopt(
          name,
          rows.filter((row) => row.name === name)
        )
      }
      goodUntil = startedAt + goodForMillis
    })
    yield* Housekeeping.every(lookEvery, look, "service keys")

    return {
      ring,
      look: Effect.catchTag(look, "SqlError", Effect.die),
      /** Increases when a loaded ring changes. */
      version: () => version,
      /** Whether rings of this version are still the current ones. */
      isCurrent: (of: number): boolean => of === version && performance.now() < goodUntil
    } as const
  })
}) {}

/** Derives something from rings, again after each change of one. `now`: the derived value, if it needs no look. */
export const following = <A, E, R>(keys: ServiceKeys, derive: Effect.Effect<A, E, R>) => {
  let derived: { readonly value: A; readonly version: number } | undefined
  const now = () => (derived !== undefined && keys.isCurrent(derived.version) ? derived.value : undefined)
  const again = Effect.gen(function* () {
    yield* keys.look
    const current = now()
    if (current !== undefined) return current
    const value = yield* derive
    derived = { value, version: keys.version() }
    return value
  })
  const current = Effect.suspend(() => {
    const value = now()
    return value === undefined ? again : Effect.succeed(value)
  })
  return Object.assign(current, { now })
}

/** A value of `following` as requests take it: at once, where it is current and settled, else through `slow`. */
export const atOnce = <A>(
  { now }: { readonly now: () => A | undefined },
  slow: Effect.Effect<A>,
  state: { readonly settled: boolean } = { settled: true }
): Effect.Effect<A> =>
  Effect.suspend(() => {
    const value = state.settled ? now() : undefined
    return value === undefined ? slow : Effect.succeed(value)
  })
