import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { once } from "node:events"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { EventStream, type Out, send } from "#src/http/engine/EventStream.ts"

/** A server whose answer is this stream, and a client's view of it that begins to read when it likes. */
const opened = (open: EventStream["open"]) =>
  Effect.gen(function* () {
    const server = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const server = Http.createServer((_, outgoing) => {
          outgoing.writeHead(200, { "content-type": "text/event-stream" })
          send(outgoing, new EventStream(open))
        }).listen(0, "127.0.0.1")
        await once(server, "listening")
        return server
      }),
      (server) => Effect.sync(() => server.close().closeAllConnections())
    )
    const { port } = server.address() as AddressInfo
    const request = Http.get({ port, host: "127.0.0.1", agent: false })
    // A cut connection is what some of these tests are about.
    request.on("error", () => undefined)
    return request
  })

describe("an answer without an end", () => {
  it.scopedLive("sends its text, ends on request, and lets go once", () =>
    Effect.gen(function* () {
      const closed = { times: 0 }
      const request = yield* opened((out) => {
        out.write(": open\n\n")
        out.write(Buffer.from("data: 1\n\n"))
        out.end()
        out.write("data: never\n\n")
        out.end()
        return () => closed.times++
      })
      const [answer] = (yield* Effect.promise(() => once(request, "response"))) as [Http.IncomingMessage]
      let text = ""
      answer.on("data", (part) => (text += String(part)))
      yield* Effect.promise(() => once(answer, "close"))
      assert.strictEqual(text, ": open\n\ndata: 1\n\n")
      assert.isTrue(answer.complete)
      while (closed.times === 0) yield* Effect.sleep(5)
      yield* Effect.sleep(20)
      assert.strictEqual(closed.times, 1)
    })
  )

  it.scopedLive("lets go once when the client goes", () =>
    Effect.gen(function* () {
      const closed = { times: 0 }
      let said: Out | undefined
      const request = yield* opened((out) => {
        said = out
        out.write(": open\n\n")
        return () => closed.times++
      })
      yield* Effect.promise(() => once(request, "response"))
      request.destroy()
      while (closed.times === 0) yield* Effect.sleep(5)
      said?.write("data: to no reader\n\n")
      said?.end()
      yield* Effect.sleep(20)
      assert.strictEqual(closed.times, 1)
    })
  )

  it.scopedLive("is cut when its client does not read, so that what waits is bounded", () =>
    Effect.gen(function* () {
      const closed = { times: 0 }
      let said: Out | undefined
      const request = yield* opened((out) => {
        said = out
        out.write(": open\n\n")
        return () => closed.times++
      })
      const [answer] = (yield* Effect.promise(() => once(request, "response"))) as [Http.IncomingMessage]
      answer.pause()
      const part = "x".repeat(32 * 1024)
      let written = 0
      // Buffers of the two kernels and this client are some megabytes.
      for (; closed.times === 0 && written < 10_000; written++) {
        said?.write(part)
        yield* Effect.sleep(0)
      }
      assert.strictEqual(closed.times, 1)
    })
  )
})
