/**
 * A reader of the pages: an empty home with the released program, beside a server of its own. Ada owns the team, Bob is a
 * member; project `shop` has its three environments. Ada's browser approves each code that a command shows.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { cliScopes } from "#schema/Scopes.ts"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import { parsed } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"

export const setupCode = "amp_su_reader"
export const password = "correct horse battery staple 7"
const Ids = parsed(Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, slug: Schema.String })) }))
const Team = parsed(Schema.Struct({ team: Schema.Struct({ id: Schema.String }) }))
const Created = parsed(Schema.Struct({ id: Schema.String }))
const Invited = parsed(Schema.Struct({ inviteUrl: Schema.String }))
const TokenText = parsed(Schema.Struct({ value: Schema.String }))

export interface Ended {
  readonly code: number | null
  /** Standard output and error, as they came. */
  readonly output: string
}

/** A request of a browser; fails unless it succeeds. */
export const ask = (url: string, cookie: string, method: string, route: string, json?: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${route}`, {
      method,
      headers: { cookie, ...(json === undefined ? {} : { "content-type": "application/json" }) },
      ...(json === undefined ? {} : { body: JSON.stringify(json) })
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${route}: ${response.status} ${text}`)
    return {
      text,
      cookie:
        response.headers
          .getSetCookie()
          .find((one) => one.includes("ampoule_session="))
          ?.split(";")[0] ?? ""
    }
  })

export const temporary = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-reader-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

/** Waits for the first checkpoint of the trail, which servers write every 10 seconds. */
export const checkpointIn = (file: string) =>
  Effect.repeat(
    Effect.delay(
      Effect.sync(() => fs.existsSync(file) && fs.statSync(file).size > 0),
      "200 millis"
    ),
    { until: (exists) => exists, times: 300 }
  )

/** Folder for PATH with `ampoule` and the stand-ins of a page, by name. */
export const bin = (folder: string, release: string, programs: Readonly<Record<string, string>>) =>
  Effect.sync(() => {
    const place = path.join(folder, "bin")
    fs.mkdirSync(place)
    const program = path.join(release, "dist/ampoule.cjs")
    const all = { ampoule: `exec '${process.execPath}' '${program}' "$@"`, ...programs }
    for (const [name, text] of Object.entries(all))
      fs.writeFileSync(path.join(place, name), `#!/usr/bin/env bash\n${text}\n`, { mode: 0o755 })
    return place
  })

