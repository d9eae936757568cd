import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inspect } from "node:util"
import * as Ampoule from "#src/client/Promises.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Demo from "./Demo.ts"
import * as Variables from "./Variables.ts"

const opening = (options: Ampoule.Options) => Effect.promise(() => Ampoule.open(options))
const refusalOf = (start: () => Promise<unknown>) =>
  Effect.promise(async () => {
    try {
      await start()
    } catch (error) {
      if (error instanceof Ampoule.AmpouleError) return error
      throw error
    }
    throw new Error("it was not refused")
  })

describe("the promise facade", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.scoped("reads an environment and sees what changes", () =>
      Effect.gen(function* () {
        const { options, put, token } = yield* Demo.make({ HOST: "db", DATABASE_URL: "postgres://${HOST}/app" })
        const environment = yield* opening({ ...options, credential: token.text })
        assert.strictEqual(environment.get("DATABASE_URL"), "postgres://db/app")
        assert.isUndefined(environment.get("MISSING"))
        assert.isUndefined(environment.get("toString"))
        assert.deepStrictEqual([...environment.keys()].sort(), ["DATABASE_URL", "HOST"])
        assert.deepStrictEqual(environment.toObject(), { HOST: "db", DATABASE_URL: "postgres://db/app" })
        assert.notInclude(inspect(environment, { depth: 20 }), "postgres:")
        assert.isFalse(yield* Effect.promise(() => environment.refresh()))
        yield* put({ HOST: "other" })
        assert.isTrue(yield* Effect.promise(() => environment.refresh()))
        assert.strictEqual(environment.get("DATABASE_URL"), "postgres://other/app")
      })
    )

    it.scoped("takes address and credential from the variables of the command line, in its order", () =>
      Effect.gen(function* () {
        const { project, token, url } = yield* Demo.make({ KEY: "value" })
        const target = { project: project.slug, environment: "development" }
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-client-"))),
          (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
        )
        const file = join(folder, "token")
        writeFileSync(file, `${token.text}\n`)
        const read = Effect.map(opening(target), (environment) => environment.get("KEY"))
        const good: ReadonlyArray<Readonly<Record<string, string>>> = [
          { AMPOULE_API_TOKEN: token.text },
          { AMPOULE_TOKEN: token.text },
          { AMPOULE_API_TOKEN_FILE: file },
          { AMPOULE_TOKEN_FILE: file },
          { AMPOULE_API_TOKEN: "", AMPOULE_TOKEN: token.text },
          { AMPOULE_API_TOKEN: token.text, AMPOULE_TOKEN: "amp_at_wrong" },
          { AMPOULE_API_TOKEN_FILE: file, AMPOULE_TOKEN: "amp_at_wrong" }
        ]
        for (const variables of good) {
          const value = yield* Effect.scoped(Effect.zipRight(Variables.set({ AMPOULE_URL: url, ...variables }), read))
          assert.strictEqual(value, "value", Object.keys(variables).join())
        }
        const none: ReadonlyArray<Readonly<Record<string, string>>> = [
          {},
          { AMPOULE_API_TOKEN: "" },
          // The first that is named counts, also when there is nothing in it.
          { AMPOULE_API_TOKEN_FILE: join(folder, "missing"), AMPOULE_TOKEN: token.text }
        ]
        for (const variables of none) {
          const refused = yield* Effect.scoped(
            Effect.zipRight(
              Variables.set({ AMPOULE_URL: url, ...variables }),
              refusalOf(() => Ampoule.open(target))
            )
          )
          assert.strictEqual(refused.code, "NO_CREDENTIAL", Object.keys(variables).join())
        }
      })
    )

    it.scoped("takes project and environment from the variables, and an option before them", () =>
      Effect.gen(function* () {
        const { options, project, token } = yield* Demo.make({ KEY: "value" })
        yield* Variables.set({ AMPOULE_PROJECT: project.slug, AMPOULE_ENVIRONMENT: "nowhere" })
        const settings = { url: options.url, credential: token.text }
        const refused = yield* refusalOf(() => Ampoule.open(settings))
        assert.strictEqual(refused.code, "ENVIRONMENT_NOT_FOUND")
        assert.include(refused.message, "nowhere")
        const environment = yield* opening({ ...settings, environment: "development" })
        assert.strictEqual(environment.require("KEY"), "value")
      })
    )

    it.scoped("names every required key that the environment lacks", () =>
      Effect.gen(function* () {
        const { options, token } = yield* Demo.make({ A: "canary", B: "2" })
        const environment = yield* opening({ ...options, credential: token.text })
        const { A, B } = environment.requireAll(["A", "B"])
        assert.deepStrictEqual([A, B], ["canary", "2"])
        assert.strictEqual(environment.require("B"), "2")
        const refused = yield* refusalOf(async () => environment.requireAll(["A", "MISSING", "toString"]))
        assert.strictEqual(refused.code, "KEY_MISSING")
        assert.strictEqual(refused.message, "The environment development has no MISSING, toString.")
      })
    )

    it.scoped("load sets nothing when a value would be cut short in a variable", () =>
      Effect.gen(function* () {
        const { options, token } = yield* Demo.make({ AMPOULE_TEST_A: "a", AMPOULE_TEST_NUL: "canary\0b" })
        yield* Variables.set({ AMPOULE_TEST_A: undefined, AMPOULE_TEST_NUL: undefined })
        const refused = yield* refusalOf(() => Ampoule.load({ ...options, credential: token.text }))
        assert.strictEqual(refused.code, "VALUE_UNUSABLE")
        assert.include(refused.message, "AMPOULE_TEST_NUL")
        assert.notInclude(inspect(refused, { depth: 20, showHidden: true }), "canary")
        assert.isUndefined(process.env["AMPOULE_TEST_A"])
      })
    )

    it.scoped("says which server refused, with its status and the id of the request", () =>
      Effect.gen(function* () {
        const { options, token } = yield* Demo.make({ KEY: "value" })
        const refused = yield* refusalOf(() =>
          Ampoule.open({ ...options, credential: token.text, environment: "nowhere" })
        )
        assert.strictEqual(refused.address, options.url)
        assert.strictEqual(refused.status, 404)
        assert.strictEqual(refused.docs, `${options.url}/docs/errors#ENVIRONMENT_NOT_FOUND`)
        assert.match(refused.requestId ?? "", /^[0-9a-f-]{36}$/)
        assert.include(refused.message, `(${options.url}, request ${refused.requestId})`)
      })
    )

    it.scoped("load sets what process.env does not have, override all of it", () =>
      Effect.gen(function* () {
        const { options, token } = yield* Demo.make({ AMPOULE_TEST_NEW: "ours", AMPOULE_TEST_SET: "ours" })
        yield* Variables.set({ AMPOULE_TEST_NEW: undefined, AMPOULE_TEST_SET: "theirs" })
        const settings = { ...options, credential: token.text }
        yield* Effect.promise(() => Ampoule.load(settings))
        assert.strictEqual(process.env["AMPOULE_TEST_NEW"], "ours")
        assert.strictEqual(process.env["AMPOULE_TEST_SET"], "theirs")
        const loaded = yield* Effect.promise(() => Ampoule.load({ ...settings, override: true }))
        assert.strictEqual(process.env["AMPOULE_TEST_SET"], "ours")
        assert.strictEqual(loaded.get("AMPOULE_TEST_SET"), "ours")
      })
    )

    it.scoped("load sets nothing when a name changes which code runs, unless that is meant", () =>
      Effect.gen(function* () {
        const { options, token } = yield* Demo.make({ AMPOULE_TEST_A: "a", NODE_TLS_REJECT_UNAUTHORIZED: "0" })
        yield* Variables.set({ AMPOULE_TEST_A: undefined, NODE_TLS_REJECT_UNAUTHORIZED: undefined })
        const settings = { ...options, credential: token.text }
        const refused = yield* refusalOf(() => Ampoule.load(settings))
        assert.strictEqual(refused.code, "DANGEROUS_NAMES")
        assert.include(refused.message, "NODE_TLS_REJECT_UNAUTHORIZED")
        assert.isUndefined(process.env["AMPOULE_TEST_A"])
        assert.isUndefined(process.env["NODE_TLS_REJECT_UNAUTHORIZED"])
        yield* Effect.promise(() => Ampoule.load({ ...settings, allow: ["NODE_TLS_REJECT_UNAUTHORIZED"] }))
        assert.strictEqual(process.env["AMPOULE_TEST_A"], "a")
        assert.strictEqual(process.env["NODE_TLS_REJECT_UNAUTHORIZED"], "0")
      })
    )

    it.scoped("rejects with the code of the server or one of its own, and never repeats credential or value", () =>
      Effect.gen(function* () {
        const { options, token } = yield* Demo.make({ KEY: "canary-value" })
        const settings = { ...options, credential: token.text }
        const wrong: ReadonlyArray<readonly [Partial<Ampoule.Options>, string]> = [
          [{ credential: "amp_at_canary" }, "CREDENTIAL_INVALID"],
          [{ credential: "canary\ncanary" }, "CREDENTIAL_INVALID"],
          [{ project: "no-such-project" }, "PROJECT_UNCLEAR"],
          [{ environment: "nowhere" }, "ENVIRONMENT_NOT_FOUND"],
          [{ environment: "Not A Slug" }, "VALIDATION_FAILED"],
          [{ url: "http://127.0.0.1:1" }, "SERVER_UNREACHABLE"],
          [{ url: "canary" }, "SETTINGS_INVALID"],
          [{ url: "" }, "SETTINGS_INVALID"],
          [{ url: "http://user:canary@127.0.0.1" }, "SETTINGS_INVALID"],
          [{ url: `${options.url}/elsewhere` }, "ROUTE_NOT_FOUND"]
        ]
        for (const [change, code] of wrong) {
          const refused = yield* refusalOf(() => Ampoule.open({ ...settings, ...change }))
          assert.strictEqual(refused.code, code)
          const everything = `${inspect(refused, { depth: 20, showHidden: true })}${refused.stack}`
          assert.notInclude(everything, "canary", code)
          assert.notInclude(everything, token.text, code)
        }
      })
    )
  })
})
