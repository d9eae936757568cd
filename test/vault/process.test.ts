/**
 * The vault as it is run: processes that are killed, stopped and started again, and rotations that are killed half way.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PgPool from "#layers/PgPool.ts"
import { VaultAddress } from "#layers/VaultAddress.ts"
import * as VaultRemote from "#layers/VaultRemote.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { Listening } from "#src/http/engine/Server.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import { parsed, Texts } from "#test/support/Json.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import { inject } from "vitest"

type Env = Record<string, string>

const Rotated = Schema.Struct({ made: Schema.Boolean, older: Texts, rootKeyId: Schema.String })

const place = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "ampoule-vault-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

const ended = (child: ChildProcess) =>
  Effect.async<number | null>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) resume(Effect.succeed(child.exitCode))
    else child.once("close", (code) => resume(Effect.succeed(code)))
  })

const start = (folder: string, words: ReadonlyArray<string>, env: Env) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const child = spawn(process.execPath, [join(folder, "dist/ampoule.cjs"), ...words], {
        env: { PATH: process.env["PATH"], ...env },
        stdio: ["ignore", "pipe", "pipe"]
      })
      const output = { text: "" }
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output.text += String(chunk)))
      return { child, output }
    }),
    ({ child }) =>
      Effect.zipRight(
        Effect.sync(() => child.kill("SIGKILL")),
        ended(child)
      )
  )

/** A command to its end. */
const run = (folder: string, words: ReadonlyArray<string>, env: Env) =>
  Effect.scoped(
    Effect.gen(function* () {
      const { child, output } = yield* start(folder, words, env)
      return { code: yield* ended(child), text: output.text }
    })
  )

const vaultProcess = (folder: string, env: Env) =>
  Effect.gen(function* () {
    const { child, output } = yield* start(folder, ["vault"], env)
    yield* until(Effect.sync(() => output.text.includes("listens on") || child.exitCode !== null))
    assert.isNull(child.exitCode, output.text)
    return child
  })

const pause = Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 50)))
const until = <E, R>(condition: Effect.Effect<boolean, E, R>): Effect.Effect<void, E, R> =>
  Effect.gen(function* () {
    for (let i = 0; i < 1_000; i++) {
      if (yield* condition) return
      yield* pause
    }
    assert.fail("waited for what did not come")
  })

const setupCode = "the first owner"

/** A server with an owner, a project, and what a test asks of both. */
const household = (server: { readonly port: number; readonly url: string }) =>
  Effect.gen(function* () {
    const on = Effect.provideService(Listening, { host: "127.0.0.1", port: server.port })
    const owner = yield* on(
      TestApp.post("/setup", {
        json: { setupCode, email: "ada@example.com", name: "Ada", password: "vial of thirty drops", teamName: "Ops" }
      })
    )
    assert.strictEqual(owner.status, 201, owner.text)
    const cookie = /([\w-]*ampoule_session)=([^;]+)/.exec(owner.headers.get("set-cookie") ?? "")
    const session = cookie?.[2] ?? assert.fail("no session")
    const project = yield* on(
      TestApp.post(`/teams/${owner.json.team.id}/projects`, { session, json: { name: "Demo", slug: "demo" } })
    )
    const projectId: string = project.json.id
    const list = yield* on(TestApp.get(`/projects/${projectId}/environments`, { session }))
    const environmentId = (slug: string): string =>
      list.json.items.find((one) => one.slug === slug)?.id ?? assert.fail(`no ${slug}`)
    return {
      projectId,
      environmentId,
      session,
      write: (environment: string, values: Env) =>
        on(
          TestApp.post("/secrets/bulk", {
            session,
            json: { projectId, environment, secrets: Object.entries(values).map(([key, value]) => ({ key, value })) }
          })
        ),
      read: (environment: string) =>
        on(TestApp.get(`/secrets/inject?projectId=${projectId}&environment=${environment}`, { session })),
      get: <const Path extends string>(path: Path) => on(TestApp.get(path, { session })),
      post: <const Path extends string>(path: Path, json: unknown) => on(TestApp.post(path, { session, json }))
    }
  })

const { codeOf } = TestApp
const down = [500, "DEPENDENCY_UNAVAILABLE"]

