/**
 * One server, one credential, and what it can answer. The typed groups of the contract are built on `Connection.http`.
 */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { pipe } from "effect/Function"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import { CliFailure, type ServerError, ServerRefused, ServerUnreachable, UnexpectedAnswer } from "./Failure.ts"
import { ProxyError } from "./Proxy.ts"
import { version } from "./Version.ts"

/** Longest wait for one answer. */
const deadline = Duration.seconds(30)
const userAgent = `ampoule-cli/${version}`

export interface Connection {
  /** Without a trailing slash. */
  readonly url: string
  readonly credential: Option.Option<Redacted.Redacted>
  readonly http: HttpClient.HttpClient.With<ServerError>
}

// Open: a later server may add members, and codes that this release does not know (docs/contract/README.md).
const Envelope = Schema.parseJson(
  Schema.Struct(
    { statusCode: Schema.Number, code: Schema.String, message: Schema.String, field: Schema.optional(Schema.String) },
    { key: Schema.String, value: Schema.Unknown }
  )
)
const decodeEnvelope = Schema.decodeUnknownOption(Envelope)

const seconds = (text: unknown): number | undefined => {
  const n = typeof text === "number" ? text : typeof text === "string" && /^\d{1,6}$/.test(text) ? Number(text) : NaN
  return Number.isFinite(n) && n >= 0 ? n : undefined
}

const needsOf = ({ method, url }: HttpClientRequest.HttpClientRequest): "run" | "values" | "write" => {
  if (url.endsWith("/secrets/inject") || url.endsWith("/sealed-values/open")) return "run"
  return method === "GET" ? "values" : "write"
}

const refusal = (response: HttpClientResponse.HttpClientResponse, body: typeof Envelope.Type): ServerRefused => {
  const { code, field, message, statusCode: _, ...details } = body
  const retryAfterSeconds = seconds(details["retryAfterSeconds"]) ?? seconds(response.headers["retry-after"])
  const requestId = response.headers["x-request-id"]
  return new ServerRefused({
    status: response.status,
    code,
    message,
    details,
    ...(field === undefined ? {} : { field }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(requestId === undefined ? {} : { requestId }),
    ...(code === "ENVIRONMENT_NOT_GRANTED" ? { needs: needsOf(response.request) } : {})
  })
}

const causeCode = (cause: unknown): string => {
  for (let at: unknown = cause, depth = 0; typeof at === "object" && at !== null && depth < 5; depth++) {
    if ("code" in at && typeof at.code === "string") return at.code
    at = "cause" in at ? at.cause : undefined
  }
  return ""
}

/** Sentences of our own: what a driver says may hold the request (docs/security.md, "Lessons from others"). */
const transportReason = (cause: unknown): string => {
  if (cause instanceof ProxyError) return cause.told
  const code = causeCode(cause)
  switch (code) {
    case "ECONNREFUSED":
      return "nothing listens there"
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "the host name is not known"
    case "ETIMEDOUT":
    case "UND_ERR_CONNECT_TIMEOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return "the host does not answer"
    case "ECONNRESET":
    case "EPIPE":
    case "UND_ERR_SOCKET":
      return "the connection was closed"
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
      return "it does not speak TLS there (http instead of https?)"
    default:
      if (code.startsWith("HPE_")) return "it does not speak HTTP there (https instead of http?)"
      return /CERT|SELF_SIGNED|UNABLE_TO|ALTNAME/.test(code)
        ? `its TLS certificate is not trusted (${code}); NODE_EXTRA_CA_CERTS can name a file with the authority of your network`
        : "the request failed"
  }
}

const fromClient =
  (url: string) =>
  (error: HttpClientError.HttpClientError): ServerError => {
    if (error._tag === "RequestError") return new ServerUnreachable({ url, reason: transportReason(error.cause) })
    return new UnexpectedAnswer({ url, status: error.response.status, reason: "the answer could not be read" })
  }

const looksLikeHtml = (response: HttpClientResponse.HttpClientResponse): boolean =>
  (response.headers["content-type"] ?? "").includes("html")

/**
 * Lets 2xx and 304 through; everything else becomes a typed failure before a schema sees it (docs/architecture.md, H8).
 */
const checked = (
  url: string,
  response: HttpClientResponse.HttpClientResponse
): Effect.Effect<HttpClientResponse.HttpClientResponse, ServerError> => {
  const unexpected = (reason: string) => Effect.fail(new UnexpectedAnswer({ url, status: response.status, reason }))
  if (response.status >= 200 && response.status < 300) {
    return looksLikeHtml(response) ? unexpected("a web page instead of JSON") : Effect.succeed(response)
  }
  if (response.status === 304) return Effect.succeed(response)
  if (response.status === 407)
    return unexpected("a proxy wants a user and password, as in http://user:password@host:port")
  if (response.status >= 300 && response.status < 400)
    return unexpected("a redirect, which is not followed with a credential")
  return response.text.pipe(
    Effect.mapError(fromClient(url)),
    Effect.flatMap((text) => {
      const body = decodeEnvelope(text)
      if (Option.isSome(body)) return Effect.fail<ServerError>(refusal(response, body.value))
      return unexpected(looksLikeHtml(response) ? "a web page instead of JSON" : "not an answer of this service")
    })
  )
}

/** Refused for now: the request was not carried out, so it may be sent again. Bounded: a person waits. */
const patience = { times: 3, longestSeconds: 10 }
const afterRateLimit = <A, R>(
  self: Effect.Effect<A, ServerError, R>,
  left = patience.times
): Effect.Effect<A, ServerError, R> =>
  Effect.catchTag(self, "ServerRefused", (error) =>
    error.status === 429 && left > 0 && (error.retryAfterSeconds ?? 1) <= patience.longestSeconds
      ? Effect.zipRight(Effect.sleep(Duration.seconds(error.retryAfterSeconds ?? 1)), afterRateLimit(self, left - 1))
      : Effect.fail(error)
  )

interface ConnectOptions {
  readonly url: string
  readonly credential?: Redacted.Redacted
  /** Cookie of a session that the command itself opened (`setup`). */
  readonly cookie?: Redacted.Redacted
  /** Answer a 429 at once: the caller has something better to do than wait. */
  readonly impatient?: boolean
}

export const connect = ({
  cookie,
  credential,
  impatient,
  url
}: ConnectOptions): Effect.Effect<Connection, never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (client) => {
    const answered = (
      attempt: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>
    ) => {
      const once = attempt.pipe(
        Effect.mapError(fromClient(url)),
        Effect.flatMap((response) => checked(url, response)),
        Effect.timeoutFail({
          duration: deadline,
          onTimeout: () => new ServerUnreachable({ url, reason: `no answer within ${Duration.toSeconds(deadline)} s` })
        })
      )
      return impatient === true ? once : afterRateLimit(once)
    }
    const http = client.pipe(
      HttpClient.mapRequest((request) =>
        pipe(
          request,
          HttpClientRequest.prependUrl(url),
          HttpClientRequest.setHeaders({ accept: "application/json", "user-agent": userAgent }),
          credential === undefined ? (r) => r : HttpClientRequest.bearerToken(credential),
          cookie === undefined ? (r) => r : HttpClientRequest.setHeader("cookie", Redacted.value(cookie))
        )
      ),
      HttpClient.transformResponse(answered)
    )
    return { url, credential: Option.fromNullable(credential), http }
  })

