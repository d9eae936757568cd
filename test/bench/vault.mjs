// npm run bench:vault: what Ampoule does for a request beside HashiCorp Vault or OpenBao (KV version 2, integrated
// storage, a file as audit device, no TLS), with the same values, in turn in one run. It judges nothing. BENCH_VAULT names
// the program; by default `bao` or `vault` on the PATH. On Postgres (.ci/with-postgres npm run bench:vault), whose CPU
// counts as Ampoule's. The record goes to test/records/vault.json, or where BENCH_RECORD says.
import { spawn, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { comparison } from "./compare.mjs"
import { databasesOn } from "./databases.mjs"
import { about } from "./records.mjs"
import { ampoule, contents, freePort, literals, stop, stopAll, usage } from "./servers.mjs"

const rounds = Number(process.env.BENCH_ROUNDS ?? 3)
const millis = Number(process.env.BENCH_MILLIS ?? 600)
const record = process.env.BENCH_RECORD ?? fileURLToPath(new URL("../records/vault.json", import.meta.url))
const rest = (pause) => new Promise((resolve) => setTimeout(resolve, pause))

/** The name and version that a program says of itself; undefined: there is none of this name. */
const versionOf = (program) => {
  const { status, stdout } = spawnSync(program, ["version"])
  return status === 0 ? /^[^,\n]+/.exec(stdout.toString())?.[0] : undefined
}
const candidates = process.env.BENCH_VAULT === undefined ? ["bao", "vault"] : [process.env.BENCH_VAULT]
const program = candidates.find((name) => versionOf(name) !== undefined)

const ask = async (base, token, method, path, json) => {
  const body = json === undefined ? {} : { body: JSON.stringify(json) }
  const answer = await fetch(`${base}/v1/${path}`, { method, headers: { "x-vault-token": token }, ...body })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`)
  return text === "" ? undefined : JSON.parse(text)
}

/** Until it succeeds: a new server elects itself, and a new engine prepares its storage. */
const patiently = async (work) => {
  for (let tries = 200; ; tries--) {
    try {
      return await work()
    } catch (error) {
      if (tries === 0) throw error
      await rest(100)
    }
  }
}

const vault = async (dir) => {
  const [port, clusterPort] = [await freePort(), await freePort()]
  const base = `http://127.0.0.1:${port}`
  mkdirSync(join(dir, "raft"), { recursive: true })
  const config = {
    disable_mlock: true,
    api_addr: base,
    cluster_addr: `http://127.0.0.1:${clusterPort}`,
    log_level: "error",
    listener: { tcp: { address: `127.0.0.1:${port}`, cluster_address: `127.0.0.1:${clusterPort}`, tls_disable: true } },
    storage: { raft: { path: join(dir, "raft"), node_id: "bench" } }
  }
  writeFileSync(join(dir, "config.json"), JSON.stringify(config))
  const child = spawn(program, ["server", `-config=${join(dir, "config.json")}`], {
    stdio: ["ignore", "ignore", "inherit"]
  })
  try {
    const keys = await patiently(() => ask(base, "", "PUT", "sys/init", { secret_shares: 1, secret_threshold: 1 }))
    const root = keys.root_token
    await ask(base, root, "PUT", "sys/unseal", { key: keys.keys[0] })
    await patiently(() => ask(base, root, "PUT", "sys/mounts/secret", { type: "kv", options: { version: "2" } }))
    await ask(base, root, "PUT", "sys/audit/file", { type: "file", options: { file_path: join(dir, "audit.log") } })
    const policy = 'path "secret/*" { capabilities = ["create", "read", "update", "list"] }'
    await ask(base, root, "PUT", "sys/policies/acl/bench", { policy })
    const { auth } = await ask(base, root, "POST", "auth/token/create", { policies: ["bench"] })
    const write = (path, data) => patiently(() => ask(base, auth.client_token, "POST", `secret/data/${path}`, { data }))
    const mapOf = (secrets) => Object.fromEntries(secrets.map(({ key, value }) => [key, value]))
    await write("fifty", mapOf(contents.fifty))
    await write("five-hundred", mapOf(literals(500)))
    for (const { key, value } of contents.fifty) await write(`each/${key}`, { value })
    const headers = { "x-vault-token": auth.client_token }
    return { name: "Vault", child, port, headers, atStart: usage(child.pid).rss }
  } catch (error) {
    child.kill("SIGTERM")
    throw error
  }
}

const query = ({ projectId }, environment) => `projectId=${projectId}&environment=${environment}`
const value = "x".repeat(128)

/**
 * Nearest equivalents: all values of an environment are one secret with as many fields; where Ampoule names or changes
 * one
 * of many, each is a secret of its own in a folder.
 */
const rows = {
  live: [() => ({ path: "/health/live" }), () => ({ path: "/v1/sys/health" })],
  verify: [() => ({ path: "/me/verify" }), () => ({ path: "/v1/auth/token/lookup-self" })],
  "inject 50": [
    (s) => ({ path: `/secrets/inject?${query(s, "fifty")}`, expect: 5_000 }),
    () => ({ path: "/v1/secret/data/fifty", expect: 5_000 })
  ],
  "inject 500": [
    (s) => ({ path: `/secrets/inject?${query(s, "five-hundred")}`, expect: 50_000 }),
    () => ({ path: "/v1/secret/data/five-hundred", expect: 50_000 })
  ],
  "one value": [
    (s) => ({ path: `/secrets/value?${query(s, "fifty")}&key=SECRET_7` }),
    () => ({ path: "/v1/secret/data/each/SECRET_7" })
  ],
  "list 50 names": [
    (s) => ({ path: `/secrets?${query(s, "fifty")}`, expect: 5_000 }),
    () => ({ path: "/v1/secret/metadata/each?list=true", expect: 500 })
  ],
  "create one": [
    ({ projectId }, n) => ({
      path: "/secrets",
      status: 201,
      body: JSON.stringify({ projectId, environment: `create-${n}`, key: "NEW_{n}", value }),
      most: 300
    }),
    (_, n) => ({
      path: `/v1/secret/data/create-${n}/NEW_{n}`,
      body: JSON.stringify({ data: { value } }),
      most: 300
    })
  ]
}

const postmaster = () => {
  const data = process.env.AMPOULE_TEST_POSTGRES_DATA
  return data === undefined ? [] : [Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0])]
}

