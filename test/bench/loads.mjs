// A load on one server for some time, in a process of its own, and what the server's processes spend on it.
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"
import { usage } from "./servers.mjs"

const at = (name) => fileURLToPath(new URL(name, import.meta.url))

/** CPU microseconds of the server, and of what it could not answer without. */
const spent = ({ also = [], child }) => [child.pid, ...also].reduce((sum, pid) => sum + usage(pid).cpu, 0)

export const load = (target, asked, connections, forMillis) =>
  new Promise((resolve, reject) => {
    const before = spent(target)
    const method = asked.body === undefined ? "GET" : "POST"
    const request = { method, status: 200, expect: 0, most: 1e9, headers: target.headers, port: target.port, ...asked }
    const client = spawn(process.execPath, [
      at("load.mjs"),
      JSON.stringify({ ...request, connections, millis: forMillis })
    ])
    let output = ""
    client.stdout.on("data", (chunk) => (output += chunk))
    client.stderr.pipe(process.stderr)
    client.on("exit", (code) => {
      if (code !== 0) return reject(new Error(`the load on ${target.name} failed`))
      const { p50, p99, refused, requests, seconds } = JSON.parse(output)
      const cpu = (spent(target) - before) / Math.max(1, requests) / 1000
      resolve({ perSecond: requests / seconds, cpuMillis: cpu, p50, p99, refused })
    })
  })

export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)]
export const round = (n, digits = 2) => Number(n.toFixed(digits))
