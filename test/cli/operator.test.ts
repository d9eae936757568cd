import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as Release from "#test/support/Release.ts"

describe("commands of the operator", () => {
  it.scoped(
    "print JSON and nothing else on standard output when they are asked for JSON",
    () =>
      Effect.gen(function* () {
        const release = yield* Release.build
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-operator-"))),
          (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
        )
        const env = { PATH: process.env["PATH"], HOME: folder, AMPOULE_DATA_DIR: path.join(folder, "data") }
        const program = path.join(release, "dist/ampoule.cjs")
        const owner = ["--email", "ada@example.com", "--name", "Ada", "--team", "Platform", "--generate-password"]
        execFileSync(process.execPath, [program, "setup", ...owner, "--project", "shop"], { env, stdio: "pipe" })
        for (const args of [
          ["migrate", "--json"],
          ["vault", "rotate", "--json"],
          ["vault", "status", "--json"],
          ["vault", "rotate-data-keys", "--json"]
        ]) {
          const { status, stderr, stdout } = spawnSync(process.execPath, [program, ...args], { env, encoding: "utf8" })
          assert.strictEqual(status, 0, stderr)
          assert.isObject(JSON.parse(stdout), args.join(" "))
        }
        const rebuilt = spawnSync(process.execPath, [program, "audit", "rebuild"], { env, encoding: "utf8" })
        assert.deepStrictEqual([rebuilt.status, rebuilt.stdout], [0, ""], rebuilt.stderr)
        assert.include(rebuilt.stderr, "The ledger was rebuilt.")
      }),
    180_000
  )
})
