// npm run bench: GET /secrets/inject of 50 secrets, with authentication, authorization and a committed audit entry,
// against a bare server doing the same read (yardstick.mjs), side by side in one run. It prints ratios and judges
// nothing. On Postgres when AMPOULE_TEST_DATABASE_URL names one (.ci/with-postgres npm run bench), and on the embedded
// default.
import { spawn, spawnSync } from "node:child_process"
import { createCipheriv, randomBytes, randomUUID } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const here = fileURLToPath(new URL(".", import.meta.url))
const program = fileURLToPath(new URL("../../dist/ampoule.mjs", import.meta.url))
const secrets = 50
const connections = 32
const rounds = Number(process.env.BENCH_ROUNDS ?? 5)
const millis = Number(process.env.BENCH_MILLIS ?? 3000)
const folder = mkdtempSync(join(tmpdir(), "ampoule-bench-"))
const running = []

const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })

const start = (args, env, ready) =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"]
    })
    running.push(child)
    let output = ""
    child.stdout.on("data", (chunk) => {
      output += chunk
      if (output.includes(ready)) resolve(child)
    })
    child.on("exit", (code) => reject(new Error(`a server stopped with ${code}: ${output}`)))
  })

/** CPU seconds and peak resident bytes of a process, as the kernel counts them. */
const usage = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ")
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, peak: Number(peak?.[1] ?? 0) * 1024 }
}

const load = (target, forMillis) =>
  new Promise((resolve, reject) => {
    const before = usage(target.child.pid)
    const started = Date.now()
    const client = spawn(process.execPath, [
      join(here, "load.mjs"),
      JSON.stringify({
        url: target.url,
        headers: target.headers,
        connections,
        millis: forMillis,
        expect: secrets * 100
      })
    ])
    let output = ""
    client.stdout.on("data", (chunk) => (output += chunk))
    client.stderr.pipe(process.stderr)
    client.on("exit", (code) => {
      if (code !== 0) return reject(new Error(`the load on ${target.name} failed`))
      const after = usage(target.child.pid)
      const { requests, p50, p99 } = JSON.parse(output)
      const seconds = (Date.now() - started) / 1000
      resolve({ rps: requests / seconds, cpu: ((after.cpu - before.cpu) / requests) * 1e6, p50, p99, peak: after.peak })
    })
  })

const values = Array.from({ length: secrets }, (_, i) => [`SECRET_${i}`, randomBytes(64).toString("hex")])

const yardstick = async (name, where) => {
  const key = randomBytes(32)
  const environment = randomUUID()
  const rows = values.map(([name, value]) => {
    const iv = randomBytes(12)
    const cipher = createCipheriv("aes-256-gcm", key, iv)
    const sealed = Buffer.concat([cipher.update(value), cipher.final()])
    return [environment, name, iv, sealed, cipher.getAuthTag()]
  })
  const fill = async (query) => {
    await query("CREATE TABLE yardstick (environment_id uuid, key text, iv bytea, sealed bytea, tag bytea)")
    await query("CREATE INDEX ON yardstick (environment_id)")
    for (const row of rows) await query("INSERT INTO yardstick VALUES ($1, $2, $3, $4, $5)", row)
    await query("ANALYZE yardstick")
  }
  if (where.url !== undefined) {
    const { default: pg } = await import("pg")
    const client = new pg.Client({ connectionString: where.url })
    await client.connect()
    await fill((text, params) => client.query(text, params))
    await client.end()
  } else {
    const { PGlite } = await import("@electric-sql/pglite")
    const lite = await PGlite.create(where.dir)
    await fill((text, params) => lite.query(text, params))
    await lite.close()
  }
  const port = await freePort()
  const child = await start(
    ["--no-allocation-site-pretenuring", join(here, "yardstick.mjs")],
    {
      BENCH_KEY: key.toString("hex"),
      BENCH_PORT: String(port),
      BENCH_ENVIRONMENT: environment,
      ...(where.url === undefined ? { BENCH_DATABASE_DIR: where.dir } : { BENCH_DATABASE_URL: where.url })
    },
    "ready"
  )
  return { name, child, url: `http://127.0.0.1:${port}/?environment=${environment}`, headers: {} }
}

