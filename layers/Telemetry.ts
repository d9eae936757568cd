/** Log lines on standard output, and optional traces and metrics. */
import * as OtlpMetrics from "@effect/opentelemetry/OtlpMetrics"
import * as OtlpSerialization from "@effect/opentelemetry/OtlpSerialization"
import * as OtlpTracer from "@effect/opentelemetry/OtlpTracer"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Tracer from "effect/Tracer"
import { randomUUID } from "node:crypto"
import { commit, version } from "#src/Release.ts"
import type { Settings } from "#src/AppConfig.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { causeText } from "#src/telemetry/CauseText.ts"
import * as Collectors from "#src/telemetry/Collectors.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"

const loggers = { json: Logger.json, logfmt: Logger.logFmt, pretty: Logger.pretty }

export const logging = ({ logFormat, logLevel }: Settings) =>
  Layer.merge(loggers[logFormat], Logger.minimumLogLevel(logLevel))

/** Exported attributes. Statements have placeholders for values. Other attributes of libraries are left out. */
const exportedAttributes = new Set([
  "http.request.method",
  "http.route",
  "http.response.status_code",
  "ampoule.request_id",
  "db.system.name",
  "db.operation.name",
  "db.query.text"
])

class SpanFailure extends Error {
  override readonly name = "Failure"
}

/** Reduces a failure to the names and places that the log has too, since its message may hold a value. */
const withoutMessage = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> => {
  if (Exit.isSuccess(exit) || Exit.isInterrupted(exit)) return exit
  const [what = "", ...places] = causeText(exit.cause).split("\n")
  const failure = new SpanFailure(what)
  failure.stack = [`Failure: ${what}`, ...places].join("\n")
  return Exit.fail(failure)
}

const failed = (status: unknown) => typeof status === "number" && status >= 500

/**
 * Exports only attributes that are known to be harmless (docs/architecture.md, S3), and only spans of a request. Work
 * for many requests at once does not belong to the trace of one.
 */
const guarded = (inner: Tracer.Tracer): Tracer.Tracer =>
  Tracer.make({
    context: inner.context,
    span(name, parent, context, links, startTime, kind, options) {
      const span = inner.span(name, parent, context, links, startTime, kind, options)
      const isExported = Option.match(parent, { onNone: () => kind === "server", onSome: ({ sampled }) => sampled })
      const { attribute, end } = span
      return Object.assign(span, {
        sampled: isExported,
        attribute: (key: string, value: unknown) => {
          if (exportedAttributes.has(key)) attribute.call(span, key, value)
        },
        // Log lines are written only as log lines.
        event: () => {},
        end: (endTime: bigint, exit: Exit.Exit<unknown, unknown>) => {
          if (!isExported) return
          const method = span.attributes.get("http.request.method")
          if (kind === "server" && method !== undefined) {
            Object.assign(span, { name: `${String(method)} ${String(span.attributes.get("http.route") ?? "")}`.trim() })
          }
          const status = span.attributes.get("http.response.status_code")
          end.call(
            span,
            endTime,
            failed(status) ? Exit.fail(new SpanFailure(`HTTP ${String(status)}`)) : withoutMessage(exit)
          )
        }
      })
    }
  })

const headersOf = (text: Redacted.Redacted): Record<string, string> =>
  Object.fromEntries(
    Redacted.value(text)
      .split(",")
      .map((pair) => {
        const mark = pair.indexOf("=")
        return [pair.slice(0, mark).trim(), decodeURIComponent(pair.slice(mark + 1).trim())]
      })
  )

/** Intervals of exports. */
export interface Pace {
  readonly spans: Duration.DurationInput
  readonly metrics: Duration.DurationInput
}

/** Without a collector no span is created. */
export const exporting = (settings: Settings, pace: Pace = { spans: "5 seconds", metrics: "10 seconds" }) =>
  Option.match(settings.otlpEndpoint, {
    onNone: () => Layer.setTracerEnabled(false),
    onSome: (endpoint) => {
      const base = endpoint.replace(/\/+$/, "")
      const shared = {
        headers: Option.match(settings.otlpHeaders, { onNone: () => ({}), onSome: headersOf }),
        // Each process counts separately.
        resource: {
          serviceName: settings.serviceName,
          serviceVersion: version,
          attributes: { "service.instance.id": randomUUID() }
        },
        shutdownTimeout: "2 seconds"
      } as const
      const tracer = OtlpTracer.make({ ...shared, url: `${base}/v1/traces`, exportInterval: pace.spans })
      return Layer.mergeAll(
        Layer.unwrapScoped(Effect.map(tracer, (tracer) => Layer.setTracer(guarded(tracer)))),
        OtlpMetrics.layer({ ...shared, url: `${base}/v1/metrics`, exportInterval: pace.metrics }),
        Layer.scopedDiscard(Housekeeping.every(pace.metrics, Effect.sync(Collectors.collect)))
      ).pipe(Layer.provide([OtlpSerialization.layerJson, FetchHttpClient.layer]))
    }
  })

/** True when the metrics of this server are read. */
export const measured = (settings: Settings) =>
  Option.isSome(settings.metricsPort) || Option.isSome(settings.otlpEndpoint)

/** Metrics of each process, if they are read. */
export const process = (settings: Settings) =>
  measured(settings)
    ? Layer.scopedDiscard(
        Effect.zipRight(
          Effect.sync(() => Metrics.build(version, commit)),
          Collectors.process
        )
      )
    : Layer.empty

const timed = (call: string) => {
  return <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      const started = performance.now()
      const done = (outcome: "ok" | "unavailable" | "refused") =>
        Effect.sync(() => Metrics.vaultCalled(call, outcome, performance.now() - started))
      return Effect.tapBoth(effect, {
        onFailure: (error) => done(error._tag === "VaultUnavailable" ? "unavailable" : "refused"),
        onSuccess: () => done("ok")
      })
    })
}

/** The same vault with counted and timed calls. */
export const vault = (inner: Context.Tag.Service<Vault>): Context.Tag.Service<Vault> => ({
  ...inner,
  generateDataKey: (context) => timed("generate")(inner.generateDataKey(context)),
  unwrap: (context, wrapped, rootKeyId) => timed("unwrap")(inner.unwrap(context, wrapped, rootKeyId)),
  rewrap: (context, wrapped, rootKeyId) => timed("rewrap")(inner.rewrap(context, wrapped, rootKeyId)),
  wrapBytes: (context, bytes) => timed("wrap-bytes")(inner.wrapBytes(context, bytes)),
  unwrapBytes: (context, wrapped, rootKeyId) => timed("unwrap-bytes")(inner.unwrapBytes(context, wrapped, rootKeyId)),
  macAuditHead: (head) => timed("mac")(inner.macAuditHead(head)),
  auditHeadMatches: (head, mac) => timed("mac-check")(inner.auditHeadMatches(head, mac)),
  status: timed("status")(inner.status)
})
