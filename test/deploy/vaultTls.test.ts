/** A vault on another machine, with the certificates of make-vault-certificates.sh: as processes, over TCP. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "#test/support/FreePort.ts"
import { bodyOf } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"

const Readiness = Schema.Struct({ checks: Schema.Struct({ vault: Schema.Struct({ status: Schema.String }) }) })

const available = spawnSync("openssl", ["version"], { stdio: "ignore" }).status === 0

describe.skipIf(!available)("a vault on tls://", () => {
  it.scopedLive(
    "serves a server with a certificate of its authority and the token, and no other",
    () =>
      Effect.gen(function* () {
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-tls-"))),
          (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
        )
        const certificates = (name: string) => {
          const at = join(folder, name)
          execFileSync("deploy/make-vault-certificates.sh", [at, "vault.internal", "127.0.0.1"], {
            stdio: "pipe"
          })
          return at
        }
        const ours = certificates("ours")
        const theirs = certificates("theirs")
        for (const key of ["server/tls.key", "client/tls.key", "authority/ca.key", "token"]) {
          assert.strictEqual(statSync(join(ours, key)).mode & 0o077, 0, key)
        }
        const port = yield* freePort
        const end = (at: string, which: "client" | "server") => ({
          AMPOULE_VAULT_CA_FILE: join(at, which, "ca.crt"),
          AMPOULE_VAULT_CERT_FILE: join(at, which, "tls.crt"),
          AMPOULE_VAULT_KEY_FILE: join(at, which, "tls.key")
        })
        const release = yield* Release.build
        const ampoule = join(release, "dist/ampoule.cjs")
        yield* Effect.acquireRelease(
          Effect.async<ReturnType<typeof spawn>, Error>((resume) => {
            const child = spawn(process.execPath, [ampoule, "vault"], {
              env: {
                PATH: process.env["PATH"],
                AMPOULE_DATA_DIR: join(folder, "vault"),
                AMPOULE_VAULT_URL: `tls://0.0.0.0:${port}`,
                AMPOULE_VAULT_TOKEN_FILE: join(ours, "token"),
                ...end(ours, "server")
              },
              stdio: ["ignore", "pipe", "inherit"]
            })
            child.once("exit", (code) => resume(Effect.fail(new Error(`the vault ended with ${code}`))))
            child.stdout.on("data", (chunk) => {
              if (String(chunk).includes("listens on")) resume(Effect.succeed(child))
            })
          }),
          (child) => Effect.sync(() => child.kill("SIGKILL"))
        )
        const settings = (name: string, at: string, token: string) => ({
          AMPOULE_DATA_DIR: join(folder, name),
          AMPOULE_VAULT_URL: `tls://127.0.0.1:${port}`,
          AMPOULE_VAULT_TOKEN_FILE: join(token, "token"),
          ...end(at, "client")
        })
        const vaultAt = (env: Readonly<Record<string, string>>) =>
          Effect.scoped(
            Effect.gen(function* () {
              const server = yield* Release.server(release, env)
              const ready = yield* Effect.promise(async () =>
                bodyOf(Readiness, await fetch(`${server.url}/health/ready`))
              )
              return ready.checks.vault.status
            })
          )
        assert.strictEqual(yield* vaultAt(settings("good", ours, ours)), "up")
        assert.strictEqual(yield* vaultAt(settings("stranger", theirs, ours)), "down", "another authority")
        assert.strictEqual(yield* vaultAt(settings("guesser", ours, theirs)), "down", "another token")
      }),
    180_000
  )
})
