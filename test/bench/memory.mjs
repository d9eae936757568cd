// Loaded into a server that is measured (--expose-gc --import): on SIGUSR2 it collects garbage and writes what is left.
import { writeFileSync } from "node:fs"

process.on("SIGUSR2", () => {
  globalThis.gc()
  globalThis.gc()
  writeFileSync(process.env.BENCH_MEMORY, JSON.stringify(process.memoryUsage()))
})
