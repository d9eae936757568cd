/**
 * The GitHub Action and the GitLab include as their runners run them: against a stand-in for the runner's protocol
 * (identity, workflow commands, GITHUB_ENV) and an issuer that signs real JWTs. Without limits: they come from the
 * address from which other files ask for what needs no credential.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { build } from "esbuild"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { parse } from "yaml"
import { Listening } from "#src/http/engine/Server.ts"
import { TextsByName } from "#test/support/Json.ts"
import * as Programs from "#test/support/Programs.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { block } from "#test/deploy/Documents.ts"
import * as LocalIssuer from "./LocalIssuer.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(tmpdir(), "ampoule-job-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

const values = {
  DATABASE_URL: "postgres://app:canary@db.internal/app",
  DISCOUNT: "100%0A of it",
  PRIVATE_KEY: "-----BEGIN KEY-----\nfirst line\r\nsecond line\n-----END KEY-----\n",
  ENVIRONMENT_FILE: "A<<end\nB\nend"
}

/** A project `shop`, and a rule that lets jobs of acme/shop read its production. */
const shop = Effect.gen(function* () {
  const project = yield* World.project({ slug: "shop" })
  const writer = yield* World.token({ team: project.team, environments: [project.production] })
  const put = (secrets: Readonly<Record<string, string>>) =>
    Effect.gen(function* () {
      const json = {
        projectId: project.id,
        environment: "production",
        secrets: Object.entries(secrets).map(([key, value]) => ({ key, value }))
      }
      const { status, text } = yield* TestApp.post("/secrets/bulk", { bearer: writer.text, json })
      assert.strictEqual(status, 201, text)
    })
  yield* put(values)
  const { port } = yield* Listening
  const url = `http://127.0.0.1:${port}`
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
  const { id } = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))(rule.json)
  return { issuer, project, put, rule: id, url }
})

/** The action as a runner's Node loads it; the Node of these tests may be one that does not know types. */
const action = Effect.gen(function* () {
  const folder = yield* temporary
  const program = path.join(folder, "main.mjs")
  yield* Effect.promise(() =>
    build({ entryPoints: ["deploy/action/main.mjs"], outfile: program, bundle: true, platform: "node", format: "esm" })
  )
  return program
})

/** Result of a step in the runner: the log as people see it, masks in their order, variables of later steps. */
const step = (
  program: string,
  given: Effect.Effect.Success<typeof shop>,
  inputs: Readonly<Record<string, string>> = {},
  job: Readonly<Record<string, string | undefined>> = {},
  files: Readonly<Record<string, string>> = {}
) =>
  Effect.gen(function* () {
    const folder = yield* temporary
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), text, { mode: 0o755 })
    const identity = yield* LocalIssuer.serve((request, response) => {
      const audience = new URL(request.url ?? "", "http://x").searchParams.get("audience")
      const allowed = request.headers.authorization === "Bearer runner" && audience === given.url
      void Effect.runPromise(given.issuer.sign({ aud: given.url })).then((value) =>
        response.writeHead(allowed ? 200 : 403, { "content-type": "application/json" }).end(JSON.stringify({ value }))
      )
    })
    const file = path.join(folder, "env")
    fs.writeFileSync(file, "BEFORE=1\n")
    const all = { url: given.url, rule: given.rule, ...inputs }
    const env = {
      PATH: process.env["PATH"],
      NO_PROXY: "*",
      ...Object.fromEntries(Object.entries(all).map(([name, value]) => [`INPUT_${name.toUpperCase()}`, value])),
      ACTIONS_ID_TOKEN_REQUEST_URL: `${identity.url}/request?api-version=2`,
      ACTIONS_ID_TOKEN_REQUEST_TOKEN: "runner",
      GITHUB_ENV: file,
      ...job
    }
    const { code, lines } = yield* Effect.async<{ code: number | null; lines: ReadonlyArray<string> }>((resume) => {
      const child = spawn(process.execPath, [program], { env, cwd: folder, stdio: ["ignore", "pipe", "pipe"] })
      let out = ""
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (out += String(chunk)))
      child.once("close", (code) => resume(Effect.succeed({ code, lines: out.split("\n").slice(0, -1) })))
      return Effect.sync(() => child.kill("SIGKILL"))
    })
    const command = "::add-mask::"
    const masks: Array<string> = []
    const log: Array<string> = []
    const masked = (line: string) =>
      masks.toSorted((a, b) => b.length - a.length).reduce((text, mask) => text.replaceAll(mask, "***"), line)
    for (const line of lines) {
      // A mask holds for what comes after it.
      if (!line.startsWith(command)) log.push(masked(line))
      else {
        const data = line.slice(command.length)
        masks.push(data.replaceAll("%0D", "\r").replaceAll("%0A", "\n").replaceAll("%25", "%"))
      }
    }
    const variables: Record<string, string> = {}
    const rest = fs.readFileSync(file, "utf8").split("\n")
    while (rest.length > 0) {
      const [, name, end] = /^(\w+)<<(.+)$/.exec(rest.shift() ?? "") ?? []
      if (name === undefined || end === undefined) continue
      variables[name] = rest.splice(0, rest.indexOf(end)).join("\n")
      rest.shift()
    }
    return { code, lines, log, masks, variables }
  })

