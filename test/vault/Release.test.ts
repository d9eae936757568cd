/** Old root keys destroyed where the database is not: the word of a server, and what it is not good for. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { type ChildProcess, spawn } from "node:child_process"
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { inject } from "vitest"
import { Listening } from "#src/http/engine/Server.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import * as VaultRelease from "#src/vault/Release.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const key = () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519")
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32)
  return { privateKey, note: SignedNote.noteKey("ampoule-audit-rk_00000001", raw) }
}
const signed = (text: string, by: { readonly privateKey: KeyObject; readonly note: SignedNote.NoteKey }) =>
  SignedNote.print(text, by.note, sign(null, Buffer.from(text), by.privateKey))

describe("a release of a root key", () => {
  it("counts for its key, for an hour, and only when this vault signed it", () => {
    const own = key()
    const now = Date.UTC(2026, 10, 21)
    const check = (note: string, at = now, id = "rk_5f0c2a9d") =>
      Either.merge(VaultRelease.check(note, [own.note], id, at))
    const note = signed(VaultRelease.text("rk_5f0c2a9d", now), own)
    assert.isUndefined(check(note))
    assert.isUndefined(check(note, now + VaultRelease.validMillis))
    assert.strictEqual(check(note, now + VaultRelease.validMillis + 1), "is too old")
    assert.strictEqual(check(note, now - 400_000), "lies in the future")
    assert.strictEqual(check(note, now, "rk_5f0c2a9e"), "is about another root key")
    assert.strictEqual(check(note.replace("9d", "9e"), now, "rk_5f0c2a9e"), "has a wrong signature")
    assert.strictEqual(
      check(signed(VaultRelease.text("rk_5f0c2a9d", now), key())),
      "is signed by a key that is not known"
    )
    assert.strictEqual(
      check(signed("ampoule.audit/cut\nrk_5f0c2a9d\nat 2026-11-21T00:00:00.000Z\n", own)),
      "is no release"
    )
    assert.strictEqual(check(signed(`${VaultRelease.text("rk_5f0c2a9d", now)}more\n`, own)), "is no release")
    assert.strictEqual(check(""), "is no signed note")
  })
})

type Env = Record<string, string>

const ended = (child: ChildProcess) =>
  Effect.async<number | null>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) resume(Effect.succeed(child.exitCode))
    else child.once("close", (code) => resume(Effect.succeed(code)))
  })

/** A program of the release; it is killed with the scope. */
const start = (folder: string, words: ReadonlyArray<string>, env: Env, input = "") =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [join(folder, "dist/ampoule.cjs"), ...words], {
        env: { PATH: process.env["PATH"], HOME: folder, ...env },
        stdio: ["pipe", "pipe", "pipe"]
      })
      child.stdin.end(input)
      const output = { stdout: "", stderr: "" }
      child.stdout.on("data", (chunk) => (output.stdout += String(chunk)))
      child.stderr.on("data", (chunk) => (output.stderr += String(chunk)))
      return { child, output }
    }),
    ({ child }) =>
      Effect.zipRight(
        Effect.sync(() => child.kill("SIGKILL")),
        ended(child)
      )
  )

const run = (folder: string, words: ReadonlyArray<string>, env: Env, input = "") =>
  Effect.scoped(
    Effect.gen(function* () {
      const { child, output } = yield* start(folder, words, env, input)
      return { code: yield* ended(child), ...output }
    })
  )

