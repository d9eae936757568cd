import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as Config from "#layers/Config.ts"

const load = (environment: Record<string, string>) =>
  Effect.withConfigProvider(Config.load, ConfigProvider.fromMap(new Map(Object.entries(environment))))

const serve = (environment: Record<string, string>) =>
  Effect.withConfigProvider(Config.server, ConfigProvider.fromMap(new Map(Object.entries(environment))))

const refusal = (environment: Record<string, string>) =>
  Effect.map(Effect.flip(load(environment)), ({ message }) => message)

const secretOf = (value: Option.Option<Redacted.Redacted>) => Option.getOrUndefined(Option.map(value, Redacted.value))

const secretFile = (content: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-config-"))
      fs.writeFileSync(path.join(folder, "secret"), content, { mode: 0o600 })
      return path.join(folder, "secret")
    }),
    (file) => Effect.sync(() => fs.rmSync(path.dirname(file), { recursive: true }))
  )

describe("the settings", () => {
  it.effect("have the documented defaults in an empty environment", () =>
    Effect.gen(function* () {
      const config = yield* load({})
      assert.strictEqual(config.baseUrl, "http://127.0.0.1:4400")
      assert.strictEqual(config.dataDir, "./.ampoule")
      assert.strictEqual(config.workers, 1)
      assert.deepStrictEqual(config.trustedProxies, [])
      assert.isTrue(config.rateLimits && config.mcpReveal && !config.unsafeDatabase)
      assert.isTrue(Option.isNone(config.databaseUrl) && Option.isNone(config.rootKey))
    })
  )

  it.effect("take what is set, and blanks for nothing", () =>
    Effect.gen(function* () {
      const config = yield* load({
        AMPOULE_PORT: "8080",
        AMPOULE_BASE_URL: "https://vault.example/",
        AMPOULE_DATABASE_URL: "postgres://u:p@db/ampoule",
        AMPOULE_WORKERS: "4",
        AMPOULE_TRUSTED_PROXIES: "10.0.0.0/8, ::1",
        AMPOULE_PLAINTEXT_HOSTS: "postgres, redis",
        AMPOULE_RATE_LIMITS: "off",
        AMPOULE_REDIS_URL: " "
      })
      assert.strictEqual(config.port, 8080)
      assert.strictEqual(config.baseUrl, "https://vault.example")
      assert.strictEqual(secretOf(config.databaseUrl), "postgres://u:p@db/ampoule")
      assert.deepStrictEqual(config.trustedProxies, ["10.0.0.0/8", "::1"])
      assert.deepStrictEqual(config.plaintextHosts, ["postgres", "redis"])
      assert.isFalse(config.rateLimits)
      assert.isTrue(Option.isNone(config.redisUrl))
    })
  )

  it.scoped("take a secret from a file, without the newline at its end, but not from two places", () =>
    Effect.gen(function* () {
      const file = yield* secretFile("key material \n")
      const config = yield* load({ AMPOULE_ROOT_KEY_FILE: file })
      assert.strictEqual(secretOf(config.rootKey), "key material ")
      assert.include(yield* refusal({ AMPOULE_ROOT_KEY_FILE: file, AMPOULE_ROOT_KEY: "x" }), "are both set")
      assert.include(yield* refusal({ AMPOULE_ROOT_KEY_FILE: `${file}-none` }), "AMPOULE_ROOT_KEY_FILE")
      assert.include(yield* refusal({ AMPOULE_ROOT_KEY_FILE: yield* secretFile("\n") }), "is empty")
    })
  )

  it.effect("never repeat a wrong value, in the sentence or in the whole failure", () =>
    Effect.gen(function* () {
      const names = Config.table
        .map(({ name }) => name)
        .filter((name) => !/_(DATA_DIR|ROOT_KEY|SETUP_CODE|AUDIT_CHECKPOINTS)$/.test(name))
      for (const name of names) {
        const exit = yield* Effect.exit(load({ [name]: "hunter2 wrong" }))
        assert.isTrue(Exit.isFailure(exit), name)
        if (Exit.isFailure(exit)) {
          assert.include(Cause.pretty(exit.cause), name)
          assert.notInclude(Cause.pretty(exit.cause), "hunter2")
          assert.notInclude(JSON.stringify(exit), "hunter2")
        }
      }
    })
  )

  it.effect("allow plain http for loopback addresses only", () =>
    Effect.gen(function* () {
      const base = (AMPOULE_BASE_URL: string) => load({ AMPOULE_BASE_URL })
      for (const url of ["http://localhost:3000", "http://127.8.0.1", "http://[::1]:4400", "https://10.0.0.1:8443"]) {
        assert.strictEqual((yield* base(url)).baseUrl, url)
      }
      for (const url of [
        "http://example.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "https://example.com/app",
        "https://user:pass@example.com",
        "https://example.com?x",
        "https://example.com#x",
        "ftp://localhost"
      ]) {
        assert.include(yield* Effect.map(Effect.flip(base(url)), ({ message }) => message), "AMPOULE_BASE_URL", url)
      }
    })
  )

  it.effect("of a server that other machines can reach need an explicit public address", () =>
    Effect.gen(function* () {
      for (const AMPOULE_HOST of [
        "0.0.0.0",
        "::",
        "0",
        "192.0.2.1",
        "2001:db8::1",
        "ampoule.internal",
        "::ffff:0.0.0.0"
      ]) {
        const { message } = yield* Effect.flip(serve({ AMPOULE_HOST }))
        assert.include(message, "AMPOULE_BASE_URL must be set", AMPOULE_HOST)
        assert.include(message, "https://")
        const config = yield* serve({ AMPOULE_HOST, AMPOULE_BASE_URL: "https://ampoule.example.com" })
        assert.strictEqual(config.baseUrl, "https://ampoule.example.com")
        // A port that is published to this machine's loopback alone.
        yield* serve({ AMPOULE_HOST, AMPOULE_BASE_URL: "http://127.0.0.1:4400" })
      }
      assert.strictEqual((yield* serve({})).baseUrl, "http://127.0.0.1:4400")
      assert.strictEqual((yield* serve({ AMPOULE_PORT: "80" })).baseUrl, "http://127.0.0.1")
      assert.strictEqual((yield* serve({ AMPOULE_HOST: "::1" })).baseUrl, "http://[::1]:4400")
      assert.strictEqual((yield* serve({ AMPOULE_HOST: "localhost" })).baseUrl, "http://localhost:4400")
    })
  )

  it.effect("let the vault and the maintenance commands run in an image that listens everywhere", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* load({ AMPOULE_HOST: "0.0.0.0" })).host, "0.0.0.0")
    })
  )

  it.effect("take no setup code that could be guessed", () =>
    Effect.gen(function* () {
      assert.include(yield* refusal({ AMPOULE_SETUP_CODE: "hunter2" }), "AMPOULE_SETUP_CODE must be at least 12")
      assert.isTrue(Option.isSome((yield* load({ AMPOULE_SETUP_CODE: "the first owner" })).setupCode))
    })
  )

  it.effect("refuse several processes on the embedded database", () =>
    Effect.gen(function* () {
      assert.include(yield* refusal({ AMPOULE_WORKERS: "2" }), "AMPOULE_DATABASE_URL")
    })
  )

  it("have defaults that they take, and a sentence each", () => {
    for (const { default: fallback, description, name } of Config.table) {
      assert.match(name, /^(?:AMPOULE|OTEL)_[A-Z_]+$/)
      assert.match(description, /\.$/)
      assert.isString(fallback)
    }
  })

  it("know a mistyped name", () => {
    const names = [
      "PATH",
      "AMPOULE_PORT",
      "AMPOULE_ROOT_KEY_FILE",
      "AMPOULE_TOKEN",
      "AMPOULE_TOKEN_FILE",
      "AMPOULE_API_TOKEN",
      "AMPOULE_API_TOKEN_FILE",
      "AMPOULE_PROXY",
      "AMPOULE_DATABSE_URL",
      "AMPOULE_PORT_FILE"
    ]
    assert.deepStrictEqual(Config.unknownVariables(names), ["AMPOULE_DATABSE_URL", "AMPOULE_PORT_FILE"])
  })
})
