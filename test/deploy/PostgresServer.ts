/** A Postgres cluster of its own, which a test may stop and start. */
import * as Effect from "effect/Effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { freePort } from "#test/support/FreePort.ts"

const found = () => {
  const given = process.env["POSTGRES_BIN"] ?? process.env["AMPOULE_TEST_POSTGRES_BIN"]
  const installed = fs.existsSync("/usr/lib/postgresql")
    ? fs
        .readdirSync("/usr/lib/postgresql")
        .sort((a, b) => Number(b) - Number(a))
        .map((version) => `/usr/lib/postgresql/${version}/bin`)
    : []
  return [...(given === undefined ? [] : [given]), ...installed, "/usr/local/bin", "/usr/bin"].find((folder) =>
    fs.existsSync(path.join(folder, "initdb"))
  )
}
const bin = found()
/** Whether tests that need a Postgres of their own can run here. */
export const available = bin !== undefined

/** Postgres refuses to run as root. */
const owner = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : []
const run = (cwd: string, name: string, ...args: ReadonlyArray<string>) => {
  const [command = "", ...rest] = [...owner, path.join(bin ?? "", name), ...args]
  // No pipes: the server that pg_ctl leaves behind would hold them open.
  const log = path.join(cwd, "pg_ctl.log")
  const out = fs.openSync(log, "a", 0o666)
  try {
    const { status } = spawnSync(command, rest, { cwd, stdio: ["ignore", out, out] })
    if (status !== 0) throw new Error(`${name} ended with ${status}: ${fs.readFileSync(log, "utf8").slice(-2_000)}`)
  } finally {
    fs.closeSync(out)
  }
}

/** `init`: a script that gets PGHOST, PGPORT and PGUSER of the superuser, and these variables. */
export const make = (init: { readonly script: string; readonly env: Readonly<Record<string, string>> }) =>
  Effect.gen(function* () {
    const port = yield* freePort
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const folder = fs.mkdtempSync(path.join(tmpdir(), "ampoule-pg-"))
        if (owner.length > 0) execFileSync("chown", ["postgres", folder])
        return folder
      }),
      (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
    )
    const data = path.join(folder, "data")
    const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=60`
    const start = Effect.sync(() =>
      run(folder, "pg_ctl", "-D", data, "-l", `${data}/log`, "-w", "-o", settings, "start")
    )
    /** `immediate`: as a crash. */
    const stop = Effect.sync(() => run(folder, "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"))
    // Passwords from the network, none for the superuser of this test.
    yield* Effect.sync(() => {
      run(folder, "initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C")
      const rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
      fs.writeFileSync(path.join(data, "pg_hba.conf"), rules)
    })
    yield* Effect.acquireRelease(start, () => Effect.ignore(Effect.catchAllDefect(stop, () => Effect.void)))
    const env = { PGHOST: "127.0.0.1", PGPORT: String(port), ...init.env, PATH: `${bin}:${process.env["PATH"]}` }
    yield* Effect.sync(() => execFileSync("sh", [init.script], { env, stdio: "pipe" }))
    return { port, start, stop }
  })
