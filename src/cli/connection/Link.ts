/** Connection to one server with one credential, for requests that need no typed group of the contract. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { isLoopbackHost } from "#src/net/Loopback.ts"
import {
  CliFailure,
  type ServerError,
  ServerRefused,
  ServerUnreachable,
  UnexpectedAnswer
} from "#src/cli/terminal/Failure.ts"
import { whileWaiting } from "#src/cli/terminal/Output.ts"
import { isProxyError } from "./Proxy.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import { type Response, TooLong, Transport } from "./Transport.ts"
import { version } from "#src/Release.ts"

/** Longest wait for one response, unless the command has its own. */
export const deadline = Duration.seconds(30)

/** Longest wait for a response, and for a sign of life meanwhile. */
interface Patience {
  readonly whole: Duration.Duration
  readonly silence?: Duration.Duration
}

interface LinkRequest {
  readonly method?: "GET" | "POST"
  readonly path: string
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: unknown
}

export interface Link {
  /** Without a trailing slash. */
  readonly url: string
  readonly credential: Option.Option<Redacted.Redacted>
  /** Of its own, instead of the usual one. */
  readonly patience: Patience | undefined
  /** Succeeds with 2xx and 304; every other status is a typed failure. */
  readonly ask: (question: LinkRequest) => Effect.Effect<Response, ServerError>
}

// Open: a later server may add members and codes (docs/contract/README.md).
export const envelope = Shape.struct({
  statusCode: Shape.number,
  code: Shape.string,
  message: Shape.string,
  field: Shape.optional(Shape.string)
})
const readEnvelope = Shape.json((input) =>
  Option.zipWith(envelope(input), Shape.record(Shape.unknown)(input), (members, all) => ({ known: members, all }))
)

const seconds = (text: unknown): number | undefined => {
  const n = typeof text === "number" ? text : typeof text === "string" && /^\d{1,6}$/.test(text) ? Number(text) : NaN
  return Number.isFinite(n) && n >= 0 ? n : undefined
}

interface RequestLine {
  readonly method: string
  /** With or without a query. */
  readonly url: string
}

const needsOf = ({ method, url }: RequestLine): "run" | "values" | "write" => {
  const [path = ""] = url.split("?")
  if (path.endsWith("/secrets/inject") || path.endsWith("/sealed-values/open")) return "run"
  return method === "GET" ? "values" : "write"
}

type Head = Pick<Response, "status" | "headers">

/** Page that the server names for the code (docs/contract/errors.md). A server of an earlier release names none. */
const docsOf = (server: string, code: string, header: string | undefined): string | undefined => {
  const path = `/docs/errors#${code}`
  return header === `<${path}>; rel="help"` ? `${server}${path}` : undefined
}

