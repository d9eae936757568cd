/**
 * Thousands of canaries, values and credentials of every kind, are written, read, refused and run with, on the released program with two
 * workers, Postgres, Redis and a vault of its own. None of them, in any form, is in a place without a request for it:
 * in statements of Postgres
 * (it logs every statement with its parameters), in its files and write-ahead log, in a dump, in Redis and its files, in logs at debug,
 * spans, metrics, pages, the trail, a backup, the data folders, the files of the command line, lists of processes. What `ampoule run` holds in its memory
 * is counted (`AMPOULE_LEAKS_REPORT` names a file for the figures; test/records/leaks.json).
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFile, execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as path from "node:path"
import { promisify } from "node:util"
import * as Memory from "#test/crypto/Memory.ts"
import * as Replication from "#test/faults/Replication.ts"
import * as Trial from "#test/faults/Trial.ts"
import * as Parts from "#test/soak/Parts.ts"
import * as ProcessTree from "#test/support/ProcessTree.ts"
import * as Programs from "#test/support/Programs.ts"
import * as Filling from "./Filling.ts"
import * as Needles from "./Needles.ts"

const reportFile = process.env["AMPOULE_LEAKS_REPORT"]

/** Stands in for a collector of spans and metrics. */
const collector = Effect.acquireRelease(
  Effect.async<{ readonly url: string; readonly received: Array<Buffer>; readonly close: () => void }>((resume) => {
    const received: Array<Buffer> = []
    const server = createServer((request, response) => {
      request.on("data", (chunk: Buffer) => received.push(chunk))
      request.on("end", () => response.writeHead(200, { "content-type": "application/json" }).end("{}"))
    })
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo
      const close = () => (server.close(), server.closeAllConnections())
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, received, close }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

const filesIn = (folder: string): ReadonlyArray<string> =>
  fs
    .readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))

/** Searched places: their size, and the expected texts that were found. */
const searching = (needles: Needles.Needles) => {
  const searched: Record<string, { files: number; MiB: number }> = {}
  const hits: Array<string> = []
  const look = (where: string, bytes: Buffer) => {
    const of = (searched[where] ??= { files: 0, MiB: 0 })
    of.files++
    of.MiB += bytes.length / 2 ** 20
    hits.push(...needles.findIn(bytes).map(({ form, name }) => `${where}: ${name}, ${form}`))
  }
  return { searched, found: hits, look, lookAt: (where: string, text: string) => look(where, Buffer.from(text)) }
}

/** Findings, each kind once. */
const kinds = (found: ReadonlyArray<string>) => [...new Set(found.map((one) => one.replace(/ \d+,/, ",")))]

/**
 * A value in the place of an environment's slug: the database is asked for one of that name, and keeps nothing of it.
 */
const lookedUp = "statements and parameters of Postgres: value as an environment, as it is"

/** Of every process that can be seen. */
const processList = () =>
  fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) =>
      (["cmdline", "environ"] as const).flatMap((what) => {
        try {
          return [{ pid: Number(pid), what, bytes: fs.readFileSync(`/proc/${pid}/${what}`) }]
        } catch {
          // It is gone.
          return []
        }
      })
    )

/** Pages that show no value, however often they are opened. */
const pagesOf = (teamId: string, projectId: string) => [
  "/app",
  "/app/account",
  "/app/account/sessions",
  "/app/account/second-factor",
  "/app/grants",
  "/app/connections",
  "/app/waiting",
  "/app/search?q=KEY",
  ...["", "/activity", "/settings", "/env/development", "/env/production", "/env/development/key/KEY_1"].map(
    (rest) => `/app/projects/${projectId}${rest}`
  ),
  ...["deleted", "graph", "restore", "sealing"].map((rest) => `/app/projects/${projectId}/env/development/${rest}`),
  ...["audit", "audit.csv", "members", "tokens", "webhooks", "ci", "access", "settings", "sign-in"].map(
    (rest) => `/app/teams/${teamId}/${rest}`
  )
]

