import type * as PgClient from "@effect/sql-pg/PgClient"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { Duplex } from "node:stream"
import * as v8 from "node:v8"
import { Worker } from "node:worker_threads"
import * as DataFolder from "#layers/DataFolder.ts"
import { migrate } from "#layers/Migrations.ts"
import * as PgPool from "#layers/PgPool.ts"
import { safeWebAssembly } from "#layers/SafeWebAssembly.ts"
import * as ServerPackages from "#layers/ServerPackages.ts"
import { StartRefused } from "#src/AppConfig.ts"
import type { FromWorker, Origin, ToWorker, WorkerInput } from "#layers/pglite-worker.mjs"

/** The thread of the embedded database has ended or does not respond. */
class EmbeddedDatabaseGone extends Error {
  override readonly name = "EmbeddedDatabaseGone"
  readonly code = "EMBEDDED_DATABASE_GONE"
  constructor() {
    super("the embedded database is not running")
  }
}

type Report = (level: LogLevel.LogLevel, message: string) => void

/** Milliseconds that the thread may stay silent after a connection was abandoned, before it is restarted. */
const STUCK_AFTER_MILLIS = 15_000
const STOP_WITHIN_MILLIS = 10_000

/**
 * Bytes of a WebAssembly function that run before V8 optimises it: 32 times the limit of Node 20, four times that of
 * Node 22. With less, a start compiles functions that hardly run again, which takes a quarter of its CPU and a tenth of
 * its memory. Functions that requests use often are optimised anyway.
 */
const tieringBudget = 57_600_000

/**
 * Owner of the thread: starts it, and restarts it after a crash. A database in a folder survives that, one in memory
 * does not.
 */
class EmbeddedDatabase {
  #worker: Worker | undefined
  #ready = false
  #stopping = false
  #connections = new Map<number, WorkerSocket>()
  #lastConnection = 0
  #waitingForClose: NodeJS.Timeout | undefined
  readonly #input: WorkerInput
  readonly #report: Report

  constructor(input: WorkerInput, report: Report) {
    this.#input = input
    this.#report = report
  }

