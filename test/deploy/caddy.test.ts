/** The balancer's file, tried with Caddy itself where there is one. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { spawn, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import * as http from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "#test/support/FreePort.ts"
import { bodyOf, TextsByName } from "#test/support/Json.ts"

const available = spawnSync("caddy", ["version"], { stdio: "ignore" }).status === 0

/** Says who it is and what it was asked; `/stream` goes on after its first event. */
const upstream = Effect.acquireRelease(
  Effect.async<{ readonly port: number; readonly close: () => void }>((resume) => {
    const server = http.createServer((request, response) => {
      if (request.url === "/stream") {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.write("event: connected\n\n")
        return
      }
      response.writeHead(200, { "content-type": "application/json" })
      response.end(JSON.stringify({ port, headers: request.headers }))
    })
    let port = 0
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      port = typeof address === "object" && address !== null ? address.port : 0
      const close = () => {
        server.closeAllConnections()
        server.close()
      }
      resume(Effect.succeed({ port, close }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

describe.skipIf(!available)("the Caddyfile", () => {
  it.scopedLive(
    "takes turns, moves on from a process that is gone, passes events on at once, and believes no client",
    () =>
      Effect.gen(function* () {
        const [first, second] = [yield* upstream, yield* upstream]
        const folder = yield* Effect.acquireRelease(
          Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-caddy-"))),
          (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
        )
        const file = join(folder, "Caddyfile")
        const text = readFileSync("deploy/Caddyfile", "utf8")
        assert.include(text, "api-1:4400 api-2:4400")
        writeFileSync(file, text.replace("api-1:4400 api-2:4400", `127.0.0.1:${first.port} 127.0.0.1:${second.port}`))
        const port = yield* freePort
        yield* Effect.acquireRelease(
          Effect.sync(() =>
            spawn("caddy", ["run", "--config", file, "--adapter", "caddyfile"], {
              env: { PATH: process.env["PATH"], HOME: folder, SITE_ADDRESS: `http://127.0.0.1:${port}` },
              stdio: "ignore"
            })
          ),
          (child) => Effect.sync(() => child.kill("SIGKILL"))
        )
        const url = `http://127.0.0.1:${port}`
        const get = Effect.tryPromise(async (signal) => {
          const response = await fetch(`${url}/health/live`, { signal, headers: { "x-forwarded-for": "203.0.113.9" } })
          if (response.status !== 200) throw new Error(String(response.status))
          return bodyOf(Schema.Struct({ port: Schema.Number, headers: TextsByName }), response)
        })
        const answer = yield* Effect.retry(get, Schedule.spaced("100 millis"))
        assert.strictEqual(answer.headers["x-forwarded-for"], "127.0.0.1")
        const served = new Set((yield* Effect.replicateEffect(get, 6)).map(({ port }) => port))
        assert.deepStrictEqual(served, new Set([first.port, second.port]))

        const stream = yield* Effect.promise((signal) => fetch(`${url}/stream`, { signal }))
        const reader = stream.body?.getReader()
        const event = yield* Effect.promise(async () => new TextDecoder().decode((await reader?.read())?.value))
        assert.include(event, "event: connected")
        yield* Effect.promise(async () => reader?.cancel())

        first.close()
        const after = new Set((yield* Effect.replicateEffect(get, 6)).map(({ port }) => port))
        assert.deepStrictEqual(after, new Set([second.port]))
      }),
    60_000
  )
})
