/** Every recipe of docs/recipes.md, taken from the page and run, as far as this machine goes. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"
import { parse, parseAllDocuments } from "yaml"
import { Listening } from "#src/http/Server.ts"
import { scratch } from "#test/client/Installed.ts"
import * as LocalIssuer from "#test/machines/LocalIssuer.ts"
import { freePort } from "#test/support/FreePort.ts"
import { AnyObject, bodyOf, parsed, Texts } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const page = fs.readFileSync("docs/recipes.md", "utf8")
/** The block of the page that is marked with this name of a file. */
const block = (name: string): string => {
  const found = new RegExp(`^\`\`\`\\S+ ${name.replaceAll(".", "\\.")}\\n(.*?)^\`\`\`$`, "ms").exec(page)?.[1]
  if (found === undefined) throw new Error(`docs/recipes.md has no ${name}`)
  return found
}
const has = (...programs: ReadonlyArray<string>) =>
  programs.every((program) => spawnSync("which", [program], { stdio: "ignore" }).status === 0)

const run = promisify(execFile)
const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(tmpdir(), "ampoule-recipe-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

const values = {
  DATABASE_URL: "postgres://app:canary@db.internal/app",
  SMTP_HOST: "smtp.internal",
  SMTP_PORT: "2525",
  VITE_API: "https://api.example.com"
}

/** A project `shop` with these values in production, and a token that reads that environment alone. */
const shop = Effect.gen(function* () {
  const project = yield* World.project({ slug: "shop" })
  const writer = yield* World.token({ team: project.team, environments: [project.production, project.development] })
  for (const environment of ["production", "development"]) {
    const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
    const json = { projectId: project.id, environment, secrets }
    const { status } = yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json })
    assert.strictEqual(status, 201)
  }
  const reader = yield* World.token({
    team: project.team,
    accessLevel: "read",
    projects: [project],
    environments: [project.production, project.development]
  })
  const { port } = yield* Listening
  return { project, token: reader.text, writer: writer.text, url: `http://127.0.0.1:${port}` }
})

/** Folder with the program as the image has it, and `ampoule` to be found in `bin`. */
const image = Effect.gen(function* () {
  const folder = yield* temporary
  const release = yield* Release.build
  const app = path.join(folder, "opt/ampoule")
  execFileSync(process.execPath, ["deploy/collect.mjs", app, path.join(release, "dist")], { stdio: "pipe" })
  const bin = path.join(folder, "bin")
  fs.mkdirSync(bin)
  fs.symlinkSync(path.join(app, "dist/ampoule.mjs"), path.join(bin, "ampoule"))
  const srv = path.join(folder, "srv")
  fs.mkdirSync(srv)
  const env = { PATH: `${bin}:${process.env["PATH"]}`, HOME: folder }
  return { folder, srv, program: path.join(app, "dist/ampoule.mjs"), env }
})

/** Says what it got, then waits for a signal and ends with 7. */
const serverProgram = `
process.on("SIGTERM", () => { console.log("stopping"); process.exit(7) })
setInterval(() => {}, 1_000)
console.log(JSON.stringify({ url: process.env.DATABASE_URL, token: process.env.AMPOULE_API_TOKEN_FILE ?? null }))
`
const untilStopped = (command: string, args: ReadonlyArray<string>, options: { cwd: string; env: NodeJS.ProcessEnv }) =>
  Effect.async<{ readonly code: number | null; readonly out: string }>((resume) => {
    const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] })
    let out = ""
    const read = (chunk: unknown) => {
      const before = out
      out += String(chunk)
      if (!before.includes("\n") && out.includes("\n")) child.kill("SIGTERM")
    }
    child.stdout.on("data", read)
    child.stderr.on("data", (chunk) => (out += String(chunk)))
    child.once("close", (code) => resume(Effect.succeed({ code, out })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const endGroup = (pid: number | undefined) => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    // Nothing of it is left.
  }
}

