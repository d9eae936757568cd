/** The revisions with sessions, through the official client of that line. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Listening } from "#src/http/Server.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const connect = (bearer: string, capabilities: Record<string, unknown> = {}) =>
  Effect.acquireRelease(
    Effect.flatMap(Listening, ({ port }) =>
      Effect.promise(async () => {
        const client = new Client({ name: "test", version: "1" }, { capabilities })
        const transport = new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), {
          requestInit: { headers: { authorization: `Bearer ${bearer}` } }
        })
        await client.connect(transport)
        return { client, transport }
      })
    ),
    ({ client }) => Effect.promise(() => client.close())
  )

layer(TestApp.layer, { excludeTestServices: true })("the legacy era", (it) => {
  describe("a client with an API token", () => {
    it.scoped("initializes, lists its tools and calls one", () =>
      Effect.gen(function* () {
        const project = yield* World.project()
        const token = yield* World.token({ team: project.team, mcpScopes: ["projects:read"] })
        const { client } = yield* connect(token.text)
        const { tools } = yield* Effect.promise(() => client.listTools())
        assert.deepStrictEqual(
          tools.map(({ name }) => name),
          ["get_capabilities", "list_projects", "list_environments"]
        )
        const result = yield* Effect.promise(() => client.callTool({ name: "list_projects", arguments: {} }))
        assert.deepStrictEqual(result.structuredContent, {
          projects: [{ id: project.id, name: "Demo", slug: project.slug, teamId: project.team.id }]
        })
      })
    )
  })
})
