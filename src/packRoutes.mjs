// @ts-check
/** Replaces `src/client/Routes.ts` by its result: the package has no part of the declarations in a client without them. */
import { printed } from "./printed.mjs"

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
