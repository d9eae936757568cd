// A bounded closed loop on raw sockets: each connection sends its next request when the last one is answered. Little
// work of its own, since it shares the machine with what it measures. Answers on its own process: one JSON line.
import { connect } from "node:net"

const { body, connections, expect, headers, method, millis, most, port, path, status } = JSON.parse(process.argv[2])
const until = Date.now() + millis
const times = []
let sent = 0
let failure
let refused = 0

const separator = Buffer.from("\r\n\r\n")
const lengthOf = (head) => Number(/content-length: (\d+)/i.exec(head)?.[1])
const lastChunk = Buffer.from("\r\n0\r\n\r\n")
/** Bytes of a body that came as a whole; undefined: more is to come. Chunked, the bytes of its frame count as well. */
const bodyOf = (buffer, head, from) => {
  const present = buffer.length - from
  if (!/transfer-encoding: chunked/i.test(head)) return present < lengthOf(head) ? undefined : lengthOf(head)
  return buffer.subarray(-lastChunk.length).equals(lastChunk) ? present : undefined
}
const names = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
/** `{n}`, in a body or a path, stands for a number that no other request has. */
const request = () => {
  const text = body === undefined ? "" : body.replaceAll("{n}", `${process.pid}_${sent}`)
  const length = body === undefined ? "" : `content-type: application/json\r\ncontent-length: ${text.length}\r\n`
  return `${method} ${path.replaceAll("{n}", `${process.pid}_${sent}`)} HTTP/1.1\r\nhost: 127.0.0.1\r\n${names.join("")}${length}\r\n${text}`
}

const lane = () =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    socket.setNoDelay(true)
    let started = 0
    let buffer = Buffer.alloc(0)
    const next = () => {
      if (failure !== undefined || Date.now() >= until || sent >= most) return socket.end(resolve)
      sent++
      buffer = Buffer.alloc(0)
      started = performance.now()
      socket.write(request())
    }
    socket.on("connect", next)
    socket.on("error", (error) => {
      failure = error.message
      resolve()
    })
    socket.on("data", (data) => {
      buffer = buffer.length === 0 ? data : Buffer.concat([buffer, data])
      const end = buffer.indexOf(separator)
      if (end === -1) return
      const head = buffer.toString("latin1", 0, end)
      const length = bodyOf(buffer, head, end + 4)
      if (length === undefined) return
      // A server that cannot keep up says so: it is counted, and an answer of another kind ends the measurement.
      if (/^HTTP\/1\.1 (?:429|500) /.test(head)) refused++
      else if (!head.startsWith(`HTTP/1.1 ${status} `) || length < expect) {
        failure = `${head.split("\r\n", 1)[0]}, ${length} bytes: ${buffer.toString("latin1", end + 4, end + 300)}`
      }
      times.push(performance.now() - started)
      next()
    })
  })

const began = performance.now()
await Promise.all(Array.from({ length: connections }, lane))
if (failure !== undefined) {
  process.stderr.write(`${method} ${path}: ${failure}\n`)
  process.exit(1)
}
const seconds = (performance.now() - began) / 1000
times.sort((a, b) => a - b)
const at = (q) => times[Math.min(times.length - 1, Math.floor(times.length * q))]
process.stdout.write(
  JSON.stringify({ requests: times.length - refused, refused, seconds, p50: at(0.5), p99: at(0.99) }) + "\n"
)
