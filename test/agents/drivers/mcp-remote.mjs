// @ts-check
/** mcp-remote: a program of standard input and output between an older client and the server. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { journey, MCP_URL, TOKEN, contentOf } from "./checks.mjs"

const client = new Client({ name: "driver", version: "1" })
await client.connect(
  new StdioClientTransport({
    command: process.execPath,
    args: [process.env["MCP_REMOTE"] ?? "", MCP_URL, "--header", "Authorization:${AUTH}", "--transport", "http-only"],
    env: { PATH: process.env["PATH"] ?? "", HOME: process.env["HOME"] ?? "", AUTH: `Bearer ${TOKEN}` },
    stderr: "ignore"
  })
)
await client.listTools()
await journey(async (name, input) => contentOf(await client.callTool({ name, arguments: { ...input } })))
await client.close()
process.stdout.write("bearer: tools and errors\n")
