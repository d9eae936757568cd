/** A registry for npm on this machine: the packed package, and the packages that a server needs, from node_modules. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { createServer } from "node:http"
import * as path from "node:path"
import { parsed } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"
import { temporary } from "./Reader.ts"

const Manifest = parsed(
  Schema.Struct(
    { name: Schema.String, version: Schema.String },
    Schema.Record({ key: Schema.String, value: Schema.Unknown })
  )
)

/** Packages of others that npm may ask for; what this machine has not got is optional to npm. */
const others = ["@electric-sql/pglite", "@node-rs/argon2", "@napi-rs/keyring"]
const withPlatforms = (name: string): ReadonlyArray<string> => {
  const scope = path.dirname(name)
  const names = fs.readdirSync(path.join("node_modules", scope)).filter((one) => one.startsWith(path.basename(name)))
  return names.map((one) => path.join("node_modules", scope, one))
}

/** The folder that `npm pack` would pack: built, with the files of `files` alone. */
const packageFolder = Effect.gen(function* () {
  const folder = yield* temporary
  fs.cpSync(yield* Release.dist, path.join(folder, "dist"), { recursive: true, verbatimSymlinks: true })
  for (const name of ["package.json", "README.md", "LICENSE"]) fs.copyFileSync(name, path.join(folder, name))
  return folder
})

const pack = (folder: string, into: string) => {
  const manifest = Manifest(fs.readFileSync(path.join(folder, "package.json"), "utf8"))
  const file = `${manifest.name.replaceAll(/[@/]/g, "-")}-${manifest.version}.tgz`
  const target = path.join(into, file)
  execFileSync("tar", ["-czf", target, "--dereference", "--transform", "s,^\\.,package,", "-C", folder, "."])
  const bytes = fs.readFileSync(target)
  return { manifest, file, bytes, integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}` }
}

/** The address of the registry. */
export const serve = Effect.gen(function* () {
  const into = yield* temporary
  const folders = [yield* packageFolder, ...others.flatMap(withPlatforms)]
  const packages = folders.map((folder) => pack(folder, into))
  const server = createServer((request, response) => {
    const requested = decodeURIComponent(new URL(request.url ?? "/", "http://registry").pathname).slice(1)
    const tarball = packages.find(({ file }) => requested === `-/${file}`)
    if (tarball !== undefined) return response.end(tarball.bytes)
    const entry = packages.find(({ manifest }) => manifest.name === requested)
    if (entry === undefined) {
      response.statusCode = 404
      return response.end("{}")
    }
    const { file, integrity, manifest } = entry
    const dist = { tarball: `http://${request.headers.host}/-/${file}`, integrity }
    const { name, version } = manifest
    const body = { name, "dist-tags": { latest: version }, versions: { [version]: { ...manifest, dist } } }
    response.setHeader("content-type", "application/json")
    response.end(JSON.stringify(body))
  })
  yield* Effect.acquireRelease(
    Effect.async<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => server.close())
  )
  const address = server.address()
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`
})
