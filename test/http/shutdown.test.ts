import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as Net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { Probe } from "#src/trail/Probe.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import * as Server from "#src/http/engine/Server.ts"
import * as Shutdown from "#src/http/engine/Shutdown.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"

const Lasting = HttpApi.make("lasting").add(
  HttpApiGroup.make("lasting")
    .add(HttpApiEndpoint.get("slow", "/slow").addSuccess(Schema.Struct({ done: Schema.Boolean })))
    .add(HttpApiEndpoint.get("events", "/events").addSuccess(Schema.String))
)

/** Tells when a request has reached its handler, and lets the slow one go on. */
class Gate extends Context.Tag("test/Gate")<
  Gate,
  { readonly entered: Deferred.Deferred<void>; readonly open: Deferred.Deferred<void> }
>() {}
const gate = Layer.effect(Gate, Effect.all({ entered: Deferred.make<void>(), open: Deferred.make<void>() }))

const handlers = Endpoints.group(Lasting, "lasting", (handlers) =>
  Effect.gen(function* () {
    const { entered, open } = yield* Gate
    const { deferred } = yield* Shutdown.Shutdown
    return handlers
      .handle("slow", () =>
        Deferred.succeed(entered, undefined).pipe(Effect.zipRight(Deferred.await(open)), Effect.as({ done: true }))
      )
      .handle("events", () => {
        const beats = Stream.repeat(Stream.make(": beat\n\n"), Schedule.spaced("20 millis"))
        const stream = Stream.encodeText(Stream.interruptWhenDeferred(beats, deferred))
        return Effect.succeed(HttpServerResponse.stream(stream, { contentType: "text/event-stream" }))
      })
  })
)

const lasting = Server.layer({ host: "127.0.0.1", port: 0, traced: false }).pipe(
  Layer.provide(HttpApiBuilder.api(Lasting)),
  Layer.provide(handlers),
  Layer.provide(Shutdown.layer),
  Layer.provide(Layer.succeed(Probe, Probe.make({ check: Effect.void, doubt: () => {} }))),
  Layer.provide(Layer.mergeAll(RateLimiter.Default, TestApp.config())),
  Layer.provide(Layer.mergeAll(RateLimitMemory.layer, Crypto.Default)),
  Layer.provideMerge(gate)
)

const connect = (port: number) =>
  Effect.async<Net.Socket, Error>((resume) => {
    const socket = Net.connect(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
    socket.on("error", (error) => resume(Effect.fail(error)))
  })
const closed = (socket: Net.Socket) =>
  Effect.async<void>((resume) => {
    if (socket.closed) return resume(Effect.void)
    socket.resume()
    socket.once("close", () => resume(Effect.void))
  })

describe("a server that stops", () => {
  it.live("answers what it took on, ends its streams, drops idle connections and takes nothing new", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(lasting, scope)
      const { port } = Context.get(context, Server.Listening)
      const { entered, open } = Context.get(context, Gate)

      const slow = yield* Effect.fork(Effect.provide(TestApp.get("/slow"), context))
      const events = yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}/events`))
      const silent = yield* connect(port)
      const idle = yield* connect(port)
      idle.write("GET /nope HTTP/1.1\r\nHost: a\r\n\r\n")
      yield* Effect.async<void>((resume) => void idle.once("data", () => resume(Effect.void)))
      yield* Deferred.await(entered)

      const stopping = yield* Effect.fork(Scope.close(scope, Exit.void))
      const streamed = yield* Effect.promise(() => events.text())
      assert.include(streamed, ": beat")
      yield* closed(silent)
      yield* closed(idle)
      const late = yield* Effect.exit(connect(port))
      assert.isTrue(Exit.isFailure(late))

      yield* Deferred.succeed(open, undefined)
      const answer = yield* slow
      assert.deepStrictEqual([answer.status, answer.json], [200, { done: true }])
      yield* stopping
    })
  )
})

describe("the program", () => {
  it.live(
    "starts on an empty folder, opens its port when ready, ignores SIGUSR1, stops in order on SIGTERM, starts again",
    () =>
      Effect.gen(function* () {
        const build = yield* Release.dist
        const dataDir = fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-test-"))
        yield* Effect.addFinalizer(() => Effect.sync(() => fs.rmSync(dataDir, { recursive: true, force: true })))
        const port = yield* freePort

        const start = Effect.gen(function* () {
          const child = spawn(process.execPath, [path.join(build, "ampoule.cjs"), "server"], {
            env: {
              AMPOULE_PORT: String(port),
              AMPOULE_DATA_DIR: path.join(dataDir, "data"),
              PATH: process.env["PATH"]
            },
            stdio: ["ignore", "pipe", "pipe"]
          })
          yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
          let output = ""
          const listening = new Promise<void>((resolve, reject) => {
            for (const stream of [child.stdout, child.stderr]) {
              stream.setEncoding("utf8").on("data", (text: string) => {
                output += text
                if (output.includes("survives")) resolve()
              })
            }
            child.once("exit", () => reject(new Error(output)))
          })
          const ended = new Promise<number | null>((resolve) => child.once("close", resolve))
          yield* Effect.promise(() => listening)
          const ready = yield* Effect.promise(async () => (await fetch(`http://127.0.0.1:${port}/health/ready`)).status)
          assert.strictEqual(ready, 200)
          return { child, ended, output: () => output }
        })

        const first = yield* start
        const setup = /http:\S+\/setup\?code=amp_su_\w+/.exec(first.output())?.[0]
        assert.isDefined(setup)
        assert.strictEqual(fs.readFileSync(path.join(dataDir, "data/setup-url"), "utf8").trim(), setup)
        assert.strictEqual(fs.statSync(path.join(dataDir, "data/setup-url")).mode & 0o777, 0o600)
        first.child.kill("SIGUSR1")
        first.child.kill("SIGTERM")
        assert.strictEqual(yield* Effect.promise(() => first.ended), 0)
        assert.notInclude(first.output(), "Debugger")

        const second = yield* start
        assert.include(second.output(), setup)
        second.child.kill("SIGINT")
        assert.strictEqual(yield* Effect.promise(() => second.ended), 0)
      }).pipe(Effect.scoped),
    180_000
  )
})
