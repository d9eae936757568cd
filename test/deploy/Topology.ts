/**
 * The services of docker-compose.yml, as processes of this machine: Postgres, Redis, a vault, two API processes, a
 * balancer.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process"
import { readFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import * as http from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Balancer from "#test/support/Balancer.ts"
import * as RedisServer from "#test/support/RedisServer.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Bodies from "#test/support/Bodies.ts"
import * as Release from "#test/support/Release.ts"
import * as PostgresServer from "./PostgresServer.ts"

export const missing = [
  ...(PostgresServer.available ? [] : ["postgres"]),
  ...(RedisServer.available ? [] : ["redis-server"])
]
/** In CI a missing program is a failure, not a reason to skip. */
export const skipped = missing.length > 0 && process.env["CI"] === undefined

/** A process that is ready when it has said so; it can be ended and started again. */
const program = (
  command: string,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string | undefined>>,
  ready: string
) =>
  Effect.gen(function* () {
    let child: ChildProcess | undefined
    let output = ""
    const start = Effect.async<void, Error>((resume) => {
      const from = output.length
      const started = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"] })
      child = started
      const read = (chunk: unknown) => {
        output += String(chunk)
        if (output.slice(from).includes(ready)) resume(Effect.void)
      }
      started.stdout.on("data", read)
      started.stderr.on("data", read)
      started.once("error", (error) => resume(Effect.fail(error)))
      started.once("exit", (code) => resume(Effect.fail(new Error(`${args.join(" ")} ended with ${code}: ${output}`))))
    })
    /** Sends the signal and waits for the end. Answers the exit code. */
    const end = (signal: NodeJS.Signals) =>
      Effect.async<number | null>((resume) => {
        if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
          return resume(Effect.succeed(child?.exitCode ?? null))
        }
        child.once("exit", (code) => resume(Effect.succeed(code)))
        child.kill(signal)
      })
    yield* Effect.acquireRelease(start, () => end("SIGKILL"))
    return { start, end, output: () => output, pid: () => child?.pid }
  })

export interface Asked {
  readonly bearer?: string
  readonly cookie?: string
  readonly json?: unknown
  /** Number of the API process; absent = whose turn it is. */
  readonly upstream?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Address of this machine that the request comes from. */
  readonly from?: string
}
export type Answer<Body = unknown> = Bodies.Answer<Body, http.IncomingHttpHeaders>

const make = Effect.gen(function* () {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-topology-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const secrets = join(folder, "secrets")
  execFileSync("sh", ["deploy/make-secrets.sh", secrets], { stdio: "pipe" })
  const secret = (name: string) => readFileSync(join(secrets, name), "utf8")

  const postgres = yield* PostgresServer.make({
    script: "deploy/postgres-init.sh",
    env: { POSTGRES_USER: "postgres", DATABASE_PASSWORD_FILE: join(secrets, "database_password") }
  })
  const redisPort = yield* freePort
  const redis = yield* program(
    "redis-server",
    [join(secrets, "redis.conf"), "--port", String(redisPort), "--bind", "127.0.0.1", "--dir", folder],
    { PATH: process.env["PATH"] },
    "Ready to accept connections"
  )
  // The compose file's addresses are names of its network; here they are ports.
  const url = (name: string, host: string, port: number) => {
    const file = join(folder, name)
    writeFileSync(file, secret(name).replace(host, `127.0.0.1:${port}`), { mode: 0o600 })
    return file
  }
  const databaseUrl = url("database_url", "postgres:5432", postgres.port)
  const redisUrl = url("redis_url", "redis:6379", redisPort)

  const release = yield* Release.build
  const ampoule = join(release, "dist/ampoule.cjs")
  const vaultUrl = `unix://${join(folder, "run/vault.sock")}`
  const vault = yield* program(
    process.execPath,
    [ampoule, "vault"],
    { PATH: process.env["PATH"], AMPOULE_DATA_DIR: join(folder, "vault"), AMPOULE_VAULT_URL: vaultUrl },
    "listens on"
  )

  const ports = [yield* freePort, yield* freePort] as const
  const balancer = yield* Balancer.make(ports)
  const settings = (n: 0 | 1) => ({
    PATH: process.env["PATH"],
    AMPOULE_PORT: String(ports[n]),
    AMPOULE_BASE_URL: balancer.url,
    AMPOULE_DATA_DIR: join(folder, `api-${n}`),
    AMPOULE_DATABASE_URL_FILE: databaseUrl,
    AMPOULE_REDIS_URL_FILE: redisUrl,
    AMPOULE_VAULT_URL: vaultUrl,
    AMPOULE_TRUSTED_PROXIES: "127.0.0.1/32"
  })
  const api = (n: 0 | 1) => program(process.execPath, [ampoule, "server"], settings(n), "listens on")
  // Both at once: each would migrate.
  const apis = yield* Effect.all([api(0), api(1)], { concurrency: 2 })

  const ask = <const Method extends string, const Path extends string>(method: Method, path: Path, asked: Asked = {}) =>
    Effect.async<Answer<Bodies.BodyOf<Method, Path>>, Error>((resume) => {
      const body = asked.json === undefined ? undefined : JSON.stringify(asked.json)
      const request = http.request(`${balancer.url}${path}`, {
        method,
        agent: false,
        ...(asked.from === undefined ? {} : { localAddress: asked.from }),
        headers: {
          ...(asked.bearer === undefined ? {} : { authorization: `Bearer ${asked.bearer}` }),
          ...(asked.cookie === undefined ? {} : { cookie: asked.cookie }),
          ...(asked.upstream === undefined ? {} : { "x-upstream": String(asked.upstream) }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...asked.headers
        }
      })
      request.once("error", (error) => resume(Effect.fail(error)))
      request.once("response", (response) => {
        let text = ""
        response.setEncoding("utf8").on("data", (part: string) => (text += part))
        response.once("error", (error) => resume(Effect.fail(error)))
        response.once("end", () => {
          const { headers, statusCode: status = 0 } = response
          resume(Effect.succeed(Bodies.answer(method, path, { status, headers, text })))
        })
      })
      request.end(body)
      return Effect.sync(() => request.destroy())
    })

  /** A command of the operator, with the settings of the first API process. */
  const operate = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
    Effect.async<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>((resume) => {
      execFile(process.execPath, [ampoule, ...args], { env: { ...settings(0), ...env } }, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : null
        resume(Effect.succeed({ code, stdout, stderr }))
      })
    })

  return { folder, operate, url: balancer.url, ports, apis, vault, redis, postgres, ask, ampoule }
})

export class Topology extends Context.Tag("test/Topology")<Topology, Effect.Effect.Success<typeof make>>() {}
export const layer = Layer.scoped(Topology, make)

/** Until the condition holds; the time limit of the test ends a wait for something that never comes. */
export const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.repeat(condition, { until: (holds) => holds, schedule: Schedule.spaced("100 millis") })
