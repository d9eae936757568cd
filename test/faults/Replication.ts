/**
 * Two Postgres with streaming replication: a primary, and a hot standby that can be promoted. Everything runs beside the
 * event loop, so that load goes on meanwhile.
 */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Pg from "pg"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import { freePort } from "#test/support/FreePort.ts"

export interface Node {
  readonly port: number
  readonly folder: string
  readonly data: string
}

const run = ({ folder }: Node, name: string, ...args: ReadonlyArray<string>) =>
  Effect.async<void, Error>((resume) => {
    const [program, rest] = PostgresServer.command(name, ...args)
    // No pipes: the server that pg_ctl leaves behind would hold them open.
    const log = path.join(folder, `${name}.log`)
    const out = fs.openSync(log, "a", 0o666)
    const child = spawn(program, rest, { cwd: folder, stdio: ["ignore", out, out] })
    const ended = (code: number | null) => {
      fs.closeSync(out)
      const said = () => fs.readFileSync(log, "utf8").slice(-2_000)
      resume(code === 0 ? Effect.void : Effect.fail(new Error(`${name} ended with ${code}: ${said()}`)))
    }
    child.once("error", () => ended(null))
    child.once("exit", ended)
  })

/** One statement of the superuser. */
export const ask = <Row extends object>(node: { readonly port: number }, text: string) =>
  Effect.tryPromise(async () => {
    const client = new Pg.Client({ host: "127.0.0.1", port: node.port, user: "postgres", database: "postgres" })
    client.on("error", () => {})
    await client.connect()
    try {
      return (await client.query<Row>(text)).rows
    } finally {
      await client.end()
    }
  })

/** Whether the node is up and takes writes, as Patroni's `/primary` says it. */
export const isPrimary = (node: Node) =>
  ask<{ readonly standby: boolean }>(node, "SELECT pg_is_in_recovery() AS standby").pipe(
    Effect.map(([row]) => row?.standby === false),
    Effect.orElseSucceed(() => false)
  )

const start = (node: Node) => {
  const settings = `-p ${node.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=100`
  return run(node, "pg_ctl", "-D", node.data, "-l", `${node.data}/log`, "-w", "-o", settings, "start")
}
/** As a crash. */
const kill = (node: Node) => run(node, "pg_ctl", "-D", node.data, "-m", "immediate", "-w", "stop")

const signal = ({ data }: Node, name: NodeJS.Signals) =>
  Effect.ignore(Effect.catchAllDefect(PostgresServer.signal(data, name), Effect.fail))

const fresh = Effect.gen(function* () {
  const [port, folder] = [yield* freePort, yield* PostgresServer.folder]
  const node: Node = { port, folder, data: path.join(folder, "data") }
  // One that hangs does not end.
  yield* Effect.addFinalizer(() => Effect.zipRight(signal(node, "SIGCONT"), Effect.ignore(kill(node))))
  return node
})

const rules = ["all", "replication"].map((what) => `host ${what} postgres 127.0.0.1/32 trust\n`).join("")

/** A standby of `primary` in this node; with `synchronous`, no commit is acknowledged from then on that it has not got. */
const follow = (node: Node, primary: Node, synchronous: boolean) =>
  Effect.gen(function* () {
    fs.rmSync(node.data, { recursive: true, force: true })
    const from = ["-h", "127.0.0.1", "-p", String(primary.port), "-U", "postgres"]
    yield* run(node, "pg_basebackup", ...from, "-D", node.data, "-R", "-X", "stream", "-c", "fast")
    yield* start(node)
    if (synchronous) {
      yield* ask(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
      yield* ask(primary, "SELECT pg_reload_conf()")
    }
    const syncState = synchronous ? "sync" : "async"
    const state = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = "
    const isStreaming = Effect.map(ask(primary, `${state}'${syncState}'`), (rows) => rows.length === 1)
    yield* Effect.repeat(Effect.delay(isStreaming, "50 millis"), { until: (is) => is, times: 400 })
  })

export interface Pair {
  readonly nodes: readonly [Node, Node]
  readonly primary: () => Node
  readonly standby: () => Node
  /** The standby gets nothing more: an asynchronous one, whose network is gone. */
  readonly cutOff: Effect.Effect<void>
  readonly killPrimary: Effect.Effect<void>
  /** It says nothing more, and its connections stay open. */
  readonly hangPrimary: Effect.Effect<void>
  /** The hung server continues, and still takes itself for the primary. */
  readonly wake: Effect.Effect<void>
  /** The standby becomes the primary. */
  readonly promote: Effect.Effect<void>
  /** The killed server follows the present primary. */
  readonly rejoin: Effect.Effect<void>
}

export const make = (synchronous: boolean) =>
  Effect.gen(function* () {
    const nodes = [yield* fresh, yield* fresh] as const
    let [primary, standby] = nodes
    yield* run(primary, "initdb", "-D", primary.data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C")
    fs.writeFileSync(path.join(primary.data, "pg_hba.conf"), rules)
    yield* start(primary)
    yield* follow(standby, primary, synchronous)
    const cutOff = Effect.gen(function* () {
      yield* ask(standby, "ALTER SYSTEM SET primary_conninfo = ''")
      yield* ask(standby, "SELECT pg_reload_conf()")
      const isCutOff = Effect.map(ask(standby, "SELECT 1 FROM pg_stat_wal_receiver"), (rows) => rows.length === 0)
      yield* Effect.repeat(Effect.delay(isCutOff, "20 millis"), { until: (is) => is, times: 500 })
    })
    const pair: Pair = {
      nodes,
      primary: () => primary,
      standby: () => standby,
      cutOff: Effect.orDie(cutOff),
      killPrimary: Effect.orDie(Effect.suspend(() => kill(primary))),
      hangPrimary: Effect.suspend(() => signal(primary, "SIGSTOP")),
      wake: Effect.suspend(() => signal(standby, "SIGCONT")),
      promote: Effect.suspend(() => run(standby, "pg_ctl", "-D", standby.data, "-w", "promote")).pipe(
        Effect.tap(() => Effect.sync(() => void ([primary, standby] = [standby, primary]))),
        Effect.orDie
      ),
      rejoin: Effect.orDie(Effect.suspend(() => follow(standby, primary, synchronous)))
    }
    return pair
  }).pipe(Effect.orDie)
