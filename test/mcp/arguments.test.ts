/** Arguments as five families of clients send them: the same call for each tool, and a refusal that says what a member is. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import { type ToolName, tools } from "#schema/McpTools.ts"
import { allScopes } from "#schema/Scopes.ts"
import * as Arguments from "#src/mcp/Arguments.ts"
import { isObject, type JsonObject, memberOf } from "#src/mcp/Message.ts"
import { Protocol } from "#src/mcp/Protocol.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const id = "01234567-89ab-4def-8123-456789abcdef"
const at = { projectId: id, environment: "staging" }
const sealed = { ...at, keyId: "ek_01234567", entries: { A: "sealed:A", B: "sealed:B" } }

/** One call of each tool, with every member that goes with the others. */
const calls: Readonly<Record<ToolName, JsonObject>> = {
  whoami: {},
  get_capabilities: {},
  more_tools: { scope: "secrets:write" },
  list_projects: { cursor: "abc" },
  list_environments: { projectId: id },
  request_access: { ...at, level: "run", hours: 24 },
  list_secrets: { ...at, query: "DB", fields: ["id", "version"], page: 2, pageSize: 50 },
  check_secrets: { ...at, keys: ["A", "B"] },
  compare_environments: { projectId: id, sourceEnv: "staging", targetEnv: "production", query: "DB" },
  get_composition: { ...at, key: "DATABASE_URL" },
  get_environment_keypair: at,
  plan_run: { ...at, command: ["npm", "start"], keys: ["A"] },
  run_status: { plan: id },
  export_encrypted_env: { ...at, keys: ["A", "B"] },
  verify_encrypted_env: sealed,
  import_encrypted_env: { ...sealed, overwrite: true },
  request_secret_value: { ...at, key: "A", note: "the new one", replace: false },
  create_secret: { ...at, key: "A", generate: { length: 32, charset: "hex" } },
  update_secret: { secretId: id, expectedVersion: 3, template: { source: "${A}" } },
  rename_secret: { secretId: id, key: "A", rewriteReferences: true },
  describe_secret: { secretId: id, owner: "", note: "2", rotateBy: "2027-01-31" },
  copy_secrets: { projectId: id, sourceEnv: "staging", targetEnv: "production", keys: ["A", "B"], overwrite: false },
  bulk_upsert_secrets: {
    ...at,
    secrets: [
      { key: "A", value: "123" },
      { key: "B", value: "true" },
      { key: "C", value: '["x"]' },
      { key: "D", value: "null" },
      { key: "E", generate: { length: 16 } }
    ]
  },
  delete_secret: { ...at, key: "A", disposition: "cascade" },
  delete_secrets: { ...at, ids: [id] },
  reveal_secret_value: { ...at, key: "A", representation: "source", reason: "asked by the person" },
  resolve_environment: { ...at, representation: "materialized", page: 1, pageSize: 500 },
  open_sealed_values: sealed,
  list_audit_events: { ...at, key: "A", since: "2026-11-01T00:00:00Z", limit: 5, full: false },
  get_exposure: { ...at, key: "A" }
}

/** Replaces each member of the input by what a family of clients sends instead. */
type Habit = (schema: JsonObject, value: unknown) => unknown
const membersOf = (schema: unknown): JsonObject => {
  const members = memberOf(schema, "properties")
  return isObject(members) ? members : {}
}
const deep =
  (change: (schema: unknown, value: unknown) => unknown, object: (schema: unknown, value: JsonObject) => JsonObject) =>
  (schema: unknown, value: unknown): unknown => {
    if (Array.isArray(value)) {
      return change(
        schema,
        value.map((one) => deep(change, object)(memberOf(schema, "items"), one))
      )
    }
    if (!isObject(value)) return change(schema, value)
    const inner = Object.entries(value).map(([name, member]) => {
      const its = membersOf(schema)[name]
      return [name, its === undefined ? member : deep(change, object)(its, member)]
    })
    return change(schema, object(schema, Object.fromEntries(inner) as JsonObject))
  }
const same = (_: unknown, value: JsonObject) => value
const topMembers =
  (change: (value: unknown) => unknown): Habit =>
  (_, input) =>
    isObject(input) ? Object.fromEntries(Object.entries(input).map(([name, value]) => [name, change(value)])) : input

const habits: Readonly<Record<string, Habit>> = {
  "strict functions, which name every member: null where there is nothing": deep(
    (_, value) => value,
    (schema, value) => ({
      ...Object.fromEntries(Object.keys(membersOf(schema)).map((name) => [name, null])),
      ...value
    })
  ),
  "templates, which make every number and boolean a text": deep(
    (_, value) => (typeof value === "number" || typeof value === "boolean" ? String(value) : value),
    same
  ),
  "models that write whole numbers with a fraction, and True": deep(
    (_, value) => (typeof value === "number" ? `${value}.0` : value === true ? "True" : value),
    same
  ),
  "tags around each parameter: lists and objects as JSON in a text": topMembers((value) =>
    typeof value === "object" ? JSON.stringify(value) : value
  ),
  "local models: the arguments are one text of JSON": (_, input) => JSON.stringify(input),
  "names between commas": deep(
    (schema, value) => (Array.isArray(value) && memberOf(schema, "uniqueItems") === true ? value.join(", ") : value),
    same
  )
}

const decodeOf = (tool: ToolName) => ParseResult.decodeUnknownEither(tools[tool].input as Schema.Schema.AnyNoContext)
const names = Object.keys(calls) as ReadonlyArray<ToolName>

/** A value that no member of this schema takes. */
const wrong = (schema: unknown): unknown => (memberOf(schema, "type") === "object" ? 7 : { not: "this" })

