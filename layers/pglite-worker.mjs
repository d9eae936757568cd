// @ts-check
/**
 * The embedded PostgreSQL in a thread of its own: its queries are synchronous WebAssembly and would block the service's
 * event loop. It exchanges whole batches of PostgreSQL's wire protocol with `Pglite.ts`.
 * Plain JavaScript, because a worker must load without a compiler, from the sources and from `dist`.
 */
import * as fs from "node:fs"
import { isMainThread, parentPort, workerData } from "node:worker_threads"
import { brotliCompressSync, brotliDecompressSync, constants } from "node:zlib"

/**
 * @typedef {import("./pglite-worker.d.mts").WorkerInput} WorkerInput
 * @typedef {import("./pglite-worker.d.mts").ToWorker} ToWorker
 * @typedef {import("./pglite-worker.d.mts").FromWorker} FromWorker
 */

/** Major version of this PGlite. */
const POSTGRES = "18"

/** @param {string} text a simple query for the wire */
const simpleQuery = (text) => {
  const body = Buffer.from(text + "\0")
  const message = Buffer.alloc(body.length + 5)
  message.write("Q")
  message.writeInt32BE(body.length + 4, 1)
  body.copy(message, 5)
  return new Uint8Array(message)
}

/**
 * Without this hook, COMMIT returns before the write-ahead log is on the disk. @param {any} lite @param {WorkerInput}
 * input
 */
const hookFsync = (lite, input) => {
  const counter = input.fsyncCounter === undefined ? undefined : new Int32Array(input.fsyncCounter)
  lite.Module.NODEFS.stream_ops.fsync = (/** @type {{ nfd: number }} */ stream) => {
    fs.fsyncSync(stream.nfd)
    if (counter !== undefined) Atomics.add(counter, 0, 1)
    return 0
  }
}

/** Empty database folder, made by the build: `initdb` in WebAssembly takes seconds and 800 MB. */
const template = new URL("./postgres-template.br", import.meta.url)

/** Creates a new database in a folder. @param {string} folder */
const initialize = async (folder) => {
  const { PGlite } = await import("@electric-sql/pglite")
  await (await PGlite.create(folder)).close()
}

/**
 * Archive of such a folder, for the build: names and positions of its entries, then their bytes. Equal files are stored
 * once, since its three databases share most of theirs. @param {string} folder
 */
export const makeTemplate = async (folder) => {
  await initialize(folder)
  const names = fs.readdirSync(folder, { recursive: true, encoding: "utf8" }).sort()
  /** @type {Array<Buffer>} */
  const contents = []
  /** @type {Map<string, readonly [start: number, end: number]>} */
  const places = new Map()
  let size = 0
  const place = (/** @type {Buffer} */ bytes) => {
    const key = bytes.toString("latin1")
    const earlier = places.get(key)
    if (earlier !== undefined) return earlier
    const range = /** @type {const} */ ([size, (size += bytes.length)])
    places.set(key, range)
    contents.push(bytes)
    return range
  }
  const isFile = (/** @type {string} */ name) => fs.statSync(`${folder}/${name}`).isFile()
  const entries = Buffer.from(
    JSON.stringify(names.map((name) => [name, ...(isFile(name) ? place(fs.readFileSync(`${folder}/${name}`)) : [])]))
  )
  const length = Buffer.alloc(4)
  length.writeUInt32BE(entries.length)
  // Best quality takes a minute for an eighth less.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 }
  return brotliCompressSync(Buffer.concat([length, entries, ...contents]), { params })
}

/** @param {Buffer} packed @param {string} folder */
const unpack = (packed, folder) => {
  const bytes = brotliDecompressSync(packed)
  const at = 4 + bytes.readUInt32BE(0)
  /** @type {Array<[name: string, start?: number, end?: number]>} */
  const entries = JSON.parse(bytes.toString("utf8", 4, at))
  for (const [name, start, end = 0] of entries) {
    if (start === undefined) fs.mkdirSync(`${folder}/${name}`, { recursive: true, mode: 0o700 })
    else fs.writeFileSync(`${folder}/${name}`, bytes.subarray(at + start, at + end), { mode: 0o600 })
  }
}

