/** Answers that leave together. */
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type ServerResponse } from "node:http"
import { Exchange } from "#src/http/engine/RequestContext.ts"
import * as Answer from "#src/http/engine/Answer.ts"
import { serve } from "#test/machines/LocalIssuer.ts"

const sent = { head: false, overTls: false }
const answer = HttpServerResponse.raw("hello", { contentType: "text/plain", contentLength: 5 })

describe("answers that are ready in one turn of the event loop", () => {
  it.scopedLive("leave together; one that cannot takes no other along", () =>
    Effect.gen(function* () {
      const waiting: Array<ServerResponse> = []
      const order: Array<string> = []
      const { url } = yield* serve((_, response) => {
        waiting.push(response)
        if (waiting.length < 3) return
        for (const [n, outgoing] of waiting.entries()) {
          const end = outgoing.end.bind(outgoing)
          outgoing.end = (...content: ReadonlyArray<unknown>) => {
            order.push(`${n} ends`)
            if (n === 1) throw new Error("it cannot leave")
            return end(...(content as [string]))
          }
          Effect.runSync(Answer.send(outgoing, answer, new Exchange("id", "127.0.0.1", null, "/"), sent))
          order.push(`${n} is ready`)
        }
      })
      const requests = Array.from({ length: 3 }, () =>
        fetch(url).then(
          (response) => response.text(),
          () => "cut off"
        )
      )
      assert.deepStrictEqual((yield* Effect.promise(() => Promise.all(requests))).toSorted(), [
        "cut off",
        "hello",
        "hello"
      ])
      assert.deepStrictEqual(order, ["0 is ready", "1 is ready", "2 is ready", "0 ends", "1 ends", "2 ends"])
    })
  )
})
