// A bounded closed loop: `connections` keep-alive connections, each sends its next request when the last one is
// answered.
import { Agent, request } from "node:http"

const { url, headers, connections, millis, expect } = JSON.parse(process.argv[2])
const agent = new Agent({ keepAlive: true, maxSockets: connections })
const until = Date.now() + millis
const times = []
let bytes = 0

const one = () =>
  new Promise((resolve, reject) => {
    const started = process.hrtime.bigint()
    request(url, { agent, headers }, (response) => {
      let size = 0
      response.on("data", (chunk) => (size += chunk.length))
      response.on("end", () => {
        if (response.statusCode !== 200 || size < expect)
          return reject(new Error(`answer ${response.statusCode}, ${size} bytes`))
        times.push(Number(process.hrtime.bigint() - started) / 1e6)
        bytes = size
        resolve()
      })
    })
      .on("error", reject)
      .end()
  })

await Promise.all(
  Array.from({ length: connections }, async () => {
    while (Date.now() < until) await one()
  })
)
agent.destroy()
times.sort((a, b) => a - b)
const at = (q) => times[Math.min(times.length - 1, Math.floor(times.length * q))]
process.stdout.write(JSON.stringify({ requests: times.length, p50: at(0.5), p99: at(0.99), bytes }) + "\n")
