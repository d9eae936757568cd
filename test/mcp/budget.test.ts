/**
 * Cost of the tools to a model, in tokens of o200k_base: the list of tools with each conversation, and what each
 * reading
 * tool answers by default about an environment that is as large as they get. Clients put what is larger into a file, or
 * cut it.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { countTokens } from "gpt-tokenizer/encoding/o200k_base"
import type { ToolName } from "#schema/McpTools.ts"
import { allScopes } from "#schema/Scopes.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const listBudget = 5_000
const answerBudget = 8_000
const total = 5_000

/** Fifty services of a hundred settings, half of them composed. */
const keyOf = (i: number) => `SERVICE${String(i % 50).padStart(2, "0")}_SETTING_${String(i).padStart(4, "0")}_TOKEN`
const secrets = Array.from({ length: total }, (_, i) => ({
  key: keyOf(i),
  value: i % 2 === 0 ? `value-${i}-of-a-usual-length` : `https://\${${keyOf(i - 1)}}@host`
}))

const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const writer = yield* World.token({ team: project.team, accessLevel: "write" })
  for (let from = 0; from < total; from += 100) {
    const body = { projectId: project.id, environment: "development", secrets: secrets.slice(from, from + 100) }
    assert.strictEqual((yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json: body })).status, 201)
  }
  const { text: bearer } = yield* World.token({ team: project.team, mcpScopes: allScopes })
  return { base, project, bearer }
})

layer(McpApp.shared, { excludeTestServices: true })("what a model reads", (it) => {
  it.effect("is within its budget: the list of tools, and each default answer about 5,000 secrets", () =>
    Effect.gen(function* () {
      const { base, bearer, project } = yield* scene
      const at = { projectId: project.slug, environment: "development" }
      const { client } = yield* Clients.modern(base, bearer)
      const { tools } = yield* Effect.promise(() => client.listTools())
      // Parts that a client passes on to its model: names, descriptions, schemas of inputs.
      const list = tools.map(({ description, inputSchema, name }) => ({ name, description, input_schema: inputSchema }))
      const costs = new Map([["tools/list", countTokens(JSON.stringify(list))]])
      assert.isAtMost(costs.get("tools/list") ?? Infinity, listBudget)

      const calls: ReadonlyArray<readonly [tool: ToolName, input: Record<string, unknown>]> = [
        ["whoami", {}],
        ["get_capabilities", {}],
        ["list_projects", {}],
        ["list_environments", { projectId: project.slug }],
        ["list_secrets", at],
        ["check_secrets", { ...at, keys: secrets.slice(0, 200).map(({ key }) => key) }],
        ["compare_environments", { projectId: project.slug, sourceEnv: "development", targetEnv: "staging" }],
        ["get_composition", at],
        ["get_environment_keypair", at],
        ["plan_run", { ...at, command: ["npm", "start"] }],
        ["plan_run", { ...at, command: ["npm", "start"], keys: secrets.slice(0, 200).map(({ key }) => key) }],
        ["export_encrypted_env", at],
        ["resolve_environment", at],
        ["list_audit_events", {}],
        ["get_exposure", { ...at, key: keyOf(0) }]
      ]
      // Answers of these are as large as their arguments.
      const byInput = ["reveal_secret_value", "open_sealed_values", "verify_encrypted_env", "run_status"]
      const reading = tools.flatMap(({ annotations, name }) => (annotations?.readOnlyHint === true ? [name] : []))
      assert.includeMembers([...calls.map(([tool]) => tool), ...byInput], reading)
      for (const [tool, input] of calls) {
        const { result } = yield* Clients.raw(base, "POST", { bearer, ...Clients.modernCall(tool, input) })
        const text = result.content?.map((one) => one.text).join("") ?? ""
        assert.isUndefined(result.isError, `${tool} ${text}`)
        costs.set(tool, countTokens(text))
        assert.isAtMost(countTokens(text), answerBudget, tool)
      }
      const uri = `secrets://projects/${project.id}/environments/development`
      const { contents } = yield* Effect.promise(() => client.readResource({ uri }))
      assert.isAtMost(countTokens(JSON.stringify(contents)), answerBudget, uri)
      if (process.env["AMPOULE_TEST_SHOW"] === "on") yield* Effect.log(Object.fromEntries(costs))
    }).pipe(Effect.scoped)
  )
})
