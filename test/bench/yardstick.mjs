// The yardstick: what a bare server does to answer the same read. One indexed query, one AES-256-GCM open per row with
// node:crypto, one JSON encoding; no authentication, no authorization, no audit.
import { createDecipheriv } from "node:crypto"
import { createServer } from "node:http"

const { BENCH_KEY, BENCH_DATABASE_URL, BENCH_DATABASE_DIR, BENCH_ENVIRONMENT, BENCH_PORT } = process.env
const key = Buffer.from(BENCH_KEY, "hex")
const text = "SELECT key, iv, sealed, tag FROM yardstick WHERE environment_id = $1"

const connect = async () => {
  if (BENCH_DATABASE_URL !== undefined) {
    const { default: pg } = await import("pg")
    const pool = new pg.Pool({ connectionString: BENCH_DATABASE_URL, max: 10 })
    return (values) => pool.query({ name: "yardstick", text, values })
  }
  const { PGlite } = await import("@electric-sql/pglite")
  const lite = await PGlite.create(BENCH_DATABASE_DIR)
  return (values) => lite.query(text, values)
}

const query = await connect()
createServer((request, response) => {
  const environment = new URL(request.url, "http://127.0.0.1").searchParams.get("environment") ?? BENCH_ENVIRONMENT
  query([environment]).then(
    ({ rows }) => {
      const values = {}
      for (const row of rows) {
        const open = createDecipheriv("aes-256-gcm", key, row.iv)
        open.setAuthTag(row.tag)
        values[row.key] = Buffer.concat([open.update(row.sealed), open.final()]).toString()
      }
      const body = Buffer.from(JSON.stringify({ environment, values }))
      response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body)
    },
    () => response.writeHead(500).end()
  )
}).listen(Number(BENCH_PORT), "127.0.0.1", () => process.stdout.write("ready\n"))
