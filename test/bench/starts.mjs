// Cost of a start: the first one and a later one of a server, its memory at rest, and what `ampoule run`
// adds to its child.
import { spawnSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { databasesOn } from "./databases.mjs"
import { ampoule, freePort, program, start, stop, usage } from "./servers.mjs"

const round = (n) => Math.round(n)
const rest = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

/** V8 gives back what a start took within a minute of rest. */
const restMillis = 60_000

/** `rests`: measured after a minute of rest, as what a server at rest takes. */
const timed = async (env, rests = false) => {
  const port = await freePort()
  const began = performance.now()
  const child = await start([program, "server"], { AMPOULE_PORT: String(port), ...env }, "listens on")
  const millis = performance.now() - began
  const atStart = usage(child.pid)
  if (rests) await rest(restMillis)
  const { rss } = usage(child.pid)
  await stop(child)
  const MiB = (bytes) => round(bytes / 2 ** 20)
  const first = { millis: round(millis), cpuMillis: round(atStart.cpu / 1000), peakMiB: MiB(atStart.peak) }
  return rests ? { ...first, idleMiB: MiB(rss) } : first
}

/** Median milliseconds of a child alone, and of the same child behind `ampoule run`. */
const childTimes = async (folder) => {
  const server = await ampoule({
    dir: join(folder, "run"),
    workers: 1,
    contents: { fifty: [{ key: "A", value: "b" }] }
  })
  const env = {
    ...process.env,
    AMPOULE_URL: `http://127.0.0.1:${server.port}`,
    AMPOULE_API_TOKEN: server.token,
    XDG_CONFIG_HOME: join(folder, "config"),
    XDG_CACHE_HOME: join(folder, "cache")
  }
  const child = ["-e", "0"]
  const run = [program, "run", "--project", server.projectId, "--env", "fifty", "--", process.execPath, ...child]
  const times = (args) => {
    const list = []
    for (let i = 0; i < 9; i++) {
      const began = performance.now()
      const done = spawnSync(process.execPath, args, { env })
      if (done.status !== 0) throw new Error(`${args.join(" ")}: ${done.stderr}`)
      list.push(performance.now() - began)
    }
    return round(list.toSorted((a, b) => a - b)[4])
  }
  times(run)
  const measured = { alone: times(child), behindRun: times(run) }
  await stop(server.child)
  return measured
}

export const measureStarts = async (folder, url) => {
  const embedded = { AMPOULE_DATA_DIR: join(folder, "started") }
  const starts = { embeddedFirst: await timed(embedded), embeddedAgain: await timed(embedded, true) }
  if (url !== undefined) {
    const { end, fresh } = await databasesOn(url)
    mkdirSync(join(folder, "postgres"), { recursive: true })
    const postgres = {
      AMPOULE_DATA_DIR: join(folder, "postgres"),
      AMPOULE_DATABASE_URL: await fresh(),
      AMPOULE_UNSAFE_DATABASE: "allow"
    }
    starts.postgresFirst = await timed(postgres)
    starts.postgresAgain = await timed(postgres, true)
    await end()
  }
  starts.run = await childTimes(folder)
  return starts
}
