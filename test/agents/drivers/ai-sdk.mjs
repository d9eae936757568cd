// @ts-check
/** @ai-sdk/mcp, with a token. */
import assert from "node:assert/strict"
import { createMCPClient } from "@ai-sdk/mcp"
import { journey, MCP_URL, TOKEN, contentOf } from "./checks.mjs"

const client = await createMCPClient({
  transport: { type: "http", url: MCP_URL, headers: { authorization: `Bearer ${TOKEN}` } }
})
const tools = /** @type {Record<string, { execute?: Function }>} */ (await client.tools())
await journey(async (name, input) => {
  const execute = tools[name]?.execute
  assert.ok(execute, name)
  return contentOf(await execute(input, { toolCallId: "1", messages: [] }))
})
await client.close()
process.stdout.write("bearer: tools and errors\n")