/** @param {WorkerInput} input @param {(message: FromWorker, transfer?: Array<ArrayBuffer>) => void} send */
const openDatabase = async (input, send) => {
  /** @type {Array<string>} */
  const spoken = []
  const onStderr = (/** @type {string} */ line) => void (spoken.length < 100 && spoken.push(line))
  const { PGlite } = await import("@electric-sql/pglite")
  const durable = "folder" in input.origin
  // `-F` is fsync=off. Even without it, the WebAssembly build's file system has no fsync operation: see `hookFsync`.
  const startParams = [
    ...PGlite.defaultStartParams.filter((/** @type {string} */ x) => !durable || x !== "-F"),
    ...["shared_buffers=16MB", "timezone=UTC", ...(durable ? ["wal_sync_method=fsync"] : [])].flatMap((x) => ["-c", x])
  ]

  if ("template" in input.origin)
    return PGlite.create({ loadDataDir: new Blob([fs.readFileSync(input.origin.template)]), startParams, onStderr })
  if ("empty" in input.origin) return PGlite.create({ startParams, onStderr })
  const { folder } = input.origin
  if (!fs.existsSync(folder)) {
    // Created under a temporary name: an interrupted first start leaves no partial database behind.
    send({ type: "initializing" })
    const unfinished = `${folder}.new`
    fs.rmSync(unfinished, { recursive: true, force: true })
    fs.mkdirSync(unfinished, { recursive: true, mode: 0o700 })
    if (fs.existsSync(template)) unpack(fs.readFileSync(template), unfinished)
    else await initialize(unfinished)
    syncTree(unfinished)
    fs.renameSync(unfinished, folder)
  }
  const damage = findDamage(folder)
  if (damage !== undefined) throw new Error(damage)
  const lite = await PGlite.create(folder, { startParams, onStderr }).catch(() => {
    const last = spoken.map((line) => /(?:FATAL|PANIC): +(.*)/.exec(line)?.[1]).findLast((line) => line !== undefined)
    throw new Error(damaged(folder, last ?? "PostgreSQL does not start in it"))
  })
  hookFsync(lite, input)
  return lite
}

/** @param {WorkerInput} input @param {(message: FromWorker, transfer?: Array<ArrayBuffer>) => void} send */
const serve = async (input, send) => {
  const lite = await openDatabase(input, send)
  /** @param {Uint8Array} message @param {(bytes: Uint8Array) => void} onRawData */
  const exchange = (message, onRawData) => lite.execProtocolRawStream(message, { syncToFs: false, onRawData })
  /** @param {string} text */
  const quietly = (text) => exchange(simpleQuery(text), () => {})

  let current = -1
  let work = Promise.resolve()

  /** @param {ToWorker} message */
  const handle = async (message) => {
    switch (message.type) {
      case "open": {
        // There is one session for all connections that follow one another: what the last one left goes.
        await quietly("ROLLBACK")
        await quietly("DISCARD ALL")
        current = message.connection
        return send({ type: "opened", connection: current })
      }
      case "bytes": {
        if (message.connection !== current) return
        /** @type {Array<Uint8Array>} */
        const chunks = []
        await exchange(message.bytes, (bytes) => chunks.push(bytes.slice()))
        const answer = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0))
        let offset = 0
        for (const chunk of chunks) {
          answer.set(chunk, offset)
          offset += chunk.length
        }
        return send({ type: "bytes", connection: message.connection, bytes: answer }, [answer.buffer])
      }
      case "close": {
        if (message.connection === current) {
          current = -1
          await quietly("ROLLBACK")
        }
        return send({ type: "closed", connection: message.connection })
      }
      case "dump": {
        await quietly("CHECKPOINT")
        const bytes = new Uint8Array(await (await lite.dumpDataDir("none")).arrayBuffer())
        return send({ type: "dumped", bytes }, [bytes.buffer])
      }
      case "stop": {
        await lite.close()
        return process.exit(0)
      }
    }
  }

  send({ type: "ready" })
  return (/** @type {ToWorker} */ message) => {
    work = work.then(() => handle(message)).catch(() => send({ type: "broken" }))
  }
}

/** Finds damage that PGlite would take for an empty folder, and overwrite. @param {string} folder @returns {string | undefined} */
const findDamage = (folder) => {
  for (const name of ["PG_VERSION", "global/pg_control"]) {
    if (!fs.existsSync(`${folder}/${name}`)) return damaged(folder, `${name} is missing`)
  }
  const version = fs.readFileSync(`${folder}/PG_VERSION`, "latin1").trim()
  if (/^[0-9]+$/.test(version) && version !== POSTGRES) {
    return `The embedded database in ${folder} was made by PostgreSQL ${version}, this program has ${POSTGRES}. Start the version of Ampoule that made it.`
  }
  return undefined
}

/** @param {string} folder @param {string} detail */
const damaged = (folder, detail) =>
  `The embedded database in ${folder} is damaged (${detail}). Restore the data folder from a backup, or move it away to start with an empty one.`

/** Flushes a fresh folder, so that its name never stands for files that are not on the disk. @param {string} folder */
const syncTree = (folder) => {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory()) syncTree(path)
    else if (entry.isFile()) syncPath(path)
  }
  syncPath(folder)
}

/** @param {string} path */
const syncPath = (path) => {
  const descriptor = fs.openSync(path, "r")
  try {
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort
  /** @type {Array<ToWorker>} */
  const early = []
  port.on("message", (message) => early.push(message))
  serve(workerData, (message, transfer = []) => port.postMessage(message, transfer)).then(
    (receive) => {
      port.removeAllListeners("message")
      port.on("message", receive)
      for (const message of early) receive(message)
    },
    (error) => {
      port.postMessage({ type: "failed", sentence: error instanceof Error ? error.message : "it does not start" })
      process.exit(1)
    }
  )
}
