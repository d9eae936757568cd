/** Next calls that a failed call suggests to the model. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as JSONSchema from "effect/JSONSchema"
import type * as Schema from "effect/Schema"
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"
import * as Errors from "#schema/Errors.ts"
import { type ToolName, toolNames, tools } from "#schema/McpTools.ts"
import { allScopes } from "#schema/Scopes.ts"
import { explained } from "#src/mcp/NextCall.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

/** One of each code, with the members that its class wants. */
const everyError: ReadonlyArray<AnyApiError> = Object.values(Errors).map((Class) => {
  const error = Reflect.construct(Class, [
    { references: [], dependents: [], cycle: [], requiredScope: "secrets:run", currentVersion: 1, retryAfterSeconds: 1 }
  ]) as unknown
  return isApiError(error) ? error : assert.fail("not an error")
})

/** Words in the form of a tool's name. */
const namedTools = (text: string) => [...text.matchAll(/\b[a-z]+(?:_[a-z]+)+\b/g)].map(([word]) => word)
const names: ReadonlySet<string> = new Set(toolNames)
const inputsOf = (tool: ToolName) => {
  const schema = JSONSchema.make<unknown, unknown, never>(tools[tool].input as Schema.Schema.AnyNoContext)
  return "properties" in schema ? Object.keys(schema.properties) : []
}

describe("every code", () => {
  it("says what to call next, by tools that exist, whichever tool failed", () => {
    for (const error of everyError) {
      for (const tool of toolNames) {
        const { next } = explained(error, { tool, inputs: inputsOf(tool), environments: [] })
        assert.match(String(next), /^[A-Za-z].{15,}\.$/s, error._tag)
        for (const named of namedTools(String(next))) assert.isTrue(names.has(named), `${error._tag}: ${named}`)
      }
    }
  })

  it("names a disposition only where the tool has one", () => {
    for (const tool of toolNames) {
      const said = JSON.stringify(
        explained(new Errors.SecretHasDependents({ dependents: [] }), {
          tool,
          inputs: inputsOf(tool),
          environments: []
        })
      )
      assert.strictEqual(said.includes("disposition"), tool === "delete_secret", tool)
    }
  })
})

