// npm run test:soak: three long runs at once, each with parts of its own and a process of its own, an hour by default
// (AMPOULE_SOAK_MINUTES, AMPOULE_SOAK_RUNS). The record is test/records/soak.json, or what AMPOULE_SOAK_REPORT names; logs
// and samples are in .artifacts/soak.
import { spawn } from "node:child_process"

const runs = Number(process.env.AMPOULE_SOAK_RUNS ?? 3)
const vitest = "node_modules/vitest/vitest.mjs run --root . --config test/vitest.long.config.ts test/soak/soak.test.ts"
const env = {
  ...process.env,
  AMPOULE_SOAK_MINUTES: process.env.AMPOULE_SOAK_MINUTES ?? "60",
  AMPOULE_SOAK_REPORT: process.env.AMPOULE_SOAK_REPORT ?? "test/records/soak.json"
}

const one = (n) =>
  new Promise((resolve) => {
    const own = { AMPOULE_SOAK_RUN: `${n}`, AMPOULE_SOAK_FOLDER: `.artifacts/soak/${n}` }
    spawn(process.execPath, vitest.split(" "), { env: { ...env, ...own }, stdio: "inherit" }).once("exit", resolve)
  })

const codes = await Promise.all(Array.from({ length: runs }, (_, n) => one(n + 1)))
process.exitCode = codes.every((code) => code === 0) ? 0 : 1
