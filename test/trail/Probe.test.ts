/** How soon readiness tells of a database, in virtual time: whatever moment it goes away, within 2 s (docs/contract/outages.md). */
import * as Reactivity from "@effect/experimental/Reactivity"
import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { makeCompiler } from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Probe } from "#src/trail/Probe.ts"

/** A database that answers each statement after so many milliseconds; `tries` counts them. */
const database = { millis: 1, tries: 0 }
const answer = (statement: string) =>
  Effect.suspend(() => {
    const isInsert = statement.includes("INSERT")
    if (isInsert) database.tries++
    return Effect.as(Effect.sleep(isInsert ? database.millis : 0), [])
  })
const connection: Connection = {
  execute: answer,
  executeRaw: answer,
  executeStream: (statement) => Stream.fromEffect(answer(statement)),
  executeValues: answer,
  executeUnprepared: answer
}
const sql = Layer.effect(
  SqlClient.SqlClient,
  SqlClient.make({ acquirer: Effect.succeed(connection), compiler: makeCompiler(), spanAttributes: [] })
).pipe(Layer.provide(Reactivity.layer))
const probe = Effect.provide(Layer.provide(Probe.Default, Layer.merge(sql, Crypto.Default)))

const isUp = Effect.flatMap(Probe, ({ check }) => Effect.isSuccess(check))

/** Asks every 20 ms; answers the milliseconds until it is found as it is wanted. */
const until = (wanted: boolean) =>
  Effect.gen(function* () {
    const states: Array<boolean> = []
    const ask = Effect.flatMap(isUp, (is) => Effect.sync(() => states.push(is)))
    let millis = 0
    while (!states.includes(wanted)) {
      assert.isBelow(millis, 60_000, "never")
      yield* Effect.fork(ask)
      yield* TestClock.adjust(20)
      millis += 20
    }
    return millis
  })

describe("the trail's probe", () => {
  for (const [what, millis] of [
    ["hangs", 3_600_000],
    ["takes two seconds each way", 4_000],
    ["takes a little more than it may", 1_450]
  ] as const) {
    it.effect(`reports a database that ${what} within 2 s, at whatever moment it begins`, () =>
      probe(
        Effect.gen(function* () {
          for (let i = 0; i < 5; i++) {
            database.millis = 1
            yield* until(true)
            yield* TestClock.adjust(yield* Random.nextIntBetween(0, 1_000))
            yield* Effect.fork(isUp)
            yield* TestClock.adjust(yield* Random.nextIntBetween(0, 1_000))
            database.millis = millis
            assert.isAtMost(yield* until(false), 1_900)
            // A late probe counts as down, also after its answer.
            for (let second = 0; second < 3; second++) {
              const later = yield* Effect.fork(isUp)
              yield* TestClock.adjust("1500 millis")
              assert.isFalse(yield* later.await.pipe(Effect.map((exit) => exit._tag === "Success" && exit.value)))
            }
            database.millis = 1
            yield* TestClock.adjust("2 hours")
          }
        })
      )
    )
  }

  it.effect("tries a database that hangs once, and one that answers twice a second at most", () =>
    probe(
      Effect.gen(function* () {
        database.millis = 3_600_000
        database.tries = 0
        yield* until(false)
        for (let i = 0; i < 20; i++) yield* Effect.zipRight(Effect.fork(isUp), TestClock.adjust("1 seconds"))
        assert.strictEqual(database.tries, 1)
        yield* TestClock.adjust("2 hours")
        database.millis = 100
        database.tries = 0
        for (let i = 0; i < 100; i++) yield* Effect.zipRight(Effect.fork(isUp), TestClock.adjust("100 millis"))
        assert.isAtMost(database.tries, 20)
        assert.isAtLeast(database.tries, 15)
      })
    )
  )
})
