/** The released program with Postgres, Redis and a vault of its own, each behind a proxy that misbehaves on demand. */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as path from "node:path"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Certificates from "#test/support/Certificates.ts"
import * as FaultProxy from "#test/support/FaultProxy.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as RedisServer from "#test/support/RedisServer.ts"
import * as Release from "#test/support/Release.ts"
import * as Trial from "./Trial.ts"

export interface Dependency {
  /** Proxy between it and the server. */
  readonly set: (mode: FaultProxy.Mode) => Effect.Effect<void>
  readonly signal: (name: NodeJS.Signals) => Effect.Effect<void>
}

const vaultToken = "a-token-for-the-trials-of-faults-of-this-vault"

/** A vault that listens on `port` with TLS; it says `listens on` when it does. */
const vault = (release: string, env: Trial.Env) =>
  Effect.acquireRelease(
    Effect.async<ReturnType<typeof spawn>>((resume) => {
      const child = spawn(process.execPath, [path.join(release, "dist/ampoule.cjs"), "vault"], {
        env: { PATH: process.env["PATH"], ...env },
        stdio: ["ignore", "pipe", "inherit"]
      })
      child.once("exit", (code) => resume(Effect.die(new Error(`the vault ended with ${code}`))))
      child.stdout.on("data", (chunk) => {
        if (String(chunk).includes("listens on")) resume(Effect.succeed(child))
      })
    }),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

const at = (port: number) => FaultProxy.make({ host: "127.0.0.1", port })

export const make = Effect.gen(function* () {
  const release = yield* Release.build
  const [folder, port] = [yield* Trial.folderOf("stack"), yield* freePort]
  const issue = Certificates.authority(folder)
  const tls = ({ ca, cert, key }: Certificates.Issued): Trial.Env => ({
    AMPOULE_VAULT_TOKEN: vaultToken,
    AMPOULE_VAULT_CA_FILE: ca,
    AMPOULE_VAULT_CERT_FILE: cert,
    AMPOULE_VAULT_KEY_FILE: key
  })
  const keeper = yield* vault(release, {
    AMPOULE_DATA_DIR: path.join(folder, "vault"),
    AMPOULE_VAULT_URL: `tls://127.0.0.1:${port}`,
    ...tls(issue("vault"))
  })
  const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
  const redis = yield* RedisServer.own
  const proxies = { postgres: yield* at(postgres.port), redis: yield* at(redis.port), vault: yield* at(port) }
  /** Of a server whose dependencies are at these ports. */
  const envOf = (ports: { readonly postgres: number; readonly redis: number; readonly vault: number }): Trial.Env => ({
    AMPOULE_DATA_DIR: path.join(folder, "data"),
    AMPOULE_DATABASE_URL: `postgres://postgres@127.0.0.1:${ports.postgres}/postgres`,
    AMPOULE_REDIS_URL: `redis://127.0.0.1:${ports.redis}`,
    AMPOULE_VAULT_URL: `tls://127.0.0.1:${ports.vault}`,
    AMPOULE_SETUP_CODE: Trial.setupCode,
    ...tls(issue("server"))
  })
  const server = yield* Effect.orDie(
    Release.server(
      release,
      envOf({ postgres: proxies.postgres.port, redis: proxies.redis.port, vault: proxies.vault.port })
    )
  )
  const dependencies = {
    Postgres: { set: proxies.postgres.set, signal: postgres.signal },
    Redis: { set: proxies.redis.set, signal: redis.signal },
    vault: { set: proxies.vault.set, signal: (name) => Effect.sync(() => void keeper.kill(name)) }
  } satisfies Record<string, Dependency>
  return {
    release,
    server,
    dependencies,
    /** For the command line, without the proxies. */
    env: envOf({ postgres: postgres.port, redis: redis.port, vault: port })
  }
})
