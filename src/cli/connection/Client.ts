/** HTTP client for the typed groups of the contract. */
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import { type ServerError, ServerRefused, ServerUnreachable, UnexpectedAnswer } from "#src/cli/terminal/Failure.ts"
import {
  afterRateLimit,
  deadline,
  headersOf,
  checkStatus,
  link,
  type Link,
  type LinkOptions,
  tooLong,
  transportReason,
  waitingFor
} from "./Link.ts"
import { whileWaiting } from "#src/cli/terminal/Output.ts"

export interface Connection extends Link {
  readonly http: HttpClient.HttpClient.With<ServerError>
}

const fromClient =
  (url: string) =>
  (error: HttpClientError.HttpClientError): ServerError => {
    if (error._tag === "RequestError") return new ServerUnreachable({ url, reason: transportReason(error.cause) })
    return new UnexpectedAnswer({ url, status: error.response.status, reason: "the answer could not be read" })
  }

/** Checks status and type before a schema decodes the body. */
const checkResponse = (url: string, response: HttpClientResponse.HttpClientResponse) =>
  Effect.as(checkStatus(url, response.request, response, Effect.mapError(response.text, fromClient(url))), response)

export const connect = Effect.fnUntraced(function* (options: LinkOptions) {
  const client = yield* HttpClient.HttpClient
  const { impatient, url } = options
  const withPolicies = (
    attempt: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>
  ) => {
    const once = attempt.pipe(
      Effect.mapError(fromClient(url)),
      Effect.flatMap((response) => checkResponse(url, response)),
      Effect.timeoutFail({ duration: deadline, onTimeout: () => tooLong(url) }),
      whileWaiting(waitingFor(url))
    )
    return impatient === true ? once : afterRateLimit(once)
  }
  const http = client.pipe(
    HttpClient.mapRequest((request) =>
      request.pipe(HttpClientRequest.prependUrl(url), HttpClientRequest.setHeaders(headersOf(options)))
    ),
    HttpClient.transformResponse(withPolicies)
  )
  return { ...(yield* link(options)), http } satisfies Connection
})

/**
 * One call of a typed group. A response that its schema rejects is an unexpected answer. The schema's message quotes
 * the body, so it is dropped (docs/architecture.md, S1).
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