/**
 * One call of a typed group. What the schema of the group refuses is an unexpected answer; its message would quote the
 * body and is dropped (docs/architecture.md, S1).
 */
export const call = <A, E, R>(
  connection: Connection,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, ServerError, R> =>
  Effect.mapError(effect, (error): ServerError => {
    if (error instanceof ServerRefused || error instanceof ServerUnreachable || error instanceof UnexpectedAnswer) {
      return error
    }
    if (ParseResult.isParseError(error)) {
      return new UnexpectedAnswer({ url: connection.url, status: 200, reason: "not an answer of this service" })
    }
    if (HttpClientError.isHttpClientError(error)) return fromClient(connection.url)(error)
    return new UnexpectedAnswer({ url: connection.url, status: 0, reason: "an answer of an unknown kind" })
  })

/** The body of an answer to a request that was made without the typed groups. */
export const readBody = Effect.fnUntraced(function* <A>(
  { url }: Connection,
  response: HttpClientResponse.HttpClientResponse,
  schema: Schema.Schema<A, string>
) {
  const text = yield* Effect.mapError(
    response.text,
    (): ServerError => new ServerUnreachable({ url, reason: "the answer broke off" })
  )
  return yield* Effect.mapError(
    Schema.decodeUnknown(schema)(text),
    (): ServerError => new UnexpectedAnswer({ url, status: response.status, reason: "not an answer of this service" })
  )
})

/** A server address as a person types it: http or https, no query, no trailing slash. */
export const parseAddress = (text: string): Effect.Effect<string, CliFailure> => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const good =
    url !== undefined &&
    (url.protocol === "https:" || url.protocol === "http:") &&
    url.username === "" &&
    url.password === "" &&
    url.search === "" &&
    url.hash === ""
  return good
    ? Effect.succeed(`${url.origin}${url.pathname.replace(/\/+$/, "")}`)
    : Effect.fail(
        new CliFailure({
          message: "The server address is not an http or https URL.",
          hint: "Write it like https://ampoule.example.com (AMPOULE_URL or --url).",
          exitCode: 2
        })
      )
}

/** Whether the credential would travel readable by others. */
export const isInTheClear = (url: string): boolean => {
  const { hostname, protocol } = new URL(url)
  return protocol === "http:" && !isLoopbackHost(hostname)
}
