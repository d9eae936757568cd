import { assert, describe, layer } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import * as Net from "node:net"
import * as Server from "#layers/Server.ts"
import { Listening } from "#src/http/engine/Server.ts"
import * as TestApp from "#test/support/TestApp.ts"

const app = Server.layer({ host: "127.0.0.1", port: 0, traced: false, stalledMillis: 1_000 }).pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config()))
)

/** The server's end of connections made from now on. */
const serverSockets = (seen: (socket: Net.Socket) => void) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const listener = (message: unknown) => seen((message as { readonly socket: Net.Socket }).socket)
      subscribe("net.server.socket", listener)
      return listener
    }),
    (listener) => Effect.sync(() => unsubscribe("net.server.socket", listener))
  )

describe("a reader that stops reading", () => {
  layer(app, { excludeTestServices: true })((it) => {
    it.scoped("is cut, with what was kept for it", () =>
      Effect.gen(function* () {
        const { port } = yield* Listening
        const cut = yield* Deferred.make<number>()
        yield* serverSockets((socket) => {
          socket.once("close", () => Deferred.unsafeDone(cut, Effect.succeed(socket.bytesWritten)))
        })
        yield* Effect.acquireRelease(
          Effect.sync(() => {
            const client = Net.connect(port, "127.0.0.1").on("error", () => {})
            client.pause()
            // More than the buffers between the two hold.
            client.write("GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(300))
            return client
          }),
          (client) => Effect.sync(() => client.destroy())
        )
        assert.isAbove(yield* Deferred.await(cut), 0)
      })
    )
  })
})
