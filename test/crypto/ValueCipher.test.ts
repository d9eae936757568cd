/** A service that changes its cipher: what was sealed before opens beside what is sealed now. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import * as VaultLocal from "#layers/VaultLocal.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { SecretKey } from "#schema/Values.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { type CipherName, ValueCipher } from "#src/crypto/Envelope.ts"
import { Rotation } from "#src/crypto/Rotation.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"
import { secrets as fixtureSecrets, secretServices, world, type World } from "#test/support/Fixtures.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

/** Keys that all servers share. */
const shared = RowSeal.Default.pipe(
  Layer.provideMerge(ServiceKeys.Default),
  Layer.provideMerge(VaultLocal.layerMemory),
  Layer.provideMerge(Layer.mergeAll(Crypto.Default, TestDatabase.layer))
)

/** A server that has just started with this setting. */
const server = (cipher: CipherName) =>
  Layer.fresh(
    Layer.merge(secretServices, Rotation.Default).pipe(
      Layer.provideMerge(
        Layer.mergeAll(Access.Default, DataKeys.Default, SnapshotCipher.Default, RateLimitMemory.layer)
      ),
      Layer.provideMerge(Layer.provideMerge(Layer.merge(Audit.Default, RowSeal.Default), ServiceKeys.Default)),
      Layer.provide(Layer.succeed(ValueCipher, cipher))
    )
  )

const write = (w: World, values: Readonly<Record<string, string>>) =>
  Effect.flatMap(fixtureSecrets, (secrets) =>
    secrets
      .createBulk(
        {
          projectId: w.projectId,
          environment: w.development,
          secrets: Object.entries(values).map(([key, value]) => ({
            key: SecretKey.make(key),
            value: Redacted.make(value)
          }))
        },
        undefined
      )
      .pipe(Effect.provideService(CurrentCaller, w.owner))
  )
const read = (w: World) =>
  Effect.flatMap(fixtureSecrets, (secrets) =>
    secrets.inject({ projectId: w.projectId, environment: w.development }, undefined).pipe(
      Effect.map(({ answer }) => answer?.value().values),
      Effect.provideService(CurrentCaller, w.owner)
    )
  )

/** The algorithm byte of each stored version, by key. */
const stored = (w: World) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly key: string; readonly algorithm: number }>`
      SELECT s.key, get_byte(v.sealed, 1) AS algorithm FROM secret_versions v JOIN secrets s ON s.id = v.secret_id
      WHERE s.environment_id = ${w.developmentId} ORDER BY s.key, v.version`
    return rows.map(({ algorithm, key }) => `${key} ${algorithm}`)
  })

layer(shared)("the cipher of values", (it) => {
  it.effect("decides for new values; the values of one environment open whatever they are sealed with", () =>
    Effect.gen(function* () {
      const w = yield* world()
      yield* write(w, { A: "first", T: "t-${A}" }).pipe(Effect.provide(server("xchacha20-poly1305")))
      yield* write(w, { B: "second", A: "changed" }).pipe(Effect.provide(server("aes-256-gcm")))
      yield* write(w, { C: "third-${B}" }).pipe(Effect.provide(server("xchacha20-poly1305")))
      assert.deepStrictEqual(yield* stored(w), ["A 1", "A 2", "B 2", "C 1", "T 1"])
      for (const cipher of ["xchacha20-poly1305", "aes-256-gcm"] as const) {
        assert.deepStrictEqual(yield* read(w).pipe(Effect.provide(server(cipher))), {
          A: "changed",
          B: "second",
          C: "third-second",
          T: "t-changed"
        })
      }
    })
  )

  it.effect("takes over earlier values with the rotation of data keys, there and back", () =>
    Effect.gen(function* () {
      const w = yield* world()
      yield* write(w, { A: "1", B: "${A}" }).pipe(Effect.provide(server("xchacha20-poly1305")))
      for (const [cipher, byte] of [["aes-256-gcm", 2] as const, ["xchacha20-poly1305", 1] as const]) {
        yield* TestClock.adjust("1 second")
        const before = new Date(yield* Clock.currentTimeMillis)
        const rotate = Effect.flatMap(Rotation, (rotation) =>
          rotation.rotateDataKeys({ environmentId: w.developmentId, before }, () => Effect.void)
        )
        const { refused, values } = yield* rotate.pipe(Effect.provide(server(cipher)))
        assert.deepStrictEqual([values, refused], [2, []])
        assert.deepStrictEqual(yield* stored(w), [`A ${byte}`, `B ${byte}`])
        assert.deepStrictEqual(yield* read(w).pipe(Effect.provide(server(cipher))), { A: "1", B: "1" })
      }
    })
  )
})
