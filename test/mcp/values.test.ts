/** Values that a connection without a right to them cannot learn, nor move to a readable place. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import type { Role, Scope } from "#schema/Scopes.ts"
import type { ToolName } from "#schema/McpTools.ts"
import { OAuthErrorResponse } from "#schema/OAuthApi.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const names = ["projects:read", "secrets:read", "secrets:write"] as const

/** A project, its owner's token for REST, and the tools as a token with these scopes has them. */
const scene = (scopes: ReadonlyArray<Scope>, role?: Role) =>
  Effect.gen(function* () {
    const base = yield* McpApp.base
    const project = yield* World.project()
    const writer = (yield* World.token({
      team: project.team,
      environments: [project.development, project.staging, project.production]
    })).text
    const token = yield* World.token({
      team: project.team,
      mcpScopes: scopes,
      environments: [project.development, project.staging, project.production],
      ...(role === undefined ? {} : { creator: yield* World.member(project.team, role) })
    })
    const use = <N extends ToolName>(tool: N, input: Record<string, unknown>) =>
      Clients.use(base, token.text, tool, input)
    const at = (environment: string) => ({ projectId: project.id, environment })
    const store = (environment: string, values: Record<string, string>) =>
      TestApp.post("/secrets/bulk", {
        bearer: writer,
        json: { ...at(environment), secrets: Object.entries(values).map(([key, value]) => ({ key, value })) }
      })
    const read = (environment: string) =>
      Effect.map(
        TestApp.get(`/secrets/inject?projectId=${project.id}&environment=${environment}`, { bearer: writer }),
        ({ json }) => json.values
      )
    return { at, project, read, store, token, use }
  })

