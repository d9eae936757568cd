// The yardstick: what a bare server of node:http, a driver and node:crypto does to answer the same requests. One
// statement each; AES-256-GCM per value; JSON. No rules, no audit, no rate limits, no checks of what was asked.
import cluster from "node:cluster"
import { createCipheriv, createDecipheriv, createHash, randomBytes, timingSafeEqual } from "node:crypto"
import { createServer } from "node:http"

const { BENCH_DATABASE_DIR, BENCH_DATABASE_URL, BENCH_KEY, BENCH_PORT, BENCH_WORKERS } = process.env
const key = Buffer.from(BENCH_KEY, "hex")

const connect = async () => {
  if (BENCH_DATABASE_URL !== undefined) {
    const { default: pg } = await import("pg")
    const pool = new pg.Pool({ connectionString: BENCH_DATABASE_URL, max: 10 })
    return (name, text, values) => pool.query({ name, text, values })
  }
  const { PGlite } = await import("@electric-sql/pglite")
  const lite = await PGlite.create(BENCH_DATABASE_DIR)
  return (_, text, values) => lite.query(text, values)
}

const open = ({ iv, sealed, tag }) => {
  const cipher = createDecipheriv("aes-256-gcm", key, iv)
  cipher.setAuthTag(tag)
  return Buffer.concat([cipher.update(sealed), cipher.final()]).toString()
}
const seal = (value) => {
  const iv = randomBytes(12)
  const cipher = createCipheriv("aes-256-gcm", key, iv)
  const sealed = Buffer.concat([cipher.update(value), cipher.final()])
  return [iv, sealed, cipher.getAuthTag()]
}
/** Least work of a trail: one row for each read of values, committed before the answer. */
const log = (query, params) =>
  query("log", "INSERT INTO log (entry) VALUES ($1)", [
    JSON.stringify({ at: new Date().toISOString(), actor: "token", action: "secret.read", keys: [params.get("key")] })
  ])
const bodyOf = async (request) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return JSON.parse(Buffer.concat(chunks).toString())
}

const serve = async () => {
  const query = await connect()
  const routes = {
    "/live": async () => ({ status: "ok" }),
    "/verify": async (_, params) => {
      const text = "SELECT id, name, salt, hash, expires_at FROM tokens WHERE lookup = $1"
      const [token] = (await query("verify", text, [params.get("token")])).rows
      const hash = createHash("sha256").update(token.salt).update("secret").digest()
      if (!timingSafeEqual(hash, token.hash)) throw new Error("refused")
      return { id: token.id, name: token.name, expiresAt: token.expires_at }
    },
    "/inject": async (_, params) => {
      const text = "SELECT key, iv, sealed, tag FROM secrets WHERE environment = $1"
      const { rows } = await query("inject", text, [params.get("environment")])
      if (params.has("logged")) await log(query, params)
      return { values: Object.fromEntries(rows.map((row) => [row.key, open(row)])) }
    },
    "/value": async (_, params) => {
      const text = "SELECT key, iv, sealed, tag FROM secrets WHERE environment = $1 AND key = $2"
      const [row] = (await query("value", text, [params.get("environment"), params.get("key")])).rows
      if (params.has("logged")) await log(query, params)
      return { key: row.key, value: open(row) }
    },
    "/list": async (_, params) => {
      const text = "SELECT id, key, version, created_at, updated_at FROM secrets WHERE environment = $1 ORDER BY key"
      return { items: (await query("list", text, [params.get("environment")])).rows }
    },
    "/create": async (request) => {
      const { environment, key, value } = await bodyOf(request)
      const text =
        "INSERT INTO secrets (environment, key, iv, sealed, tag) VALUES ($1, $2, $3, $4, $5) RETURNING id, key, version, created_at"
      return (await query("create", text, [environment, key, ...seal(value)])).rows[0]
    },
    "/bulk": async (request) => {
      const { environment, secrets } = await bodyOf(request)
      const sealed = secrets.map(({ value }) => seal(value))
      const columns = [secrets.map(({ key }) => key), ...[0, 1, 2].map((i) => sealed.map((parts) => parts[i]))]
      const text =
        "INSERT INTO secrets (environment, key, iv, sealed, tag) SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bytea[]) RETURNING id, key"
      return { items: (await query("bulk", text, [environment, ...columns])).rows }
    }
  }
  createServer((request, response) => {
    const url = new URL(request.url, "http://127.0.0.1")
    routes[url.pathname](request, url.searchParams).then(
      (answer) => {
        const body = Buffer.from(JSON.stringify(answer))
        response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body)
      },
      (error) => {
        process.stderr.write(`${error}\n`)
        response.writeHead(500).end()
      }
    )
  }).listen(Number(BENCH_PORT), "127.0.0.1", () => process.send?.("ready") ?? process.stdout.write("ready\n"))
}

if (cluster.isPrimary && BENCH_WORKERS !== "1") {
  let ready = 0
  for (let i = 0; i < Number(BENCH_WORKERS); i++) {
    cluster.fork().on("message", () => ++ready === Number(BENCH_WORKERS) && process.stdout.write("ready\n"))
  }
} else await serve()
