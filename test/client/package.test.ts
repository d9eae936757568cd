/** The client library as another program has it: the built package in a folder of its own, imported by plain node. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { execFile, execFileSync, spawnSync } from "node:child_process"
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import * as TestApp from "#test/support/TestApp.ts"
import * as Demo from "./Demo.ts"
import { scratch } from "./Installed.ts"

const run = promisify(execFile)
const manifest = Schema.decodeUnknownSync(
  Schema.Struct({
    peerDependencies: Schema.Record({ key: Schema.String, value: Schema.String }),
    peerDependenciesMeta: Schema.Record({ key: Schema.String, value: Schema.Struct({ optional: Schema.Boolean }) })
  })
)

const withEffect = `
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Ampoule from "ampoule/client/config"
import * as Client from "ampoule/client"
import { SecretNotFound } from "ampoule/client/errors"
import { ProjectId } from "ampoule/client/ids"
import { EnvironmentSlug, SecretKey } from "ampoule/client/values"

const credential = Redacted.make(process.env["AMPOULE_API_TOKEN"] ?? "")
const url = process.env["AMPOULE_URL"] ?? ""
const reads = Effect.map(Config.redacted("DATABASE_URL"), Redacted.value)
const missing = Effect.gen(function* () {
  const client = yield* Client.make({ url, credential })
  const { items } = yield* client.projects.list()
  const urlParams = {
    projectId: Schema.decodeSync(ProjectId)(items[0]?.id ?? ""),
    environment: Schema.decodeSync(EnvironmentSlug)("development"),
    key: Schema.decodeSync(SecretKey)("MISSING")
  }
  return yield* client.secrets.readValue({ urlParams }).pipe(
    Effect.map(({ value }) => value),
    Effect.catchTag("SECRET_NOT_FOUND", (error) => Effect.succeed(String(error instanceof SecretNotFound)))
  )
}).pipe(Effect.provide(FetchHttpClient.layer))

const program = Effect.all([reads, missing]).pipe(
  Effect.provide(Ampoule.layer({ url, credential, project: process.env["PROJECT"] ?? "", environment: "development" }))
)
console.log(JSON.stringify(await Effect.runPromise(program)))
`

const withPromises = `
import { AmpouleError, load, open } from "ampoule/client/promise"
const target = { project: process.env["PROJECT"] ?? "", environment: "development" }
const environment = await open(target)
await load(target)
let code = ""
try {
  await open({ ...target, environment: "nowhere" })
} catch (error) {
  if (error instanceof AmpouleError) code = error.code
}
console.log(JSON.stringify([environment.require("DATABASE_URL"), process.env["DATABASE_URL"], code]))
`

/** Every file that these declarations reach, and the packages that they name. */
const declarations = (file: string, seen = new Set<string>(), packages = new Set<string>()) => {
  if (seen.has(file)) return packages
  seen.add(file)
  for (const [, name] of readFileSync(file, "utf8").matchAll(/(?:from |import\()"([^"]*)"/g)) {
    if (name.startsWith(".")) {
      declarations(path.join(path.dirname(file), name.replace(/\.js$/, ".d.ts")), seen, packages)
    } else packages.add(name)
  }
  return packages
}

describe("the package", () => {
  it("installs beside every version of Effect: it names no range that npm could refuse", () => {
    const { peerDependencies, peerDependenciesMeta } = manifest(JSON.parse(readFileSync("package.json", "utf8")))
    assert.deepStrictEqual(peerDependencies, { "@effect/platform": "*", effect: "*" })
    for (const name of Object.keys(peerDependencies)) assert.isTrue(peerDependenciesMeta[name].optional, name)
  })
})