describe("a vault process", () => {
  it.scopedLive(
    "may be killed or hang: what is held goes on, the rest says so, and all comes back by itself",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const dir = yield* place
        const socket = join(dir, "run", "vault.sock")
        const vaultEnv = { AMPOULE_DATA_DIR: join(dir, "vault"), AMPOULE_VAULT_URL: `unix://${socket}` }
        const serverEnv = {
          AMPOULE_DATA_DIR: join(dir, "server"),
          AMPOULE_VAULT_URL: `unix://${socket}`,
          AMPOULE_SETUP_CODE: setupCode,
          AMPOULE_RATE_LIMITS: "off"
        }
        let vault = yield* vaultProcess(folder, vaultEnv)
        const server = yield* Release.server(folder, serverEnv)
        const home = yield* household(server)
        const ready = Effect.map(home.get("/health/ready"), ({ json, status }) => [status, json.checks.vault.status])
        assert.deepStrictEqual(yield* ready, [200, "up"])
        assert.strictEqual((yield* home.write("development", { A: "1" })).status, 201)
        assert.isFalse(fs.existsSync(join(dir, "server", "root-key")), "the server holds no root key")

        const outage = Effect.gen(function* () {
          assert.deepStrictEqual(yield* ready, [503, "down"])
          assert.strictEqual((yield* home.get("/health/live")).status, 200)
          assert.deepStrictEqual((yield* home.read("development")).json.values, { A: "1" })
          // No key of this environment is held, or there is none yet.
          const cold = yield* home.write("staging", { A: "1" })
          assert.deepStrictEqual(codeOf(cold), down)
          assert.match(cold.headers.get("retry-after") ?? "", /^[0-9]+$/)
          assert.deepStrictEqual(
            codeOf(yield* home.get(`/environments/${home.environmentId("staging")}/keypair`)),
            down
          )
        })

        vault.kill("SIGSTOP")
        yield* outage
        vault.kill("SIGCONT")
        yield* until(Effect.map(ready, ([status]) => status === 200))

        vault.kill("SIGKILL")
        yield* ended(vault)
        yield* outage
        vault = yield* vaultProcess(folder, vaultEnv)
        yield* until(Effect.map(ready, ([status]) => status === 200))
        assert.strictEqual((yield* home.write("staging", { A: "2" })).status, 201)
        assert.deepStrictEqual((yield* home.read("staging")).json.values, { A: "2" })

        // Sealed values need the vault for each opening, and no restart afterwards.
        const environmentId = home.environmentId("development")
        const keypair = yield* home.get(`/environments/${environmentId}/keypair`)
        const to = yield* SealedEnv.recipient(
          environmentId,
          Option.getOrThrow(SealedEnv.parsePublicKey(keypair.json.publicKey))
        )
        const entries = { A: yield* SealedEnv.sealEntry(to, "A", Redacted.make("sealed")) }
        const open = home.post(`/environments/${environmentId}/sealed-values/open`, { keyId: to.keyId, entries })
        assert.deepStrictEqual((yield* open).json.values, { A: "sealed" })
        vault.kill("SIGTERM")
        assert.strictEqual(yield* ended(vault), 0)
        assert.isFalse(fs.existsSync(socket))
        assert.deepStrictEqual(codeOf(yield* open), down)
        vault = yield* vaultProcess(folder, vaultEnv)
        yield* until(Effect.map(open, ({ status }) => status === 200))

        // A server that starts without the vault serves nothing that needs it, and then everything.
        server.child.kill("SIGTERM")
        yield* ended(server.child)
        vault.kill("SIGKILL")
        yield* ended(vault)
        const second = yield* Release.server(folder, serverEnv)
        const cold = Effect.provideService(
          TestApp.get(`/secrets/inject?projectId=${home.projectId}&environment=development`, { session: home.session }),
          Listening,
          { host: "127.0.0.1", port: second.port }
        )
        assert.deepStrictEqual(codeOf(yield* cold), down)
        yield* vaultProcess(folder, vaultEnv)
        yield* until(Effect.map(cold, ({ status }) => status === 200))
        assert.deepStrictEqual((yield* cold).json.values, { A: "1" })

        // Without its key file it makes no other one, whatever it finds.
        yield* Effect.scoped(
          Effect.gen(function* () {
            const keyFile = join(dir, "lost", "root-key")
            fs.cpSync(join(dir, "vault"), join(dir, "lost"), {
              recursive: true,
              filter: (from) => !from.endsWith(".sock")
            })
            fs.rmSync(keyFile)
            const lost = yield* run(folder, ["vault"], {
              AMPOULE_DATA_DIR: join(dir, "lost"),
              AMPOULE_VAULT_URL: `unix://${join(dir, "run-lost", "vault.sock")}`
            })
            assert.strictEqual(lost.code, 1, lost.text)
            assert.include(lost.text, "The root key is missing")
            assert.isFalse(fs.existsSync(keyFile))
          })
        )

        const log = yield* run(folder, ["vault", "verify-log", "--json"], vaultEnv)
        assert.strictEqual(log.code, 0, log.text)
        assert.isAbove(parsed(Schema.Struct({ entries: Schema.Number }))(log.text).entries, 5)
      }),
    120_000
  )
})