/** Runs a script of bash that ends at its first failure, and hands each code that it shows to `approve`. */
export const bash = (
  script: string,
  options: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
  approve: (code: string) => void = () => {}
) =>
  Effect.async<Ended>((resume) => {
    const child = spawn("bash", ["--norc", "-euo", "pipefail", "-c", script], {
      ...options,
      stdio: ["ignore", "pipe", "pipe"]
    })
    let output = ""
    const codes = new Set<string>()
    const read = (chunk: string) => {
      output += chunk
      for (const [, code = ""] of output.matchAll(/approve the code {2}([A-Z]{4}-[A-Z]{4})/g)) {
        if (codes.has(code)) continue
        codes.add(code)
        approve(code)
      }
    }
    child.stdout.setEncoding("utf8").on("data", read)
    child.stderr.setEncoding("utf8").on("data", read)
    child.once("close", (code) => resume(Effect.succeed({ code, output })))
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** First owner, and what the pages speak of. */
export const furnish = Effect.fnUntraced(function* (url: string, people: ReadonlyArray<string>) {
  const account = { email: "ada@example.com", name: "Ada", password, teamName: "Platform" }
  const setup = yield* ask(url, "", "POST", "/setup", { setupCode, ...account })
  const ada = setup.cookie
  const teamId = Team(setup.text).team.id
  const asAda = (method: string, route: string, json?: unknown) => ask(url, ada, method, route, json)
  const project = yield* asAda("POST", `/teams/${teamId}/projects`, { name: "Shop", slug: "shop" })
  const projectId = Created(project.text).id
  const environments = Ids((yield* asAda("GET", `/projects/${projectId}/environments`)).text).items
  const secrets = Object.entries({
    DB_PASSWORD: "correct horse",
    DATABASE_URL: "postgres://app:${DB_PASSWORD}@db.internal/app",
    STRIPE_KEY: "sk_test_51"
  }).map(([key, value]) => ({ key, value }))
  for (const { slug } of environments) yield* asAda("POST", "/secrets/bulk", { projectId, environment: slug, secrets })
  const member = Effect.fnUntraced(function* (name: string) {
    const email = `${name.toLowerCase()}@example.com`
    const invitation = yield* asAda("POST", `/teams/${teamId}/invitations`, { email, role: "member" })
    const code = new URL(Invited(invitation.text).inviteUrl).searchParams.get("code")
    return (yield* ask(url, "", "POST", "/invitations/accept", { code, name, password })).cookie
  })
  const bob = yield* member("Bob")
  const sessions = new Map<string, string>()
  for (const name of people) sessions.set(name, yield* member(name))
  yield* ask(url, bob, "GET", `/secrets/inject?projectId=${projectId}&environment=development`)
  const json = { name: "ci", accessLevel: "read", projects: [projectId] }
  const ci = TokenText((yield* asAda("POST", `/teams/${teamId}/api-tokens`, json)).text).value
  const approve = (userCode: string) => {
    const at = `/auth/cli/device/requests/${userCode}`
    void Effect.runPromise(
      asAda("POST", `${at}/approve-management`).pipe(
        Effect.catchAllDefect(() => asAda("POST", `${at}/approve`, { teams: [{ teamId, scopes: cliScopes }] }))
      )
    ).catch((error: unknown) => {
      throw new Error(`the browser did not approve ${userCode}`, { cause: error })
    })
  }
  return { names: sessions, ada, bob, ci, projectId, teamId, environments, approve }
})

export interface Preparation {
  /** Commands have the settings of the server, and the server is on Postgres: the pages of operators. */
  readonly operator?: boolean
  /** Programs of others that this machine lacks or that would change it: name and text of bash. */
  readonly programs?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
  /** Names of more members, in lower case those of their addresses. */
  readonly people?: ReadonlyArray<string>
}

/** The reader, logged in, in a folder for `shop`; `stop` ends the server as systemd would. */
export const reader = Effect.fnUntraced(function* (prepared: Preparation) {
  const { env: more = {}, operator = false, people = [], programs = {} } = prepared
  const release = yield* Release.build
  const home = yield* temporary
  const postgres = operator ? yield* PostgresServer.make({ script: "/dev/null", env: {} }) : undefined
  const database = `postgres://postgres@127.0.0.1:${postgres?.port}/postgres`
  const settings = {
    AMPOULE_DATA_DIR: path.join(home, "data"),
    AMPOULE_AUDIT_CHECKPOINTS: path.join(home, "shop/audit-checkpoints"),
    ...(postgres === undefined ? {} : { AMPOULE_DATABASE_URL: database })
  }
  const folder = path.join(home, "shop")
  fs.mkdirSync(folder)
  const server = yield* Release.server(release, {
    ...settings,
    AMPOULE_RATE_LIMITS: "off",
    AMPOULE_SETUP_CODE: setupCode
  })
  const world = yield* furnish(server.url, people)
  const env = {
    PATH: `${yield* bin(home, release, programs)}:${process.env["PATH"]}`,
    HOME: home,
    AMPOULE_URL: server.url,
    NO_PROXY: "*",
    ...(operator ? settings : {}),
    ...more
  }
  const run = (script: string, own: Readonly<Record<string, string>> = {}) =>
    bash(script, { cwd: folder, env: { ...env, ...own } }, world.approve)
  const must = (script: string, own?: Readonly<Record<string, string>>) =>
    Effect.tap(run(script, own), ({ code, output }) => Effect.sync(() => assert.strictEqual(code, 0, output)))
  fs.writeFileSync(path.join(folder, ".ampoule.json"), JSON.stringify({ project: "shop", environment: "development" }))
  yield* must("ampoule login --plaintext-local --no-browser && ampoule trust")
  if (operator) yield* checkpointIn(settings.AMPOULE_AUDIT_CHECKPOINTS)
  const stop = Effect.async<void>((resume) => {
    server.child.once("close", () => resume(Effect.void))
    server.child.kill("SIGTERM")
  })
  return { ...world, settings, env, folder, home, must, run, release, server, stop }
})
