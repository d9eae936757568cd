/**
 * `/metrics` on a separate port, off by default, readable by everyone who can reach it. With several workers the
 * primary listens and collects from each, so that one scrape shows all samples, labelled by worker.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import cluster, { type Worker } from "node:cluster"
import * as Http from "node:http"
import { type Settings, StartRefused } from "#src/AppConfig.ts"
import * as Prometheus from "#src/telemetry/Prometheus.ts"

const listen = (server: Http.Server, host: string, port: number) =>
  Effect.async<void, StartRefused>((resume) => {
    server.once("error", () =>
      resume(
        new StartRefused({
          message: `Cannot listen on port ${port} of ${host}; check AMPOULE_METRICS_HOST and AMPOULE_METRICS_PORT.`
        })
      )
    )
    server.listen(port, host, () => resume(Effect.void))
  })

const serve = (settings: Settings, families: Effect.Effect<ReadonlyArray<Prometheus.Family>>) =>
  Option.match(settings.metricsPort, {
    onNone: () => Layer.empty,
    onSome: (port) =>
      Layer.scopedDiscard(
        Effect.gen(function* () {
          const runFork = Runtime.runFork(yield* Effect.runtime<never>())
          const server = Http.createServer((request, response) => {
            if (request.method !== "GET" || request.url !== "/metrics") return response.writeHead(404).end()
            return runFork(
              Effect.map(families, (metrics) =>
                response
                  .writeHead(200, { "content-type": Prometheus.contentType, "cache-control": "no-store" })
                  .end(Prometheus.render(metrics))
              )
            )
          })
          yield* Effect.acquireRelease(listen(server, settings.metricsHost, port), () =>
            Effect.sync(() => {
              server.close()
              server.closeAllConnections()
            })
          )
        })
      )
  })

/** Listener of a single process. */
export const layer = (settings: Settings) => serve(settings, Effect.sync(Prometheus.families))

interface Question {
  readonly ampouleMetrics: "asked"
  readonly id: number
}
interface MetricsResponse {
  readonly ampouleMetrics: "answered"
  readonly id: number
  readonly families: ReadonlyArray<Prometheus.Family>
}
const isQuestion = (message: unknown): message is Question =>
  typeof message === "object" && message !== null && "ampouleMetrics" in message && message.ampouleMetrics === "asked"
const isAnswer = (message: unknown, id: number): message is MetricsResponse =>
  typeof message === "object" &&
  message !== null &&
  "ampouleMetrics" in message &&
  message.ampouleMetrics === "answered" &&
  "id" in message &&
  message.id === id

let questions = 0

/** A worker without an answer (it stops, or hangs) is left out, which ends its series. */
const ask = (worker: Worker) =>
  Effect.async<ReadonlyArray<Prometheus.Family>>((resume) => {
    const id = ++questions
    const onMessage = (message: unknown) => {
      if (!isAnswer(message, id)) return
      worker.off("message", onMessage)
      resume(Effect.succeed(message.families))
    }
    worker.on("message", onMessage)
    worker.send({ ampouleMetrics: "asked", id } satisfies Question, () => {})
    return Effect.sync(() => void worker.off("message", onMessage))
  }).pipe(
    Effect.timeoutOption("1 second"),
    Effect.map(Option.map((families) => [String(worker.id), families] as const))
  )

/** Process metrics of the primary. Its other metrics have values from the start that never change. */
const primaryMetrics = /^(?:process_|nodejs_|ampoule_build_info$)/

/** In the primary: its own state as worker `0`, and that of all workers. */
export const layerOfWorkers = (settings: Settings) =>
  serve(
    settings,
    Effect.suspend(() =>
      Effect.forEach(
        Object.values(cluster.workers ?? {}).filter((worker) => worker?.isConnected() === true),
        (worker) => (worker === undefined ? Effect.succeedNone : ask(worker)),
        { concurrency: "unbounded" }
      )
    ).pipe(
      Effect.map((answers) =>
        Prometheus.mergeProcesses("worker", [
          ["0", Prometheus.families().filter(({ name }) => primaryMetrics.test(name))],
          ...answers.flatMap((answer) => (Option.isSome(answer) ? [answer.value] : []))
        ])
      )
    )
  )

/** In a worker: answers the primary. */
export const layerWorker = Layer.scopedDiscard(
  Effect.acquireRelease(
    Effect.sync(() => {
      const onMessage = (message: unknown) => {
        if (!isQuestion(message) || !process.connected) return
        const answer: MetricsResponse = { ampouleMetrics: "answered", id: message.id, families: Prometheus.families() }
        process.send?.(answer)
      }
      process.on("message", onMessage)
      return onMessage
    }),
    (onMessage) => Effect.sync(() => void process.off("message", onMessage))
  )
)
