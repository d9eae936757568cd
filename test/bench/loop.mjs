// Loaded into a server that is measured (--import): on SIGUSR2 it writes how long its event loop was held at most since
// the last time, in milliseconds.
import { renameSync, writeFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"

const resolution = 1
const delay = monitorEventLoopDelay({ resolution })
delay.enable()
process.on("SIGUSR2", () => {
  const file = process.env.BENCH_LOOP
  // Under another name until it is whole.
  writeFileSync(`${file}.new`, JSON.stringify({ max: Math.max(0, delay.max / 1e6 - resolution) }))
  renameSync(`${file}.new`, file)
  delay.reset()
})