describe("the GitHub Action", () => {
  layer(TestApp.unlimited, { excludeTestServices: true })((it) => {
    it.scoped("masks every value and each of its lines, then sets them for the steps that follow", () =>
      Effect.gen(function* () {
        const { code, log, masks, variables } = yield* step(yield* action, yield* shop)
        assert.deepStrictEqual(log, [])
        assert.strictEqual(code, 0)
        assert.deepStrictEqual(variables, values)
        for (const value of [...Object.values(values), "first line", "second line"]) assert.include(masks, value)
        assert.isFalse(masks.some((mask) => mask.trim() === ""))
      })
    )

    it.scoped("gives them to one command alone, shows none of them, ends as it ends, and revokes the token", () =>
      Effect.gen(function* () {
        const world = yield* shop
        const program = yield* action
        const command = 'echo "$DATABASE_URL"\necho "$PRIVATE_KEY"\nfalse | cat\nexit 7'
        const { code, lines, log, masks, variables } = yield* step(program, world, { command })
        assert.strictEqual(code, 1, "a pipe that fails ends it")
        assert.isBelow(
          lines.lastIndexOf(lines.findLast((line) => line.startsWith("::add-mask::")) ?? ""),
          lines.indexOf(values.DATABASE_URL)
        )
        for (const line of log) assert.match(line, /^(?:\*\*\*)?\r?$/)
        assert.isAbove(log.length, 4)
        assert.deepStrictEqual(variables, {})
        const token = masks.find((mask) => mask.startsWith("amp_at_"))
        assert.isDefined(token)
        const { status, text } = yield* TestApp.get("/me/verify", { bearer: token })
        assert.strictEqual(status, 401)
        assert.include(text, "CREDENTIAL_REVOKED")
        assert.strictEqual((yield* step(program, world, { command: "exit 7" })).code, 7)
        assert.strictEqual((yield* step(program, world, { command: "kill -TERM $$" })).code, 143)
        // By its id too.
        assert.strictEqual((yield* step(program, world, { project: world.project.id, command: "true" })).code, 0)
      })
    )

    it.scoped("refuses names that decide which code runs, and says so without a value", () =>
      Effect.gen(function* () {
        const world = yield* shop
        const program = yield* action
        yield* world.put({ NODE_OPTIONS: "--require=./canary.js", RUNNER_TEMP: "canary" })
        const refused = yield* step(program, world)
        assert.strictEqual(refused.code, 1)
        assert.deepStrictEqual(refused.log, [
          "::error::NODE_OPTIONS, RUNNER_TEMP would change which code runs: name what is meant to in `allow`."
        ])
        assert.deepStrictEqual(refused.variables, {})
        const allowed = yield* step(program, world, { allow: "NODE_OPTIONS RUNNER_TEMP", command: "echo $RUNNER_TEMP" })
        assert.deepStrictEqual([allowed.code, allowed.log], [0, ["***"]])
      })
    )

    it.scoped("says in a sentence what is wrong", () =>
      Effect.gen(function* () {
        const world = yield* shop
        const program = yield* action
        const said = (...[inputs, job]: [Readonly<Record<string, string>>, Readonly<Record<string, undefined>>?]) =>
          Effect.map(step(program, world, inputs, job), ({ code, lines, variables }) => {
            assert.strictEqual(code, 1)
            assert.deepStrictEqual(variables, {})
            return lines.at(-1) ?? ""
          })
        assert.include(yield* said({ project: "other", environment: "production" }), "reaches no project of this name")
        assert.include(
          yield* said({ project: "other" }),
          "Which environment? Give the input environment or set AMPOULE"
        )
        assert.include(yield* said({ environment: "staging" }), "The environment: 404")
        assert.include(yield* said({ rule: world.project.id }), "The exchange: 400")
        assert.include(yield* said({ url: "http://ampoule.example.com" }), "must be an https address")
        assert.include(yield* said({ rule: "" }), "The input rule is missing")
        assert.include(yield* said({ audience: "another" }), "The job's identity: 403")
        assert.include(yield* said({}, { ACTIONS_ID_TOKEN_REQUEST_URL: undefined }), "`permissions: id-token: write`")
      })
    )

    it.scoped("runs as the recipe has it", () =>
      Effect.gen(function* () {
        const workflow = parse(block("docs/recipes/github-actions.md", "deploy.yml"))
        assert.strictEqual(workflow.permissions["id-token"], "write")
        const used = workflow.jobs.deploy.steps.find((one: { uses: string }) => one.uses.includes("ampoule"))
        assert.include(used.uses, "/deploy/action@")
        const { rule: _, url: __, ...inputs } = Schema.decodeUnknownSync(TextsByName)(used.with)
        const files = { "deploy.sh": '#!/bin/sh\necho "as $DATABASE_URL"\n' }
        const { code, log } = yield* step(yield* action, yield* shop, inputs, {}, files)
        assert.deepStrictEqual([code, log], [0, ["as ***"]])
      })
    )

    it.effect("declares the inputs that it reads", () =>
      Effect.sync(() => {
        const declared = parse(fs.readFileSync("deploy/action/action.yml", "utf8"))
        assert.isTrue(fs.existsSync(path.join("deploy/action", declared.runs.main)))
        const program = fs.readFileSync("deploy/action/main.mjs", "utf8")
        const read = [...program.matchAll(/(?:optional|input)\("(\w+)"\)/g)].map(([, name]) => name)
        assert.sameMembers([...new Set(read)], Object.keys(declared.inputs))
      })
    )
  })
})

