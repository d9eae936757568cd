// Loaded into each process of a long run (NODE_OPTIONS=--import): on SIGUSR2 it collects garbage and writes what is left. Code
// that V8 compiled is none of what the program holds: it grows for an hour and more as functions are called often enough,
// and has its end with them.
import { writeFileSync } from "node:fs"
import { getHeapCodeStatistics, setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
const collect = runInNewContext("gc")

process.on("SIGUSR2", () => {
  collect()
  collect()
  const { arrayBuffers, external, heapUsed } = process.memoryUsage()
  const { bytecode_and_metadata_size, code_and_metadata_size } = getHeapCodeStatistics()
  const compiled = bytecode_and_metadata_size + code_and_metadata_size
  writeFileSync(
    `${process.env.SOAK_HEAPS}/${process.pid}.json`,
    JSON.stringify({ heap: heapUsed - compiled, compiled, external, arrayBuffers })
  )
})
