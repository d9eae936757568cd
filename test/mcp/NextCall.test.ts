/** What a failed call tells the model to do next. */
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
  const made = Reflect.construct(Class, [
    { references: [], dependents: [], cycle: [], requiredScope: "secrets:run", currentVersion: 1, retryAfterSeconds: 1 }
  ]) as unknown
  return isApiError(made) ? made : assert.fail("not an error")
})

/** Words in the form of a tool's name. */
const namedTools = (text: string) => [...text.matchAll(/\b[a-z]+(?:_[a-z]+)+\b/g)].map(([word]) => word)
const known: ReadonlySet<string> = new Set(toolNames)
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
        for (const named of namedTools(String(next))) assert.isTrue(known.has(named), `${error._tag}: ${named}`)
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

layer(McpApp.layer, { excludeTestServices: true })("a failed call", (it) => {
  const scene = Effect.gen(function* () {
    const base = yield* McpApp.base
    const project = yield* World.project()
    const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
    const use = <N extends ToolName>(tool: N, input: Record<string, unknown>) =>
      Effect.map(Clients.use(base, token.text, tool, input), ({ answer }) => String(answer.result.content?.[0]?.text))
    return { project, use }
  })

  it.effect("names the environments that exist, to whoever may list them", () =>
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
