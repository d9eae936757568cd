/**
 * The topology of docker-compose.yml as processes, driven through its balancer, and what happens when a part of it is
 * away.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { randomBytes } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import * as http from "node:http"
import { join } from "node:path"
import * as Release from "#test/support/Release.ts"
import * as Topology from "./Topology.ts"
import { until } from "./Topology.ts"

const password = "correct horse battery staple 7"
const email = "ada@example.com"

/** State of the first owner after the setup; every test continues from it. */
interface Owner {
  readonly cookie: string
  readonly teamId: string
  readonly projectId: string
}
class Ada extends Context.Tag("test/Ada")<Ada, Owner>() {}

const cookieOf = (answer: Topology.Answer) => (answer.headers["set-cookie"] ?? [])[0]?.split(";")[0] ?? ""
const ask = <const Method extends string, const Path extends string>(
  method: Method,
  path: Path,
  asked?: Topology.Asked
) => Effect.flatMap(Topology.Topology, (topology) => topology.ask(method, path, asked))
const ok = <const Method extends string, const Path extends string>(
  method: Method,
  path: Path,
  asked?: Topology.Asked
) =>
  Effect.tap(ask(method, path, asked), (answer) =>
    answer.status < 300 ? Effect.void : Effect.dieMessage(`${method} ${path}: ${answer.status} ${answer.text}`)
  )

const setUp = Effect.gen(function* () {
  const { apis } = yield* Topology.Topology
  yield* until(Effect.sync(() => /Set it up at \S+\n/.test(apis[1].output())))
  const link = /Set it up at (\S+)/.exec(apis[1].output())?.[1] ?? ""
  const setupCode = new URL(link).searchParams.get("code")
  // The link of the one process counts at the other.
  const setup = yield* ok("POST", "/setup", {
    json: { setupCode, email, name: "Ada", password, teamName: "Platform" },
    upstream: 0
  })
  const cookie = cookieOf(setup)
  const teamId: string = setup.json.team.id
  const project = yield* ok("POST", `/teams/${teamId}/projects`, { cookie, json: { name: "Demo", slug: "demo" } })
  return { cookie, teamId, projectId: project.json.id }
})

let names = 0
const newToken = (options: { readonly accessLevel?: "read" | "write" } = {}) =>
  Effect.gen(function* () {
    const { cookie, teamId } = yield* Ada
    const json = { name: `ci-${++names}`, accessLevel: options.accessLevel ?? "write" }
    const answer = yield* ok("POST", `/teams/${teamId}/api-tokens`, { cookie, json })
    const text: string = answer.json.value
    return text
  })

const at = (environment: string) =>
  Effect.map(Ada, ({ projectId }) => ({
    query: `projectId=${projectId}&environment=${environment}`,
    projectId,
    environment
  }))
const put = (bearer: string, environment: string, key: string, value: string, upstream?: number) =>
  Effect.flatMap(at(environment), ({ projectId }) =>
    ok("POST", "/secrets/bulk", {
      bearer,
      json: { projectId, environment, secrets: [{ key, value }] },
      ...(upstream === undefined ? {} : { upstream })
    })
  )
const inject = (bearer: string, environment: string, upstream?: number) =>
  Effect.flatMap(at(environment), ({ query }) =>
    ask("GET", `/secrets/inject?${query}`, { bearer, ...(upstream === undefined ? {} : { upstream }) })
  )

const both = [0, 1] as const
const readiness = (upstream: number) => ask("GET", "/health/ready", { upstream })
const allReady = until(
  Effect.map(Effect.forEach(both, readiness), (answers) => answers.every(({ status }) => status === 200))
)
const checkIs = (name: "cache" | "database" | "vault", status: "up" | "down") =>
  until(
    Effect.map(Effect.forEach(both, readiness), (answers) =>
      answers.every(
        (answer) => answer.json?.checks[name].status === status && answer.status === (status === "up" ? 200 : 503)
      )
    )
  )
const live = Effect.gen(function* () {
  for (const upstream of both) {
    const answer = yield* ask("GET", "/health/live", { upstream })
    assert.deepStrictEqual([answer.status, answer.json], [200, { status: "ok" }])
  }
})

const world = Layer.effect(Ada, setUp).pipe(Layer.provideMerge(Topology.layer))

if (Topology.skipped) {
  process.stdout.write(`The topology is not tried: there is no ${Topology.missing.join(" and no ")} here.\n`)
}