const started = Effect.gen(function* () {
  const folder = yield* Trial.folderOf("thousands")
  const spans = yield* collector
  const redisFolder = path.join(folder, "redis")
  fs.mkdirSync(redisFolder)
  const parts = yield* Parts.make(folder, {
    env: { AMPOULE_LOG_LEVEL: "debug", OTEL_EXPORTER_OTLP_ENDPOINT: spans.url, AMPOULE_RATE_LIMITS: "on" },
    redis: ["--dir", redisFolder, "--appendonly", "yes"]
  })
  // From now on Postgres logs every statement.
  for (const setting of ["log_statement = 'all'", "log_parameter_max_length_on_error = -1"]) {
    yield* Effect.orDie(Replication.ask(parts.postgres, `ALTER SYSTEM SET ${setting}`))
  }
  yield* Effect.orDie(Replication.ask(parts.postgres, "SELECT pg_reload_conf()"))
  const home = path.join(folder, "home")
  fs.mkdirSync(home)
  return { folder, spans, redisFolder, parts, home }
})
type Started = Effect.Effect.Success<typeof started>

/** This Node, or one that can become its command. */
const node = process.env["AMPOULE_TEST_NODE"] ?? process.execPath

/** The command line as somebody uses it; the token is in a variable, as CI has it. */
const commandLine = ({ home, parts }: Started, token: string) => ({
  args: (...words: ReadonlyArray<string>) => [path.join(parts.release, "dist/ampoule.cjs"), ...words],
  env: { PATH: process.env["PATH"] ?? "", HOME: home, AMPOULE_URL: parts.url, AMPOULE_API_TOKEN: token }
})

/** `ampoule run` with all values of an environment, while its command works: who has them in its environment, its arguments, its memory. */
const running = (world: Started, token: string, projectId: string, extra: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { args, env } = commandLine(world, token)
    const command = ["-p", projectId, "-e", "development", ...extra, "--", "sh", "-c", "echo ready; sleep 600"]
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(node, args("run", ...command), { env, stdio: ["ignore", "pipe", "inherit"] })),
      (child) => Effect.sync(() => child.kill("SIGKILL"))
    )
    yield* Effect.async<void>((resume) => {
      child.once("exit", (code) => resume(Effect.die(new Error(`ampoule run ended with ${code}`))))
      child.stdout.on("data", (chunk) => String(chunk).includes("ready") && resume(Effect.void))
    })
    return child
  })

const dump = (parts: Parts.Parts) =>
  Effect.promise(() =>
    promisify(execFile)(
      "pg_dump",
      ["--host=127.0.0.1", `--port=${parts.postgres.port}`, "--username=postgres", "postgres"],
      {
        maxBuffer: 2 ** 30,
        encoding: "buffer"
      }
    )
  ).pipe(Effect.map(({ stdout }) => stdout))

/** Everything that was written down by now. */
const written = (world: Started) =>
  Effect.gen(function* () {
    const { folder, home, parts, redisFolder } = world
    execFileSync("redis-cli", ["-p", `${parts.redisPort}`, "SAVE"])
    const identity = path.join(folder, "identity")
    const operator = (...words: ReadonlyArray<string>) =>
      Effect.promise(() => Trial.ampoule(parts.release, parts.env, ...words))
    const identityFile = yield* operator("backup", "keygen", identity)
    const backup = path.join(folder, "backup")
    const recipient = /ampoule-recipient-\S+/.exec(identityFile.stdout)?.[0] ?? ""
    assert.strictEqual((yield* operator("backup", "create", backup, "--recipient", recipient)).code, 0)
    const trail = yield* operator("audit", "export")
    assert.strictEqual(trail.code, 0, trail.stderr)
    const dumped = yield* dump(parts)
    const metrics = yield* Effect.promise(async () => (await fetch(parts.metricsUrl)).text())
    // Files that they write at their end as well; and no file of a running Postgres appears or goes meanwhile.
    yield* parts.server.end("SIGTERM")
    yield* parts.vault.end("SIGTERM")
    yield* parts.postgres.close
    const log = (name: string) => [`log of the ${name}, at debug`, [path.join(folder, `${name}.log`)]] as const
    return {
      files: [
        ["files of Postgres", filesIn(parts.postgres.data).filter((file) => !/\/pg_wal\/|\/data\/log$/.test(file))],
        ["write-ahead log", filesIn(path.join(parts.postgres.data, "pg_wal"))],
        ["statements and parameters of Postgres", [path.join(parts.postgres.data, "log")]],
        ["files of Redis", filesIn(redisFolder)],
        log("server"),
        log("vault"),
        ["data folders of server and vault", filesIn(parts.data)],
        ["backup", [backup]],
        ["files of the command line", filesIn(home)]
      ] as ReadonlyArray<readonly [where: string, files: ReadonlyArray<string>]>,
      trail: trail.stdout,
      metrics,
      dump: dumped
    }
  })