const refusal = (
  server: string,
  request: RequestLine,
  { headers, status }: Head,
  text: string
): ServerRefused | undefined => {
  const body = Option.getOrUndefined(readEnvelope(text))
  if (body === undefined) return undefined
  const { code, field, message } = body.known
  const { code: _code, field: _field, message: _message, statusCode: _status, ...details } = body.all
  const retryAfterSeconds = seconds(details["retryAfterSeconds"]) ?? seconds(headers["retry-after"])
  const requestId = headers["x-request-id"]
  const docs = docsOf(server, code, headers["link"])
  return new ServerRefused({
    status,
    code,
    message,
    details,
    ...(field === undefined ? {} : { field }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(requestId === undefined ? {} : { requestId }),
    ...(docs === undefined ? {} : { docs }),
    ...(code === "ENVIRONMENT_NOT_GRANTED" ? { needs: needsOf(request) } : {})
  })
}

const causeCode = (cause: unknown): string => {
  for (let at: unknown = cause, depth = 0; typeof at === "object" && at !== null && depth < 5; depth++) {
    if ("code" in at && typeof at.code === "string") return at.code
    at = "cause" in at ? at.cause : undefined
  }
  return ""
}

/** Sentences of our own, because a driver's message may quote the request (docs/security.md, "Lessons from others"). */
export const transportReason = (cause: unknown): string => {
  if (isProxyError(cause)) return cause.reason
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

const looksLikeHtml = ({ headers }: Head): boolean => (headers["content-type"] ?? "").includes("html")

/**
 * Fails when a command cannot use the response, before its body is decoded (docs/architecture.md, H8). `text`: the
 * body, read only for an error's explanation.
 */
export const checkStatus = <R>(
  server: string,
  request: RequestLine,
  head: Head,
  text: Effect.Effect<string, ServerError, R>
): Effect.Effect<void, ServerError, R> => {
  const { status } = head
  const unexpected = (reason: string) => new UnexpectedAnswer({ url: server, status, reason })
  if (status >= 200 && status < 300) return looksLikeHtml(head) ? unexpected("a web page instead of JSON") : Effect.void
  if (status === 304) return Effect.void
  if (status === 407) return unexpected("a proxy wants a user and password, as in http://user:password@host:port")
  if (status >= 300 && status < 400) return unexpected("a redirect, which is not followed with a credential")
  return Effect.flatMap(
    text,
    (body): Effect.Effect<never, ServerError> =>
      refusal(server, request, head, body) ??
      unexpected(looksLikeHtml(head) ? "a web page instead of JSON" : "not an answer of this service")
  )
}

/** Retries of a 429, which was not carried out and may be sent again. Bounded, because a person waits. */
const retries = { times: 3, longestSeconds: 10 }
export const afterRateLimit = <A, R>(
  self: Effect.Effect<A, ServerError, R>,
  remaining = retries.times
): Effect.Effect<A, ServerError, R> =>
  Effect.catchTag(self, "ServerRefused", (error) =>
    error.status === 429 && remaining > 0 && (error.retryAfterSeconds ?? 1) <= retries.longestSeconds
      ? Effect.zipRight(
          Effect.sleep(Duration.seconds(error.retryAfterSeconds ?? 1)),
          afterRateLimit(self, remaining - 1)
        )
      : Effect.fail(error)
  )

export const tooLong = (url: string, seconds = Duration.toSeconds(deadline)) =>
  new ServerUnreachable({ url, reason: `no answer within ${seconds} s` })

export interface LinkOptions {
  readonly url: string
  readonly credential?: Redacted.Redacted
  /** Session cookie of `setup`. */
  readonly cookie?: Redacted.Redacted
  /** Return a 429 at once: the caller has a better alternative than waiting. */
  readonly impatient?: boolean
  readonly patience?: Patience
  /** Print nothing during a long wait: the terminal belongs to another program. */
  readonly silent?: boolean
}

/** Headers of every request. */
export const headersOf = ({ cookie, credential }: LinkOptions): Readonly<Record<string, string>> => ({
  accept: "application/json",
  "user-agent": `ampoule-cli/${version}`,
  ...(credential === undefined ? {} : { authorization: `Bearer ${Redacted.value(credential)}` }),
  ...(cookie === undefined ? {} : { cookie: Redacted.value(cookie) })
})

/** Shown on a terminal during a long wait. */
export const waitingFor = (server: string): string => `Waiting for ${new URL(server).host} …`

const queryOf = (query: LinkRequest["query"] = {}): string => {
  const members = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  return members.length === 0 ? "" : `?${new URLSearchParams(members).toString()}`
}

export const link = (options: LinkOptions): Effect.Effect<Link, never, Transport> =>
  Effect.map(Transport, (transport) => {
    const { credential, impatient, patience, url: server } = options
    const silence = patience?.silence === undefined ? undefined : Duration.toMillis(patience.silence)
    const ask = ({ headers, json, method = "GET", path, query }: LinkRequest) => {
      const url = `${server}${path}${queryOf(query)}`
      const body = json === undefined ? undefined : JSON.stringify(json)
      const bodyHeaders = body === undefined ? {} : { "content-type": "application/json" }
      const attempt = transport
        .send({
          method,
          url,
          body,
          longest: Duration.toMillis(patience?.whole ?? deadline),
          silence,
          headers: { ...headersOf(options), ...bodyHeaders, ...headers }
        })
        .pipe(
          Effect.mapError(({ answered, cause }): ServerError => {
            if (cause instanceof TooLong) return tooLong(server, cause.seconds)
            const reason = answered ? "the answer broke off" : transportReason(cause)
            return new ServerUnreachable({ url: server, reason })
          }),
          Effect.tap((answer) => checkStatus(server, { method, url }, answer, Effect.succeed(answer.text)))
        )
      const exchange = options.silent === true ? attempt : whileWaiting(waitingFor(server))(attempt)
      return impatient === true ? exchange : afterRateLimit(exchange)
    }
    return { url: server, credential: Option.fromNullable(credential), patience, ask }
  })

/** Decoded body of a response. */
export const bodyOf = <A>({ url }: Link, { status, text }: Response, shape: Shape.Shape<A>) =>
  Effect.mapError(
    Shape.json(shape)(text),
    (): ServerError => new UnexpectedAnswer({ url, status, reason: "not an answer of this service" })
  )

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

/** True when others on the network could read the credential. */
export const isInTheClear = (url: string): boolean => {
  const { hostname, protocol } = new URL(url)
  return protocol === "http:" && !isLoopbackHost(hostname)
}
