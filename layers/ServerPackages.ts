/**
 * Packages that a server loads but the npm package does not include, because most installs are clients
 * (docs/operations/install.md).
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

/** The embedded database and the password hash, in the versions of `package.json`. */
export const versions = {
  "@electric-sql/pglite": "0.5.16",
  "@node-rs/argon2": "2.2.1"
} as const

const versionOf = Schema.decodeUnknownOption(Schema.parseJson(Schema.Struct({ version: Schema.String })))

const read = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}

/** Version that `import(name)` would load here: that of the nearest node_modules with it. */
const installed = (name: string, from = dirname(fileURLToPath(import.meta.url))): string | undefined => {
  const packageFile = versionOf(read(join(from, "node_modules", name, "package.json")))
  if (Option.isSome(packageFile)) return packageFile.value.version
  return dirname(from) === from ? undefined : installed(name, dirname(from))
}

/**
 * Sentence for the operator when one of `names` is missing or has another version. It names all packages to install.
 */
export const missing = (...names: ReadonlyArray<keyof typeof versions>): string | undefined => {
  const absent = Object.entries(versions).filter(([name, version]) => installed(name) !== version)
  if (!absent.some(([name]) => names.some((one) => one === name))) return undefined
  const packages = absent.map(([name, version]) => `${name}@${version}`).join(" ")
  return `A server needs packages that are not installed with ampoule itself: \`npm install --global ${packages}\` adds them (in a project, leave out --global).`
}
