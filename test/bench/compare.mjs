// Two servers asked for the same, in turn in one run, so that a drift of the machine meets both.
import { load, median, round } from "./loads.mjs"
import { usage } from "./servers.mjs"

const warmUp = 200
/** Requests, at one connection. */
const warmAlone = 900

const medians = (list) =>
  Object.fromEntries(
    ["perSecond", "cpuMillis", "p50", "p99"].map((key) => [
      key,
      round(median(list.map((one) => one[key])), key === "cpuMillis" ? 3 : 2)
    ])
  )

/**
 * `rows`, by name: the request to Ampoule and the request to the other server, which say how many at most in one
 * measurement. `alone`: rows that are measured at one connection only. `other`: what the other server is called.
 */
export const comparison = ({ alone = [], millis, other, rounds, rows, warmedBy = {} }) => {
  const cell = async (ours, theirs, [ask, askTheirs], connections) => {
    const pairs = []
    await load(ours, ask(ours, connections), connections, warmUp)
    await load(theirs, askTheirs(theirs, connections), connections, warmUp)
    for (let i = 0; i < rounds; i++) {
      pairs.push([
        await load(ours, ask(ours, connections), connections, millis),
        await load(theirs, askTheirs(theirs, connections), connections, millis)
      ])
    }
    const ratios = pairs.map(([a, b]) => a.perSecond / b.perSecond)
    return {
      ours: medians(pairs.map(([a]) => a)),
      [other]: medians(pairs.map(([, b]) => b)),
      refused: pairs.reduce((sum, [a]) => sum + a.refused, 0),
      ratio: round(median(ratios)),
      range: [round(Math.min(...ratios)), round(Math.max(...ratios))]
    }
  }

  const print = (name, connections, { ours, range, ratio, [other]: theirs }) =>
    console.log(
      `${name.padEnd(24)}${String(connections).padStart(4)}${[ours.perSecond, ours.cpuMillis, ours.p50, ours.p99, theirs.perSecond, theirs.cpuMillis, ratio].map((n) => String(n).padStart(11)).join("")}  (${range.join(" to ")})`
    )

  /**
   * Code that was never hot costs several times as much, so both servers get as many requests of a row before. Some at one
   * connection: requests at 16 share statements and transactions, so that they leave what one alone needs colder.
   */
  const warm = async (ours, theirs, name) => {
    for (const [place, most] of (warmedBy[name] ?? [15_000]).entries()) {
      for (const [which, server] of [ours, theirs].entries()) {
        const requests = rows[name][which](server, `warm-${place}`)
        if (!alone.includes(name)) await load(server, { ...requests, most }, 16, 20_000)
        await load(server, { ...requests, most: alone.includes(name) ? most : warmAlone }, 1, 20_000)
      }
    }
  }

  return async (title, ours, theirs, names, levels) => {
    console.log(
      `\n${title}\n${" ".repeat(28)}    ours/s     CPU ms        p50        p99${`${other}/s`.padStart(11)}     CPU ms      ratio`
    )
    const table = {}
    for (const name of names) {
      table[name] = {}
      await warm(ours, theirs, name)
      for (const connections of alone.includes(name) ? [1] : levels) {
        table[name][connections] = await cell(ours, theirs, rows[name], connections)
        print(name, connections, table[name][connections])
      }
    }
    const memory = (one) => ({
      atStart: round(one.atStart / 2 ** 20, 0),
      peak: round(usage(one.child.pid).peak / 2 ** 20, 0)
    })
    return { rows: table, memoryMiB: { ours: memory(ours), [other]: memory(theirs) } }
  }
}
