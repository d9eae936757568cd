/**
 * The typed client of the contract: `ampoule/client`. Every route of `/openapi.json` as an Effect, every refusal as the
 * error class of its code, so that `Effect.catchTag("SECRET_NOT_FOUND", …)` works.
 */
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Api } from "#schema/Api.ts"
import * as Errors from "#schema/Errors.ts"

/** Every error of the contract; `_tag` is its code. */
export type ApiError = InstanceType<(typeof Errors)[keyof typeof Errors]>

/** Nothing came back: no connection, no answer in time. `reason` is a fixed sentence. */
export class ServerUnreachable extends Data.TaggedError("ServerUnreachable")<{ readonly reason: string }> {}

/** Something came back that this release does not know: a newer server's code, a proxy's page. Never repeats its text. */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<{
  readonly status: number
  /** The code, when the answer has the envelope of the contract. */
  readonly code: string | undefined
}> {}

export type ClientError = ApiError | ServerUnreachable | UnexpectedAnswer

export interface Options {
  /** Address of the server; `http://127.0.0.1:4400` by default. */
  readonly url?: string
  /** API token or CLI grant. */
  readonly credential: Redacted.Redacted
  /** A refusal that names when to come back is tried again this often (3), if the wait is not longer than this (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Duration.DurationInput }
  /** Longest wait for one answer; 30 s by default. */
  readonly timeout?: Duration.DurationInput
  readonly userAgent?: string
}

export const defaultUrl = "http://127.0.0.1:4400"

// Open: a later server may add members (interface 9).
const Envelope = Schema.Struct({ code: Schema.String }, { key: Schema.String, value: Schema.Unknown })
const decodeEnvelope = Schema.decodeUnknownOption(Schema.parseJson(Envelope))

const decoders = new Map(
  Object.values(Errors).map((error) => [
    error.code as string,
    Schema.decodeUnknownOption(error as unknown as Schema.Schema<ApiError, unknown>)
  ])
)

/** The failure an answer stands for; undefined = the answer is for the route's own schema. */
const failureOf = (response: HttpClientResponse.HttpClientResponse) =>
  response.status < 300 || response.status === 304
    ? Effect.succeed(undefined)
    : Effect.map(
        Effect.orElseSucceed(response.text, () => ""),
        (text): ApiError | UnexpectedAnswer => {
          const envelope = decodeEnvelope(text)
          if (Option.isNone(envelope)) return new UnexpectedAnswer({ status: response.status, code: undefined })
          const { code } = envelope.value
          return Option.getOrElse(
            decoders.get(code)?.(envelope.value) ?? Option.none<ApiError>(),
            () => new UnexpectedAnswer({ status: response.status, code })
          )
        }
      )

const unreachable = (reason: string) => new ServerUnreachable({ reason })

/** Seconds to wait before the same request may go out again; undefined = it may not. */
const comeBack = (error: ClientError, response: HttpClientResponse.HttpClientResponse): number | undefined => {
  const { request } = response
  const after = Number(response.headers["retry-after"] ?? NaN)
  if (!Number.isFinite(after) || after < 0) return undefined
  // Refused before it was carried out: any request may be repeated. A dependency may have failed half-way.
  if (response.status === 429) return after
  const repeatable = request.method === "GET" || request.headers["idempotency-key"] !== undefined
  return error._tag === "DEPENDENCY_UNAVAILABLE" && repeatable ? after : undefined
}

/** The HttpClient of one server and credential: refusals typed, retries bounded, redirects never followed with a credential. */
export const httpClient = (options: Options) =>
  Effect.map(HttpClient.HttpClient, (client): HttpClient.HttpClient.With<ClientError> => {
    const times = options.retry?.times ?? 3
    const longest = Duration.toSeconds(options.retry?.longest ?? "10 seconds")
    const answer = (
      effect: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>,
      left: number
    ): Effect.Effect<HttpClientResponse.HttpClientResponse, ClientError> =>
      effect.pipe(
        Effect.mapError(() => unreachable("The server could not be reached.")),
        Effect.timeoutFail({
          duration: options.timeout ?? "30 seconds",
          onTimeout: () => unreachable("The server did not answer in time.")
        }),
        Effect.flatMap((response) =>
          Effect.flatMap(failureOf(response), (failure) => {
            if (failure === undefined) return Effect.succeed(response)
            const wait = comeBack(failure, response)
            return wait !== undefined && left > 0 && wait <= longest
              ? Effect.zipRight(Effect.sleep(Duration.seconds(wait)), answer(effect, left - 1))
              : Effect.fail(failure)
          })
        )
      )
    return client.pipe(
      HttpClient.mapRequest((request) =>
        request.pipe(
          HttpClientRequest.prependUrl((options.url ?? defaultUrl).replace(/\/+$/, "")),
          HttpClientRequest.bearerToken(options.credential),
          HttpClientRequest.setHeader("user-agent", options.userAgent ?? "ampoule-client")
        )
      ),
      HttpClient.transformResponse((effect) => answer(effect, times))
    )
  })

/** The routes of the contract: `client.secrets.readValue({ urlParams: { projectId, environment, key } })`. */
export const make = (options: Options) =>
  Effect.flatMap(httpClient(options), (http) => HttpApiClient.makeWith(Api, { httpClient: http }))

export type Client = Effect.Effect.Success<ReturnType<typeof make>>