describe.skipIf(Topology.skipped)("two API processes behind a balancer", () => {
  layer(world, { excludeTestServices: true, timeout: 300_000 })((it) => {
    it.effect(
      "share sessions: who signs in at the one is signed in at the other, and signed out at both",
      () =>
        Effect.gen(function* () {
          const signedIn = yield* ok("POST", "/auth/session", { json: { email, password }, upstream: 0 })
          const cookie = cookieOf(signedIn)
          for (const upstream of both) {
            assert.strictEqual((yield* ok("GET", "/me", { cookie, upstream })).json.user.email, email)
          }
          yield* ok("DELETE", "/auth/session", { cookie, upstream: 1 })
          for (const upstream of both) assert.strictEqual((yield* ask("GET", "/me", { cookie, upstream })).status, 401)
        }),
      60_000
    )

    it.effect(
      "take turns, and show at once what the other wrote",
      () =>
        Effect.gen(function* () {
          const token = yield* newToken()
          const { query } = yield* at("development")
          const served = new Set<unknown>()
          for (let i = 0; i < 10; i++) {
            const write = yield* put(token, "development", "TURN", String(i))
            const read = yield* ok("GET", `/secrets/value?${query}&key=TURN`, { bearer: token })
            assert.strictEqual(read.json.value, String(i))
            const pinned = Number(write.headers["x-upstream"]) === 0 ? 1 : 0
            assert.strictEqual((yield* inject(token, "development", pinned)).json.values.TURN, String(i))
            served.add(write.headers["x-upstream"])
            served.add(read.headers["x-upstream"])
          }
          assert.strictEqual(served.size, 2)
        }),
      60_000
    )

    it.effect(
      "revoke for both: the next request with the token is refused by both",
      () =>
        Effect.gen(function* () {
          for (const upstream of both) {
            const token = yield* newToken()
            for (const each of both) yield* ok("GET", "/me/verify", { bearer: token, upstream: each })
            yield* ok("DELETE", "/me/token", { bearer: token, upstream })
            for (const each of [1 - upstream, upstream]) {
              const refused = yield* ask("GET", "/me/verify", { bearer: token, upstream: each })
              assert.deepStrictEqual([refused.status, refused.error.code], [401, "CREDENTIAL_REVOKED"])
            }
          }
        }),
      60_000
    )

    it.effect(
      "count a token's requests together, through Redis",
      () =>
        Effect.gen(function* () {
          const token = yield* newToken()
          const remaining = (upstream: number) =>
            Effect.map(ok("GET", "/me/verify", { bearer: token, upstream }), ({ headers }) =>
              Number(headers["ratelimit-remaining"])
            )
          // Windows of a second: on a slow machine the next request may be in the next one.
          const counted = Effect.gen(function* () {
            const first = yield* remaining(0)
            return (yield* remaining(1)) === first - 1
          })
          yield* until(counted)
        }),
      60_000
    )

    it.effect(
      "approve at the one a device that waits at the other",
      () =>
        Effect.gen(function* () {
          const topology = yield* Topology.Topology
          const { cookie, teamId } = yield* Ada
          const started = yield* ok("POST", "/auth/cli/device", { json: {}, upstream: 0 })
          const { deviceCode, userCode } = started.json
          const stream = yield* Effect.acquireRelease(
            Effect.async<{ readonly until: (part: string) => Effect.Effect<string>; readonly close: () => void }>(
              (resume) => {
                const headers = { authorization: `Bearer ${deviceCode}`, "x-upstream": "1" }
                const request = http.get(`${topology.url}/auth/cli/device/events`, { agent: false, headers })
                request.on("error", () => {})
                request.once("response", (response) => {
                  let text = ""
                  response.on("error", () => {})
                  response.setEncoding("utf8").on("data", (part: string) => (text += part))
                  resume(
                    Effect.succeed({
                      until: (part) =>
                        Effect.as(until(Effect.sync(() => text.includes(part))), "").pipe(Effect.map(() => text)),
                      close: () => request.destroy()
                    })
                  )
                })
              }
            ),
            ({ close }) => Effect.sync(close)
          )
          yield* stream.until("event: connected")
          const page = `/auth/cli/device/requests/${userCode}`
          const teams = [{ teamId, scopes: ["identity:read", "secrets:run"] }]
          yield* ok("POST", `${page}/approve`, { cookie, json: { teams }, upstream: 0 })
          const approved = yield* stream.until("event: approved")
          assert.include(approved, email)
          const granted = yield* ok("POST", "/auth/cli/device/token", { json: { deviceCode }, upstream: 1 })
          assert.strictEqual(granted.json.status, "granted")
        }).pipe(Effect.scoped),
      60_000
    )

    it.effect(
      "record the address of the client, not the balancer's and not what the client claims",
      () =>
        Effect.gen(function* () {
          const token = yield* newToken()
          const { cookie, teamId } = yield* Ada
          const headers = { "x-forwarded-for": "203.0.113.9" }
          const { query } = yield* at("development")
          yield* put(token, "development", "ADDRESS", "x")
          const from = "127.0.0.2"
          yield* ok("GET", `/secrets/value?${query}&key=ADDRESS`, { bearer: token, headers, from })
          const { json } = yield* ok("GET", `/teams/${teamId}/audit?action=secret.read&key=ADDRESS`, { cookie })
          assert.deepStrictEqual(
            json.items.map(({ ip }) => ip),
            [from]
          )
        }),
      60_000
    )

    it.effect(
      "are operated while they serve: backup, verification, rotation of root and data keys as docs/runbooks have them",
      () =>
        Effect.gen(function* () {
          const { folder, operate, url } = yield* Topology.Topology
          const { cookie, teamId } = yield* Ada
          const token = yield* newToken()
          yield* put(token, "development", "OPERATED", "value")
          const done = (args: ReadonlyArray<string>, env?: Readonly<Record<string, string>>) =>
            Effect.tap(operate(args, env), ({ code, stderr }) =>
              assert.strictEqual(code, 0, `${args.join(" ")}: ${stderr}`)
            )

          const keygen = yield* done(["backup", "keygen", join(folder, "identity")])
          const recipient = /ampoule-recipient-\S+/.exec(`${keygen.stdout}${keygen.stderr}`)?.[0] ?? ""
          yield* done(["backup", "create", join(folder, "night.backup"), "--recipient", recipient])
          assert.isTrue(existsSync(join(folder, "night.backup")))
          assert.isFalse(readFileSync(join(folder, "night.backup")).includes("OPERATED"))

          const keys = Effect.map(done(["vault", "status", "--json"]), ({ stdout }) => Release.rootKeysOf(stdout))
          const [before] = yield* keys
          assert.isAbove(before.rows, 0)
          // At the vault, which has no database, then from a server, which has no key file.
          yield* done(["vault", "new-key"], { AMPOULE_DATA_DIR: join(folder, "vault") })
          yield* done(["vault", "rotate"])
          const [current, older] = yield* keys
          assert.notStrictEqual(current.id, before.id)
          assert.deepStrictEqual([older.id, older.rows], [before.id, 0])
          // In one, where both are: as a second container on the vault's volume.
          yield* done(["vault", "rotate"], { AMPOULE_DATA_DIR: join(folder, "vault") })
          assert.notInclude([before.id, current.id], (yield* keys)[0].id)
          yield* done(["vault", "rotate-data-keys"])
          yield* done(["audit", "verify", "--values"])
          yield* done(["vault", "verify-log"], { AMPOULE_DATA_DIR: join(folder, "vault") })
          yield* done(["doctor"], { AMPOULE_URL: url, AMPOULE_API_TOKEN: token, HOME: folder })

          for (const upstream of both) {
            assert.strictEqual((yield* inject(token, "development", upstream)).json.values.OPERATED, "value")
            yield* put(token, "development", "OPERATED", "value", upstream)
          }
          const trail = yield* ok("GET", `/teams/${teamId}/audit?limit=1`, { cookie })
          assert.strictEqual(trail.json.items.length, 1)
        }),
      180_000
    )
  })
})

