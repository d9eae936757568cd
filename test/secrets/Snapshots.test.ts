import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import { DatabaseEpoch } from "#src/database/DatabaseEpoch.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import { Snapshots, type Source } from "#src/secrets/Snapshots.ts"

const environment = "01a20b70-1383-7051-90ec-8cce95309388"

/** Revision of the database; after a fail-over it can be lower. */
const database = () => {
  const now = { revision: 10, value: "ten", epoch: 1 }
  const values = () => ({ revision: now.revision, values: new Map([["A", now.value]]) })
  const source: Source<never, never> = {
    all: Effect.sync(values),
    since: (revision) => Effect.sync(() => (revision <= now.revision ? values() : undefined))
  }
  const layer = Snapshots.Default.pipe(
    Layer.provide(SnapshotCipher.Default),
    Layer.provide(Crypto.Default),
    Layer.provide(Layer.succeed(DatabaseEpoch, () => now.epoch))
  )
  return { now, source, layer }
}

const read = (source: Source<never, never>, revision: number) =>
  Effect.gen(function* () {
    const { values } = yield* Snapshots
    const opened = yield* values(environment, revision, "materialized", source)
    return Buffer.concat([...opened.members]).toString()
  })

describe("what a process holds of the values", () => {
  it.effect("follows the database, and is not used over a fail-over to one that is older", () => {
    const { layer, now, source } = database()
    return Effect.gen(function* () {
      assert.include(yield* read(source, 10), "ten")
      // The standby had got nine revisions; the tenth is given out anew, to something else.
      Object.assign(now, { revision: 10, value: "another ten", epoch: 2 })
      assert.include(yield* read(source, 10), "another ten")
    }).pipe(Effect.provide(layer))
  })

  it.effect("is kept while the same server answers", () => {
    const { layer, now, source } = database()
    return Effect.gen(function* () {
      yield* read(source, 10)
      now.value = "of no revision"
      assert.include(yield* read(source, 10), "ten")
      now.revision = 11
      assert.include(yield* read(source, 11), "of no revision")
    }).pipe(Effect.provide(layer))
  })

  it.effect("is answered when the database went back between the permit and the read", () => {
    const { layer, now, source } = database()
    return Effect.gen(function* () {
      Object.assign(now, { revision: 8, value: "eight" })
      assert.include(yield* read(source, 10), "eight")
    }).pipe(Effect.provide(layer))
  })

  it.effect("is forgotten for an answer to a question too, and what was being built is not kept", () => {
    const { layer, now } = database()
    return Effect.gen(function* () {
      const { get } = yield* Snapshots
      const ask = (value: string, meanwhile: () => void = () => {}) =>
        Effect.map(
          get(environment, 10, "value/A", () =>
            Effect.sync(() => {
              meanwhile()
              return { revision: 10, read: { keys: ["A"], revision: 10 }, value }
            })
          ),
          ({ bytes }) => Buffer.from(bytes).toString()
        )
      assert.strictEqual(yield* ask("old", () => (now.epoch = 2)), '"old"')
      assert.strictEqual(yield* ask("new"), '"new"')
      assert.strictEqual(yield* ask("not asked"), '"new"')
      now.epoch = 3
      assert.strictEqual(yield* ask("newer"), '"newer"')
    }).pipe(Effect.provide(layer))
  })

  it.effect("has the same keys, as one array, for as long as none comes or goes", () => {
    const name = FastCheck.constantFrom(...Array.from({ length: 40 }, (_, i) => `KEY_${i}`))
    // Long enough for several pieces.
    const value = FastCheck.string({ maxLength: 3 }).map((text) => text.repeat(2_000))
    const steps = FastCheck.array(FastCheck.dictionary(name, FastCheck.option(value), { maxKeys: 5 }), { maxLength: 8 })
    const beginning = FastCheck.dictionary(name, value, { minKeys: 1, maxKeys: 40 })
    const sorted = (all: ReadonlyMap<string, string>) => [...all].toSorted(([a], [b]) => (a < b ? -1 : 1))
    return Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(beginning, steps, (first, changes) => {
          const content = new Map(Object.entries(first))
          const now = { revision: 1, changed: new Map<string, string | null>() }
          const source: Source<never, never> = {
            all: Effect.sync(() => ({ revision: now.revision, values: new Map(sorted(content)) })),
            since: () => Effect.sync(() => ({ revision: now.revision, values: now.changed }))
          }
          return Effect.gen(function* () {
            const { values } = yield* Snapshots
            let before = yield* values(environment, 1, "materialized", source)
            for (const change of changes) {
              const names = [...content.keys()].toSorted().join()
              now.revision++
              now.changed = new Map(Object.entries(change))
              for (const [key, value] of now.changed) {
                if (value === null) content.delete(key)
                else content.set(key, value)
              }
              const after = yield* values(environment, now.revision, "materialized", source)
              assert.deepStrictEqual(JSON.parse(`{${after.members.join()}}`), Object.fromEntries(sorted(content)))
              assert.deepStrictEqual(
                after.keys,
                sorted(content).map(([key]) => key)
              )
              assert.strictEqual(after.keys === before.keys, after.keys.join() === names)
              before = after
            }
          }).pipe(Effect.provide(database().layer), Effect.runPromise)
        }),
        { numRuns: 60 }
      )
    )
  })
})
