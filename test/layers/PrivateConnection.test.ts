import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Postgres from "#layers/Postgres.ts"
import * as PrivateConnection from "#layers/PrivateConnection.ts"
import * as RateLimitRedis from "#layers/RateLimitRedis.ts"
import * as Redis from "#layers/Redis.ts"

const postgres = (url: string, ...plaintextHosts: ReadonlyArray<string>) =>
  Postgres.privateConnection({ url: Redacted.make(url), plaintextHosts })
const redis = (url: string, ...plaintextHosts: ReadonlyArray<string>) =>
  PrivateConnection.required("redis", () => Redis.endpointOf(Redacted.make(url)), plaintextHosts)

const refused = (check: Effect.Effect<void, { readonly message: string }>) =>
  Effect.map(Effect.flip(check), ({ message }) => {
    assert.notInclude(message, "hunter2")
    assert.notInclude(message, "db.example")
    return message
  })

describe("a connection to another machine", () => {
  it.effect("to Postgres is refused unless TLS verifies the server", () =>
    Effect.gen(function* () {
      for (const url of [
        "postgres://app:hunter2@db.example/app",
        "postgres://app:hunter2@db.example:6432/app?sslmode=disable",
        "postgres://app:hunter2@db.example/app?sslmode=no-verify",
        "postgres://app:hunter2@db.example/app?ssl=no-verify",
        "postgres://app:hunter2@db.example/app?ssl=0",
        "postgres://app:hunter2@db.example/app?uselibpqcompat=true&sslmode=require",
        "postgres://app:hunter2@db.example/app?uselibpqcompat=true&sslmode=prefer",
        "postgres://app:hunter2@192.0.2.1/app",
        "postgres://app:hunter2@[2001:db8::1]/app",
        "postgres://app:hunter2@localhost/app?host=db.example",
        "postgres://app:hunter2@127.0.0.1.example.com/app"
      ]) {
        const message = yield* refused(postgres(url))
        assert.include(message, "AMPOULE_DATABASE_URL", url)
        assert.include(message, "sslmode=verify-full")
        assert.include(message, "AMPOULE_PLAINTEXT_HOSTS")
      }
      for (const url of [
        "postgres://app:hunter2@db.example/app?sslmode=verify-full",
        "postgres://app:hunter2@db.example/app?sslmode=require",
        "postgres://app:hunter2@db.example/app?ssl=true",
        "postgres://app:hunter2@localhost/app",
        "postgres://app:hunter2@127.0.0.1:5433/app",
        "postgres://app:hunter2@[::1]/app",
        "postgres://app@%2Fvar%2Frun%2Fpostgresql/app",
        "postgres:///app?host=/var/run/postgresql"
      ]) {
        yield* postgres(url)
      }
    })
  )

  it.effect("to Redis is refused unless it is rediss://", () =>
    Effect.gen(function* () {
      for (const url of [
        "redis://:hunter2@db.example:6379/0",
        "rediss://:hunter2@db.example?tls=",
        "redis://192.0.2.1"
      ]) {
        const message = yield* refused(redis(url))
        assert.include(message, "AMPOULE_REDIS_URL", url)
        assert.include(message, "rediss://")
      }
      for (const url of ["rediss://:hunter2@db.example:6380/0", "redis://localhost", "redis://127.0.0.1:6379"]) {
        yield* redis(url)
      }
    })
  )

  it.effect("is accepted for exactly the hosts whose network the operator declares private", () =>
    Effect.gen(function* () {
      yield* postgres("postgres://app:hunter2@postgres:5432/app", "redis", "postgres")
      yield* redis("redis://:hunter2@redis:6379/0", "redis", "postgres")
      yield* refused(postgres("postgres://app:hunter2@db.example/app", "postgres"))
      yield* refused(redis("redis://:hunter2@db.example", "example", "db.example.com"))
    })
  )

  it.effect("says which setting names a certificate that is not there", () =>
    Effect.gen(function* () {
      const message = yield* refused(
        postgres("postgres://app:hunter2@db.example/app?sslmode=verify-full&sslrootcert=/nowhere/ca.pem")
      )
      assert.include(message, "AMPOULE_DATABASE_URL")
      assert.notInclude(message, "/nowhere")
    })
  )

  it.scoped("is refused before anything is sent, at the start of both backends", () =>
    Effect.gen(function* () {
      const database = Layer.build(
        Postgres.layer({ url: Redacted.make("postgres://app:hunter2@db.example/app"), poolSize: 1, unsafe: true })
      )
      assert.include(String(yield* Effect.flip(database)), "AMPOULE_PLAINTEXT_HOSTS")
      const limits = Layer.build(RateLimitRedis.layer({ url: Redacted.make("redis://:hunter2@db.example") }))
      assert.include(String(yield* Effect.flip(limits)), "AMPOULE_PLAINTEXT_HOSTS")
    })
  )
})
