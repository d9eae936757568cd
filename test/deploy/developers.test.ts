/** The recipes of docs/recipes for where developers are, taken from the page and run, as far as this machine goes. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { execFile, execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { parse } from "yaml"
import { parsed, TextsByName } from "#test/support/Json.ts"
import * as Programs from "#test/support/Programs.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Documents from "./Documents.ts"
import * as Mise from "./Mise.ts"
import { image, serverProgram, shop, untilStopped, values } from "./Shop.ts"

const recipes = Documents.pagesIn("docs/recipes").map((file) => fs.readFileSync(file, "utf8"))
const block = Documents.recipe
/** The line of the recipes that starts so and holds this. */
const line = (...parts: ReadonlyArray<string>): string => {
  const lines = recipes
    .flatMap((page) => page.split("\n"))
    .filter((one) => one.startsWith("ampoule run ") && parts.every((part) => one.includes(part)))
  assert.strictEqual(lines.length, 1, parts.join())
  return lines[0]
}
const run = promisify(execFile)

/** The environment of a developer who is signed in, in a folder of their own. */
const developer = Effect.gen(function* () {
  const { developerToken: token, token: productionToken, url, ...more } = yield* shop
  const { env, srv } = yield* image
  const all = { ...env, AMPOULE_URL: url, AMPOULE_API_TOKEN: token, NO_PROXY: "*" }
  const bash = (script: string) =>
    Effect.promise(() => run("bash", ["--norc", "-ec", script], { cwd: srv, env: all })).pipe(
      Effect.map(({ stdout }) => stdout.trim().split("\n"))
    )
  const { project, writer } = more
  const secrets = [{ key: "DATABASE_URL", value: "changed" }]
  const json = JSON.stringify({ projectId: project.id, environment: "development", secrets })
  /** A line that changes DATABASE_URL, as somebody else might. */
  const change = `curl -fsS -o /dev/null "$AMPOULE_URL/secrets/bulk" -H "Authorization: Bearer ${writer}" -H "Content-Type: application/json" -d '${json}'`
  return { project, token, productionToken, url, env: all, srv, bash, change }
})

/** Effect of the line with `--watch` at a change: it starts its command again, which touches the file first. */
const touched = (command: string) => {
  const script = /sh -c '([^;]+); exec sleep infinity'$/.exec(command)?.[1]
  assert.isDefined(script)
  // File systems may keep whole seconds.
  return script.replace("touch ", "touch -d '+3 seconds' ")
}