  /** Resolves when the database responds, rejects with a sentence for the operator. */
  start(): Promise<void> {
    v8.setFlagsFromString(`--wasm-tiering-budget=${tieringBudget}`)
    v8.setFlagsFromString(safeWebAssembly)
    return new Promise((resolve, reject) => {
      const worker = new Worker(new URL("./pglite-worker.mjs", import.meta.url), {
        workerData: this.#input,
        execArgv: [],
        // The thread receives nothing of the service's environment, which has keys, and its output is discarded.
        env: {},
        stdout: true,
        stderr: true
      })
      worker.stdout.resume()
      worker.stderr.resume()
      this.#worker = worker
      let failure = "the embedded database stopped while it was starting"
      worker.on("message", (message: FromWorker) => {
        switch (message.type) {
          case "initializing":
            return this.#report(LogLevel.Info, "Preparing the embedded database (first start, a few seconds)")
          case "ready":
            this.#ready = true
            for (const connection of this.#connections.keys()) this.#send({ type: "open", connection })
            return resolve()
          case "failed":
            failure = message.sentence
            return
          case "opened":
            return this.#connections.get(message.connection)?.opened()
          case "bytes":
            return this.#connections.get(message.connection)?.receive(message.bytes)
          case "closed":
            clearTimeout(this.#waitingForClose)
            this.#waitingForClose = undefined
            return
          case "broken":
            this.#report(LogLevel.Warning, "The embedded database failed and is being restarted")
            void worker.terminate()
            return
        }
      })
      worker.on("error", () => {})
      worker.once("exit", () => {
        if (this.#worker !== worker) return
        this.#worker = undefined
        this.#ready = false
        clearTimeout(this.#waitingForClose)
        this.#waitingForClose = undefined
        for (const socket of this.#connections.values()) socket.destroy(new EmbeddedDatabaseGone())
        this.#connections.clear()
        reject(new Error(failure))
      })
    })
  }

  connect(socket: WorkerSocket): number {
    const connection = ++this.#lastConnection
    this.#connections.set(connection, socket)
    if (this.#ready) this.#send({ type: "open", connection })
    else if (this.#worker === undefined) this.#restart()
    return connection
  }

  #restart() {
    const lost = !("folder" in this.#input.origin)
    if (this.#stopping || lost) {
      const sockets = [...this.#connections.values()]
      this.#connections.clear()
      for (const socket of sockets) process.nextTick(() => socket.destroy(new EmbeddedDatabaseGone()))
      return
    }
    this.start().then(
      () => this.#report(LogLevel.Info, "The embedded database is back"),
      () => this.#report(LogLevel.Warning, "The embedded database could not be restarted")
    )
  }

  send(connection: number, bytes: Uint8Array) {
    if (this.#connections.has(connection)) this.#send({ type: "bytes", connection, bytes })
  }

  disconnect(connection: number) {
    if (!this.#connections.delete(connection) || !this.#ready) return
    this.#send({ type: "close", connection })
    const worker = this.#worker
    this.#waitingForClose ??= setTimeout(() => {
      this.#report(LogLevel.Warning, "The embedded database does not answer and is being restarted")
      void worker?.terminate()
    }, STUCK_AFTER_MILLIS).unref()
  }

  #send(message: ToWorker) {
    this.#worker?.postMessage(message)
  }

  /** Stops the thread, and resolves after it has ended. */
  async stop(): Promise<void> {
    this.#stopping = true
    const worker = this.#worker
    if (worker === undefined) return
    const timer = setTimeout(() => void worker.terminate(), STOP_WITHIN_MILLIS)
    const gone = new Promise<void>((resolve) => void worker.once("exit", () => resolve()))
    this.#send({ type: "stop" })
    await gone
    clearTimeout(timer)
  }

  /** Ends the thread at once, like a crash. */
  async crash(): Promise<void> {
    await this.#worker?.terminate()
  }

  /** The whole database as an archive, in the format of `Origin.template`. */
  dump(): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const worker = this.#worker
      if (worker === undefined) return reject(new EmbeddedDatabaseGone())
      const listener = (message: FromWorker) => {
        if (message.type !== "dumped") return
        worker.off("message", listener)
        resolve(message.bytes)
      }
      worker.on("message", listener)
      this.#send({ type: "dump" })
    })
  }
}

/** Socket for `pg`. One write is one batch of protocol messages. */
class WorkerSocket extends Duplex {
  #connection = 0
  readonly database: EmbeddedDatabase

  constructor(database: EmbeddedDatabase) {
    super()
    this.database = database
  }

  connect() {
    this.#connection = this.database.connect(this)
    return this
  }

  opened() {
    this.emit("connect")
  }

  receive(bytes: Uint8Array) {
    this.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  }

  override _read() {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void) {
    this.database.send(this.#connection, new Uint8Array(chunk))
    done()
  }

  override _writev(chunks: ReadonlyArray<{ readonly chunk: Buffer }>, done: () => void) {
    this.database.send(this.#connection, new Uint8Array(Buffer.concat(chunks.map(({ chunk }) => chunk))))
    done()
  }

  override _final(done: () => void) {
    this.push(null)
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void) {
    this.database.disconnect(this.#connection)
    done(error)
  }

  // Members of net.Socket that pg calls.
  setNoDelay() {}
  setKeepAlive() {}
  ref() {}
  unref() {}
}

export interface EmbeddedOptions {
  readonly origin: Origin
  readonly checkoutMillis: number
  readonly deadlineMillis: number
  /** Counts fsync calls, for the test of the durability hook. */
  readonly fsyncCounter?: SharedArrayBuffer
}

const acquire = (options: EmbeddedOptions): Effect.Effect<EmbeddedDatabase, StartRefused, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const message = ServerPackages.missing("@electric-sql/pglite")
      if (message !== undefined) return yield* new StartRefused({ message })
      const runFork = Runtime.runFork(yield* Effect.runtime())
      const database = new EmbeddedDatabase(
        {
          origin: options.origin,
          ...(options.fsyncCounter === undefined ? {} : { fsyncCounter: options.fsyncCounter })
        },
        (level, message) => void runFork(Effect.logWithLevel(level, message))
      )
      yield* Effect.tryPromise({
        try: () => database.start(),
        catch: (error) =>
          new StartRefused({ message: error instanceof Error ? error.message : "the embedded database did not start" })
      })
      return database
    }),
    (database) => Effect.promise(() => database.stop())
  )

const poolOptions = (database: EmbeddedDatabase, options: Omit<EmbeddedOptions, "origin">): PgPool.PoolOptions => ({
  connection: {
    user: "postgres",
    database: "postgres",
    password: "",
    ssl: false,
    idleTimeoutMillis: 0,
    // pg expects a Socket, but uses only the part that WorkerSocket has.
    stream: (() => new WorkerSocket(database)) as unknown as () => Duplex
  },
  // One session: the pool of one is its queue, and a transaction holds it.
  size: 1,
  checkoutMillis: options.checkoutMillis,
  deadlineMillis: options.deadlineMillis
})

const MIGRATION_MILLIS = 600_000

export type Provided = PgClient.PgClient | SqlClient.SqlClient

/** A migrated database in its own thread, with a handle on that thread for tests. */
export const make = (
  options: EmbeddedOptions & { readonly migrated?: boolean }
): Effect.Effect<
  {
    readonly layer: Layer.Layer<Provided, SqlError>
    readonly crash: Effect.Effect<void>
    readonly dump: Effect.Effect<Uint8Array>
  },
  StartRefused | SqlError,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const database = yield* acquire(options)
    if (options.migrated !== false) {
      yield* Effect.provide(
        migrate(),
        PgPool.layer(poolOptions(database, { checkoutMillis: MIGRATION_MILLIS, deadlineMillis: MIGRATION_MILLIS }))
      )
    }
    return {
      layer: PgPool.layer(poolOptions(database, options)),
      crash: Effect.promise(() => database.crash()),
      dump: Effect.promise(() => database.dump())
    }
  })

/**
 * The embedded default: a folder that one process uses. One session serves all requests, so waiting is no outage yet.
 * Its timeouts are therefore longer than those for a Postgres over the network.
 */
export const layerFolder = (dataDir: string): Layer.Layer<Provided, StartRefused | SqlError> =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const real = yield* DataFolder.ensure(dataDir)
      yield* DataFolder.lock(real)
      const { layer } = yield* make({
        origin: { folder: `${real}/postgres` },
        checkoutMillis: 5_000,
        deadlineMillis: 10_000
      })
      return layer
    })
  )

/** Long timeouts, because tests share a machine. */
const testTimeouts = { checkoutMillis: 30_000, deadlineMillis: 30_000 }

/** In memory, from the dump of a migrated database. */
export const layerFromDump = (template: string): Layer.Layer<Provided, StartRefused | SqlError> =>
  Layer.unwrapScoped(Effect.map(make({ origin: { template }, migrated: false, ...testTimeouts }), ({ layer }) => layer))
