// @ts-check
/** Programs that fetch, build and run the real issuers. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as path from "node:path"

/**
 * Runs a command to its end, 15 minutes at most; what it printed is shown when it fails.
 * @param {string} command @param {ReadonlyArray<string>} args @param {{ cwd: string, env?: Record<string, string> }} options
 */
export const run = async (command, args, { cwd, env = {} }) => {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 900_000
  })
  let output = ""
  let errors = ""
  child.stdout.on("data", (chunk) => (output += String(chunk)))
  child.stderr.on("data", (chunk) => (errors += String(chunk)))
  const [code] = await once(child, "close")
  if (code !== 0) throw new Error(`${path.basename(command)} ended with ${code}\n${output}${errors}`)
  return output
}

/**
 * Starts a server, and waits until its address answers.
 * @param {string} command @param {ReadonlyArray<string>} args @param {{ cwd: string, env: Record<string, string>, ready: string }} options
 */
export const serve = async (command, args, { cwd, env, ready }) => {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true
  })
  let output = ""
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)))
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
    // With what it started itself.
    process.kill(-child.pid, "SIGTERM")
    await once(child, "exit")
  }
  for (let tries = 0; tries < 600; tries++) {
    if (child.exitCode !== null) throw new Error(`${path.basename(command)} ended with ${child.exitCode}\n${output}`)
    const answer = await fetch(ready).catch(() => undefined)
    if (answer?.ok === true) return { stop, output: () => output }
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  await stop()
  throw new Error(`nothing answers at ${ready}\n${output}`)
}
