// @ts-check
/** Replaces `src/client/Routes.ts` by its result: the package has no part of the declarations in a client without them. */
import { build } from "esbuild"
import { execFileSync } from "node:child_process"
import * as path from "node:path"
import { fileURLToPath } from "node:url"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** Evaluates a module of ours in a process of its own, because the caller may be a test runner. @param {string} contents */
export const printed = async (contents) => {
  const { outputFiles } = await build({
    absWorkingDir: root,
    stdin: { contents, resolveDir: root },
    bundle: true,
    write: false,
    platform: "node",
    target: "node20",
    format: "esm"
  })
  const input = outputFiles[0]?.contents
  return execFileSync(process.execPath, ["--input-type=module"], { input, maxBuffer: 2 ** 26, encoding: "utf8" })
}

/** @type {import("esbuild").Plugin} */
export const packRoutes = {
  name: "pack routes",
  setup: (plugin) => {
    plugin.onLoad({ filter: /[\\/]src[\\/]client[\\/]Routes\.ts$/ }, async () => {
      const routes = await printed(`
        import { refusalMembers, routes } from "#src/client/Routes.ts"
        const exported = { refusalMembers, routes }
        for (const name in exported) process.stdout.write(\`export const \${name} = \${JSON.stringify(exported[name])}\\n\`)`)
      return { contents: routes, loader: "js" }
    })
  }
}
