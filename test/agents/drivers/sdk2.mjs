// @ts-check
/** @modelcontextprotocol/client 2.x in both eras, with a token and over OAuth. */
import assert from "node:assert/strict"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { at, consents, journey, makeProvider, MCP_URL, TOKEN, contentOf } from "./checks.mjs"

const url = new URL(MCP_URL)
for (const mode of /** @type {const} */ (["legacy", "auto"])) {
  const client = new Client({ name: "driver", version: "1" }, { versionNegotiation: { mode } })
  await client.connect(
    new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: `Bearer ${TOKEN}` } } })
  )
  await client.listTools()
  await journey(async (name, input) => contentOf(await client.callTool({ name, arguments: { ...input } })))
  await client.close()
  process.stdout.write(`${mode}: bearer\n`)

  const before = await consents()
  const provider = makeProvider()
  const finish = async (/** @type {StreamableHTTPClientTransport} */ transport, from = provider) =>
    transport.finishAuth(from.kept.callback?.searchParams ?? new URLSearchParams())
  const connect = (from = provider, headers = {}, more = {}) => {
    const sdk = new Client({ name: "driver", version: "1" }, { versionNegotiation: { mode }, ...more })
    const options = { authProvider: /** @type {any} */ (from), requestInit: { headers } }
    return { made: sdk, transport: new StreamableHTTPClientTransport(url, options) }
  }
  const first = connect()
  await assert.rejects(first.made.connect(first.transport))
  await finish(first.transport)
  const { made, transport } = connect()
  await made.connect(transport)
  await journey(async (name, input) => contentOf(await made.callTool({ name, arguments: { ...input } })))
  const reveal = { name: "reveal_secret_value", arguments: { ...at, key: "A", reason: "The driver asks" } }
  await assert.rejects(made.callTool(reveal))
  await finish(transport)
  assert.match(contentOf(await made.callTool(reveal)).text, /"value":"1"/)
  await journey(async (name, input) => contentOf(await made.callTool({ name, arguments: { ...input } })))
  assert.equal((await consents()) - before, 2)
  await made.close()
  process.stdout.write(`${mode}: OAuth, one more consent for plaintext\n`)

  // A list that grows: short at first, whole after the consent that `more_tools` asks for, told over the stream.
  const person = makeProvider()
  /** @type {Array<string>} */
  let heard = []
  const listChanged = {
    tools: {
      onChanged: (/** @type {unknown} */ _, /** @type {Array<{ name: string }> | null} */ tools) => {
        heard = tools?.map(({ name }) => name) ?? heard
      }
    }
  }
  const staged = () => connect(person, { "ampoule-tools": "staged" }, { listChanged })
  const begun = staged()
  await assert.rejects(begun.made.connect(begun.transport))
  await finish(begun.transport, person)
  const growing = staged()
  await growing.made.connect(growing.transport)
  const names = async () => (await growing.made.listTools()).tools.map(({ name }) => name)
  const short = await names()
  assert.ok(short.includes("more_tools") && short.includes("plan_run") && !short.includes(reveal.name))
  const more = { name: "more_tools", arguments: { scope: "secrets:read_values" } }
  await assert.rejects(growing.made.callTool(more))
  await finish(growing.transport, person)
  assert.match(contentOf(await growing.made.callTool(more)).text, /reveal_secret_value/)
  assert.ok((await names()).includes(reveal.name))
  for (const until = Date.now() + 60_000; !heard.includes(reveal.name) && Date.now() < until;) {
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  assert.ok(heard.includes(reveal.name), "the stream did not tell that the list grew")
  await growing.made.close()
  process.stdout.write(`${mode}: a list of tools that grows, told over the stream\n`)
}
