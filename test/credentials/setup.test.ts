import { assert, describe, layer } from "@effect/vitest"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { Setup } from "#src/credentials/Setup.ts"
import * as TestApp from "#test/support/TestApp.ts"

const temporaryFolder = () => fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-setup-"))

const app = (dataDir: string, setupCode?: string) =>
  TestApp.server.pipe(
    Layer.provideMerge(
      Layer.merge(
        TestApp.backends,
        TestApp.config({
          dataDir,
          setupCode: setupCode === undefined ? Option.none() : Option.some(Redacted.make(setupCode))
        })
      )
    ),
    Layer.provideMerge(
      Layer.scopedDiscard(Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(dataDir, { recursive: true }))))
    )
  )

const body = (setupCode: string, more: Record<string, unknown> = {}) => ({
  json: {
    setupCode,
    email: "Ada@Example.com",
    name: "Ada",
    password: "vial of thirty drops",
    teamName: "Platform",
    ...more
  }
})
const codeIn = (url: string) => new URL(url.trim()).searchParams.get("code") ?? ""

// The life of one instance, in order.
describe("setting an instance up", { shuffle: false }, () => {
  const folder = temporaryFolder()
  layer(app(folder), { excludeTestServices: true })("with a generated code", (it) => {
    const file = path.join(folder, "setup-url")
    let code = ""

    it.effect("writes the address to a file that its owner alone can read, and answers it for printing", () =>
      Effect.gen(function* () {
        const setup = yield* Setup
        const url = Option.map(yield* setup.prepare, Redacted.value)
        assert.isTrue(Option.isSome(url))
        assert.strictEqual(`${Option.getOrThrow(url)}\n`, fs.readFileSync(file, "utf8"))
        assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
        assert.match(
          Option.getOrThrow(url),
          /^http:\/\/127\.0\.0\.1:4400\/setup\?code=amp_su_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/
        )
        code = codeIn(Option.getOrThrow(url))
      })
    )

    it.effect("keeps no code in the database", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql<{ readonly text: string }>`SELECT s::text AS text FROM setup_codes s`
        assert.isAbove(rows.length, 0)
        for (const { text } of rows) assert.notInclude(text, code.split("_")[3].slice(0, 43))
      })
    )

    it.effect("answers the same code at the next start, while it was not used", () =>
      Effect.gen(function* () {
        const setup = yield* Setup
        assert.strictEqual(codeIn(Option.getOrThrow(Option.map(yield* setup.prepare, Redacted.value))), code)
      })
    )

    it.effect("makes a new code when the file is lost; the printed one keeps working", () =>
      Effect.gen(function* () {
        const setup = yield* Setup
        const files = yield* FileSystem.FileSystem
        yield* files.remove(file)
        const second = codeIn(Option.getOrThrow(Option.map(yield* setup.prepare, Redacted.value)))
        assert.notStrictEqual(second, code)
      })
    )

    it.effect("refuses a wrong code, another kind of credential, a common password, and another site's page", () =>
      Effect.gen(function* () {
        const last = code.at(-1) === "0" ? "1" : "0"
        for (const wrong of [code.slice(0, -1) + last, "nonsense"]) {
          const answer = yield* TestApp.post("/setup", body(wrong))
          assert.deepStrictEqual([answer.status, answer.error.code], [401, "CREDENTIAL_INVALID"], wrong)
        }
        const none = yield* TestApp.post("/setup", body(""))
        assert.deepStrictEqual([none.status, none.error.field], [400, "setupCode"])
        const common = yield* TestApp.post("/setup", body(code, { password: "Password1234" }))
        assert.deepStrictEqual(
          [common.status, common.error.code, common.error.field],
          [400, "VALIDATION_FAILED", "password"]
        )
        const short = yield* TestApp.post("/setup", body(code, { password: "eleven char" }))
        assert.deepStrictEqual([short.status, short.error.field], [400, "password"])
        const foreign = yield* TestApp.post("/setup", {
          ...body(code),
          headers: { origin: "https://evil.example", "sec-fetch-site": "cross-site" }
        })
        assert.deepStrictEqual([foreign.status, foreign.error.code], [403, "CROSS_SITE_REQUEST"])
      })
    )

    it.effect("lets one of many at once in, as owner of the first team on the plan team, and signs them in", () =>
      Effect.gen(function* () {
        const answers = yield* Effect.all(
          Array.from({ length: 8 }, (_, i) => TestApp.post("/setup", body(code, { email: `ada${i}@example.com` }))),
          { concurrency: "unbounded" }
        )
        const won = answers.filter((answer) => answer.status === 201)
        assert.strictEqual(won.length, 1, answers.map((answer) => answer.text).join("\n"))
        for (const lost of answers.filter((answer) => answer !== won[0])) {
          assert.deepStrictEqual([lost.status, lost.error.code], [409, "SETUP_ALREADY_DONE"])
        }
        const [{ headers, json }] = won
        assert.deepStrictEqual(Object.keys(json), ["user", "team"])
        assert.deepInclude(json.team, { name: "Platform", role: "owner", plan: "team" })
        const cookie = headers.get("set-cookie") ?? ""
        assert.match(cookie, /^ampoule_session=amp_ss_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}; /)
        const me = yield* TestApp.get("/me", { headers: { cookie: cookie.split(";")[0] } })
        assert.deepStrictEqual(me.json, { user: json.user, teams: [json.team], activeTeam: json.team.id })

        const sql = yield* SqlClient.SqlClient
        assert.lengthOf(yield* sql`SELECT 1 FROM users`, 1)
        assert.lengthOf(yield* sql`SELECT 1 FROM teams`, 1)
        assert.isFalse(fs.existsSync(file), "the address is removed with the last use of its code")
      })
    )

    it.effect("is over then: 409 whatever the code, and no code at the next start", () =>
      Effect.gen(function* () {
        const setup = yield* Setup
        for (const any of [code, "nonsense"]) {
          const answer = yield* TestApp.post("/setup", body(any))
          assert.deepStrictEqual([answer.status, answer.error.code], [409, "SETUP_ALREADY_DONE"])
        }
        assert.isTrue(Option.isNone(yield* setup.prepare))
        assert.isFalse(fs.existsSync(file))
      })
    )
  })

  const preset = "let the first one in / ✓"
  layer(app(temporaryFolder(), preset), { excludeTestServices: true })("with a preset code", (it) => {
    it.effect("takes any text, and only that text", () =>
      Effect.gen(function* () {
        const setup = yield* Setup
        const url = Redacted.value(Option.getOrThrow(yield* setup.prepare))
        assert.strictEqual(codeIn(url), preset)
        assert.strictEqual((yield* TestApp.post("/setup", body("let the first one in"))).status, 401)
        assert.strictEqual((yield* TestApp.post("/setup", body(preset))).status, 201)
      })
    )
  })
})
