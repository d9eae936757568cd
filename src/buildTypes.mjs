// @ts-check
/**
 * Declarations of the client library for TypeScript programs: `node src/buildTypes.mjs [folder]`. Separate from the
 * build, which stays fast.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import { operationTypes } from "./operationTypes.mjs"

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const out = path.resolve(root, process.argv[2] ?? "dist", "types")
const entries = ["src/client/Client.ts", "src/client/Config.ts", "src/client/Promises.ts", "src/client/Effect4.ts"]

fs.rmSync(out, { recursive: true, force: true })
fs.mkdirSync(out, { recursive: true })
const config = path.join(out, "tsconfig.json")
fs.writeFileSync(
  config,
  JSON.stringify({
    extends: path.join(root, "tsconfig.json"),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: root,
      outDir: out,
      typeRoots: [path.join(root, "node_modules/@types")]
    },
    include: [],
    files: entries.map((entry) => path.join(root, entry))
  })
)
try {
  execFileSync(process.execPath, [path.join(root, "node_modules/typescript/bin/tsc"), "-p", config], {
    cwd: root,
    stdio: "inherit"
  })
} finally {
  fs.rmSync(config)
}

// Our import specifiers work only in this package.
const specifier = /((?:from |import\()")([#.][^"]*)\.ts(")/g
for (const entry of fs.readdirSync(out, { recursive: true })) {
  const file = path.join(out, String(entry))
  if (!file.endsWith(".d.ts")) continue
  const text = fs.readFileSync(file, "utf8").replace(specifier, (_, before, name, after) => {
    const target = name.startsWith("#") ? path.join(out, name.slice(1)) : path.join(path.dirname(file), name)
    const relative = path.relative(path.dirname(file), target)
    return `${before}${relative.startsWith(".") ? relative : `./${relative}`}.js${after}`
  })
  fs.writeFileSync(file, text.replaceAll(/"effect4\//g, '"effect/'))
}
fs.writeFileSync(path.join(out, "src/client/Operations.d.ts"), await operationTypes())
