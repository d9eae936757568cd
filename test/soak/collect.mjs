// Loaded into each process of a long run (NODE_OPTIONS=--import): on SIGUSR2 it collects garbage and writes what is left.
import { writeFileSync } from "node:fs"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc")

process.on("SIGUSR2", () => {
  collect()
  collect()
  const { arrayBuffers, external, heapUsed } = process.memoryUsage()
  writeFileSync(
    `${process.env.SOAK_HEAPS}/${process.pid}.json`,
    JSON.stringify({ heap: heapUsed, external, arrayBuffers })
  )
})