/** A text that is there in clear, which shows that the search read the place. */
const inClear = {
  "files of Postgres": "KEY_249",
  "write-ahead log": "KEY_249",
  "statements and parameters of Postgres": "KEY_249",
  "files of Redis": "ampoule:limit",
  "log of the server, at debug": "level=DEBUG"
} as const

const what =
  "Canaries (values, credentials, what was refused) in each form, searched in what the released program left behind or told. None was found in what is searched. inTheMemoryOfWhoHandsThemOn: of 250 values and 20 templates of the environment, how many are in the memory of the process that started the command and waits for it (null: it became the command); of others none may. A requested slug of an environment reaches the database, which keeps nothing of it. npm run test:leaks"

type Search = ReturnType<typeof searching>

/** Answers without a value, whose headers let a browser keep nothing. */
const seen = ({ call }: Filling.Filling, { lookAt }: Search, cookie: string, teamId: string, projectId: string) =>
  Effect.gen(function* () {
    const odd: Array<string> = []
    for (const page of pagesOf(teamId, projectId)) {
      const first = yield* call("GET", page, { cookie })
      // The address of a key leads to that of its secret.
      const leads = first.status === 303 ? (first.headers.get("location") ?? "") : undefined
      const { headers, status, text } = leads === undefined ? first : yield* call("GET", leads, { cookie })
      if (status !== 200 || headers.get("cache-control") !== "no-store") odd.push(`${page}: ${status} ${leads}`)
      lookAt("pages", `${JSON.stringify([...headers])}${text}`)
    }
    assert.deepStrictEqual(odd, [])
    const where = `projectId=${projectId}&environment=development`
    for (const list of [`/secrets?${where}`, `/secrets/deleted?${where}`, "/projects", `/teams/${teamId}/api-tokens`]) {
      const { status, text } = yield* call("GET", list, { cookie })
      assert.strictEqual(status, 200, list)
      lookAt("lists", text)
    }
  })

/** Those that a process started, and what these started. */
const descendants = (pid: number): ReadonlyArray<number> =>
  fs.existsSync(`/proc/${pid}/task/${pid}/children`)
    ? ProcessTree.childrenOf(pid).flatMap((one) => [one, ...descendants(one)])
    : []

/** A newer Node becomes its command: then no process waits beside it. */
const waits = (pid: number) => fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").includes("ampoule.cjs")

/** No process has a value among its arguments, and none in its environment but the commands that were started with them. */
const processesSeen = (needles: Needles.Needles, { found, searched }: Search, runs: ReadonlyArray<number>) => {
  const all = processList()
  const holding = all.filter(({ bytes }) => needles.findIn(bytes).length > 0)
  found.push(...holding.flatMap(({ pid, what }) => (what === "cmdline" ? [`arguments of process ${pid}`] : [])))
  searched["lists of processes"] = { files: all.length, MiB: 0 }
  const holders = new Set(holding.flatMap(({ pid, what }) => (what === "environ" ? [pid] : [])))
  const commands = new Set(runs.flatMap((pid) => [...(waits(pid) ? [] : [pid]), ...descendants(pid)]))
  assert.isAtLeast(holders.size, runs.length)
  assert.deepStrictEqual(
    [...holders].filter((pid) => !commands.has(pid)),
    []
  )
}

/** Texts in the memory of a process that handed values on; null: it became the command. */
const memoryOf = (needles: Needles.Needles, folder: string, child: { readonly pid?: number | undefined }) =>
  Effect.gen(function* () {
    if (!waits(child.pid ?? 0)) return null
    const there = needles.findIn(fs.readFileSync(yield* Memory.core(child, folder, "core")))
    const of = (what: RegExp) => new Set(there.flatMap(({ name }) => (what.test(name) ? [name] : []))).size
    return { values: of(/^value \d+$/), templates: of(/^template/), others: of(/^(?!value \d|template)/) }
  })

