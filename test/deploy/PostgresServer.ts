/** A Postgres cluster of its own, which a test may stop and start. */
import * as Effect from "effect/Effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { freePort } from "#test/support/FreePort.ts"
import * as ProcessTree from "#test/support/ProcessTree.ts"

const binaries = () => {
  const setting = process.env["POSTGRES_BIN"] ?? process.env["AMPOULE_TEST_POSTGRES_BIN"]
  const installed = fs.existsSync("/usr/lib/postgresql")
    ? fs
        .readdirSync("/usr/lib/postgresql")
        .sort((a, b) => Number(b) - Number(a))
        .map((version) => `/usr/lib/postgresql/${version}/bin`)
    : []
  return [...(setting === undefined ? [] : [setting]), ...installed, "/usr/local/bin", "/usr/bin"].find((folder) =>
    fs.existsSync(path.join(folder, "initdb"))
  )
}
const bin = binaries()
/** Whether tests that need a Postgres of their own can run here. */
export const available = bin !== undefined

/** Postgres refuses to run as root. */
export const owner = process.getuid?.() === 0 ? ["runuser", "-u", "postgres", "--"] : []
/** A folder for a server's files on this disk, gone with the scope. */
const folderOn = (disk: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = fs.mkdtempSync(path.join(disk, "ampoule-pg-"))
      if (owner.length > 0) execFileSync("chown", ["postgres", folder])
      return folder
    }),
    (folder) => Effect.sync(() => fs.rmSync(folder, { recursive: true, force: true }))
  )
export const folder = folderOn(tmpdir())
/** A program of Postgres with its arguments, as a user who may run it. */
export const command = (name: string, ...args: ReadonlyArray<string>): readonly [string, ReadonlyArray<string>] => {
  const [first = "", ...rest] = [...owner, path.join(bin ?? "", name), ...args]
  return [first, rest]
}
const run = (cwd: string, name: string, ...args: ReadonlyArray<string>) => {
  const [program, rest] = command(name, ...args)
  // No pipes: the server that pg_ctl leaves behind would hold them open.
  const log = path.join(cwd, "pg_ctl.log")
  const out = fs.openSync(log, "a", 0o666)
  try {
    const { status } = spawnSync(program, rest, { cwd, stdio: ["ignore", out, out] })
    if (status !== 0) throw new Error(`${name} ended with ${status}: ${fs.readFileSync(log, "utf8").slice(-2_000)}`)
  } finally {
    fs.closeSync(out)
  }
}

/** To the postmaster of these files and to its children: SIGSTOP makes it hang, SIGCONT goes on. */
export const signal = (data: string, name: NodeJS.Signals) =>
  Effect.suspend(() => ProcessTree.signal(Number.parseInt(fs.readFileSync(`${data}/postmaster.pid`, "utf8"), 10), name))

interface Init {
  /** It gets PGHOST, PGPORT and PGUSER of the superuser, and these variables. */
  readonly script: string
  readonly env: Readonly<Record<string, string>>
  /** Where its files are; absent: where temporary files are. */
  readonly disk?: string
}

export const make = (init: Init) =>
  Effect.gen(function* () {
    const port = yield* freePort
    const cwd = yield* folderOn(init.disk ?? tmpdir())
    const data = path.join(cwd, "data")
    const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=60`
    const start = Effect.sync(() => run(cwd, "pg_ctl", "-D", data, "-l", `${data}/log`, "-w", "-o", settings, "start"))
    /** `immediate`: as a crash. */
    const stop = Effect.sync(() => run(cwd, "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"))
    /** In good order, sessions cut off; its statistics stay. */
    const close = Effect.sync(() => run(cwd, "pg_ctl", "-D", data, "-m", "fast", "-w", "stop"))
    // Passwords from the network, none for the superuser of this test.
    yield* Effect.sync(() => {
      run(cwd, "initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C")
      const rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
      fs.writeFileSync(path.join(data, "pg_hba.conf"), rules)
    })
    yield* Effect.acquireRelease(start, () => Effect.ignore(Effect.catchAllDefect(stop, () => Effect.void)))
    const env = { PGHOST: "127.0.0.1", PGPORT: String(port), ...init.env, PATH: `${bin}:${process.env["PATH"]}` }
    yield* Effect.sync(() => execFileSync("sh", [init.script], { env, stdio: "pipe" }))
    return { port, data, start, stop, close, signal: (name: NodeJS.Signals) => signal(data, name) }
  })
