// Cost of a large neighbour: the times of an injection of 50 alone, beside somebody who writes to an environment and
// injects it, small (50: what sharing the machine costs) and large (4,900), in turn; and how long the server's event
// loop was held meanwhile.
import { readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { load, median, round } from "./loads.mjs"
import { ampoule, literals, stop } from "./servers.mjs"

const loop = fileURLToPath(new URL("loop.mjs", import.meta.url))
const rest = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

/** Milliseconds that the event loop was held at most since the last call. */
const longestTurns = async (server, file) => {
  rmSync(file, { force: true })
  server.child.kill("SIGUSR2")
  for (;;) {
    await rest(20)
    try {
      return JSON.parse(readFileSync(file, "utf8"))
    } catch {
      // Not written yet.
    }
  }
}

export const measureNeighbour = async ({ dir, millis, rounds, url }) => {
  const file = join(dir, "..", "loop.json")
  process.env.BENCH_LOOP = file
  const contents = { own: literals(50), small: literals(50), large: literals(4_900) }
  const server = await ampoule({ dir, url, workers: 1, contents, nodeArgs: ["--import", loop] })
  const inject = (environment) => ({
    path: `/secrets/inject?projectId=${server.projectId}&environment=${environment}`,
    expect: 5_000
  })
  const write = (environment) => ({
    path: "/secrets/bulk",
    status: 201,
    body: JSON.stringify({ projectId: server.projectId, environment, secrets: [{ key: "SECRET_1", value: "{n}" }] })
  })
  const own = () => load(server, inject("own"), 1, millis)
  const beside = async (environment) => {
    const others = [inject(environment), write(environment)].map((asked) => load(server, asked, 1, millis))
    const [mine] = await Promise.all([own(), ...others])
    return mine
  }
  const ways = { alone: own, small: () => beside("small"), large: () => beside("large") }
  const results = Object.fromEntries(Object.keys(ways).map((name) => [name, []]))
  for (const way of Object.values(ways)) await way()
  for (let i = 0; i < rounds; i++) {
    for (const [name, way] of Object.entries(ways)) {
      await longestTurns(server, file)
      const { p50, p99 } = await way()
      results[name].push({ p50, p99, heldAtMost: (await longestTurns(server, file)).max })
    }
  }
  await stop(server.child)
  return Object.fromEntries(
    Object.entries(results).map(([name, list]) => [
      name,
      Object.fromEntries(
        ["p50", "p99", "heldAtMost"].map((key) => [key, round(median(list.map((one) => one[key])), 1)])
      )
    ])
  )
}
