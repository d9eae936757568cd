/** Gauges of the parts of a long run: memory, descriptors, connections, rows, keys. */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Pg from "pg"
import { promisify } from "node:util"
import type * as Parts from "./Parts.ts"

export interface Process {
  /** Its pid: another one is another process. */
  readonly id: string
  readonly rss: number
  readonly descriptors: number
}
export interface Table {
  readonly bytes: number
  readonly live: number
  readonly dead: number
  readonly autovacuums: number
}
export interface Sample {
  /** Seconds since the start. */
  readonly at: number
  readonly processes: Readonly<Record<string, Process>>
  readonly connections: number
  readonly databaseBytes: number
  readonly redisKeys: number
  readonly redisBytes: number
  readonly redisClients: number
  readonly tables: Readonly<Record<string, Table>>
}

/** By `/proc`. */
const processOf = (pid: number): Process => ({
  id: `${pid}`,
  rss: Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024,
  descriptors: fs.readdirSync(`/proc/${pid}/fd`).length
})

const tablesOf = `
  SELECT relname AS name, pg_total_relation_size(relid)::float8 AS bytes, n_dead_tup::float8 AS dead, autovacuum_count::int AS autovacuums,
    (xpath('/row/c/text()', query_to_xml(format('SELECT count(*) AS c FROM %I.%I', schemaname, relname), false, true, '')))[1]::text::float8 AS live
  FROM pg_stat_user_tables ORDER BY relname`

const databaseOf = async (port: number) => {
  const client = new Pg.Client({ host: "127.0.0.1", port, user: "postgres", database: "postgres" })
  client.on("error", () => {})
  await client.connect()
  try {
    const { rows } = await client.query<Table & { readonly name: string }>(tablesOf)
    const { rows: all } = await client.query<{ readonly connections: number; readonly bytes: number }>(`
      SELECT count(*)::int AS connections, pg_database_size(current_database())::float8 AS bytes
      FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`)
    return {
      connections: all[0]?.connections ?? 0,
      databaseBytes: all[0]?.bytes ?? 0,
      tables: Object.fromEntries(rows.map(({ name, ...table }) => [name, table] as const))
    }
  } finally {
    await client.end()
  }
}

const redisOf = async (port: number) => {
  const { stdout } = await promisify(execFile)("redis-cli", ["-p", `${port}`, "INFO"])
  const of = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1] ?? 0)
  return {
    redisKeys: of(/keys=(\d+)/),
    redisBytes: of(/used_memory:(\d+)/),
    redisClients: of(/connected_clients:(\d+)/)
  }
}

export const sample = (parts: Parts.Parts, start: number) =>
  Effect.tryPromise(async (): Promise<Sample> => {
    const [database, redis] = await Promise.all([databaseOf(parts.postgres.port), redisOf(parts.redisPort)])
    const processes = Object.fromEntries<Process>([
      ...parts.workerPids().map((pid, n) => [`worker ${n + 1}`, processOf(pid)] as const),
      ["primary", processOf(parts.server.pid())],
      ["vault", processOf(parts.vault.pid())],
      ["Redis", processOf(parts.redis.pid())]
    ])
    return { at: Math.round((performance.now() - start) / 1000), processes, ...database, ...redis }
  })

/** Heap of a process after a collection. */
export interface Held {
  readonly at: number
  readonly name: string
  readonly id: string
  readonly bytes: number
}

const heldBy = (heaps: string, pid: number) =>
  Effect.gen(function* () {
    const file = path.join(heaps, `${pid}.json`)
    fs.rmSync(file, { force: true })
    process.kill(pid, "SIGUSR2")
    for (let tries = 0; tries < 300; tries++) {
      yield* Effect.sleep("100 millis")
      const text = fs.existsSync(file) ? fs.readFileSync(file, "utf8") : ""
      if (text === "") continue
      const { external, heap } = JSON.parse(text) as { readonly heap: number; readonly external: number }
      return heap + external
    }
    return yield* Effect.die(new Error(`process ${pid} did not say what it holds`))
  })

export const collect = (parts: Parts.Parts, start: number) =>
  Effect.gen(function* () {
    const processes = [
      ...parts.workerPids().map((pid, n) => [`worker ${n + 1}`, pid] as const),
      ["primary", parts.server.pid()] as const,
      ["vault", parts.vault.pid()] as const
    ]
    const at = Math.round((performance.now() - start) / 1000)
    return yield* Effect.forEach(processes, ([name, pid]) =>
      Effect.map(heldBy(parts.heaps, pid), (bytes): Held => ({ at, name, id: `${pid}`, bytes }))
    )
  })
