/** One server, one credential, and what it can answer: to requests that need no typed group of the contract. */
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
import { type Answer, TooLong, Transport } from "./Transport.ts"
import { version } from "#src/cli/terminal/Version.ts"

/** Longest wait for one answer. */
export const deadline = Duration.seconds(30)

export interface Question {
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
  /** 2xx and 304; everything else is a typed failure. */
  readonly ask: (question: Question) => Effect.Effect<Answer, ServerError>
}

// Open: a later server may add members, and codes that this release does not know (docs/contract/README.md).
const envelope = Shape.struct({
  statusCode: Shape.number,
  code: Shape.string,
  message: Shape.string,
  field: Shape.optional(Shape.string)
})
const readEnvelope = Shape.json((input) =>
  Option.zipWith(envelope(input), Shape.record(Shape.unknown)(input), (known, all) => ({ known, all }))
)

const seconds = (text: unknown): number | undefined => {
  const n = typeof text === "number" ? text : typeof text === "string" && /^\d{1,6}$/.test(text) ? Number(text) : NaN
  return Number.isFinite(n) && n >= 0 ? n : undefined
}

interface Asked {
  readonly method: string
  /** With or without a query. */
  readonly url: string
}

const needsOf = ({ method, url }: Asked): "run" | "values" | "write" => {
  const [path = ""] = url.split("?")
  if (path.endsWith("/secrets/inject") || path.endsWith("/sealed-values/open")) return "run"
  return method === "GET" ? "values" : "write"
}

type Head = Pick<Answer, "status" | "headers">

const refusal = (asked: Asked, { headers, status }: Head, text: string): ServerRefused | undefined => {
  const found = Option.getOrUndefined(readEnvelope(text))
  if (found === undefined) return undefined
  const { code, field, message } = found.known
  const { code: _code, field: _field, message: _message, statusCode: _status, ...details } = found.all
  const retryAfterSeconds = seconds(details["retryAfterSeconds"]) ?? seconds(headers["retry-after"])
  const requestId = headers["x-request-id"]
  return new ServerRefused({
    status,
    code,
    message,
    details,
    ...(field === undefined ? {} : { field }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(requestId === undefined ? {} : { requestId }),
    ...(code === "ENVIRONMENT_NOT_GRANTED" ? { needs: needsOf(asked) } : {})
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
export const transportReason = (cause: unknown): string => {
  if (isProxyError(cause)) return cause.told
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
 * Why an answer is none that a command goes on with, before anything reads its body (docs/architecture.md, H8). `text`:
 * the body, read only where it says why. Undefined: it is one.
 */
export const judged = <R>(
  server: string,
  asked: Asked,
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
      refusal(asked, head, body) ??
      unexpected(looksLikeHtml(head) ? "a web page instead of JSON" : "not an answer of this service")
  )
}

/** Refused for now: the request was not carried out, so it may be sent again. Bounded: a person waits. */
const patience = { times: 3, longestSeconds: 10 }
export const afterRateLimit = <A, R>(
  self: Effect.Effect<A, ServerError, R>,
  left = patience.times
): Effect.Effect<A, ServerError, R> =>
  Effect.catchTag(self, "ServerRefused", (error) =>
    error.status === 429 && left > 0 && (error.retryAfterSeconds ?? 1) <= patience.longestSeconds
      ? Effect.zipRight(Effect.sleep(Duration.seconds(error.retryAfterSeconds ?? 1)), afterRateLimit(self, left - 1))
      : Effect.fail(error)
  )

export const tooLong = (url: string) =>
  new ServerUnreachable({ url, reason: `no answer within ${Duration.toSeconds(deadline)} s` })

export interface LinkOptions {
  readonly url: string
  readonly credential?: Redacted.Redacted
  /** Cookie of a session that the command itself opened (`setup`). */
  readonly cookie?: Redacted.Redacted
  /** Answer a 429 at once: the caller has something better to do than wait. */
  readonly impatient?: boolean
  /** Say nothing of a long wait: the terminal is another program's. */
  readonly silent?: boolean
}

/** Of every request. */
export const headersOf = ({ cookie, credential }: LinkOptions): Readonly<Record<string, string>> => ({
  accept: "application/json",
  "user-agent": `ampoule-cli/${version}`,
  ...(credential === undefined ? {} : { authorization: `Bearer ${Redacted.value(credential)}` }),
  ...(cookie === undefined ? {} : { cookie: Redacted.value(cookie) })
})

/** Said on a terminal. */
export const waitingFor = (server: string): string => `Waiting for ${new URL(server).host} …`

const queryOf = (query: Question["query"] = {}): string => {
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  return given.length === 0 ? "" : `?${new URLSearchParams(given).toString()}`
}

export const link = (options: LinkOptions): Effect.Effect<Link, never, Transport> =>
  Effect.map(Transport, (transport) => {
    const { credential, impatient, url: server } = options
    const ask = ({ headers, json, method = "GET", path, query }: Question) => {
      const url = `${server}${path}${queryOf(query)}`
      const body = json === undefined ? undefined : JSON.stringify(json)
      const ofBody = body === undefined ? {} : { "content-type": "application/json" }
      const attempt = transport
        .send({
          method,
          url,
          body,
          longest: Duration.toMillis(deadline),
          headers: { ...headersOf(options), ...ofBody, ...headers }
        })
        .pipe(
          Effect.mapError(({ answered, cause }): ServerError => {
            if (cause instanceof TooLong) return tooLong(server)
            const reason = answered ? "the answer broke off" : transportReason(cause)
            return new ServerUnreachable({ url: server, reason })
          }),
          Effect.tap((answer) => judged(server, { method, url }, answer, Effect.succeed(answer.text)))
        )
      const told = options.silent === true ? attempt : whileWaiting(waitingFor(server))(attempt)
      return impatient === true ? told : afterRateLimit(told)
    }
    return { url: server, credential: Option.fromNullable(credential), ask }
  })

/** The body of an answer. */
export const bodyOf = <A>({ url }: Link, { status, text }: Answer, shape: Shape.Shape<A>) =>
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

/** Whether the credential would travel readable by others. */
export const isInTheClear = (url: string): boolean => {
  const { hostname, protocol } = new URL(url)
  return protocol === "http:" && !isLoopbackHost(hostname)
}
