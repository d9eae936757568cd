// The two servers that are compared: Ampoule as it is built, and the yardstick, each filled with the same secrets.
import { spawn, spawnSync } from "node:child_process"
import { createCipheriv, createHash, randomBytes, randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"

export const program = fileURLToPath(new URL("../../dist/ampoule.cjs", import.meta.url))
const yardstickFile = fileURLToPath(new URL("yardstick.mjs", import.meta.url))
const flags = ["--no-allocation-site-pretenuring"]
const running = new Set()

export const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })

/** Resolves when the program has said `ready`. */
export const start = (args, env, ready) =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...flags, ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "inherit"]
    })
    running.add(child)
    let output = ""
    child.stdout.on("data", (chunk) => {
      output += chunk
      if (output.includes(ready)) resolve(child)
    })
    child.on("exit", (code) => {
      running.delete(child)
      reject(new Error(`a server stopped with ${code}: ${output}`))
    })
  })
export const stop = (child) =>
  new Promise((resolve) => {
    child.once("exit", resolve)
    child.kill("SIGTERM")
  })
export const stopAll = () => Promise.all([...running].map(stop))

const statOf = (pid) => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ")
/** A process and its workers. */
const family = (pid) => [
  pid,
  ...readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return Number(statOf(name)[1]) === pid
    } catch {
      return false
    }
  })
]
/** CPU microseconds, those of ended children too, and resident bytes, now and at most, as the kernel counts them. */
export const usage = (pid) => {
  const total = { cpu: 0, rss: 0, peak: 0 }
  for (const one of family(pid)) {
    const fields = statOf(one)
    const status = readFileSync(`/proc/${one}/status`, "utf8")
    total.cpu += fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * 10_000
    total.rss += Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024
    total.peak += Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024
  }
  return total
}

export const literals = (count) =>
  Array.from({ length: count }, (_, i) => ({ key: `SECRET_${i}`, value: randomBytes(64).toString("hex") }))
const templates = (count) =>
  Array.from({ length: count }, (_, i) => ({ key: `TEMPLATE_${i}`, value: `prefix \${SECRET_${i}} suffix` }))

/** Contents of both servers, by environment. */
export const contents = {
  fifty: literals(50),
  "five-hundred": [...literals(450), ...templates(50)],
  "after-fifty": literals(50)
}
export const large = { "after-four-thousand": literals(4_000) }
const emptyOnes = [
  ...["1", "16", "64", "warm-0"].map((name) => `create-${name}`),
  ...["1", "warm-0", "warm-1", "warm-2"].map((name) => `bulk-${name}`)
]

/** `where`: `url` of a database of its own, or `dir`. `nodeArgs`: what its Node gets besides. */
export const ampoule = async ({ contents, dir, nodeArgs = [], url, workers }) => {
  const port = await freePort()
  const base = `http://127.0.0.1:${port}`
  const env = {
    AMPOULE_PORT: String(port),
    AMPOULE_URL: base,
    AMPOULE_DATA_DIR: dir,
    AMPOULE_RATE_LIMITS: "off",
    AMPOULE_WORKERS: String(workers),
    ...(url === undefined ? {} : { AMPOULE_DATABASE_URL: url, AMPOULE_UNSAFE_DATABASE: "allow" })
  }
  const child = await start([...nodeArgs, program, "server"], env, "listens on")
  const atStart = usage(child.pid).rss
  const password = randomBytes(16).toString("hex")
  const args = "setup --email bench@example.com --name Bench --team Bench --token --access write"
  const setup = spawnSync(process.execPath, [program, ...args.split(" ")], {
    env: { ...process.env, ...env },
    input: `${password}\n`
  })
  const token = setup.stdout.toString().trim()
  if (!token.startsWith("amp_at_")) throw new Error(`setup failed: ${setup.stderr}`)
  const ask = async (path, json, headers) => {
    const body = JSON.stringify(json)
    const sent = { "content-type": "application/json", ...headers }
    const answer = await fetch(`${base}${path}`, { method: "POST", headers: sent, body })
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
    return { cookie: answer.headers.get("set-cookie")?.split(";")[0], json: await answer.json() }
  }
  const signedIn = await ask("/auth/session", { email: "bench@example.com", password })
  const environments = [...Object.keys(contents), ...emptyOnes].map((slug) => ({ slug }))
  const project = await ask(
    `/teams/${signedIn.json.teams[0].id}/projects`,
    { name: "bench", environments },
    { cookie: signedIn.cookie }
  )
  const headers = { authorization: `Bearer ${token}` }
  const projectId = project.json.id
  for (const [environment, secrets] of Object.entries(contents)) {
    for (let i = 0; i < secrets.length; i += 100) {
      await ask("/secrets/bulk", { projectId, environment, secrets: secrets.slice(i, i + 100) }, headers)
    }
  }
  const teamId = signedIn.json.teams[0].id
  return { name: "Ampoule", base, child, port, headers, projectId, atStart, token, teamId, cookie: signedIn.cookie }
}

export const yardstick = async ({ contents, dir, url, workers }) => {
  const key = randomBytes(32)
  const ids = Object.fromEntries([...Object.keys(contents), ...emptyOnes].map((slug) => [slug, randomUUID()]))
  const statements = [
    [
      `CREATE TABLE secrets (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), environment uuid NOT NULL, key text NOT NULL,
        version int DEFAULT 1, created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now(),
        iv bytea, sealed bytea, tag bytea, UNIQUE (environment, key))`
    ],
    [
      "CREATE TABLE tokens (id uuid PRIMARY KEY, lookup text UNIQUE, name text, salt bytea, hash bytea, expires_at timestamptz)"
    ]
  ]
  statements.push(["CREATE TABLE log (id bigserial PRIMARY KEY, at timestamptz DEFAULT now(), entry text)"])
  const salt = randomBytes(16)
  statements.push([
    "INSERT INTO tokens VALUES ($1, 'token', 'bench', $2, $3, now() + interval '1 year')",
    [randomUUID(), salt, createHash("sha256").update(salt).update("secret").digest()]
  ])
  for (const [slug, secrets] of Object.entries(contents)) {
    for (const secret of secrets) {
      const iv = randomBytes(12)
      const cipher = createCipheriv("aes-256-gcm", key, iv)
      const sealed = Buffer.concat([cipher.update(secret.value), cipher.final()])
      const text = "INSERT INTO secrets (environment, key, iv, sealed, tag) VALUES ($1, $2, $3, $4, $5)"
      statements.push([text, [ids[slug], secret.key, iv, sealed, cipher.getAuthTag()]])
    }
  }
  statements.push(["ANALYZE"])
  if (url !== undefined) {
    const { default: pg } = await import("pg")
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    for (const [text, values] of statements) await client.query(text, values)
    await client.end()
  } else {
    const { PGlite } = await import("@electric-sql/pglite")
    const lite = await PGlite.create(dir)
    for (const [text, values] of statements) await lite.query(text, values)
    await lite.close()
  }
  const port = await freePort()
  const env = {
    BENCH_KEY: key.toString("hex"),
    BENCH_PORT: String(port),
    BENCH_WORKERS: String(workers),
    ...(url === undefined ? { BENCH_DATABASE_DIR: dir } : { BENCH_DATABASE_URL: url })
  }
  const child = await start([yardstickFile], env, "ready")
  return { name: "bare", child, port, headers: {}, ids, atStart: usage(child.pid).rss }
}
