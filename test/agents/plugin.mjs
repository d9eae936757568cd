// @ts-check
/**
 * The plugin of `deploy/agents` for coding agents, in the hands of the official tools: the validators of plugins,
 * marketplaces
 * and skills find no fault; an agent that was never used on a machine installs the plugin from the folder, reaches the
 * server that AMPOULE_URL names, and is asked to sign in there; with a token it is connected.
 */
import * as fs from "node:fs"
import * as path from "node:path"

/**
 * @param {object} context
 * @param {(command: string, args: ReadonlyArray<string>, options?: { cwd?: string, env?: Record<string, string> }) => Promise<string>} context.run
 * @param {string} context.agent the agent's executable
 * @param {string} context.skills the reference library's executable
 * @param {string} context.folder `deploy/agents`
 * @param {string} context.home an empty folder
 * @param {string} context.url where the server is
 * @param {string} context.token an API token with MCP scopes
 * @returns {Promise<Array<string>>} what was done
 */
export const check = async ({ run, agent, skills, folder, home, url, token }) => {
  const env = {
    HOME: home,
    AMPOULE_URL: url,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1"
  }
  /** @param {ReadonlyArray<string>} args @param {string} wanted */
  const expect = async (args, wanted) => {
    const output = await run(agent, args, { cwd: home, env })
    if (!output.includes(wanted)) throw new Error(`${args.join(" ")}: no "${wanted}" in\n${output}`)
  }
  const plugin = path.join(folder, "ampoule")
  await expect(["plugin", "validate", "--strict", folder], "Validation passed")
  await expect(["plugin", "validate", "--strict", plugin], "Validation passed")
  for (const skill of fs.readdirSync(path.join(plugin, "skills"))) {
    await run(skills, ["validate", path.join(plugin, "skills", skill)])
  }
  await expect(["plugin", "marketplace", "add", folder], "Successfully added")
  await expect(["plugin", "install", "ampoule@ampoule"], "Successfully installed")
  await expect(["plugin", "list"], "enabled")
  await expect(["mcp", "list"], `plugin:ampoule:ampoule: ${url}/mcp (HTTP) - ! Needs authentication`)
  const header = ["--header", `Authorization: Bearer ${token}`]
  await expect(["mcp", "add", "--scope", "user", "--transport", "http", "own", `${url}/mcp`, ...header], "own")
  await expect(["mcp", "list"], `own: ${url}/mcp (HTTP) - ✔ Connected`)
  return [
    "validators of marketplace, plugin (strict) and skill: no fault",
    "installed from the folder in an empty home; the server asks for a sign-in",
    "claude mcp add with a token: connected"
  ]
}