const until = <E, R>(what: string, condition: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  condition.pipe(
    Effect.delay("100 millis"),
    Effect.repeat({ until: (holds) => holds }),
    Effect.timeoutFail({ duration: "120 seconds", onTimeout: () => new Error(`waited in vain until ${what}`) }),
    Effect.orDie,
    Effect.asVoid
  )

// Each program that opens the embedded database takes seconds to start; on Postgres they are many in the time.
describe.skipIf(inject("postgres") === undefined)("a vault on a machine of its own", () => {
  it.scopedLive(
    "destroys an old root key on the word of a server, and never on its own",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const dir = yield* Effect.acquireRelease(
          Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "ampoule-release-"))),
          (made) => Effect.sync(() => fs.rmSync(made, { recursive: true, force: true }))
        )
        const socket = join(dir, "run", "vault.sock")
        const vaultEnv = { AMPOULE_DATA_DIR: join(dir, "vault"), AMPOULE_VAULT_URL: `unix://${socket}` }
        const postgres = inject("postgres")
        const database: Env =
          postgres === undefined
            ? {}
            : {
                AMPOULE_DATABASE_URL: (yield* TestDatabase.freshPostgres({ url: postgres.url })).url,
                AMPOULE_UNSAFE_DATABASE: "allow"
              }
        const env = {
          AMPOULE_DATA_DIR: join(dir, "server"),
          AMPOULE_VAULT_URL: `unix://${socket}`,
          AMPOULE_SETUP_CODE: "the first owner",
          ...database
        }
        const keyFile = join(vaultEnv.AMPOULE_DATA_DIR, "root-key")
        const vault = yield* start(folder, ["vault"], vaultEnv)
        yield* until(
          "the vault listens",
          Effect.sync(() => vault.output.stdout.includes("listens on"))
        )

        // Nobody else writes its log meanwhile.
        const second = yield* run(folder, ["vault"], {
          ...vaultEnv,
          AMPOULE_VAULT_URL: `unix://${join(dir, "run2", "v.sock")}`
        })
        assert.strictEqual(second.code, 1)
        assert.include(second.stderr, "in use by another Ampoule server or vault")

        /** A server that runs for a moment: at its start it seals the trail anew. */
        const served = (work: (at: { readonly url: string; readonly port: number }) => Effect.Effect<void>) =>
          Effect.scoped(
            Effect.gen(function* () {
              const server = yield* Release.server(folder, env)
              yield* work(server)
              server.child.kill("SIGTERM")
              yield* ended(server.child)
            })
          )
        yield* served(({ port }) =>
          Effect.gen(function* () {
            const owner = yield* TestApp.post("/setup", {
              json: {
                setupCode: "the first owner",
                email: "ada@example.com",
                name: "Ada",
                password: "vial of thirty drops",
                teamName: "Ops"
              }
            })
            assert.strictEqual(owner.status, 201, owner.text)
            const session = /ampoule_session=([^;]+)/.exec(owner.headers.get("set-cookie") ?? "")?.[1] ?? ""
            // The secret of a webhook is wrapped by the root key.
            const hook = yield* TestApp.post(`/teams/${owner.json.team.id}/webhooks`, {
              session,
              json: { name: "hook", url: "https://example.com/" }
            })
            assert.strictEqual(hook.status, 201, hook.text)
          }).pipe(Effect.provideService(Listening, { host: "127.0.0.1", port }))
        )
        const status = Effect.map(run(folder, ["vault", "status", "--json"], env), ({ stdout }) =>
          Release.rootKeysOf(stdout)
        )
        const [{ id: old }] = yield* status

        // Where there is no database nothing needs any key: that is no reason to destroy one, nor to make a database.
        const newKey = yield* run(folder, ["vault", "new-key"], vaultEnv)
        assert.strictEqual(newKey.code, 0, newKey.stderr)
        const rested = fs.readFileSync(keyFile, "utf8").replace(/until \S+/, "until 2020-01-01T00:00:00.000Z")
        fs.writeFileSync(keyFile, rested)
        for (const words of [["destroy-key", old], ["rotate"], ["release-key", old], ["status"]]) {
          const alone = yield* run(folder, ["vault", ...words], vaultEnv)
          assert.strictEqual(alone.code, 1)
          assert.include(alone.stderr, "no Ampoule database here")
        }
        assert.isFalse(fs.existsSync(join(vaultEnv.AMPOULE_DATA_DIR, "postgres")))
        assert.strictEqual(fs.readFileSync(keyFile, "utf8"), rested)

        // Nor is it released while rows name it, or while it wraps.
        const early = yield* run(folder, ["vault", "release-key", old], env)
        assert.match(early.stderr, /keys in the database are wrapped by/)
        assert.strictEqual(early.stdout, "")
        const rotated = yield* run(folder, ["vault", "rotate"], env)
        assert.strictEqual(rotated.code, 0, rotated.stderr)
        const current = (yield* status).find((one) => one.current)?.id ?? ""
        assert.notStrictEqual(current, old)
        assert.match((yield* run(folder, ["vault", "release-key", current], env)).stderr, /is the root key in use/)
        assert.match((yield* run(folder, ["vault", "release-key", "rk_00000000"], env)).stderr, /has no key/)

        // On a server that does not have the key file there is nothing to destroy, and it says what to do.
        let release = yield* run(folder, ["vault", "release-key", old], env)
        yield* until(
          "a server has sealed the trail anew",
          Effect.gen(function* () {
            if (release.code !== 0) yield* served(() => Effect.void)
            release = yield* run(folder, ["vault", "release-key", old], env)
            return release.code === 0
          })
        )
        const elsewhere = yield* run(folder, ["vault", "destroy-key", old], env)
        assert.match(elsewhere.stderr, /release-key/)
        assert.isFalse(fs.existsSync(join(env.AMPOULE_DATA_DIR, "root-key")))

        // At the vault: not by another's word, not for another key, and then for good.
        const stranger = signed(VaultRelease.text(old, Date.now()), key())
        const foreign = yield* run(folder, ["vault", "destroy-key", old, "--release", "-"], vaultEnv, stranger)
        assert.match(foreign.stderr, /signed by a key that is not known/)
        const other = yield* run(folder, ["vault", "destroy-key", current, "--release", "-"], vaultEnv, release.stdout)
        assert.match(other.stderr, /is about another root key/)
        assert.strictEqual(fs.readFileSync(keyFile, "utf8"), rested)
        const file = join(dir, "release")
        fs.writeFileSync(file, release.stdout)
        const destroyed = yield* run(folder, ["vault", "destroy-key", old, "--release", file], vaultEnv)
        assert.strictEqual(destroyed.code, 0, destroyed.stderr)
        assert.notInclude(fs.readFileSync(keyFile, "utf8"), old)
        yield* until(
          "the vault has let go of it",
          Effect.map(status, (keys) => keys.every(({ id }) => id !== old))
        )
        yield* served(({ url }) =>
          Effect.promise(async () => assert.strictEqual((await fetch(`${url}/health/ready`)).status, 200))
        )
        const again = yield* run(folder, ["vault", "destroy-key", old, "--release", file], vaultEnv)
        assert.match(again.stderr, /has no key/)
      }),
    400_000
  )
})
