/** Backup and restore as they are released: processes, files, kill -9; from one kind of database to the other. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { inject } from "vitest"
import * as Bodies from "#test/support/Bodies.ts"
import { parsed, Texts } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"
import * as Sampled from "#test/support/Sampled.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command of the release to its end, or for `killAfter` milliseconds. */
const run = (
  folder: string,
  env: Record<string, string>,
  args: ReadonlyArray<string>,
  options: { readonly input?: string; readonly killAfter?: number } = {}
) =>
  Effect.async<Ended>((resume) => {
    const child = spawn(process.execPath, [path.join(folder, "dist/ampoule.cjs"), ...args], {
      cwd: folder,
      env: { PATH: process.env["PATH"], HOME: folder, ...env },
      stdio: ["pipe", "pipe", "pipe"]
    })
    let [stdout, stderr] = ["", ""]
    child.stdout.on("data", (chunk) => (stdout += String(chunk)))
    child.stderr.on("data", (chunk) => (stderr += String(chunk)))
    child.stdin.end(options.input ?? "")
    const timer =
      options.killAfter === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), options.killAfter)
    child.once("close", (code) => {
      clearTimeout(timer)
      resume(Effect.succeed({ code, stdout, stderr }))
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

const ok = (ended: Ended) => {
  assert.strictEqual(ended.code, 0, ended.stderr + ended.stdout)
  return ended
}

/** Settings of a database: a folder of its own, and a Postgres of its own where there is one and it is asked for. */
const place = (folder: string, name: string, onPostgres: boolean) =>
  Effect.gen(function* () {
    const data = { AMPOULE_DATA_DIR: path.join(folder, name), AMPOULE_RATE_LIMITS: "off" }
    const postgres = inject("postgres")
    if (postgres === undefined || !onPostgres) return data
    const { url } = yield* TestDatabase.freshPostgres({ url: postgres.url })
    return { ...data, AMPOULE_DATABASE_URL: url }
  })

const stopped = (child: {
  readonly kill: (signal: "SIGTERM") => boolean
  readonly once: (event: "exit", f: () => void) => unknown
}) =>
  Effect.async<void>((resume) => {
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGTERM")
  })

const request =
  (url: string, token: string) =>
  <const Method extends string, const Path extends string>(method: Method, route: Path, body?: unknown) =>
    Effect.promise(async () => {
      const response = await fetch(`${url}${route}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      return Bodies.ofResponse(method, route, response)
    })

const environments = ["development", "staging"] as const
const perEnvironment = Sampled.cases(50) * 100
const valueOf = (i: number) =>
  `value ${i} – ${createHash("sha256").update(String(i)).digest("base64")} ${"\u00e4\n\t'\"\\".repeat(i % 7)}`

describe("a backup", () => {
  it.scopedLive(
    "comes back on another database, equal to the last hash, and tokens work; without the root key nothing is readable",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const source = yield* place(folder, "source", false)
        const file = path.join(folder, "one.backup")
        const identity = path.join(folder, "identity")

        // --- the original ---
        const first = yield* Release.server(folder, source)
        const setup = ok(
          yield* run(
            folder,
            { ...source, AMPOULE_URL: first.url },
            [
              "setup",
              "--email",
              "ada@example.com",
              "--name",
              "Ada",
              "--team",
              "T",
              "--project",
              "shop",
              "--token",
              "--access",
              "write"
            ],
            { input: "zanzibar quilt 77 oboe\n" }
          )
        )
        const token = setup.stdout.trim().split("\n").at(-1) ?? ""
        const ask = request(first.url, token)
        const projectId: string = (yield* ask("GET", "/projects")).json.items[0].id
        for (const environment of environments) {
          for (let at = 0; at < perEnvironment; at += 100) {
            const secrets = Array.from({ length: 100 }, (_, i) => ({ key: `KEY_${at + i}`, value: valueOf(at + i) }))
            const written = yield* ask("POST", "/secrets/bulk", { projectId, environment, secrets })
            assert.strictEqual(written.status, 201, written.text.slice(0, 200))
          }
        }
        const hashes = (ask: ReturnType<typeof request>) =>
          Effect.forEach(environments, (environment) =>
            Effect.map(ask("GET", `/secrets/inject?projectId=${projectId}&environment=${environment}`), ({ json }) =>
              Object.entries(json.values)
                .map(([key, value]) => `${key} ${createHash("sha256").update(value).digest("hex")}`)
                .sort()
            )
          )
        const original = yield* hashes(ask)
        assert.deepStrictEqual(
          original.map((list) => list.length),
          [perEnvironment, perEnvironment]
        )
        // The embedded database serves one process; a backup beside it is refused in a sentence.
        const busy = yield* run(folder, source, ["backup", "keygen", identity])
        const recipient = ok(busy).stdout.trim()
        assert.strictEqual(fs.statSync(identity).mode & 0o777, 0o600)
        const refused = yield* run(folder, source, ["backup", file, "--recipient", recipient])
        assert.include(refused.stderr, "in use by another Ampoule server")
        yield* stopped(first.child)

        // --- the backup ---
        ok(yield* run(folder, source, ["audit", "verify", "--values"]))
        ok(yield* run(folder, source, ["backup", file, "--recipient", recipient, "--with-root-key"]))
        assert.strictEqual(fs.statSync(file).mode & 0o777, 0o600)
        assert.isFalse(fs.existsSync(`${file}.unfinished`))
        const again = yield* run(folder, source, ["backup", file, "--recipient", recipient])
        assert.include(again.stderr, "already exists")
        // It has neither a value nor the root key nor a name.
        const bytes = fs.readFileSync(file)
        for (const needle of [
          "ada@example.com",
          "KEY_",
          token,
          fs.readFileSync(path.join(source.AMPOULE_DATA_DIR, "root-key"))
        ]) {
          assert.strictEqual(bytes.indexOf(needle), -1)
        }

        // --- not restored: the wrong file, the wrong identity, the wrong place ---
        const target = yield* place(folder, "target", true)
        const restore = ["restore", file, "--identity", identity]
        const cut = path.join(folder, "cut.backup")
        fs.writeFileSync(cut, bytes.subarray(0, Math.floor(bytes.length * 0.7)))
        const damaged = yield* run(folder, target, ["restore", cut, "--identity", identity])
        assert.strictEqual(damaged.code, 1)
        assert.match(damaged.stderr, /damaged/)
        const other = path.join(folder, "other-identity")
        ok(yield* run(folder, target, ["backup", "keygen", other]))
        const stranger = yield* run(folder, target, ["restore", file, "--identity", other])
        assert.match(stranger.stderr, /another recipient/)
        const full = yield* run(folder, source, restore)
        assert.match(full.stderr, /not empty/)

        // --- killed while it restores: the database is empty, and it can be run again ---
        for (const killAfter of [900, 1_800, 3_200]) {
          const killed = yield* run(folder, target, restore, { killAfter })
          if (killed.code === 0) break
          assert.isNull(killed.code)
        }
        const restored = yield* run(folder, target, restore)
        // The last kill may have come too late.
        if (restored.code !== 0) assert.match(restored.stderr, /not empty/)
        else assert.match(restored.stderr, /Nothing in it can be read yet: that needs root key rk_[0-9a-f]{8}/)

        // --- without the root key nothing is readable ---
        const keyless = yield* Effect.either(Effect.scoped(Release.server(folder, target)))
        assert.isTrue(
          keyless._tag === "Left" && /root key/.test(keyless.left.message),
          "the server starts without its root key"
        )
        const withForeign = yield* Effect.either(
          Effect.scoped(Release.server(folder, { ...target, AMPOULE_ROOT_KEY: "11".repeat(32) }))
        )
        assert.strictEqual(withForeign._tag, "Left")

        // --- with it, everything is as it was ---
        const second = yield* place(folder, "second", true)
        const whole = ok(yield* run(folder, second, [...restore, "--root-key", `${file}.root-key`, "--json"]))
        const outcome = parsed(Schema.Struct({ problems: Texts, opened: Schema.Unknown }))(whole.stdout)
        assert.deepStrictEqual(outcome.problems, [])
        assert.deepStrictEqual(outcome.opened, { dataKeys: 2, values: 2 })
        const back = yield* Release.server(folder, second)
        const askBack = request(back.url, token)
        assert.deepStrictEqual(yield* hashes(askBack), original)
        assert.strictEqual(
          (yield* askBack("POST", "/secrets", { projectId, environment: "production", key: "NEW", value: "n" })).status,
          403
        )
        assert.strictEqual(
          (yield* askBack(
            "PATCH",
            `/secrets/${(yield* askBack("GET", `/secrets?projectId=${projectId}&environment=staging&pageSize=1`)).json.items[0].id}`,
            { value: "changed" }
          )).status,
          200
        )
        yield* stopped(back.child)
        ok(yield* run(folder, second, ["audit", "verify", "--values"]))

        // --- a copy has keys of its own: people sign in with their passwords, and nothing else of the original works ---
        const copy = yield* place(folder, "copy", true)
        const copying = [...restore, "--as-copy"]
        const keylessCopy = yield* run(folder, copy, copying)
        assert.strictEqual(keylessCopy.code, 1)
        assert.match(keylessCopy.stderr, /root key/)
        const copied = ok(yield* run(folder, copy, [...copying, "--root-key", `${file}.root-key`]))
        assert.include(copied.stderr, "This database is a copy")
        const password = { email: "ada@example.com", password: "zanzibar quilt 77 oboe" }
        const signIn = (url: string) =>
          Effect.map(request(url, "")("POST", "/auth/session", password), ({ status }) => status)
        for (const rotation of [
          ["vault", "status"],
          ["vault", "rotate", "--service-keys", "--yes"]
        ]) {
          ok(yield* run(folder, copy, rotation))
          const server = yield* Release.server(folder, copy)
          assert.strictEqual((yield* request(server.url, token)("GET", "/projects")).status, 401)
          assert.strictEqual(yield* signIn(server.url), 200)
          yield* stopped(server.child)
          ok(yield* run(folder, copy, ["audit", "verify", "--values"]))
        }

        // --- and on to the other kind of database ---
        const next = path.join(folder, "two.backup")
        ok(yield* run(folder, second, ["backup", next, "--recipient", recipient]))
        const third = yield* place(folder, "third", false)
        ok(yield* run(folder, third, ["restore", next, "--identity", identity, "--root-key", `${file}.root-key`]))
        // Whole as far as it goes; without a checkpoint beside it nobody can say that nothing is missing.
        const unchecked = yield* run(folder, third, ["audit", "verify", "--values", "--json"])
        assert.strictEqual(unchecked.code, 2)
        const { problems, result, verified } = parsed(
          Schema.Struct({ problems: Schema.Unknown, result: Schema.String, verified: Schema.Unknown })
        )(unchecked.stdout)
        assert.deepStrictEqual({ problems, result, verified }, { problems: [], result: "unknown", verified: null })

        // --- an export is verified where there is no database, with the checkpoints of the original ---
        const trail = path.join(folder, "trail.jsonl")
        fs.writeFileSync(trail, ok(yield* run(folder, source, ["audit", "export"])).stdout)
        const key = ok(yield* run(folder, source, ["audit", "public-key"])).stdout.trim()
        const checkpoints = path.join(source.AMPOULE_DATA_DIR, "audit-checkpoints")
        const offline = ["audit", "verify", trail, "--checkpoints", checkpoints, "--public-key", key]
        assert.include(ok(yield* run(folder, {}, offline)).stdout, "The trail is whole.")
        const lines = fs.readFileSync(trail, "utf8").trimEnd().split("\n")
        fs.writeFileSync(trail, `${lines.toSpliced(-3, 1).join("\n")}\n`)
        const shorter = yield* run(folder, {}, offline)
        assert.strictEqual(shorter.code, 1)
        assert.match(shorter.stdout, /PROBLEM {2}Stream [0-9a-f-]{36}, entry \d+/)
        // The older copy beside the newer checkpoints, until the operator says that it counts.
        fs.copyFileSync(checkpoints, path.join(third.AMPOULE_DATA_DIR, "audit-checkpoints"))
        const behind = yield* run(folder, third, ["audit", "verify"])
        assert.strictEqual(behind.code, 1)
        assert.match(behind.stdout, /the checkpoint of .* vouches for/)
        ok(yield* run(folder, third, ["audit", "accept-restore", "--yes"]))
        ok(yield* run(folder, third, ["audit", "verify", "--values"]))
      }),
    600_000
  )
})