describe("docs/recipes.md", () => {
  layer(TestApp.layer, { excludeTestServices: true })((it) => {
    it.scoped(
      "Dockerfile entrypoint and systemd: variables arrive, the token does not, signals and the exit code pass",
      () =>
        Effect.gen(function* () {
          const { token, url } = yield* shop
          const { env, folder, srv } = yield* image
          const dockerfile = block("Dockerfile").split("\n")
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

          if (has("systemd-analyze")) {
            const file = path.join(folder, "shop.service")
            fs.writeFileSync(file, unit)
            const { stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8" })
            const complaints = stderr.split("\n").filter((line) => line.includes("shop.service"))
            assert.deepStrictEqual(
              complaints.filter((line) => !line.includes("not executable")),
              []
            )
          }
        }),
      180_000
    )

    it.scoped.skipIf(!has("curl", "jq", "bash"))(
      "GitHub Actions: the job's identity becomes a token, and the deployment has its variables",
      () =>
        Effect.gen(function* () {
          const { project, url } = yield* shop
          const { env, folder, srv } = yield* image
          const issuer = yield* LocalIssuer.make()
          const session = (yield* World.session(project.team.owner)).text
          const rule = yield* TestApp.post(`/teams/${project.team.id}/machine-rules`, {
            session,
            json: {
              name: "shop deploys",
              issuer: issuer.url,
              audience: url,
              claims: { repository: "acme/shop", ref: "refs/heads/main" },
              projects: [project.id],
              environments: ["production"]
            }
          })
          assert.strictEqual(rule.status, 201, rule.text)
          const jwt = yield* issuer.sign({ aud: url })
          const runner = yield* LocalIssuer.serve((request, response) => {
            const audience = new URL(request.url ?? "", "http://x").searchParams.get("audience")
            const allowed = request.headers.authorization === "Bearer runner" && audience === url
            response.writeHead(allowed ? 200 : 403).end(JSON.stringify({ value: jwt }))
          })
          const workflow = parse(block("deploy.yml"))
          assert.strictEqual(workflow.permissions["id-token"], "write")
          const steps: ReadonlyArray<{ readonly name?: string; readonly run?: string }> = workflow.jobs.deploy.steps
          const script = (name: string) => steps.find((step) => step.name === name)?.run ?? ""
          const githubEnv = path.join(folder, "github-env")
          const job = {
            ...env,
            NO_PROXY: "*",
            AMPOULE_URL: url,
            AMPOULE_RULE: rule.json.id,
            ACTIONS_ID_TOKEN_REQUEST_URL: `${runner.url}/request?api-version=2`,
            ACTIONS_ID_TOKEN_REQUEST_TOKEN: "runner",
            GITHUB_ENV: githubEnv
          }
          const exchanged = yield* Effect.promise(() =>
            run("bash", ["-e", "-c", script("Token for Ampoule")], { cwd: srv, env: job })
          )
          const set = Object.fromEntries(
            fs
              .readFileSync(githubEnv, "utf8")
              .trim()
              .split("\n")
              .map((line) => line.split("=") as [string, string])
          )
          assert.match(set["AMPOULE_API_TOKEN"], /^amp_at_/)
          assert.strictEqual(exchanged.stdout, `::add-mask::${set["AMPOULE_API_TOKEN"]}\n`)
          fs.writeFileSync(path.join(srv, "deploy.sh"), '#!/bin/sh\necho "to $SMTP_HOST as $DATABASE_URL"\n', {
            mode: 0o755
          })
          const deployed = yield* Effect.promise(() =>
            run("bash", ["-e", "-c", script("Deploy")], { cwd: srv, env: { ...job, ...set } })
          )
          assert.match(deployed.stdout, /^to .+ as .+\n$/)
          assert.notInclude(deployed.stdout, values.DATABASE_URL)
          assert.notInclude(deployed.stdout, values.SMTP_HOST)
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
        /** What the operator does of its templates and of JSONPath, as far as these stores use them. */
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
          const { project, token, url, writer } = yield* shop
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
          const lines = page.split("\n").filter((one) => one.startsWith("ampoule run ") && one.includes("vite"))
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

    it.scoped(
      "client library: both programs, with plain node",
      () =>
        Effect.gen(function* () {
          const { token, url } = yield* shop
          const folder = yield* scratch
          const env = { PATH: process.env["PATH"], AMPOULE_URL: url, AMPOULE_API_TOKEN: token }
          const said = (name: string) =>
            Effect.promise(async () => {
              fs.writeFileSync(path.join(folder, name), block(name))
              const { stdout } = await run(process.execPath, [name], { cwd: folder, env })
              return stdout
            })
          assert.strictEqual(yield* said("effect.mjs"), "db.internal smtp.internal 2525\n")
          assert.strictEqual(yield* said("plain.mjs"), "db.internal\nsmtp.internal\nENVIRONMENT_NOT_FOUND\n")
        }),
      180_000
    )
  })
})
