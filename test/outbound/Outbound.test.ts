import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Outbound } from "#src/outbound/Outbound.ts"
import * as TestApp from "#test/support/TestApp.ts"

const allows = (host: string, baseUrl: string) =>
  Effect.map(Outbound, (outbound) =>
    ["http://127.0.0.1:8080/hook", "http://localhost/hook", "https://127.0.0.1/hook"].some(outbound.allows)
  ).pipe(Effect.provide(Layer.provide(Outbound.Default, TestApp.config({ host, baseUrl }))))

describe("calls to this machine's own addresses", () => {
  it.effect("are allowed only where nothing but this machine reaches the server", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* allows("127.0.0.1", "http://127.0.0.1:4400"))
      assert.isTrue(yield* allows("::1", "http://[::1]:4400"))
      // A container listens everywhere; its public address says nothing about who reaches it.
      assert.isFalse(yield* allows("0.0.0.0", "http://127.0.0.1:4400"))
      assert.isFalse(yield* allows("::", "http://localhost:4400"))
      assert.isFalse(yield* allows("192.0.2.1", "http://127.0.0.1:4400"))
      // Behind a balancer on the same machine.
      assert.isFalse(yield* allows("127.0.0.1", "https://ampoule.example.com"))
    })
  )
})
