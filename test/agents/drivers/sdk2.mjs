// @ts-check
/** @modelcontextprotocol/client 2.x in both eras, with a token and over OAuth. */
import assert from "node:assert/strict"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { at, consents, journey, makeProvider, MCP_URL, TOKEN, told } from "./checks.mjs"

const url = new URL(MCP_URL)
for (const mode of /** @type {const} */ (["legacy", "auto"])) {
  const client = new Client({ name: "driver", version: "1" }, { versionNegotiation: { mode } })
  await client.connect(
    new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${TOKEN}` } } })
  )
  await client.listTools()
  await journey(async (name, input) => told(await client.callTool({ name, arguments: { ...input } })))
  await client.close()
  process.stdout.write(`${mode}: bearer\n`)

  const before = await consents()
  const provider = makeProvider()
  const connect = () => {
    const made = new Client({ name: "driver", version: "1" }, { versionNegotiation: { mode } })
    return { made, transport: new StreamableHTTPClientTransport(url, { authProvider: /** @type {any} */ (provider) }) }
  }
  const finish = async (/** @type {StreamableHTTPClientTransport} */ transport) =>
    transport.finishAuth(provider.kept.callback?.searchParams ?? new URLSearchParams())
  const first = connect()
  await assert.rejects(first.made.connect(first.transport))
  await finish(first.transport)
  const { made, transport } = connect()
  await made.connect(transport)
  await journey(async (name, input) => told(await made.callTool({ name, arguments: { ...input } })))
  const reveal = { name: "reveal_secret_value", arguments: { ...at, key: "A", reason: "The driver asks" } }
  await assert.rejects(made.callTool(reveal))
  await finish(transport)
  assert.match(told(await made.callTool(reveal)).text, /"value":"1"/)
  await journey(async (name, input) => told(await made.callTool({ name, arguments: { ...input } })))
  assert.equal((await consents()) - before, 2)
  await made.close()
  process.stdout.write(`${mode}: OAuth, one more consent for plaintext\n`)
}
