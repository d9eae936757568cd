// @ts-check
/** @modelcontextprotocol/sdk 1.x: most clients that are installed. It refreshes where it should ask for more scopes. */
import assert from "node:assert/strict"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { consents, journey, makeProvider, MCP_URL, TOKEN, contentOf } from "./checks.mjs"

const url = new URL(MCP_URL)
const bearer = new Client({ name: "driver", version: "1" })
await bearer.connect(
  new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${TOKEN}` } } })
)
await bearer.listTools()
await journey(async (name, input) => contentOf(await bearer.callTool({ name, arguments: { ...input } })))
await bearer.close()
process.stdout.write("bearer: tools, errors as text after listTools\n")

const before = await consents()
const provider = makeProvider()
const connect = () => {
  const client = new Client({ name: "driver", version: "1" })
  return { client, transport: new StreamableHTTPClientTransport(url, { authProvider: provider }) }
}
const first = connect()
await assert.rejects(first.client.connect(first.transport))
await first.transport.finishAuth(provider.kept.callback?.searchParams.get("code") ?? "")
const { client, transport } = connect()
await client.connect(transport)
await client.listTools()
await journey(async (name, input) => contentOf(await client.callTool({ name, arguments: { ...input } })))
assert.equal((await consents()) - before, 1)
await client.close()
const staged = new Client({ name: "driver", version: "1" })
await staged.connect(
  new StreamableHTTPClientTransport(url, {
    authProvider: provider,
    requestInit: { headers: { "ampoule-tools": "staged" } }
  })
)
const names = (await staged.listTools()).tools.map(({ name }) => name)
assert.ok(names.includes("more_tools") && names.includes("plan_run") && !names.includes("reveal_secret_value"))
// It refreshes where it should ask: what is not granted at first needs a new connection.
await assert.rejects(staged.callTool({ name: "more_tools", arguments: { scope: "secrets:read_values" } }), /403/)
await staged.close()
process.stdout.write("OAuth: everything that shows no value with one consent\n")
process.stdout.write("OAuth: a short list of tools; it cannot ask for more\n")