describe.skipIf(Topology.skipped)("when a part of the topology is away", () => {
  layer(world, { excludeTestServices: true, timeout: 300_000 })((it) => {
    it.effect(
      "an API process that is killed under load takes no acknowledged write along",
      () =>
        Effect.gen(function* () {
          const { apis } = yield* Topology.Topology
          const { projectId } = yield* Ada
          const acknowledged = new Map<string, string>()
          const statuses = new Set<number>()
          const load = { stop: false }
          const writer = (n: number) =>
            Effect.gen(function* () {
              const bearer = yield* newToken()
              for (let i = 0; !load.stop; i++) {
                const key = `LOAD_${n}_${i}`
                const value = randomBytes(16).toString("hex")
                const json = { projectId, environment: "development", key, value }
                const answer = yield* Effect.option(ask("POST", "/secrets", { bearer, json }))
                if (answer._tag === "None") continue
                statuses.add(answer.value.status)
                if (answer.value.status === 201) acknowledged.set(key, value)
                if (answer.value.status === 429) yield* Effect.sleep("300 millis")
              }
            })
          const writers = yield* Effect.fork(
            Effect.all(
              Array.from({ length: 4 }, (_, n) => writer(n)),
              { concurrency: "unbounded" }
            )
          )
          const count = (more: number) => {
            const enough = acknowledged.size + more
            return until(Effect.sync(() => acknowledged.size >= enough))
          }
          yield* count(40)
          yield* apis[0].end("SIGKILL")
          // The other one goes on.
          yield* count(40)
          yield* apis[0].start
          yield* count(40)
          load.stop = true
          yield* Fiber.join(writers)

          const reader = yield* newToken()
          for (const upstream of both) {
            const { json, status } = yield* inject(reader, "development", upstream)
            assert.strictEqual(status, 200)
            const lost = [...acknowledged].filter(([key, value]) => json.values[key] !== value).map(([key]) => key)
            assert.deepStrictEqual(lost, [])
          }
          // Nothing else than success, a limit, and connections that broke with the process.
          assert.includeMembers([201, 429, 502], [...statuses])
        }),
      180_000
    )

    it.effect(
      "replacing one process after the other under load fails no request",
      () =>
        Effect.gen(function* () {
          const { apis } = yield* Topology.Topology
          const writing = yield* newToken()
          yield* put(writing, "development", "ROLLING", "x")
          const { query } = yield* at("development")
          const failed: Array<number | string> = []
          let served = 0
          const load = { stop: false }
          const reader = (bearer: string) =>
            Effect.gen(function* () {
              while (!load.stop) {
                const answer = yield* Effect.either(ask("GET", `/secrets/value?${query}&key=ROLLING`, { bearer }))
                if (answer._tag === "Left") failed.push(String(answer.left))
                else if (answer.right.status === 200) served += 1
                else if (answer.right.status === 429) yield* Effect.sleep("300 millis")
                else failed.push(answer.right.status)
              }
            })
          const readers = yield* Effect.fork(
            Effect.all([reader(yield* newToken()), reader(yield* newToken())], { concurrency: 2 })
          )
          const more = () => {
            const enough = served + 20
            return until(Effect.sync(() => served >= enough))
          }
          for (const api of apis) {
            yield* more()
            assert.strictEqual(yield* api.end("SIGTERM"), 0)
            yield* more()
            yield* api.start
          }
          yield* more()
          load.stop = true
          yield* Fiber.join(readers)
          assert.deepStrictEqual(failed, [])
        }),
      180_000
    )

    it.effect(
      "without Redis requests are served, liveness stays, readiness says so; it needs no restart when Redis is back",
      () =>
        Effect.gen(function* () {
          const { redis } = yield* Topology.Topology
          const token = yield* newToken()
          yield* put(token, "development", "REDIS", "before")
          yield* redis.end("SIGKILL")
          yield* checkIs("cache", "down")
          yield* live
          for (const upstream of both) {
            yield* put(token, "development", "REDIS", `without ${upstream}`, upstream)
            assert.strictEqual((yield* inject(token, "development", upstream)).json.values.REDIS, `without ${upstream}`)
          }
          yield* redis.start
          yield* checkIs("cache", "up")
          yield* allReady
        }),
      120_000
    )

    it.effect(
      "without the vault warm environments are read and written, cold ones are refused; it needs no restart after",
      () =>
        Effect.gen(function* () {
          const { apis, vault } = yield* Topology.Topology
          const token = yield* newToken()
          yield* put(token, "development", "VAULT", "warm", 0)
          yield* put(token, "staging", "VAULT", "cold at the other", 0)
          for (const upstream of both) assert.strictEqual((yield* inject(token, "development", upstream)).status, 200)
          const pids = apis.map((api) => api.pid())
          yield* vault.end("SIGKILL")
          yield* checkIs("vault", "down")
          yield* live
          for (const upstream of both) {
            yield* put(token, "development", "VAULT", `without ${upstream}`, upstream)
            assert.strictEqual((yield* inject(token, "development", upstream)).json.values.VAULT, `without ${upstream}`)
          }
          const cold = yield* inject(token, "staging", 1)
          assert.deepStrictEqual([cold.status, cold.error.code], [500, "DEPENDENCY_UNAVAILABLE"])
          assert.match(String(cold.headers["retry-after"]), /^[1-9]/)
          yield* vault.start
          yield* checkIs("vault", "up")
          assert.strictEqual((yield* inject(token, "staging", 1)).json.values.VAULT, "cold at the other")
          assert.deepStrictEqual(
            apis.map((api) => api.pid()),
            pids
          )
        }),
      120_000
    )

    it.effect(
      "a Postgres that crashed and came back is used again without a restart, with every acknowledged write",
      () =>
        Effect.gen(function* () {
          const { apis, postgres } = yield* Topology.Topology
          const token = yield* newToken()
          yield* put(token, "development", "POSTGRES", "before")
          const pids = apis.map((api) => api.pid())
          yield* postgres.stop
          yield* checkIs("database", "down")
          yield* live
          for (const upstream of both) {
            const refused = yield* inject(token, "development", upstream)
            assert.deepStrictEqual([refused.status, refused.error.code], [500, "DEPENDENCY_UNAVAILABLE"])
          }
          yield* postgres.start
          yield* checkIs("database", "up")
          for (const upstream of both) {
            assert.strictEqual((yield* inject(token, "development", upstream)).json.values.POSTGRES, "before")
            yield* put(token, "development", "POSTGRES", "before", upstream)
          }
          assert.deepStrictEqual(
            apis.map((api) => api.pid()),
            pids
          )
        }),
      120_000
    )
  })
})