describe("the built command, where nothing else is installed", () => {
  it.scoped("does what a client does; a server says which packages it needs", () =>
    Effect.gen(function* () {
      const folder = yield* scratch
      const program = path.join(folder, "node_modules/ampoule/dist/ampoule.cjs")
      const env = { PATH: process.env["PATH"], HOME: folder, AMPOULE_DATA_DIR: path.join(folder, "data") }
      const said = (...words: ReadonlyArray<string>) => {
        const { status, stderr, stdout } = spawnSync(process.execPath, [program, ...words], {
          cwd: folder,
          env,
          encoding: "utf8"
        })
        return { status, text: stdout + stderr }
      }
      assert.deepStrictEqual(readdirSync(path.join(folder, "node_modules/ampoule")).sort(), ["dist", "package.json"])
      assert.strictEqual(said("completion", "bash").status, 0)
      assert.include(said("run", "--", "true").text, "AMPOULE_API_TOKEN")
      for (const command of [["server"], ["migrate"]]) {
        const { status, text } = said(...command)
        assert.strictEqual(status, 1, text)
        assert.include(text, "npm install --global @electric-sql/pglite@")
        assert.include(text, "@node-rs/argon2@")
      }
      // The vault needs none of them; with a Postgres, neither do the programs that maintain it.
      assert.include(said("vault", "verify-log").text, "0 entries")
      assert.include(said("admin", "users").text, "There is no Ampoule database here yet.")
      assert.include(said("audit", "verify").text, "There is no Ampoule database here yet.")
    })
  )
})

describe("the built client library", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.scoped(
      "runs in another program, with and without Effect, and has the types it says",
      () =>
        Effect.gen(function* () {
          const { project, token, url } = yield* Demo.make({ HOST: "db", DATABASE_URL: "postgres://${HOST}" }, "read")
          const folder = yield* scratch
          const env = {
            PATH: process.env["PATH"],
            AMPOULE_URL: url,
            AMPOULE_API_TOKEN: token.text,
            PROJECT: project.slug
          }
          const answerOf = (program: string) =>
            Effect.promise(async () => {
              const file = path.join(folder, "program.mjs")
              writeFileSync(file, program)
              const { stdout } = await run(process.execPath, [file], { cwd: folder, env })
              return JSON.parse(stdout)
            })
          assert.deepStrictEqual(yield* answerOf(withEffect), ["postgres://db", "true"])
          assert.deepStrictEqual(yield* answerOf(withPromises), [
            "postgres://db",
            "postgres://db",
            "ENVIRONMENT_NOT_FOUND"
          ])

          const installed = path.join(folder, "node_modules/ampoule")
          execFileSync(process.execPath, ["src/buildTypes.mjs", path.join(installed, "dist")], { stdio: "pipe" })
          renameSync(path.join(folder, "program.mjs"), path.join(folder, "promises.mts"))
          writeFileSync(path.join(folder, "effects.mts"), withEffect)
          writeFileSync(
            path.join(folder, "wrong.mts"),
            `import { open } from "ampoule/client/promise"\nawait open({ project: 7, environment: "development" })\n`
          )
          const options = ["--noEmit", "--strict", "--target", "ES2023", "--module", "NodeNext", "--skipLibCheck"]
          const check = (...files: ReadonlyArray<string>) =>
            Effect.promise(() =>
              run(process.execPath, ["node_modules/typescript/bin/tsc", ...options, "--types", "node", ...files], {
                cwd: folder
              }).then(
                () => "",
                (failed: { readonly stdout: string }) => failed.stdout
              )
            )
          assert.strictEqual(yield* check("promises.mts", "effects.mts"), "")
          const types = path.join(installed, "dist/types/src/client")
          assert.deepStrictEqual([...declarations(path.join(types, "Promises.d.ts"))], [])
          assert.include([...declarations(path.join(types, "Client.d.ts"))], "effect/Effect")
          const ofEffect4 = [...declarations(path.join(types, "Effect4.d.ts"))]
          assert.deepStrictEqual(
            ofEffect4.filter((name) => !name.startsWith("effect/")),
            []
          )
          assert.include(readFileSync(path.join(types, "Operations.d.ts"), "utf8"), 'readonly "secrets.readValue"')
          assert.include(yield* check("wrong.mts"), "TS2322")
        }),
      180_000
    )
  })
})