layer(McpApp.shared, { excludeTestServices: true })("the arguments of a tool call", (it) => {
  for (const [family, habit] of Object.entries(habits)) {
    it.effect(`mean the same for each tool when they come from ${family}`, () =>
      Effect.gen(function* () {
        const protocol = yield* Protocol
        assert.sameMembers([...protocol.tools.keys()], [...names])
        let changed = 0
        for (const name of names) {
          const schema = protocol.tools.get(name)?.entry.inputSchema ?? {}
          const sent = habit(schema, calls[name])
          if (JSON.stringify(sent) !== JSON.stringify(calls[name])) changed++
          const read = Arguments.read(schema, sent)
          assert.deepStrictEqual(read, calls[name], name)
          const decoded = decodeOf(name)(read)
          assert.isTrue(Either.isRight(decoded), `${name} ${Either.isLeft(decoded) ? String(decoded.left) : ""}`)
        }
        assert.isAbove(changed, 2)
      })
    )
  }

  it.effect("are refused with a sentence that says what the member is, for each member of each tool", () =>
    Effect.gen(function* () {
      const protocol = yield* Protocol
      for (const name of names) {
        const schema = protocol.tools.get(name)?.entry.inputSchema ?? {}
        for (const [member, its] of Object.entries(membersOf(schema))) {
          const args = { ...calls[name], [member]: wrong(its) }
          const decoded = decodeOf(name)(args)
          if (Either.isRight(decoded)) return assert.fail(`${name} takes it for ${member}`)
          const { field, message } = Arguments.refusal(
            schema,
            args,
            ParseResult.ArrayFormatter.formatIssueSync(decoded.left)
          )
          // A member that excludes another one, or that has a sentence of its own, names itself too.
          assert.match(
            message,
            new RegExp(
              `^${field?.split(".")[0] ?? "?"}(?:\\.\\w+)* (?:is (?:a|an|text|true|one)|must) ?.*\\.$|^${field ?? "?"} is `
            ),
            `${name} ${member}`
          )
          assert.notMatch(message, /undefined|not valid/, `${name} ${member}`)
        }
        for (const member of Array.isArray(schema["required"]) ? (schema["required"] as ReadonlyArray<string>) : []) {
          const { [member]: _, ...args } = calls[name]
          const decoded = decodeOf(name)(args)
          if (Either.isRight(decoded)) return assert.fail(`${name} needs no ${member}`)
          const { message } = Arguments.refusal(schema, args, ParseResult.ArrayFormatter.formatIssueSync(decoded.left))
          assert.match(message, new RegExp(`^${member} (?:is required: |must be )`), name)
        }
      }
    })
  )

  it.effect("have a schema without $ref and without choices, for each tool", () =>
    Effect.gen(function* () {
      for (const [name, { entry }] of (yield* Protocol).tools) {
        assert.notMatch(JSON.stringify(entry.inputSchema), /"(?:\$ref|\$defs|anyOf|oneOf|allOf|not)":/, name)
      }
    })
  )

  it.effect("are read at the door, in both eras: null, absent, as text, and scopes go by what is there", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const { text: bearer } = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const { text: writer } = yield* World.token({ team: project.team, mcpScopes: ["secrets:write", "secrets:read"] })
      const place = { projectId: project.slug, environment: "development" }
      const session = yield* Clients.open(base, bearer)
      const both = [
        (tool: string, input: unknown) => Clients.raw(base, "POST", { bearer, ...Clients.modernCall(tool, input) }),
        (tool: string, input: unknown) =>
          Clients.raw(base, "POST", {
            bearer,
            headers: { "mcp-session-id": session, "mcp-protocol-version": Clients.legacyVersion },
            body: Clients.call(tool, input)
          })
      ]
      for (const call of both) {
        for (const nothing of [null, undefined, {}, "{}"]) {
          assert.isArray((yield* call("list_projects", nothing)).output("list_projects").projects)
        }
        const listed = yield* call("list_secrets", { ...place, page: "1", pageSize: "50", query: null, fields: "id" })
        assert.isArray(listed.output("list_secrets").secrets)
        const refused = yield* call("list_secrets", { ...place, pageSize: 5_000 })
        assert.strictEqual(refused.refusal.message, "pageSize is a whole number from 1 to 500.")
        assert.strictEqual(
          (yield* call("list_secrets", { ...place, page_size: 5 })).refusal.message,
          "This member is not accepted here: its name is pageSize."
        )
      }
      // `copyFrom: null` asks for nothing, so that it needs no right to read values.
      const created = yield* Clients.raw(base, "POST", {
        bearer: writer,
        ...Clients.modernCall("create_secret", { ...place, key: "A", value: "007", generate: null, copyFrom: null })
      })
      assert.strictEqual(created.output("create_secret").key, "A")
      const reader = yield* World.token({ team: project.team, accessLevel: "write" })
      const value = yield* TestApp.get(`/secrets/value?projectId=${project.id}&environment=development&key=A`, {
        bearer: reader.text
      })
      assert.include(value.text, '"007"')
    })
  )
})

describe("a text that is no list and no number", () => {
  const schema = {
    properties: { keys: { type: "array", items: { type: "string" }, uniqueItems: true }, page: { type: "integer" } }
  }
  it("stays what it is, for the refusal", () => {
    for (const sent of [
      { keys: "[1," },
      { keys: "a b" },
      { page: "1e3" },
      { page: "x" },
      { page: "" },
      { other: null }
    ]) {
      assert.deepStrictEqual(Arguments.read(schema, sent), sent)
    }
    // Depth is bounded inside of texts as outside.
    const deepText = `${"[".repeat(40)}${"]".repeat(40)}`
    assert.deepStrictEqual(Arguments.read(schema, { keys: deepText }), { keys: deepText })
  })
})
