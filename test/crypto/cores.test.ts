/**
 * Contents of memory (docs/security.md, "Threat model"): that of the running server and of its vault, searched for keys
 * and
 * credentials. Slow, and reads what a debugger would read (Linux, the same user): `npm run test:cores`.
 * `AMPOULE_CORES_REPORT` names a file for the figures.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { execFileSync, spawn } from "node:child_process"
import { createSecretKey } from "node:crypto"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Pglite from "#layers/Pglite.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import * as Bodies from "#test/support/Bodies.ts"
import * as Release from "#test/support/Release.ts"
import { core, countIn, readable } from "./Memory.ts"

const isSelected = process.env["AMPOULE_TEST_CORES"] !== undefined && readable
const reportFile = process.env["AMPOULE_CORES_REPORT"]

const place = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "ampoule-cores-"))),
  (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
)

const pause = (millis: number) => Effect.promise(() => new Promise((resolve) => setTimeout(resolve, millis)))

const startVault = (folder: string, env: Record<string, string>) =>
  Effect.gen(function* () {
    const child = yield* Effect.acquireRelease(
      Effect.sync(() =>
        spawn(process.execPath, [join(folder, "dist/ampoule.cjs"), "vault"], {
          env: { PATH: process.env["PATH"], ...env },
          stdio: ["ignore", "pipe", "pipe"]
        })
      ),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    const output = { text: "" }
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output.text += String(chunk)))
    for (let i = 0; i < 1_000 && !output.text.includes("listens on"); i++) yield* pause(50)
    assert.include(output.text, "listens on")
    return child
  })

const forms = (bytes: Buffer): Record<string, Buffer> => ({
  raw: bytes,
  hex: Buffer.from(bytes.toString("hex")),
  base64: Buffer.from(bytes.toString("base64").replace(/=+$/, "")),
  "UTF-16 hex": Buffer.from(bytes.toString("hex"), "utf16le")
})

const rootKeysOf = (file: string): ReadonlyArray<Buffer> =>
  fs
    .readFileSync(file, "utf8")
    .split("\n")
    .map((line) => line.split("#")[0].trim())
    .filter((word) => word !== "")
    .map((word) => (/^[0-9a-f]{64}$/i.test(word) ? Buffer.from(word, "hex") : Buffer.from(word, "base64")))

const setupCode = "cores setup code"
const password = "vial of ninety-one drops"

describe.runIf(isSelected)("memory of the running programs", () => {
  it.scopedLive(
    "holds no root key in the server, and of other keys what the documentation says",
    () =>
      Effect.gen(function* () {
        const folder = yield* Release.build
        const dir = yield* place
        const vaultEnv = {
          AMPOULE_DATA_DIR: join(dir, "vault"),
          AMPOULE_VAULT_URL: `unix://${join(dir, "run", "vault.sock")}`
        }
        const serverData = join(dir, "server")
        const vault = yield* startVault(folder, vaultEnv)
        const server = yield* Release.server(folder, {
          AMPOULE_DATA_DIR: serverData,
          AMPOULE_VAULT_URL: vaultEnv.AMPOULE_VAULT_URL,
          AMPOULE_SETUP_CODE: setupCode,
          AMPOULE_RATE_LIMITS: "off"
        })
        const cores: Array<{ readonly point: string; readonly process: "server" | "vault"; readonly file: string }> = []
        const take = (point: string) =>
          Effect.gen(function* () {
            cores.push({ point, process: "server", file: yield* core(server.child, dir, `server-${point}`) })
            cores.push({ point, process: "vault", file: yield* core(vault, dir, `vault-${point}`) })
          })

        const call = <const Method extends string, const Path extends string>(
          method: Method,
          path: Path,
          json?: unknown,
          headers: Record<string, string> = {}
        ) =>
          Effect.promise(async () => {
            const response = await fetch(server.url + path, {
              method,
              // No connection is kept over a standstill.
              headers: {
                connection: "close",
                ...headers,
                ...(json === undefined ? {} : { "content-type": "application/json" })
              },
              ...(json === undefined ? {} : { body: JSON.stringify(json) })
            })
            const answer = await Bodies.ofResponse(method, path, response)
            assert.isBelow(answer.status, 300, `${method} ${path}: ${answer.text}`)
            return answer
          })

        const owner = yield* call("POST", "/setup", {
          setupCode,
          email: "ada@example.com",
          name: "Ada",
          password,
          teamName: "Ops"
        })
        yield* take("boot")

        const cookie = (owner.headers.get("set-cookie") ?? "").split(";")[0]
        const session = { cookie }
        const project = yield* call("POST", `/teams/${owner.json.team.id}/projects`, { name: "Demo" }, session)
        const token = yield* call(
          "POST",
          `/teams/${owner.json.team.id}/api-tokens`,
          { name: "ci", accessLevel: "write" },
          session
        )
        const bearer = { authorization: `Bearer ${token.json.value}` }
        const at = { projectId: project.json.id, environment: "development" }
        for (let i = 0; i < 150; i++) {
          yield* call("POST", "/secrets", { ...at, key: `K_${i}`, value: `value ${i}` }, bearer)
        }
        for (let i = 0; i < 30; i++) {
          yield* call("GET", `/secrets/inject?projectId=${at.projectId}&environment=development`, undefined, bearer)
          yield* call("POST", "/auth/session", { email: "ada@example.com", password })
        }
        const environments = yield* call("GET", `/projects/${at.projectId}/environments`, undefined, session)
        yield* call("GET", `/environments/${environments.json.items[0].id}/keypair`, undefined, session)
        yield* take("load")

        execFileSync(process.execPath, [join(folder, "dist/ampoule.cjs"), "vault", "new-key"], {
          env: { PATH: process.env["PATH"], ...vaultEnv },
          stdio: "pipe"
        })
        for (let i = 0; i < 20; i++) {
          const created = yield* call("POST", `/teams/${owner.json.team.id}/projects`, { name: `P ${i}` }, session)
          const place = { projectId: created.json.id, environment: "development" }
          yield* call("POST", "/secrets", { ...place, key: "A", value: "a" }, bearer)
        }
        yield* take("rotation")

        yield* pause(20_000)
        yield* take("idle")

        const development = environments.json.items.find(({ slug }) => slug === "development")
        if (development === undefined) return assert.fail("no development")
        yield* call("DELETE", `/environments/${development.id}`, undefined, session)
        // Until keys of deleted environments are dropped, which happens every 30 s.
        yield* pause(35_000)
        // Enough work that the garbage of all generations is collected.
        for (let i = 0; i < 1_500; i++) yield* call("GET", "/projects", undefined, bearer)
        yield* take("deleted")

        // The keys of the run: the root keys from the vault's file, the data keys from the database by them.
        server.child.kill("SIGTERM")
        yield* Effect.async<void>((resume) => void server.child.once("close", () => resume(Effect.void)))
        const roots = rootKeysOf(join(dir, "vault", "root-key"))
        assert.strictEqual(roots.length, 2)
        const rootKeys = roots.map((bytes) => RootKey.rootKey(createSecretKey(bytes)))
        const rows = yield* Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          return yield* sql<{
            readonly id: string
            readonly teamId: string
            readonly projectId: string
            readonly environmentId: string
            readonly rootKeyId: string
            readonly wrapped: Buffer
          }>`
            SELECT d.id::text AS id, e.team_id::text AS team_id, e.project_id::text AS project_id,
              e.id::text AS environment_id, d.root_key_id, d.wrapped
            FROM data_keys d JOIN environments e ON e.id = d.environment_id`
        }).pipe(Effect.provide(Pglite.layerFolder(serverData)))
        const dataKeys = rows.map((row) =>
          Either.getOrThrow(
            RootKey.unwrap(
              RootKey.rootKeys(rootKeys[0], rootKeys.slice(1)),
              { ...row, purpose: "data-key", keyId: row.id },
              row.wrapped,
              row.rootKeyId
            )
          )
        )
        assert.isAtLeast(dataKeys.length, 21)
        const ofDevelopment = rows.findIndex(({ projectId }) => projectId === at.projectId)

        const needles: Record<string, Buffer> = {
          ...Object.fromEntries(
            roots.flatMap((bytes, i) =>
              Object.entries(forms(bytes)).map(([form, needle]) => [`root key ${i + 1}, ${form}`, needle])
            )
          ),
          "data key in use": dataKeys[ofDevelopment],
          ...Object.fromEntries(dataKeys.map((bytes, i) => [`data key ${i}`, bytes])),
          "API token": Buffer.from(String(token.json.value).slice(25, 60)),
          session: Buffer.from(cookie.slice(-45, -8)),
          password: Buffer.from(password),
          "setup code": Buffer.from(setupCode),
          // The counter-check: what does stand in memory is found.
          "a key name": Buffer.from("K_149")
        }
        const figures = cores.map(({ file, point, process }) => {
          const counts = countIn(file, needles)
          const data = dataKeys.map((_, i) => counts[`data key ${i}`])
          const rest = Object.fromEntries(Object.entries(counts).filter(([name]) => !/^data key \d+$/.test(name)))
          return {
            point,
            process,
            MiB: Math.round(fs.statSync(file).size / 1_048_576),
            ...rest,
            "data keys, most copies of one": Math.max(...data),
            "data keys, copies of all": data.reduce((sum, n) => sum + n, 0),
            "data keys": data.length
          } as Record<string, string | number>
        })
        if (reportFile !== undefined) fs.writeFileSync(reportFile, JSON.stringify(figures, null, 2))

        const ofServer = figures.filter(({ process }) => process === "server")
        for (const figure of ofServer) {
          for (const [name, count] of Object.entries(figure)) {
            if (name.startsWith("root key")) assert.strictEqual(count, 0, `${name} at ${figure["point"]}`)
          }
        }
        for (const figure of figures.filter(({ process }) => process === "vault")) {
          for (const root of ["root key 1, raw", "root key 2, raw"]) assert.isAtMost(Number(figure[root]), 1, root)
        }
        for (const { point, ...figure } of ofServer) {
          assert.isAtMost(Number(figure["data key in use"]), point === "deleted" ? 0 : 1, `at ${point}`)
          // One in use, and one that the answer of the vault left in freed memory.
          assert.isAtMost(Number(figure["data keys, most copies of one"]), 2, `at ${point}`)
        }
        assert.isAbove(Number(ofServer[1]["a key name"]), 0)
      }),
    900_000
  )
})