layer(McpApp.layerWith({ limits: "on" }), { excludeTestServices: true })("a connection without values", (it) => {
  it.effect("guesses 30 values a minute, however it writes them and however many at once", () =>
    Effect.gen(function* () {
      const { at, read, store, use } = yield* scene(names)
      const place = at("production")
      yield* store("production", { PIN: "7391" })
      const copies = Array.from({ length: 100 }, (_, i) => `COPY_${i}`)
      const copied = yield* use("bulk_upsert_secrets", {
        ...place,
        secrets: copies.map((key) => ({ key, copyFrom: { environment: "production", key: "PIN" } }))
      })
      assert.strictEqual(copied.refusal.code, "SCOPE_MISSING")
      // Even with copies of the value at hand, a hundred guesses in one call are refused whole.
      yield* store("production", Object.fromEntries(copies.map((key) => [key, "7391"])))
      const guesses = (from: number, to: number) =>
        use("bulk_upsert_secrets", {
          ...place,
          secrets: copies.slice(from, to).map((key, i) => ({ key, value: String(7_000 + from + i) }))
        })
      const all = yield* guesses(0, 100)
      assert.strictEqual(all.refusal.code, "RATE_LIMITED")
      assert.match(all.refusal.message, /Send fewer keys/)
      const listed = (yield* use("list_secrets", { ...place, query: "PIN", fields: ["id"] })).output
      const right = { secretId: listed.secrets[0].id, value: "7391" }
      const update = yield* use("update_secret", right)
      assert.strictEqual(update.output.version, 1)
      assert.deepStrictEqual((yield* guesses(0, 26)).output, {
        created: [],
        updated: copies.slice(0, 26),
        unchanged: []
      })
      const mixed = [
        { key: "COPY_26", value: "0000" },
        { key: "COPY_27", value: "7391" }
      ]
      const updated = ["COPY_26", "COPY_27"]
      assert.deepStrictEqual((yield* use("bulk_upsert_secrets", { ...place, secrets: mixed })).output, {
        created: [],
        updated,
        unchanged: []
      })
      // Equal values read as updated, in the order of the request; a generated one is no guess.
      const equal = { ...place, secrets: [{ key: "PIN", value: "7391" }] }
      const summary = { created: [], updated: ["PIN"], unchanged: [] }
      assert.deepStrictEqual((yield* use("bulk_upsert_secrets", equal)).output, summary)
      for (const refused of [
        yield* use("bulk_upsert_secrets", equal),
        yield* use("update_secret", right),
        yield* guesses(28, 29),
        yield* use("compare_environments", {
          projectId: place.projectId,
          sourceEnv: "staging",
          targetEnv: "production"
        })
      ]) {
        assert.strictEqual(refused.refusal.code, "RATE_LIMITED")
      }
      const generated = yield* use("update_secret", { secretId: listed.secrets[0].id, generate: { length: 16 } })
      assert.strictEqual(generated.output.version, 2)
      const values = yield* read("production")
      assert.deepStrictEqual([values["COPY_25"], values["COPY_28"]], ["7025", "7391"])
    })
  )

  it.effect("guesses no more by comparing: each key that it wrote counts, what others wrote does not", () =>
    Effect.gen(function* () {
      const { at, project, store, use } = yield* scene(names)
      const many = Array.from({ length: 100 }, (_, i) => `P_${i}`)
      const compare = use("compare_environments", {
        projectId: project.id,
        sourceEnv: "development",
        targetEnv: "production"
      })
      yield* store("production", { PIN: "42" })
      yield* store("production", Object.fromEntries(many.map((key) => [`OTHER_${key}`, "a"])))
      yield* store("development", Object.fromEntries(many.map((key) => [`OTHER_${key}`, "a"])))
      assert.deepInclude((yield* compare).output, { added: ["PIN"], removed: [], changed: [] })
      const write = (environment: string, value: (i: number) => string) =>
        use("bulk_upsert_secrets", { ...at(environment), secrets: many.map((key, i) => ({ key, value: value(i) })) })
      assert.deepInclude((yield* write("production", () => "${PIN}")).output, { updated: [] })
      assert.deepInclude((yield* write("development", String)).output, { updated: [] })
      const { answer, refusal: refused } = yield* compare
      assert.deepInclude(refused, { statusCode: 429, code: "RATE_LIMITED" })
      assert.match(refused.message, /Compare with a credential that may read values/)
      assert.notInclude(answer.text, "P_")
    })
  )

  it.effect("copies nothing: the source needs a right to values, and the refusal is on record", () =>
    Effect.gen(function* () {
      const { at, project, read, store, token, use } = yield* scene(names)
      yield* store("staging", { A: "value of staging" })
      yield* store("development", { OLD: "x" })
      const copyFrom = { environment: "staging", key: "A" }
      const { secrets } = (yield* use("list_secrets", { ...at("development"), fields: ["id"] })).output
      const answers = [
        yield* use("copy_secrets", {
          projectId: project.id,
          sourceEnv: "staging",
          targetEnv: "development",
          keys: ["A"]
        }),
        yield* use("create_secret", { ...at("development"), key: "A", copyFrom }),
        yield* use("update_secret", { secretId: secrets[0].id, copyFrom }),
        yield* use("bulk_upsert_secrets", { ...at("development"), secrets: [{ key: "A", copyFrom }] }),
        // In one environment as well: the rule has no exception.
        yield* use("create_secret", { ...at("staging"), key: "B", copyFrom })
      ]
      for (const { refusal } of answers) assert.deepInclude(refusal, { statusCode: 403, code: "SCOPE_MISSING" })
      assert.deepStrictEqual(yield* read("development"), { OLD: "x" })
      const sql = yield* SqlClient.SqlClient
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${project.team.id} AND action = 'secret.read' ORDER BY seq`
      const denied = entries.map(auditEntry).filter(({ outcome }) => outcome === "denied")
      assert.lengthOf(denied, 5)
      for (const { actor, environment, keys } of denied) {
        assert.deepStrictEqual([actor.id, environment, keys], [token.id, "staging", ["A"]])
      }
    })
  )

  it.effect("says what a secret is for and renames it, with a warning where a name runs code", () =>
    Effect.gen(function* () {
      const { at, store, use } = yield* scene(names)
      const place = at("production")
      yield* store("production", { PIN: "7391", URL: "x-${PIN}" })
      const fields = ["id", "owner", "note", "rotateBy"]
      const listed = yield* use("list_secrets", { ...place, query: "PIN", fields })
      const secretId = listed.output.secrets[0].id
      assert.deepInclude(listed.output.secrets[0], { owner: null, note: null, rotateBy: null })
      yield* use("describe_secret", { secretId, owner: "ada", note: "door", rotateBy: "2031-02-03" })
      const said = yield* use("describe_secret", { secretId, note: "" })
      assert.deepInclude(said.output, { key: "PIN", owner: "ada", note: null, rotateBy: "2031-02-03" })
      assert.strictEqual((yield* use("describe_secret", { secretId })).refusal.code, "VALIDATION_FAILED")
      assert.strictEqual((yield* use("describe_secret", { secretId, rotateBy: "soon" })).refusal.field, "rotateBy")

      const refused = yield* use("rename_secret", { secretId, key: "NODE_OPTIONS" })
      assert.strictEqual(refused.refusal.code, "SECRET_HAS_DEPENDENTS")
      const { output } = yield* use("rename_secret", { secretId, key: "NODE_OPTIONS", rewriteReferences: true })
      assert.deepInclude(output, { key: "NODE_OPTIONS", formerKey: "PIN", rewritten: ["URL"], version: 2 })
      assert.lengthOf(output.warnings ?? [], 1)
    })
  )

  it.effect("hears of an invisible source before it hears of rights", () =>
    Effect.gen(function* () {
      const { at, project, use } = yield* scene(names)
      const copyFrom = { environment: "nowhere", key: "A" }
      const answers = [
        yield* use("copy_secrets", {
          projectId: project.id,
          sourceEnv: "nowhere",
          targetEnv: "development",
          keys: ["A"]
        }),
        yield* use("create_secret", { ...at("development"), key: "A", copyFrom })
      ]
      for (const { refusal } of answers) assert.strictEqual(refusal.code, "ENVIRONMENT_NOT_FOUND")
    })
  )
})

layer(McpApp.shared, { excludeTestServices: true })("a connection with values", (it) => {
  for (const scope of ["secrets:run", "secrets:read_values"] as const) {
    it.effect(`copies with ${scope} on the source`, () =>
      Effect.gen(function* () {
        const { project, read, store, use } = yield* scene([...names, scope], "member")
        yield* store("staging", { A: "value of staging" })
        const copied = yield* use("copy_secrets", {
          projectId: project.id,
          sourceEnv: "staging",
          targetEnv: "development",
          keys: ["A"]
        })
        assert.deepStrictEqual(copied.output, { created: ["A"], updated: [], skipped: [] })
        assert.deepStrictEqual(yield* read("development"), { A: "value of staging" })
      })
    )
  }

  it.effect("that may only run programs gets none in plain text, nor sealed to a key of its choice", () =>
    Effect.gen(function* () {
      const { at, store, use } = yield* scene([...names, "secrets:run"])
      yield* store("development", { A: "value of development" })
      const file = (yield* use("export_encrypted_env", { ...at("development"), keys: ["A"] })).output
      assert.match(file.entries?.["A"] ?? "", /^sealed:v1:/)
      const recipientPublicKey = Buffer.alloc(32, 9).toString("base64url")
      const { entries, keyId } = file
      // Refused before the tool is called: the answer is a challenge.
      const challenged = [
        yield* use("export_encrypted_env", { ...at("development"), recipientPublicKey }),
        yield* use("resolve_environment", at("development")),
        yield* use("open_sealed_values", { ...at("development"), entries, keyId })
      ]
      for (const { answer } of challenged) assert.strictEqual(answer.as(OAuthErrorResponse).error, "insufficient_scope")
    })
  )

  it.effect("takes values out of a protected environment only for owners and admins", () =>
    Effect.gen(function* () {
      for (const role of ["member", "admin", "owner"] as const) {
        const { at, project, read, store, use } = yield* scene([...names, "secrets:run", "secrets:read_values"], role)
        yield* store("production", { A: "value of production", B: "another" })
        const answers = [
          yield* use("copy_secrets", {
            projectId: project.id,
            sourceEnv: "production",
            targetEnv: "development",
            keys: ["A"]
          }),
          yield* use("create_secret", {
            ...at("development"),
            key: "B",
            copyFrom: { environment: "production", key: "B" }
          })
        ]
        if (role === "member") {
          for (const { refusal } of answers) assert.deepInclude(refusal, { statusCode: 403, code: "FORBIDDEN" })
          assert.deepStrictEqual(yield* read("development"), {})
        } else {
          assert.deepStrictEqual(yield* read("development"), { A: "value of production", B: "another" }, role)
        }
      }
    })
  )

  it.effect("is warned of keys that can change which code runs, whichever tool writes them, and of no others", () =>
    Effect.gen(function* () {
      const { at, project, store, use } = yield* scene([...names, "secrets:run"])
      yield* store("staging", { MAKEFLAGS: "-j4", PLAIN: "x" })
      const created = yield* use("create_secret", { ...at("development"), key: "LD_PRELOAD", value: "/tmp/a.so" })
      const updated = yield* use("update_secret", { secretId: created.output.id, value: "/tmp/b.so" })
      const upserted = yield* use("bulk_upsert_secrets", {
        ...at("development"),
        secrets: ["NODE_OPTIONS", "API_KEY"].map((key) => ({ key, value: "x" }))
      })
      const copied = yield* use("copy_secrets", {
        projectId: project.id,
        sourceEnv: "staging",
        targetEnv: "development",
        keys: ["MAKEFLAGS", "PLAIN"]
      })
      const warned = [created, updated, upserted, copied].map(({ output }) => output.warnings ?? [])
      for (const [i, key] of ["LD_PRELOAD", "LD_PRELOAD", "NODE_OPTIONS", "MAKEFLAGS"].entries()) {
        assert.lengthOf(warned[i], 1)
        assert.match(warned[i][0], new RegExp(`^${key} `))
      }
      const plain = yield* use("create_secret", { ...at("development"), key: "TOKEN", value: "x" })
      assert.deepStrictEqual([plain.output.key, plain.output.warnings], ["TOKEN", undefined])
    })
  )
})