const postgres = inject("postgres")

describe.skipIf(postgres === undefined)("rotation by a process that is killed half way", () => {
  const environments = 450

  it.scopedLive(
    "is finished by the next one, under readers and writers who notice nothing",
    () =>
      Effect.gen(function* () {
        if (postgres === undefined) return
        const { url } = yield* TestDatabase.freshPostgres({ url: postgres.url })
        const folder = yield* Release.build
        const dir = yield* place
        const socket = join(dir, "data", "vault", "vault.sock")
        // One folder: the command that makes a root key writes the file that the vault reads.
        const vaultEnv = { AMPOULE_DATA_DIR: join(dir, "data") }
        const env = {
          ...vaultEnv,
          AMPOULE_VAULT_URL: `unix://${socket}`,
          AMPOULE_DATABASE_URL: url,
          AMPOULE_UNSAFE_DATABASE: "allow",
          AMPOULE_SETUP_CODE: setupCode,
          AMPOULE_RATE_LIMITS: "off"
        }
        yield* vaultProcess(folder, vaultEnv)
        const server = yield* Release.server(folder, env)
        const home = yield* household(server)
        const database = yield* Layer.build(
          PgPool.layer({
            connection: { connectionString: url },
            size: 4,
            checkoutMillis: 30_000,
            deadlineMillis: 30_000
          })
        )
        const sql = Context.get(database, SqlClient.SqlClient)

        // Many environments with a key each, as servers would have made them.
        const vault = yield* VaultRemote.layer({
          address: VaultAddress.Unix({ path: socket }),
          token: Option.none()
        }).pipe(Layer.build, Effect.map(Context.get(Vault)), Effect.provide(database))
        const [{ id: teamId }] = yield* sql<{ readonly id: string }>`SELECT id FROM teams`
        const at = new Date(0)
        const ids = Array.from({ length: environments }, () => ({ environmentId: randomUUID(), keyId: randomUUID() }))
        yield* sql`
          INSERT INTO environments (id, team_id, project_id, slug, name, protected, created_at, updated_at)
          SELECT id, ${teamId}::uuid, ${home.projectId}::uuid, 'e-' || n, 'e', false, ${at}::timestamptz, ${at}::timestamptz
          FROM unnest(${ids.map(({ environmentId }) => environmentId)}::uuid[]) WITH ORDINALITY AS e (id, n)`
        const dataKeys = yield* Effect.forEach(
          ids,
          (one) => vault.generateDataKey({ purpose: "data-key", teamId, projectId: home.projectId, ...one }),
          { concurrency: 16 }
        )
        yield* sql`
          INSERT INTO data_keys (id, environment_id, generation, root_key_id, wrapped, state, created_at)
          SELECT id, environment_id, 1, root_key_id, wrapped, 'active', ${at}::timestamptz
          FROM unnest(
            ${ids.map(({ keyId }) => keyId)}::uuid[], ${ids.map(({ environmentId }) => environmentId)}::uuid[],
            ${dataKeys.map(({ rootKeyId }) => rootKeyId)}::text[], ${dataKeys.map(({ wrapped }) => Buffer.from(wrapped))}::bytea[]
          ) AS k (id, environment_id, root_key_id, wrapped)`

        // As many as a request takes; `round` is written again and again, the rest once.
        const some = (name: string, value: string) =>
          Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`${name}_${i}`, value]))
        const round = (n: number) => some("ROUND", `${n}`)
        const rest = { ...some("A", "a"), ...some("B", "b"), ...some("C", "c"), ...some("D", "d") }
        for (const values of [round(0), some("A", "a"), some("B", "b"), some("C", "c"), some("D", "d")]) {
          assert.strictEqual((yield* home.write("development", values)).status, 201)
        }

        // Readers and writers through all that follows.
        const state = { run: true, written: 0, reads: 0 }
        const writer = Effect.gen(function* () {
          while (state.run) {
            const answer = yield* home.write("development", round(state.written + 1))
            assert.strictEqual(answer.status, 201, answer.text)
            state.written++
            yield* pause
          }
        })
        const reader = Effect.gen(function* () {
          while (state.run) {
            const least = state.written
            const answer = yield* home.read("development")
            assert.strictEqual(answer.status, 200, answer.text)
            const seen = Number(answer.json.values.ROUND_0)
            assert.isAtLeast(seen, least)
            assert.deepStrictEqual(answer.json.values, { ...rest, ...round(seen) })
            state.reads++
            yield* pause
          }
        })
        const busy = yield* Effect.fork(Effect.all([writer, reader], { concurrency: "unbounded" }))

        const byRootKey = Effect.map(
          sql<{ readonly rootKeyId: string; readonly n: number }>`
            SELECT root_key_id, count(*)::int AS n FROM data_keys GROUP BY root_key_id ORDER BY 1`,
          (rows) => new Map(rows.map(({ n, rootKeyId }) => [rootKeyId, n]))
        )
        const [before] = [...(yield* byRootKey).keys()]
        yield* Effect.scoped(
          Effect.gen(function* () {
            const rotation = yield* start(folder, ["vault", "rotate"], env)
            yield* until(Effect.map(byRootKey, (keys) => keys.size === 2 || rotation.child.exitCode !== null))
            rotation.child.kill("SIGKILL")
            yield* ended(rotation.child)
          })
        )
        const half = yield* byRootKey
        assert.strictEqual(half.size, 2, "killed half way")
        const finished = yield* run(folder, ["vault", "rotate", "--json"], env)
        assert.strictEqual(finished.code, 0, finished.text)
        const rotated = parsed(Rotated)(finished.text)
        assert.strictEqual(rotated.made, false, "the second run goes on; it makes no other key")
        assert.deepStrictEqual(rotated.older, [before])
        assert.deepStrictEqual([...(yield* byRootKey).keys()], [rotated.rootKeyId])

        // The old key goes when nothing needs it and it has rested: a server would make the seals again within minutes,
        // and in the file the key gets a rest of years.
        const refused = (reason: string) =>
          Effect.map(run(folder, ["vault", "destroy-key", before], env), ({ code, text }) => {
            assert.strictEqual(code, 1)
            assert.include(text, reason)
          })
        // One that no server makes again, so that it is there whenever this is looked at.
        yield* sql`
          INSERT INTO audit_seals (stream, seq, hash, final, root_key_id, mac, sealed_at, seen_at)
          VALUES (${randomUUID()}, 1, ${Buffer.alloc(32)}, true, ${before}, ${Buffer.alloc(32)}, ${at}, ${at})`
        yield* refused("seals of the audit trail")
        yield* sql`DELETE FROM audit_seals WHERE root_key_id = ${before}`
        yield* refused("moment ago")
        const keyFile = join(dir, "data", "root-key")
        const text = fs.readFileSync(keyFile, "utf8").replace(/until \S+/, "until 2020-01-01T00:00:00.000Z")
        fs.writeFileSync(keyFile, text)
        const wrong = yield* run(folder, ["vault", "destroy-key", rotated.rootKeyId], env)
        assert.strictEqual(wrong.code, 1, "the key in use is never destroyed")
        const destroyed = yield* run(folder, ["vault", "destroy-key", before], env)
        assert.strictEqual(destroyed.code, 0, destroyed.text)
        const status = yield* run(folder, ["vault", "status", "--json"], env)
        assert.deepStrictEqual(
          Release.rootKeysOf(status.text).map(({ held, id }) => [id, held]),
          [[rotated.rootKeyId, true]]
        )

        // Data keys of one environment, killed in the middle of its values.
        const environment = home.environmentId("development")
        const bySeal = Effect.map(
          sql<{ readonly n: number }>`
            SELECT count(*)::int AS n FROM secret_versions v JOIN secrets s ON s.id = v.secret_id
            WHERE s.environment_id = ${environment} GROUP BY v.data_key_id`,
          (rows) => rows.length
        )
        const words = ["vault", "rotate-data-keys", "--environment", environment]
        yield* Effect.scoped(
          Effect.gen(function* () {
            const rotation = yield* start(folder, words, env)
            yield* until(Effect.map(bySeal, (keys) => keys === 2 || rotation.child.exitCode !== null))
            rotation.child.kill("SIGKILL")
            yield* ended(rotation.child)
          })
        )
        assert.strictEqual(yield* bySeal, 2, "killed half way")
        const resumed = yield* run(folder, [...words, "--before", "2020-01-01T00:00:00Z", "--json"], env)
        assert.strictEqual(resumed.code, 0, resumed.text)
        assert.strictEqual(parsed(Schema.Struct({ environments: Schema.Number }))(resumed.text).environments, 1)
        assert.strictEqual(yield* bySeal, 1)

        state.run = false
        yield* Fiber.join(busy)
        assert.isAbove(state.reads, 10)
        assert.isAbove(state.written, 1)

        // A server without anything in memory reads it all by what there is now.
        server.child.kill("SIGTERM")
        yield* ended(server.child)
        const fresh = yield* Release.server(folder, env)
        const answer = yield* Effect.provideService(
          TestApp.get(`/secrets/inject?projectId=${home.projectId}&environment=development`, { session: home.session }),
          Listening,
          { host: "127.0.0.1", port: fresh.port }
        )
        assert.deepStrictEqual(answer.json.values, { ...rest, ...round(state.written) })
      }),
    240_000
  )
})
