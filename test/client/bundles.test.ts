/**
 * `ampoule/client/promise` as functions carry it: bundled from the built package with the conditions of each runtime.
 * `npm run test:clients` runs it on those runtimes (test/clients/programs.mjs).
 */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { build, type Platform } from "esbuild"
import { readFileSync } from "node:fs"
import { createContext, runInContext } from "node:vm"
import { routes } from "#src/client/Routes.ts"
import { groups, harmless } from "#src/formats/DangerousNameLists.ts"
import { isDangerous } from "#src/formats/DangerousNames.ts"
import { packNames } from "#src/packNames.mjs"
import * as TestApp from "#test/support/TestApp.ts"
import * as Demo from "./Demo.ts"
import { scratch } from "./Installed.ts"

const runtimes: Readonly<Record<string, { readonly platform: Platform; readonly conditions: Array<string> }>> = {
  node: { platform: "node", conditions: ["node"] },
  deno: { platform: "neutral", conditions: ["deno"] },
  bun: { platform: "neutral", conditions: ["bun"] },
  workers: { platform: "browser", conditions: ["workerd", "worker", "browser"] },
  edge: { platform: "browser", conditions: ["edge-light", "worker", "browser"] }
}

/** The text of a bundle, and the modules that it still imports. */
const bundled = (folder: string, runtime: string, contents: string, format: "esm" | "iife" = "esm") =>
  Effect.promise(async () => {
    const { metafile, outputFiles } = await build({
      ...runtimes[runtime],
      absWorkingDir: folder,
      stdin: { contents, resolveDir: folder },
      bundle: true,
      minify: true,
      write: false,
      metafile: true,
      format,
      globalName: "ampoule",
      target: "es2022"
    })
    const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map((one) => one.path))
    return { imports, size: outputFiles[0].contents.length, text: outputFiles[0].text }
  })
const everything = 'export * from "ampoule/client/promise"'
const reading = 'export { open } from "ampoule/client/promise"'

/** Globals of a runtime at the edge; no `process`, and nothing of Node. */
const webGlobals = () => ({
  AbortController,
  clearTimeout,
  fetch,
  Headers,
  Request,
  Response,
  setTimeout,
  URL,
  URLSearchParams
})

describe("the promise client in a bundle", () => {
  it.scoped("has at most 15 kB on each runtime, 10 kB where it only reads, and imports nothing", () =>
    Effect.gen(function* () {
      const folder = yield* scratch
      for (const runtime of Object.keys(runtimes)) {
        for (const [contents, limit] of [
          [everything, 15_000],
          [reading, 10_000]
        ] as const) {
          const { imports, size, text } = yield* bundled(folder, runtime, contents)
          assert.isAtMost(size, limit, runtime)
          assert.deepStrictEqual(imports, [], runtime)
          assert.notMatch(text, /\bnode:|[^.]require\(/, runtime)
        }
      }
    })
  )

  it.scoped("for Effect 4 has every route, and imports Effect alone", () =>
    Effect.gen(function* () {
      const folder = yield* scratch
      const text = readFileSync(`${folder}/node_modules/ampoule/dist/client/effect4.mjs`, "utf8")
      const imports = [...text.matchAll(/(?:from|import) ?"([^"]*)"/g)].map(([, name]) => name)
      assert.deepStrictEqual(
        imports.filter((name) => !name.startsWith("effect/")),
        []
      )
      assert.isAbove(routes.length, 50)
      for (const { id } of routes) assert.include(text, JSON.stringify(id))
    })
  )

  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.scoped("reads an environment where there is no process, with the variables that a Worker passes", () =>
      Effect.gen(function* () {
        const { project, token, url } = yield* Demo.make({ DATABASE_URL: "postgres://db" })
        const folder = yield* scratch
        const { text } = yield* bundled(folder, "workers", everything, "iife")
        const variables = {
          AMPOULE_URL: url,
          AMPOULE_API_TOKEN: token.text,
          AMPOULE_PROJECT: project.slug,
          AMPOULE_ENVIRONMENT: "development"
        }
        const context = createContext({ ...webGlobals(), variables })
        runInContext(text, context)
        const program = `(async () => {
          const env = await ampoule.open({ variables })
          const refused = await ampoule.load({ variables }).catch((error) => error.code)
          const none = await ampoule.open().catch((error) => error.code)
          return [env.require("DATABASE_URL"), refused, none, typeof process].join()
        })()`
        const results = yield* Effect.promise(() => runInContext(program, context) as Promise<string>)
        assert.strictEqual(results, "postgres://db,NO_VARIABLES,NO_CREDENTIAL,undefined")
      })
    )
  })

  it.effect("refuses the names that `run` refuses, from its packed list", () =>
    Effect.gen(function* () {
      const { outputFiles } = yield* Effect.promise(() =>
        build({
          entryPoints: ["src/formats/DangerousNames.ts"],
          bundle: true,
          write: false,
          format: "esm",
          plugins: [packNames]
        })
      )
      const text = Buffer.from(outputFiles[0].contents).toString("base64")
      const packed = yield* Effect.promise(() => import(`data:text/javascript;base64,${text}`))
      const lists = [harmless, ...groups.flatMap(({ names, prefixes, suffixes }) => [names, prefixes, suffixes])]
      const names = lists.flatMap((list) => list?.split(/\s+/) ?? []).filter((name) => name !== "")
      const variants = names.flatMap((name) => [name, `${name}X`, `${name}_TOKEN`, `A${name}`, name.slice(0, -1)])
      assert.isAbove(names.filter(isDangerous).length, 600)
      assert.deepStrictEqual(
        variants.filter((name) => packed.isDangerous(name) !== isDangerous(name)),
        []
      )
    })
  )
})
