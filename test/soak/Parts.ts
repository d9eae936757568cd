/** The released program as two workers, with a vault, a Redis and a Postgres of its own, each of which can be restarted. */
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { pathToFileURL } from "node:url"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Trial from "#test/faults/Trial.ts"
import * as Certificates from "#test/support/Certificates.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as ProcessTree from "#test/support/ProcessTree.ts"
import * as Release from "#test/support/Release.ts"

const workers = 2

/** How often a part that starts is looked at: by looks, not by the clock, which goes on while the machine is taken away. */
const looks = 3_600

interface Program {
  readonly command: readonly [string, ...ReadonlyArray<string>]
  readonly env: Trial.Env
  readonly log: string
  /** It has started when it has said this. */
  readonly says: string
}

/** A process that is started again and again, with one log. */
const restartable = ({ command: [command, ...args], env, log, says }: Program) =>
  Effect.gen(function* () {
    let running: ChildProcess | undefined
    const start = Effect.gen(function* () {
      const out = fs.openSync(log, "a")
      const from = fs.fstatSync(out).size
      const child = spawn(command, args, {
        env: { PATH: process.env["PATH"], ...env },
        stdio: ["ignore", out, out]
      })
      fs.closeSync(out)
      running = child
      for (let look = 0; !fs.readFileSync(log).subarray(from).includes(says); look++) {
        if (child.exitCode !== null || look > looks) {
          const said = fs.readFileSync(log, "utf8").slice(-2_000)
          return yield* Effect.die(new Error(`${args.join(" ")} did not start (${child.exitCode}): ${said}`))
        }
        yield* Effect.sleep("50 millis")
      }
    })
    const end = (signal: NodeJS.Signals) =>
      Effect.async<void>((resume) => {
        if (running === undefined || running.exitCode !== null || running.signalCode !== null) {
          return resume(Effect.void)
        }
        running.once("exit", () => resume(Effect.void))
        running.kill(signal)
      })
    yield* Effect.acquireRelease(start, () => end("SIGKILL"))
    return {
      pid: () => running?.pid ?? 0,
      end,
      start,
      restart: (signal: NodeJS.Signals) => Effect.zipRight(end(signal), start)
    }
  })

const vaultToken = "a-token-for-the-long-run-of-this-vault"

const withoutFiles = ["--save", "", "--appendonly", "no"]

interface More {
  /** Of server and vault. */
  readonly env?: Trial.Env
  /** Arguments of Redis. */
  readonly redis?: ReadonlyArray<string>
}

/** `folder`: what the parts log, and what they hold after collections. */
export const make = (folder: string, more: More = {}) =>
  Effect.gen(function* () {
    const release = yield* Release.build
    const data = yield* Trial.folderOf("soak")
    const heaps = path.join(folder, "heaps")
    fs.mkdirSync(heaps, { recursive: true })
    const issue = Certificates.authority(data)
    const tls = ({ ca, cert, key }: Certificates.Issued): Trial.Env => ({
      AMPOULE_VAULT_TOKEN: vaultToken,
      AMPOULE_VAULT_CA_FILE: ca,
      AMPOULE_VAULT_CERT_FILE: cert,
      AMPOULE_VAULT_KEY_FILE: key
    })
    const [port, vaultPort, redisPort, metricsPort] = yield* Effect.all([freePort, freePort, freePort, freePort])
    const collects: Trial.Env = {
      NODE_OPTIONS: `--import ${pathToFileURL(path.resolve("test/soak/collect.mjs")).href}`,
      SOAK_HEAPS: heaps
    }
    const ampoule = (command: "server" | "vault", env: Trial.Env) =>
      restartable({
        command: [
          process.execPath,
          "--no-allocation-site-pretenuring",
          path.join(release, "dist/ampoule.cjs"),
          command
        ],
        env: { ...env, ...collects, ...more.env },
        log: path.join(folder, `${command}.log`),
        says: "listens on"
      })
    const vaultEnv: Trial.Env = {
      AMPOULE_DATA_DIR: path.join(data, "vault"),
      AMPOULE_VAULT_URL: `tls://127.0.0.1:${vaultPort}`,
      ...tls(issue("vault"))
    }
    const vault = yield* ampoule("vault", vaultEnv)
    const redis = yield* restartable({
      command: ["redis-server", "--port", `${redisPort}`, "--bind", "127.0.0.1", ...(more.redis ?? withoutFiles)],
      env: {},
      log: path.join(folder, "redis.log"),
      says: "Ready to accept connections"
    })
    const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
    const databaseUrl = (name: string) => `postgres://postgres@127.0.0.1:${postgres.port}/${name}`
    /** Of a server; a command on its data takes the same. */
    const env: Trial.Env = {
      AMPOULE_DATA_DIR: path.join(data, "server"),
      AMPOULE_DATABASE_URL: databaseUrl("postgres"),
      AMPOULE_REDIS_URL: `redis://127.0.0.1:${redisPort}`,
      AMPOULE_VAULT_URL: `tls://127.0.0.1:${vaultPort}`,
      AMPOULE_SETUP_CODE: Trial.setupCode,
      ...tls(issue("server"))
    }
    const server = yield* ampoule("server", {
      ...env,
      AMPOULE_PORT: `${port}`,
      AMPOULE_METRICS_PORT: `${metricsPort}`,
      AMPOULE_WORKERS: `${workers}`
    })
    return {
      release,
      data,
      heaps,
      env,
      vaultEnv,
      databaseUrl,
      url: `http://127.0.0.1:${port}`,
      metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
      redisPort,
      postgres,
      server,
      vault,
      redis,
      untilReady: Effect.repeat(Effect.delay(Trial.isReady(`http://127.0.0.1:${port}`), "100 millis"), {
        until: (is) => is,
        times: looks
      }),
      /** All but Redis and the clients. */
      pids: () => {
        const postmaster = Number.parseInt(fs.readFileSync(`${postgres.data}/postmaster.pid`, "utf8"), 10)
        const trees = [server.pid(), vault.pid(), postmaster]
        return trees.flatMap((pid) => [pid, ...ProcessTree.childrenOf(pid)])
      },
      workerPids: () => ProcessTree.childrenOf(server.pid()),
      serverLog: () => fs.readFileSync(path.join(folder, "server.log"), "utf8")
    }
  })
export type Parts = Effect.Effect.Success<ReturnType<typeof make>>