describe("the GitLab include", () => {
  layer(TestApp.unlimited, { excludeTestServices: true })((it) => {
    it.scoped.skipIf(Programs.missing("bash", "curl", "jq"))(
      "makes the job's identity a token, before the job's own lines",
      () =>
        Effect.gen(function* () {
          const world = yield* shop
          const template = parse(fs.readFileSync("deploy/gitlab/ampoule.yml", "utf8"))[".ampoule"]
          const { deploy, include } = parse(block("docs/recipes/gitlab.md", ".gitlab-ci.yml"))
          assert.strictEqual(deploy.extends, ".ampoule")
          assert.isTrue(fs.existsSync(include[0].file))
          assert.sameMembers(Object.keys(deploy.variables), ["AMPOULE_URL", "AMPOULE_RULE"])
          assert.deepStrictEqual(template.id_tokens, { AMPOULE_JWT: { aud: "$AMPOULE_URL" } })
          const jwt = yield* world.issuer.sign({ aud: world.url })
          const script = [...template.before_script, 'echo "$AMPOULE_API_TOKEN ${AMPOULE_JWT-gone}"'].join("\n")
          const job = (variables: Readonly<Record<string, string>>) =>
            Effect.async<string>((resume) => {
              const env = {
                PATH: process.env["PATH"],
                NO_PROXY: "*",
                AMPOULE_URL: world.url,
                AMPOULE_RULE: world.rule,
                ...variables
              }
              const child = spawn("bash", ["-eo", "pipefail", "-c", script], {
                env,
                stdio: ["ignore", "pipe", "ignore"]
              })
              let out = ""
              child.stdout.on("data", (chunk) => (out += String(chunk)))
              child.once("close", () => resume(Effect.succeed(out)))
            })
          const [token = "", left] = (yield* job({ AMPOULE_JWT: jwt })).trim().split(" ")
          assert.strictEqual(left, "gone")
          const answer = yield* TestApp.get(`/secrets/inject?projectId=${world.project.id}&environment=production`, {
            bearer: token
          })
          assert.deepStrictEqual(Schema.decodeUnknownSync(TextsByName)(answer.json.values), values)
          // A JWT that is not accepted ends the job there.
          assert.strictEqual(yield* job({ AMPOULE_JWT: "not.a.jwt" }), "")
        })
    )
  })
})
