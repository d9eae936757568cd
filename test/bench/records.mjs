import { readFileSync } from "node:fs"
import { cpus } from "node:os"

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"))

/** First members of each record. */
export const about = (what) => ({
  what,
  date: new Date().toISOString().slice(0, 10),
  versions: { ampoule: version, node: process.versions.node },
  machine: { cores: cpus().length, model: cpus()[0]?.model ?? "unknown" }
})
