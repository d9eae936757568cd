/**
 * Endpoints run from their declaration (`src/http/engine/Endpoints.ts`) as the platform would run them: the same requests go to
 * two servers over one database, one of which has the platform's own runtime, and every answer is the same to the byte.
 * What changed something is not asked twice.
 */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import type { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpRouter from "@effect/platform/HttpRouter"
import { assert, layer } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RouteMaker } from "#src/http/engine/Endpoints.ts"
import { validationFailed } from "#src/http/engine/ErrorEnvelope.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import * as Exchange from "#test/fuzz/Exchange.ts"
import * as Fuzzer from "#test/fuzz/Fuzzer.ts"
import type { Request } from "#test/fuzz/Inputs.ts"
import * as Sampled from "#test/support/Sampled.ts"
import * as TestApp from "#test/support/TestApp.ts"

const isDecodeError = (error: unknown): error is HttpApiDecodeError => Predicate.isTagged(error, "HttpApiDecodeError")

/** A route as `HttpApiBuilder` makes it, from the same declaration and the same handler. */
const platformRoute: RouteMaker["Type"] = ({ endpoint, handler, withFullRequest }, services) => {
  // One endpoint of any kind: what its handler takes and returns was checked where it was written.
  const one = endpoint as HttpApiEndpoint.HttpApiEndpoint<"one", "GET">
  const api = HttpApi.make("alone").add(HttpApiGroup.make("alone").add(one))
  const name = endpoint.name as "one"
  const routes = HttpApiBuilder.group(api, "alone", (handlers) =>
    withFullRequest ? handlers.handleRaw(name, handler as never) : handlers.handle(name, handler as never)
  )
  const built = Effect.gen(function* () {
    const context = yield* Layer.build(Layer.provideMerge(routes, HttpApiBuilder.Router.Live))
    return Chunk.unsafeHead((yield* Context.get(context, HttpApiBuilder.Router).router).routes)
  })
  const {
    handler: answer,
    method,
    path
  } = Effect.runSync(
    // The services of the endpoint's guards; the platform's types do not say which.
    Effect.scoped(Effect.provide(built, services)) as Effect.Effect<Effect.Effect.Success<typeof built>>
  )
  const worded = Effect.catchIf(answer as Effect.Effect<never, unknown>, isDecodeError, ({ issues }) =>
    validationFailed(issues)
  )
  return HttpRouter.makeRoute(method, path, worded)
}

class Platform extends Context.Tag("test/Platform")<Platform, Listening["Type"]>() {}
const platform = Layer.fresh(TestApp.server).pipe(
  Layer.provide(Layer.succeed(RouteMaker, platformRoute)),
  Layer.map((context) => Context.make(Platform, Context.get(context, Listening)))
)
const both = Layer.merge(TestApp.server, platform).pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config())),
  Layer.provide(Layer.succeed(RateLimits, "off"))
)

const requests = Number(process.env["AMPOULE_FUZZ_REQUESTS"] ?? Sampled.cases(2_500, 1_000))

/** Of each answer its own. */
const volatile = new Set(["x-request-id", "date"])
/** Values that may change between two requests: how far a report reaches, and when a credential was used last. */
const moving = /"(upTo|checkedAt|lastUsedAt|lastSeenAt)":("[^"]*"|null)/g
const comparable = ({ headers, status, text }: Exchange.Answer) =>
  JSON.stringify([
    status,
    Object.entries(headers)
      .filter(([header]) => !volatile.has(header))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
    text.replace(moving, "$1")
  ])

layer(Layer.merge(both, Crypto.Default), { excludeTestServices: true })("an endpoint", (it) => {
  it.scoped(
    `answers as the platform's own runtime does, over ${requests} requests`,
    () =>
      Effect.gen(function* () {
        const { port } = yield* Platform
        const agent = Exchange.agent()
        let compared = 0
        const again = (request: Request, answer: Exchange.Answer) =>
          Effect.map(
            Effect.promise(() => Exchange.send(agent, port, request)),
            (other) => {
              if ("trouble" in other) return [`the platform: ${other.trouble}`]
              compared++
              const [ours, theirs] = [comparable(answer), comparable(other)]
              return ours === theirs ? [] : [`not as the platform: ${theirs.slice(0, 800)}`]
            }
          )
        const { findings } = yield* Fuzzer.run({
          seed: "declared",
          requests,
          receiver: "http://127.0.0.1:9",
          again
        })
        agent.destroy()
        const lines = findings.map(({ answer, operation, problem, request, times }) =>
          [`${operation}: ${problem} (${times} times)`, request, answer].join("\n  ")
        )
        assert.strictEqual(lines.join("\n"), "")
        assert.isAbove(compared, requests / 2)
      }),
    Math.max(240_000, requests * 100)
  )
})