const run = async (url) => {
  const folder = mkdtempSync(join(tmpdir(), "ampoule-bench-"))
  const { end, fresh } = await databasesOn(url)
  const compare = comparison({ rows, rounds, millis, warmedBy: { "create one": [4_000] }, other: "theirs" })
  let theirs
  try {
    const ours = await ampoule({ url: await fresh(), dir: join(folder, "ours"), workers: 1, contents })
    theirs = await vault(join(folder, "vault"))
    const version = versionOf(program)
    const title = `Ampoule with its Postgres, one process, beside ${version}`
    const counted = { ...ours, also: postmaster() }
    const table = await compare(title, counted, theirs, Object.keys(rows), [1, 16, 64])
    const what = `Requests to Ampoule (one process, Postgres) and to ${version} (one server, KV version 2, integrated storage, file audit device), in turn: per second, CPU per request in milliseconds (Ampoule's with that of its Postgres), times in milliseconds; ratio: requests per second of ours to theirs, median of pairs. npm run bench:vault`
    writeFileSync(
      record,
      `${JSON.stringify({ ...about(what), rounds, millis, theirs: version, ...table }, undefined, 2)}\n`
    )
  } finally {
    await stopAll()
    if (theirs !== undefined) await stop(theirs.child)
    await end()
    rmSync(folder, { recursive: true, force: true })
  }
}

const url = process.env.AMPOULE_TEST_DATABASE_URL
if (program === undefined) {
  console.log("Skipped: no `bao` or `vault` on the PATH, and BENCH_VAULT names none.")
} else if (url === undefined) {
  console.log("Skipped: AMPOULE_TEST_DATABASE_URL is not set (.ci/with-postgres npm run bench:vault).")
} else await run(url)