const ampoule = async (name, where) => {
  const port = await freePort()
  const base = `http://127.0.0.1:${port}`
  const env = {
    AMPOULE_PORT: String(port),
    AMPOULE_URL: base,
    AMPOULE_DATA_DIR: where.dir,
    AMPOULE_RATE_LIMITS: "off",
    ...(where.url === undefined ? {} : { AMPOULE_DATABASE_URL: where.url, AMPOULE_UNSAFE_DATABASE: "allow" })
  }
  const child = await start(["--no-allocation-site-pretenuring", program, "server"], env, "listens on")
  const args =
    "setup --email bench@example.com --name Bench --team Bench --generate-password --project bench --token --access write"
  const setup = spawnSync(process.execPath, [program, ...args.split(" ")], { env: { ...process.env, ...env } })
  const token = setup.stdout.toString().trim()
  if (!token.startsWith("amp_at_")) throw new Error(`setup failed: ${setup.stderr}`)
  const headers = { authorization: `Bearer ${token}` }
  const { items } = await (await fetch(`${base}/projects`, { headers })).json()
  const written = await fetch(`${base}/secrets/bulk`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({
      projectId: items[0].id,
      environment: "development",
      secrets: values.map(([key, value]) => ({ key, value }))
    })
  })
  if (written.status !== 201) throw new Error(`bulk answered ${written.status}`)
  return { name, child, url: `${base}/secrets/inject?projectId=${items[0].id}&environment=development`, headers }
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]
const figure = (n, digits = 0) => n.toFixed(digits).padStart(9)

const compare = async (title, ours, bare) => {
  for (const target of [ours, bare]) await load(target, 8000)
  const pairs = []
  // In turn, so that a drift of the machine meets both.
  for (let i = 0; i < rounds; i++) pairs.push([await load(ours, millis), await load(bare, millis)])
  const row = (name, at) =>
    `${name.padEnd(34)}${figure(median(pairs.map((p) => p[at].rps)))}${figure(median(pairs.map((p) => p[at].cpu)))}` +
    `${figure(median(pairs.map((p) => p[at].p50)), 1)}${figure(median(pairs.map((p) => p[at].p99)), 1)}` +
    `${figure(Math.max(...pairs.map((p) => p[at].peak)) / 1048576)}`
  const ratios = (of) => pairs.map(([a, b]) => of(a) / of(b))
  const spread = (list) =>
    `${median(list).toFixed(2)} (${Math.min(...list).toFixed(2)} to ${Math.max(...list).toFixed(2)})`
  console.log(`\n${title}: ${secrets} secrets, ${connections} connections, ${rounds} pairs of ${millis} ms`)
  console.log(`${"".padEnd(34)}    req/s   cpu us   p50 ms   p99 ms  RSS MiB`)
  console.log(row(ours.name, 0))
  console.log(row(bare.name, 1))
  console.log(`ratio of requests per second: ${spread(ratios((x) => x.rps))}`)
  console.log(`ratio of CPU per request:     ${spread(ratios((x) => x.cpu))}`)
}

const stop = async (...targets) => {
  for (const { child } of targets) {
    const ended = new Promise((resolve) => child.removeAllListeners("exit").on("exit", resolve))
    child.kill("SIGTERM")
    setTimeout(() => child.kill("SIGKILL"), 12_000).unref()
    await ended
  }
}

try {
  const server = process.env.AMPOULE_TEST_DATABASE_URL
  if (server !== undefined) {
    const { default: pg } = await import("pg")
    const admin = new pg.Client({ connectionString: server })
    await admin.connect()
    const names = ["ampoule_bench", "ampoule_bench_bare"].map((name) => `${name}_${process.pid}`)
    const urls = []
    for (const name of names) {
      await admin.query(`CREATE DATABASE ${name}`)
      const url = new URL(server)
      url.pathname = `/${name}`
      urls.push(url.href)
    }
    const ours = await ampoule("Ampoule (auth, rules, audit)", { url: urls[0], dir: join(folder, "keys") })
    const bare = await yardstick("bare node:http + pg + node:crypto", { url: urls[1] })
    await compare("Postgres", ours, bare)
    await stop(ours, bare)
    for (const name of names) await admin.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await admin.end()
  } else console.log("Postgres: skipped, AMPOULE_TEST_DATABASE_URL is not set (.ci/with-postgres npm run bench)")
  const ours = await ampoule("Ampoule (auth, rules, audit)", { dir: join(folder, "embedded") })
  const bare = await yardstick("bare node:http + PGlite + crypto", { dir: join(folder, "bare") })
  await compare("Embedded default", ours, bare)
  await stop(ours, bare)
} finally {
  for (const child of running) child.kill("SIGKILL")
  rmSync(folder, { recursive: true, force: true })
}