const lookEverywhere = (world: Started, { look, lookAt }: Search) =>
  Effect.gen(function* () {
    const { dump, files, metrics, trail } = yield* written(world)
    for (const [what, some] of files) {
      assert.isNotEmpty(some, what)
      for (const file of some) look(what, fs.readFileSync(file))
      const clear = (inClear as Readonly<Record<string, string>>)[what] ?? ""
      assert.isTrue(
        some.some((file) => fs.readFileSync(file).includes(clear)),
        `${what}: ${clear}`
      )
    }
    look("dump", dump)
    assert.isTrue(dump.includes("KEY_249"))
    lookAt("trail", trail)
    lookAt("metrics", metrics)
    const spans = Buffer.concat(world.spans.received)
    assert.isTrue(spans.includes("/secrets/inject"))
    look("spans and metrics by OTLP", spans)
  })

const ways = { "ampoule run": [], "ampoule run --redact": ["--redact"], "ampoule run --offline": ["--offline"] }

const filled = (parts: Parts.Parts) =>
  Effect.gen(function* () {
    const filling = Filling.make(parts.url)
    const team = yield* Trial.team(parts.url)
    const cookie = yield* filling.signedIn(team.person.email, team.person.password)
    const [projectId = ""] = yield* filling.values(cookie, team.id)
    yield* filling.proposals(cookie, projectId)
    yield* filling.credentials(cookie, team.id, team.person)
    yield* filling.refusals(yield* team.token, projectId)
    return { filling, teamId: team.id, runner: yield* team.token, cookie, projectId }
  })

describe("thousands of canaries, in every form,", () => {
  it.scopedLive.skipIf(Programs.missing("psql", "redis-server") || !Memory.readable)(
    "stand nowhere but where they were asked for",
    () =>
      Effect.gen(function* () {
        const world = yield* started
        const { cookie, filling, projectId, runner, teamId } = yield* filled(world.parts)
        const { call, canaries } = filling
        const needles = Needles.make(canaries)
        const search = searching(needles)

        // Where they are asked for they are, and nothing of it may be kept by a browser.
        const where = `projectId=${projectId}&environment=development`
        for (const [way, least] of [
          ["inject", 270],
          ["with-values", 100],
          ["value", 1]
        ] as const) {
          const address = `/secrets/${way}?${where}${way === "value" ? "&key=KEY_1" : ""}`
          const { headers, status, text } = yield* call("GET", address, { cookie })
          assert.deepStrictEqual([status, headers.get("cache-control")], [200, "no-store"])
          assert.isAtLeast(needles.findIn(Buffer.from(text)).length, least)
        }
        yield* seen(filling, search, cookie, teamId, projectId)
        const runs = yield* Effect.forEach(Object.values(ways), (options) => running(world, runner, projectId, options))
        processesSeen(
          needles,
          search,
          runs.map(({ pid }) => pid ?? 0)
        )
        yield* lookEverywhere(world, search)
        // The memory of a process that hands values on has them; their number is reported, not judged.
        const counts = yield* Effect.forEach(runs, (child) => memoryOf(needles, world.folder, child))

        assert.isAtLeast(Object.keys(canaries).length, 7_000)
        assert.deepStrictEqual(
          kinds(search.found).filter((one) => one !== lookedUp),
          []
        )
        for (const one of counts) assert.strictEqual(one?.others ?? 0, 0)
        const figures = {
          canaries: Object.keys(canaries).length,
          formsOfEach: Needles.forms("x".repeat(40)).length,
          searched: Object.fromEntries(
            Object.entries(search.searched).map(([what, { files, MiB }]) => [
              what,
              { files, MiB: Math.round(MiB * 10) / 10 }
            ])
          ),
          inTheMemoryOfWhoHandsThemOn: Object.fromEntries(Object.keys(ways).map((way, n) => [way, counts[n]]))
        }
        yield* Effect.logInfo("leaks").pipe(Effect.annotateLogs(figures))
        const version = execFileSync(node, ["--version"], { encoding: "utf8" }).trim()
        yield* Trial.record(reportFile, what, `found: none; the command line on Node ${version}`, figures)
      }),
    600_000
  )
})
