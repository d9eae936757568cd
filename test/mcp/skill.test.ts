/** The skill of `deploy/agents` is true of this server. */
import { assert, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { toolNames } from "#schema/McpTools.ts"
import { parsed } from "#test/support/Json.ts"
import manifest from "../../package.json" with { type: "json" }

const read = (name: string) => fs.readFileSync(`deploy/agents/${name}`, "utf8")
const more = Schema.Record({ key: Schema.String, value: Schema.Unknown })
const Plugin = Schema.Struct({ name: Schema.String, version: Schema.String }, more)
const Servers = Schema.Struct({
  mcpServers: Schema.Record({ key: Schema.String, value: Schema.Struct({ type: Schema.String, url: Schema.String }) })
})
const Marketplace = Schema.Struct(
  {
    plugins: Schema.Array(Schema.Struct({ name: Schema.String, source: Schema.String }, more))
  },
  more
)

it("the skill and the paragraph name tools that exist", () => {
  for (const name of ["ampoule/skills/ampoule/SKILL.md", "AGENTS.md"]) {
    const named = [...read(name).matchAll(/`([a-z]+(?:_[a-z]+)+)`/g)].map(([, tool]) => tool)
    assert.isAbove(named.length, 2)
    for (const tool of named) assert.include<string | undefined>(toolNames, tool, name)
  }
})

it("the skill has a name and a description within the limits of agents", () => {
  const [, name = "", description = ""] =
    /^---\nname: ([a-z0-9-]{1,64})\ndescription: (.+)\n---\n/.exec(read("ampoule/skills/ampoule/SKILL.md")) ?? []
  assert.strictEqual(name, "ampoule")
  assert.isAtMost(description.length, 1_024)
})

it("the plugin is of this version, and its server is where a server is by default", () => {
  const plugin = parsed(Plugin)(read("ampoule/.claude-plugin/plugin.json"))
  assert.deepStrictEqual([plugin.name, plugin.version], ["ampoule", manifest.version])
  const { mcpServers } = parsed(Servers)(read("ampoule/.mcp.json"))
  assert.deepStrictEqual(mcpServers, { ampoule: { type: "http", url: "${AMPOULE_URL:-http://127.0.0.1:4400}/mcp" } })
  const [listed] = parsed(Marketplace)(read(".claude-plugin/marketplace.json")).plugins
  assert.deepStrictEqual([listed.name, listed.source], ["ampoule", "./ampoule"])
})