layer(McpApp.shared, { excludeTestServices: true })("a failed call", (it) => {
  const scene = Effect.gen(function* () {
    const base = yield* McpApp.base
    const project = yield* World.project()
    const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
    const use = <N extends ToolName>(tool: N, input: Record<string, unknown>) =>
      Effect.map(Clients.use(base, token.text, tool, input), ({ answer }) => String(answer.result.content?.[0]?.text))
    return { project, use }
  })

  it.effect("names the environments that exist, to callers who may list them", () =>
    Effect.gen(function* () {
      const { project, use } = yield* scene
      for (const projectId of [project.id, project.slug]) {
        const said = yield* use("list_secrets", { projectId, environment: "prod" })
        assert.include(said, "ENVIRONMENT_NOT_FOUND")
        assert.include(said, "The project has development, staging, production")
      }
      const base = yield* McpApp.base
      const { text } = yield* World.token({ team: project.team, mcpScopes: ["secrets:read"] })
      const { answer } = yield* Clients.use(base, text, "list_secrets", { projectId: project.id, environment: "prod" })
      assert.include(answer.text, "list_environments gives the slugs")
      assert.notInclude(answer.text, "staging")
    })
  )

  it.effect("names inputs that the tool has", () =>
    Effect.gen(function* () {
      const { project, use } = yield* scene
      const at = { projectId: project.slug, environment: "development" }
      assert.include(yield* use("list_secrets", { ...at, projectId: "no such" }), "list_projects gives")
      assert.include(yield* use("list_secrets", { ...at, projectId: "no-such" }), "PROJECT_NOT_FOUND")
      assert.include(yield* use("plan_run", { ...at, command: "npm start" }), "as a list of arguments")
      assert.include(
        yield* use("list_secrets", { ...at, colour: "red" }),
        "list_secrets takes projectId, environment, "
      )
      assert.include(yield* use("whoami", { colour: "red" }), "whoami takes no input")
    })
  )

  it.effect("takes a secret by its key and place as well as by its id, and not by both", () =>
    Effect.gen(function* () {
      const { project, use } = yield* scene
      const at = { projectId: project.slug, environment: "development" }
      for (const key of ["ONE", "TWO", "THREE"]) yield* use("create_secret", { ...at, key, value: "x" })
      assert.include(yield* use("update_secret", { ...at, key: "ONE", value: "y", expectedVersion: 1 }), '"version":2')
      assert.include(yield* use("delete_secret", { ...at, key: "ONE" }), '"deleted":true')
      const missing = yield* use("update_secret", { ...at, key: "ONE", value: "z" })
      assert.include(missing, "SECRET_NOT_FOUND")
      assert.include(missing, '"field":"key"')
      assert.include(missing, "list_secrets gives the keys")
      // All of them or none.
      const some = yield* use("delete_secrets", { ...at, keys: ["TWO", "NONE"] })
      assert.include(some, '"field":"keys.1"')
      assert.include(yield* use("check_secrets", { ...at, keys: ["TWO"] }), '"present":["TWO"]')
      assert.notInclude(yield* use("delete_secrets", { ...at, keys: ["TWO", "THREE"] }), "isError")
      assert.include(yield* use("list_secrets", at), '"total":0')
      const elsewhere = { ...at, environment: "staging", key: "ONE" }
      assert.include(yield* use("delete_secret", elsewhere), "SECRET_NOT_FOUND")
      for (const [tool, input, field] of [
        ["update_secret", { ...at, value: "x" }, "key"],
        ["update_secret", { value: "x" }, "projectId"],
        ["delete_secret", { ...at, key: "ONE", secretId: project.id }, "projectId"],
        ["delete_secrets", at, "keys"],
        ["delete_secrets", { ...at, keys: ["A"], ids: [project.id] }, "keys"]
      ] as const) {
        assert.include(yield* use(tool, input), `"field":"${field}"`, JSON.stringify(input))
      }
    })
  )

  it.effect("says what a connection is restricted to, by name where it may list projects", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const reach = { projects: [project], environments: [project.development] }
      const restrictions = Effect.fnUntraced(function* (options: Omit<Parameters<typeof World.token>[0], "team">) {
        const { text } = yield* World.token({ team: project.team, ...options })
        return (yield* Clients.use(base, text, "whoami")).output.restrictions
      })
      const named = {
        projects: [{ id: project.id, slug: project.slug, name: "Demo" }],
        environments: [{ id: project.development.id, slug: "development", project: project.slug }]
      }
      const ids = { projects: [project.id], environments: [project.development.id] }
      assert.deepStrictEqual(yield* restrictions({ ...reach, mcpScopes: allScopes }), { ...ids, named })
      assert.deepStrictEqual(yield* restrictions({ ...reach, mcpScopes: ["identity:read"] }), ids)
      assert.deepStrictEqual(yield* restrictions({ projects: [project], mcpScopes: allScopes }), {
        projects: [project.id],
        environments: null,
        named: { ...named, environments: [] }
      })
      assert.deepStrictEqual(yield* restrictions({ mcpScopes: allScopes }), { projects: null, environments: null })
    })
  )

  it.effect("never reaches another team's project by its slug", () =>
    Effect.gen(function* () {
      const base = yield* McpApp.base
      const project = yield* World.project()
      const other = yield* World.project({ slug: project.slug })
      const place = { projectId: project.slug, environment: "development" }
      const one = yield* World.token({ team: project.team, mcpScopes: allScopes })
      const listed = yield* Clients.use(base, one.text, "list_secrets", { ...place, fields: ["reference"] })
      assert.deepStrictEqual(listed.output.secrets, [])
      const another = yield* World.token({ team: other.team, mcpScopes: allScopes })
      const { output } = yield* Clients.use(base, another.text, "list_environments", { projectId: project.slug })
      assert.notInclude(
        output.environments.map(({ id }) => id),
        project.development.id
      )
    })
  )
})
