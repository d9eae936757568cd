/** Every recipe of docs/recipes, taken from its page and run, as far as this machine goes. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { promisify } from "node:util"
import { parseAllDocuments } from "yaml"
import { scratch } from "#test/client/Installed.ts"
import { freePort } from "#test/support/FreePort.ts"
import { AnyObject, bodyOf, parsed, Texts } from "#test/support/Json.ts"
import * as Programs from "#test/support/Programs.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Documents from "./Documents.ts"
import { image, serverProgram, shop, untilStopped, values } from "./Shop.ts"

const systemd = fs.readFileSync("docs/recipes/systemd.md", "utf8")
const block = Documents.recipe

const run = promisify(execFile)
const Exports = Schema.Struct({ exports: Schema.Record({ key: Schema.String, value: Schema.Unknown }) })

const endGroup = (pid: number | undefined) => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    // Nothing of it is left.
  }
}

describe("docs/recipes", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.scoped(
      "Dockerfile entrypoint and systemd: variables arrive, the token does not, signals and the exit code pass",
      () =>
        Effect.gen(function* () {
          const { token, url } = yield* shop
          const { env, folder, srv } = yield* image
          const dockerfile = block("Dockerfile").split("\n")
          // Where `ampoule run` becomes the command, and so is no process 1 that reaps nothing.
          const major = /^FROM node:(\d+)\./.exec(dockerfile[0] ?? "")?.[1]
          assert.isAtLeast(Number(major), 24)
          const words = (instruction: string) =>
            parsed(Texts)((dockerfile.find((line) => line.startsWith(instruction)) ?? "").slice(instruction.length))
          const [command = "", ...args] = [...words("ENTRYPOINT "), ...words("CMD ")]
          fs.writeFileSync(path.join(srv, "server.mjs"), serverProgram)
          const file = path.join(folder, "token")
          fs.writeFileSync(file, `${token}\n`)
          const { code, out } = yield* untilStopped(command, args, {
            cwd: srv,
            env: { ...env, AMPOULE_URL: url, AMPOULE_API_TOKEN_FILE: file }
          })
          const [first, second] = out.split("\n")
          assert.deepStrictEqual(JSON.parse(first), { url: values.DATABASE_URL, token: null })
          assert.strictEqual(second, "stopping")
          assert.strictEqual(code, 7)

          // The unit's command, with the credential folder that systemd would have made.
          const unit = block("shop.service")
          const start = /^ExecStart=(.*)$/m.exec(unit)?.[1] ?? ""
          const [node = "", ...rest] = start
            .replaceAll("/usr/bin/node", process.execPath)
            .replace("/opt/ampoule", path.join(folder, "opt/ampoule"))
            .replace("/srv/shop", srv)
            .split(" ")
          const credentials = path.join(folder, "credentials")
          fs.mkdirSync(credentials)
          const name = /^LoadCredential=(\w+):/m.exec(unit)?.[1] ?? ""
          fs.writeFileSync(path.join(credentials, name), token, { mode: 0o400 })
          const variable = /^Environment=AMPOULE_API_TOKEN_FILE=(.*)$/m.exec(unit)?.[1] ?? ""
          const under = yield* untilStopped(node, rest, {
            cwd: folder,
            env: { ...env, AMPOULE_URL: url, AMPOULE_API_TOKEN_FILE: variable.replace("%d", credentials) }
          })
          assert.include(under.out, values.DATABASE_URL)
          assert.strictEqual(under.code, 7)

          const sealed = /LoadCredentialEncrypted=\S+(?=`)/.exec(systemd)?.[0] ?? ""
          assert.include(block("systemd-creds"), sealed.split(":")[1])
          for (const [i, text] of [unit, unit.replace(/^LoadCredential=.*$/m, sealed)].entries()) {
            if (Programs.missing("systemd-analyze")) continue
            assert.include(text, "LoadCredential")
            const file = path.join(folder, `shop-${i}.service`)
            fs.writeFileSync(file, text)
            const { stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8" })
            const complaints = stderr.split("\n").filter((line) => line.includes("shop-"))
            assert.deepStrictEqual(
              complaints.filter((line) => !line.includes("not executable")),
              []
            )
          }
          if (!Programs.missing("systemd-creds")) {
            const cred = path.join(folder, "token.cred")
            // The key of the machine stays out of a test.
            const line = block("systemd-creds")
              .trim()
              .replace("systemd-creds encrypt", "systemd-creds encrypt --with-key=tpm2-absent")
              .replace("/etc/shop/ampoule-token.cred", cred)
              .replace("/etc/shop/ampoule-token", file)
            execFileSync("bash", ["-ec", line], { stdio: "pipe" })
            assert.notInclude(fs.readFileSync(cred, "latin1"), token)
            const opened = execFileSync("systemd-creds", ["decrypt", "--name=ampoule", cred, "-"], { encoding: "utf8" })
            assert.strictEqual(opened.trim(), token)
          }
        }),
      180_000
    )

    it.scoped("External Secrets: the requests of both stores, as the operator makes them", () =>
      Effect.gen(function* () {
        const { project, token, url } = yield* shop
        const documents = parseAllDocuments(block("external-secrets.yaml")).map((document) => document.toJS())
        const named = (kind: string, name: string) =>
          documents.find((one) => one.kind === kind && one.metadata.name === name)
        const secret = named("Secret", "ampoule-token")
        assert.strictEqual(secret.metadata.labels["external-secrets.io/type"], "webhook")
        /** The operator's templates and JSONPath, as far as these stores use them. */
        const ask = (store: string, key: string) =>
          Effect.promise(async () => {
            const { webhook } = named("SecretStore", store).spec.provider
            const [auth] = webhook.secrets
            assert.strictEqual(auth.secretRef.name, secret.metadata.name)
            const filled = (template: string) =>
              template.replaceAll(/\{\{ (\S+) \}\}/g, (_, name: string) => {
                if (name === ".remoteRef.key") return key
                assert.strictEqual(name, `.${auth.name}.token`)
                assert.include(Object.keys(secret.stringData), "token")
                return token
              })
            const address = filled(webhook.url)
              .replace("https://ampoule.example.com", url)
              .replace("01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e", project.id)
            const headers = Object.fromEntries(
              Object.entries<string>(webhook.headers).map(([name, template]) => [name, filled(template)])
            )
            const response = await fetch(address, { method: webhook.method, headers })
            const body = await bodyOf(AnyObject, response)
            return { status: response.status, found: body[webhook.result.jsonPath.replace("$.", "")] }
          })
        const one = named("ExternalSecret", "shop-database").spec
        const single = yield* ask(one.secretStoreRef.name, one.data[0].remoteRef.key)
        assert.deepStrictEqual(single, { status: 200, found: values.DATABASE_URL })
        const all = named("ExternalSecret", "shop").spec
        const whole = yield* ask(all.secretStoreRef.name, all.dataFrom[0].extract.key)
        assert.deepStrictEqual(whole, { status: 200, found: values })
        // 404 is what the operator takes for "there is no such secret".
        assert.strictEqual((yield* ask(one.secretStoreRef.name, "MISSING")).status, 404)
      })
    )

    it.scoped(
      "Vite: its dev server has the variables, the browser only those that are meant for it; a change restarts it",
      () =>
        Effect.gen(function* () {
          const { developerToken: token, project, url, writer } = yield* shop
          const { env, folder } = yield* image
          const site = path.join(folder, "site")
          fs.mkdirSync(path.join(site, "node_modules/.bin"), { recursive: true })
          fs.symlinkSync(path.resolve("node_modules/vite"), path.join(site, "node_modules/vite"))
          fs.symlinkSync("../vite/bin/vite.js", path.join(site, "node_modules/.bin/vite"))
          fs.writeFileSync(path.join(site, "package.json"), JSON.stringify({ type: "module", private: true }))
          fs.writeFileSync(path.join(site, "index.html"), `<script type="module" src="/main.js"></script>`)
          fs.writeFileSync(
            path.join(site, "main.js"),
            `console.log(import.meta.env.VITE_API, import.meta.env.DATABASE_URL)`
          )
          fs.writeFileSync(
            path.join(site, "vite.config.js"),
            `import { writeFileSync } from "node:fs"
             writeFileSync("seen", process.env.DATABASE_URL + " " + process.env.VITE_API)
             export default { cacheDir: "cache" }`
          )
          /** The line of the page as a process group of its own; nothing of it is left when the scope closes. */
          const start = (line: string | undefined) =>
            Effect.gen(function* () {
              assert.isDefined(line)
              const port = yield* freePort
              const child = yield* Effect.acquireRelease(
                Effect.sync(() =>
                  spawn("sh", ["-c", `exec ${line} --port ${port} --strictPort --host 127.0.0.1`], {
                    cwd: site,
                    env: { ...env, AMPOULE_URL: url, AMPOULE_API_TOKEN: token },
                    stdio: "ignore",
                    detached: true
                  })
                ),
                (child) => Effect.sync(() => endGroup(child.pid))
              )
              const module = Effect.tryPromise(async () => {
                const response = await fetch(`http://127.0.0.1:${port}/main.js`)
                return response.text()
              }).pipe(Effect.retry(Schedule.intersect(Schedule.spaced("200 millis"), Schedule.recurs(200))))
              const stop = Effect.async<void>((resume) => {
                child.once("exit", () => resume(Effect.void))
                child.kill("SIGTERM")
              })
              return { module, stop, port }
            })
          const lines = fs
            .readFileSync("docs/recipes/dev-servers.md", "utf8")
            .split("\n")
            .filter((one) => one.startsWith("ampoule run ") && one.includes("vite"))
          assert.strictEqual(lines.length, 2)

          const plain = yield* start(lines.find((line) => line.endsWith("-- npx vite")))
          const module = yield* plain.module
          assert.include(module, values.VITE_API)
          assert.notInclude(module, "canary")
          assert.strictEqual(
            fs.readFileSync(path.join(site, "seen"), "utf8"),
            `${values.DATABASE_URL} ${values.VITE_API}`
          )

          const watching = lines.find((line) => line.includes("--watch"))
          const watched = yield* start(watching?.replace("--watch", "--watch --watch-interval 1s"))
          assert.include(yield* watched.module, values.VITE_API)
          const changed = "https://other.example.com"
          const json = {
            projectId: project.id,
            environment: "development",
            secrets: [{ key: "VITE_API", value: changed }]
          }
          assert.strictEqual((yield* TestApp.post("/secrets/bulk", { bearer: writer, json })).status, 201)
          yield* Effect.repeat(watched.module, {
            until: (text) => text.includes(changed),
            schedule: Schedule.spaced("200 millis")
          })
          yield* watched.stop
          const gone = yield* Effect.exit(Effect.tryPromise(() => fetch(`http://127.0.0.1:${watched.port}/main.js`)))
          assert.isTrue(Exit.isFailure(gone))
        }),
      180_000
    )

    it.effect("client library: a page names each of its modules", () =>
      Effect.sync(() => {
        const { exports } = parsed(Exports)(fs.readFileSync("package.json", "utf8"))
        const pages = ["README.md", ...Documents.pagesIn("docs"), ...Documents.pagesIn("docs/recipes")]
        const text = pages.map((name) => fs.readFileSync(name, "utf8"))
        const modules = Object.keys(exports).filter((name) => name !== "./package.json")
        assert.isAbove(modules.length, 4)
        for (const name of modules) {
          const whole = new RegExp(`${name.replace(".", "ampoule")}(?![\\w/])`)
          assert.isTrue(
            text.some((page) => whole.test(page)),
            name
          )
        }
      })
    )

    it.scoped(
      "client library: all programs, with plain node",
      () =>
        Effect.gen(function* () {
          const { project, token, url } = yield* shop
          const folder = yield* scratch
          const env = { PATH: process.env["PATH"], AMPOULE_URL: url, AMPOULE_API_TOKEN: token }
          const said = (name: string) =>
            Effect.promise(async () => {
              const text = block(name).replace("01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e", project.id)
              fs.writeFileSync(path.join(folder, name), text)
              const { stdout } = await run(process.execPath, [name], { cwd: folder, env })
              return stdout
            })
          fs.writeFileSync(path.join(folder, "imports.mjs"), Documents.block("README.md", "imports.mjs"))
          yield* Effect.promise(() => run(process.execPath, ["imports.mjs"], { cwd: folder, env }))
          assert.strictEqual(yield* said("effect.mjs"), "db.internal smtp.internal 2525\n")
          assert.strictEqual(yield* said("typed.mjs"), "db.internal SMTP_USER is not there\n")
          assert.strictEqual(yield* said("plain.mjs"), "db.internal\nsmtp.internal\nENVIRONMENT_NOT_FOUND\n")
        }),
      180_000
    )
  })
})