describe("docs/recipes, for developers", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.scoped.skipIf(Programs.missing("direnv"))(
      "direnv: variables are there inside of the folder, and anew when the watched file changes",
      () =>
        Effect.gen(function* () {
          const { bash, change, srv } = yield* developer
          fs.writeFileSync(path.join(srv, ".envrc"), block(".envrc"))
          const printed = `eval "$(direnv export bash 2>/dev/null)"; echo "$DATABASE_URL"`
          yield* bash("direnv allow .")
          assert.deepStrictEqual(
            yield* bash(`${printed}; cd ..; eval "$(direnv export bash 2>/dev/null)"; echo "$DATABASE_URL-"`),
            [values.DATABASE_URL, "-"]
          )
          assert.deepStrictEqual(
            yield* bash([printed, change, printed, touched(line("--watch", ".ampoule-changed")), printed].join("\n")),
            [values.DATABASE_URL, values.DATABASE_URL, "changed"]
          )
        }),
      180_000
    )

    it.scoped.skipIf(Mise.missing)(
      "mise: variables are set, and set again when the script looks changed",
      () =>
        Effect.gen(function* () {
          const { bash: plain, change, srv } = yield* developer
          const folder = Mise.folder()
          const bash = (script: string) =>
            plain(folder === undefined ? script : `export PATH="${folder}:$PATH"\n${script}`)
          fs.writeFileSync(path.join(srv, "mise.toml"), block("mise.toml"))
          fs.writeFileSync(path.join(srv, "ampoule.sh"), block("ampoule.sh"))
          yield* bash("mise trust --quiet")
          const { DATABASE_URL } = parsed(TextsByName)((yield* bash("mise env --json")).join("\n"))
          assert.strictEqual(DATABASE_URL, values.DATABASE_URL)
          const printed = `eval "$(mise hook-env --quiet -s bash)"; echo "$DATABASE_URL"`
          assert.deepStrictEqual(
            yield* bash(
              [
                'eval "$(mise activate bash)"',
                printed,
                change,
                touched(line("--watch", "touch ampoule.sh")),
                printed
              ].join("\n")
            ),
            [values.DATABASE_URL, "changed"]
          )
        }),
      180_000
    )

    it.scoped(
      "dev container and Compose: the commands have the variables, and the files name no value",
      () =>
        Effect.gen(function* () {
          const { bash, env, srv, token, url } = yield* developer
          const container = parsed(
            Schema.Struct({
              remoteEnv: TextsByName,
              postAttachCommand: Schema.String,
              postCreateCommand: Schema.String
            })
          )(block("devcontainer.json"))
          const version = parsed(Schema.Struct({ version: Schema.String }))(
            fs.readFileSync("package.json", "utf8")
          ).version
          assert.include(container.postCreateCommand, `ampoule@${version}`)
          const remote = Object.fromEntries(
            Object.entries(container.remoteEnv).map(([name, value]) => [
              name,
              value.replace("https://ampoule.example.com", url).replace("${localEnv:AMPOULE_API_TOKEN}", token)
            ])
          )
          assert.deepStrictEqual(remote, { AMPOULE_URL: url, AMPOULE_API_TOKEN: token })
          fs.writeFileSync(path.join(srv, "server.mjs"), serverProgram)
          const [command = "", ...args] = container.postAttachCommand.split(" ")
          const { code, out } = yield* untilStopped(command, args, {
            cwd: srv,
            env: { PATH: env.PATH, HOME: env.HOME, ...remote }
          })
          assert.include(out, values.DATABASE_URL)
          assert.strictEqual(code, 7)

          const { environment } = parse(block("compose.yaml")).services.shop
          assert.isTrue(environment.every((name: string) => /^[A-Z_]+$/.test(name)))
          // Compose: "values are resolved on the machine Compose is running on".
          const docker = `#!/bin/sh\necho "$*"\n${environment.map((name: string) => `echo "$${name}"`).join("\n")}\n`
          fs.writeFileSync(path.join(path.dirname(srv), "bin/docker"), docker, { mode: 0o755 })
          assert.deepStrictEqual(yield* bash(line("-- docker compose up")), [
            "compose up --detach",
            values.DATABASE_URL,
            values.SMTP_HOST
          ])
        }),
      180_000
    )

    it.scoped.skipIf(Programs.missing("python3", "go"))(
      "Python and Go: programs that fetch the values themselves, and what they say of an environment that is not there",
      () =>
        Effect.gen(function* () {
          const { env: ofDeveloper, productionToken, project, srv } = yield* developer
          const env = { ...ofDeveloper, AMPOULE_API_TOKEN: productionToken }
          const filled = (name: string) => block(name).replace("01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e", project.id)
          const nowhere = (text: string) => text.replace('"production"', '"nowhere"')
          const said = (command: string, ...args: ReadonlyArray<string>) =>
            Effect.promise(() =>
              run(command, args, { cwd: srv, env }).then(
                ({ stdout }) => stdout.trim(),
                (failed: { readonly stderr: string }) => failed.stderr.trim()
              )
            )
          const go = (name: string, text: string) => {
            fs.mkdirSync(path.join(srv, name))
            fs.writeFileSync(path.join(srv, name, "main.go"), text)
            // Built with the cache of this account; nothing is downloaded.
            const env = { ...process.env, GOFLAGS: "-mod=mod", GO111MODULE: "off" }
            execFileSync("go", ["build", "-o", `../${name}.bin`, "main.go"], {
              cwd: path.join(srv, name),
              env,
              stdio: "pipe"
            })
            return path.join(srv, `${name}.bin`)
          }
          fs.writeFileSync(path.join(srv, "app.py"), filled("app.py"))
          fs.writeFileSync(path.join(srv, "nowhere.py"), nowhere(filled("app.py")))
          assert.strictEqual(yield* said("python3", "app.py"), "db.internal")
          assert.strictEqual(yield* said("python3", "nowhere.py"), "Ampoule: ENVIRONMENT_NOT_FOUND")
          assert.strictEqual(yield* said(go("there", filled("main.go"))), "db.internal")
          assert.include(yield* said(go("nowhere", nowhere(filled("main.go")))), "ampoule: ENVIRONMENT_NOT_FOUND")
        }),
      180_000
    )
  })
})
