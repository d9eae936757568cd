/**
 * `AMPOULE_FUZZ_REQUESTS` requests (npm run test:fuzz: a million), from the seed `AMPOULE_FUZZ_SEED`. In the ordinary run
 * few, always the same.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Fuzzer from "./Fuzzer.ts"

const requests = Number(process.env["AMPOULE_FUZZ_REQUESTS"] ?? 2_500)
const seed = process.env["AMPOULE_FUZZ_SEED"] ?? "ampoule"
/** A report as JSON, when asked for one. */
const reportFile = process.env["AMPOULE_FUZZ_REPORT"]

const unlimited = TestApp.unlimited

/** Where webhooks of the fuzzer go. */
const receiver = Effect.acquireRelease(
  Effect.async<ReturnType<typeof createServer>>((resume) => {
    const server = createServer((request, response) => {
      request.resume()
      response.writeHead(204).end()
    }).listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) => Effect.sync(() => (server.closeAllConnections(), server.close()))
).pipe(
  Effect.map((server) => {
    const address = server.address()
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`
  })
)

layer(Layer.merge(unlimited, Crypto.Default), { excludeTestServices: true })("the server, fuzzed", (it) => {
  it.scoped(
    `answers ${requests} valid, wrong and hostile requests (seed ${seed}) as its documents say`,
    () =>
      Effect.gen(function* () {
        const report = yield* Fuzzer.run({
          seed,
          requests,
          receiver: yield* receiver,
          onProgress: (done) => reportFile !== undefined && process.stderr.write(`${done}\n`)
        })
        if (reportFile !== undefined) writeFileSync(reportFile, JSON.stringify(report, null, 2))
        const lines = report.findings.map(
          ({ answer, operation, problem, request, times }) =>
            `${operation}: ${problem} (${times} times)\n  ${request}\n  ${answer}`
        )
        assert.strictEqual(lines.join("\n"), "")
        assert.isAbove(report.succeeded / report.operations, 0.6, `never: ${report.neverSucceeded.join(", ")}`)
      }),
    Math.max(120_000, requests * 50)
  )
})
