/** What the server says of itself: log lines on standard output, and traces and metrics where an endpoint is configured. */
import * as Otlp from "@effect/opentelemetry/Otlp"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { version } from "#schema/Api.ts"
import type { Settings } from "#src/AppConfig.ts"

const loggers = { json: Logger.json, logfmt: Logger.logFmt, pretty: Logger.pretty }

export const logging = ({ logFormat, logLevel }: Settings) =>
  Layer.merge(loggers[logFormat], Logger.minimumLogLevel(logLevel))

/** The variable of the OpenTelemetry specification. */
export const endpoint = Config.option(Config.nonEmptyString("OTEL_EXPORTER_OTLP_ENDPOINT")).pipe(
  Effect.orElseSucceed(() => Option.none<string>())
)

/** Spans carry routes, ids and key names: never a value (architecture S3). */
export const tracing = (endpoint: Option.Option<string>) =>
  Option.match(endpoint, {
    onNone: () => Layer.empty,
    onSome: (baseUrl) =>
      Layer.provide(
        Otlp.layerJson({ baseUrl, resource: { serviceName: "ampoule", serviceVersion: version } }),
        NodeHttpClient.layerUndici
      )
  })
