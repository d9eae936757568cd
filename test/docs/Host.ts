/**
 * A host with the systemd installation of the pages: Postgres, a vault and a server in folders of their own. `systemctl` is
 * a stand-in that starts and stops the released program as the units in `deploy/systemd` do.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import * as path from "node:path"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as RedisServer from "#test/support/RedisServer.ts"
import * as Release from "#test/support/Release.ts"
import * as Reader from "./Reader.ts"

/** Where Postgres is: its address without a name of a database, and the variables that psql reads. */
export interface Database {
  readonly hosts: string
  readonly user: string
  readonly psql: Readonly<Record<string, string>>
  /** Lines of bash that stop the unit `postgresql`. */
  readonly stop?: string
}

/** One Postgres, in which the role `ampoule` owns the database `ampoule`. */
export const onePostgres = Effect.gen(function* () {
  const folder = yield* Reader.temporary
  fs.writeFileSync(path.join(folder, "password"), "first-password")
  const server = yield* PostgresServer.make({
    script: "deploy/postgres-init.sh",
    env: { POSTGRES_USER: "postgres", DATABASE_PASSWORD_FILE: path.join(folder, "password") }
  })
  const port = String(server.port)
  const psql = { PGHOST: "127.0.0.1", PGPORT: port, PGUSER: "postgres", PGDATABASE: "postgres" }
  return { hosts: `127.0.0.1:${port}`, user: "ampoule:first-password", psql } satisfies Database
})

/** A unit is a function that ends in `exec`; its process id is in a file. */
const systemctl = (units: Readonly<Record<string, string>>, folder: string, postgres: string) =>
  [
    `cd '${folder}'`,
    ...Object.entries(units).map(([name, text]) => `unit_${name.replace("-", "_")}() { set -a; ${text}; }`),
    `case "$*" in "stop postgresql") ${postgres}; exit;; esac`,
    `unit=$2; function=unit_\${unit//-/_}; declare -F "$function" > /dev/null || { echo "no unit $unit" >&2; exit 5; }`,
    `if [ "$1" != start ]; then kill -TERM "$(cat "$unit.pid")"; while kill -0 "$(cat "$unit.pid")" 2>/dev/null; do sleep 0.1; done; fi`,
    `if [ "$1" != stop ]; then setsid bash -c "$(declare -f "$function"); $function" >> "$unit.log" 2>&1 & echo $! > "$unit.pid"; fi`
  ].join("\n")

export const make = Effect.fnUntraced(function* (database: Database) {
  const [release, root, port] = [yield* Release.build, yield* Reader.temporary, yield* freePort]
  const redis = yield* RedisServer.own
  const at = (name: string) => path.join(root, name)
  for (const name of ["etc", "data", "vault", "run", "backup", "safe", "work"]) fs.mkdirSync(at(name), { mode: 0o700 })
  const url = `http://127.0.0.1:${port}`
  const settings = { AMPOULE_PORT: port, AMPOULE_SETUP_CODE: Reader.setupCode, AMPOULE_RATE_LIMITS: "off" }
  fs.writeFileSync(
    at("etc/environment"),
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join("")
  )
  fs.writeFileSync(at("etc/database-url"), `postgres://${database.user}@${database.hosts}/ampoule\n`, { mode: 0o600 })
  const vault = `AMPOULE_VAULT_URL=unix://${at("run/vault.sock")}`
  const units = {
    "ampoule-vault": `${vault} AMPOULE_DATA_DIR='${at("vault")}' exec ampoule vault`,
    ampoule: [
      `. '${at("etc/environment")}'`,
      `${vault} AMPOULE_DATA_DIR='${at("data")}' AMPOULE_DATABASE_URL_FILE='${at("etc/database-url")}'`,
      `[ ! -e '${at("etc/redis-url")}' ] || AMPOULE_REDIS_URL_FILE='${at("etc/redis-url")}'`,
      "exec ampoule server"
    ].join("; ")
  }
  const programs = { systemctl: systemctl(units, root, database.stop ?? "exit 5") }
  const env = {
    ...database.psql,
    PATH: `${yield* Reader.bin(root, release, programs)}:${process.env["PATH"]}`,
    HOME: root,
    NO_PROXY: "*",
    AMPOULE_URL: url
  }
  /** Paths and addresses of the pages, as this host has them. */
  const here = (text: string) =>
    [
      ["/etc/ampoule", at("etc")],
      ["/var/lib/ampoule-vault", at("vault")],
      ["/var/lib/ampoule", at("data")],
      ["/run/ampoule-vault", at("run")],
      ["/backup/", `${at("backup")}/`],
      ["/media/safe", at("safe")],
      ["redis://127.0.0.1:6379", redis.url],
      ["http://127.0.0.1:4400", url]
    ].reduce((all, [from = "", to = ""]) => all.replaceAll(from, to), text)
  const run = (script: string, approve?: (code: string) => void) =>
    Reader.bash(here(script), { cwd: at("work"), env }, approve)
  const must = (script: string, approve?: (code: string) => void) =>
    Effect.tap(run(script, approve), ({ code, output }) => Effect.sync(() => assert.strictEqual(code, 0, output)))
  const pidOf = (unit: string) => Number(fs.readFileSync(at(`${unit}.pid`), "utf8"))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const unit of Object.keys(units)) {
        try {
          // The session of the unit, with its workers.
          process.kill(-pidOf(unit), "SIGKILL")
        } catch {
          // It ended before.
        }
      }
    })
  )
  yield* must("systemctl start ampoule-vault; systemctl start ampoule")
  const ready = must(
    "curl -fsS -o /dev/null --retry 90 --retry-delay 1 --retry-all-errors http://127.0.0.1:4400/health/ready"
  )
  yield* ready
  const world = yield* Reader.furnish(url, [])
  yield* must("ampoule login --plaintext-local --no-browser", world.approve)
  yield* Reader.checkpointIn(at("data/audit-checkpoints"))
  const log = (unit: string) => fs.readFileSync(at(`${unit}.log`), "utf8")
  return { ...world, at, log, must, pidOf, run, url }
})
