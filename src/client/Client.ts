/**
 * The typed client of the contract: `ampoule/client`. Every route of `/openapi.json` is an Effect, and every error code
 * an error class. So `Effect.catchTag("SECRET_NOT_FOUND", …)` works.
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientError from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Record from "effect/Record"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Api } from "#schema/Api.ts"
import { codesOf, isApiError, statusOf } from "#schema/ApiError.ts"
import * as Errors from "#schema/Errors.ts"

/** Every error of the contract; `_tag` is its code. */
export type ApiError = InstanceType<(typeof Errors)[keyof typeof Errors]>

/** No response: no connection, or a timeout. `reason` is a fixed sentence. */
export class ServerUnreachable extends Data.TaggedError("ServerUnreachable")<{ readonly reason: string }> {}

/**
 * A response that this release does not know, such as a newer server's code or a proxy's page. It never repeats the
 * text.
 */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<{
  readonly status: number
  /** The code, if the response has the contract's error format. */
  readonly code: string | undefined
}> {}

export type ClientError = ApiError | ServerUnreachable | UnexpectedAnswer

export interface Options {
  /** Address of the server; `http://127.0.0.1:4400` by default. */
  readonly url?: string
  /** API token or CLI grant. */
  readonly credential: Redacted.Redacted
  /** Retries of refusals with a `Retry-After`: at most `times` (3), for waits of at most `longest` (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Duration.DurationInput }
  /** Longest wait for one response; 30 s by default. */
  readonly timeout?: Duration.DurationInput
  readonly userAgent?: string
}

export const defaultUrl = "http://127.0.0.1:4400"

// Open: a later server may add members (docs/contract/README.md).
const Envelope = Schema.Struct({ code: Schema.String }, { key: Schema.String, value: Schema.Unknown })
const decodeEnvelope = Schema.decodeUnknownOption(Schema.parseJson(Envelope))

// The classes differ in members, but each decodes to an error of the contract.
const decoders = new Map(
  Object.values(Errors).map((error) => [
    error.code as string,
    Schema.decodeUnknownOption(error as unknown as Schema.Schema<ApiError, unknown>)
  ])
)

const unexpected = (status: number) => new UnexpectedAnswer({ status, code: undefined })

/** The failure of a response. Undefined: the route's own schema decodes it. */
const failureOf = (response: HttpClientResponse.HttpClientResponse) =>
  response.status < 300 || response.status === 304
    ? Effect.succeed(undefined)
    : Effect.map(
        Effect.orElseSucceed(response.text, () => ""),
        (text): ApiError | UnexpectedAnswer => {
          const envelope = decodeEnvelope(text)
          const code = Option.getOrUndefined(Option.map(envelope, (body) => body.code))
          // A code in another format is untrusted text.
          if (code === undefined || !/^[A-Z][A-Z0-9_]{0,99}$/.test(code)) return unexpected(response.status)
          return Option.getOrElse(
            Option.flatMap(envelope, decoders.get(code) ?? Option.none<ApiError>),
            () => new UnexpectedAnswer({ status: response.status, code })
          )
        }
      )

const unreachable = (reason: string) => new ServerUnreachable({ reason })

/** Seconds until the same request may be repeated. Undefined: it may not. */
const retryAfterSeconds = (error: ClientError, response: HttpClientResponse.HttpClientResponse): number | undefined => {
  const { request } = response
  const header = response.headers["retry-after"] ?? ""
  if (!/^[0-9]{1,6}$/.test(header)) return undefined
  const after = Number(header)
  // A refused request was not carried out, so any request may be repeated. A dependency may have failed half-way.
  if (response.status === 429) return after
  const repeatable = request.method === "GET" || request.headers["idempotency-key"] !== undefined
  return error._tag === "DEPENDENCY_UNAVAILABLE" && repeatable ? after : undefined
}

/** A response that stops half-way times out like a missing one. */
export const inTime = (options: Options) =>
  Effect.timeoutFail({
    duration: options.timeout ?? "30 seconds",
    onTimeout: () => unreachable("The server did not answer in time.")
  })

/** `fetch` would send the credential to another path of the same server, and return what it finds there. */
const withoutRedirects = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.serviceOption(FetchHttpClient.RequestInit), (requestInit) =>
    Effect.provideService(effect, FetchHttpClient.RequestInit, {
      ...Option.getOrUndefined(requestInit),
      redirect: "manual"
    })
  )

/** The HttpClient of one server and credential: typed refusals, bounded retries, and no redirects with a credential. */
export const httpClient = (options: Options) =>
  Effect.map(HttpClient.HttpClient, (client): HttpClient.HttpClient.With<ClientError> => {
    const times = options.retry?.times ?? 3
    const longest = Duration.toSeconds(options.retry?.longest ?? "10 seconds")
    const once = (effect: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>) =>
      withoutRedirects(effect).pipe(
        Effect.mapError(() => unreachable("The server could not be reached.")),
        Effect.flatMap((response) => Effect.map(failureOf(response), (failure) => ({ response, failure }))),
        inTime(options)
      )
    const execute = (
      effect: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>,
      retries: number
    ): Effect.Effect<HttpClientResponse.HttpClientResponse, ClientError> =>
      Effect.flatMap(once(effect), ({ failure, response }) => {
        if (failure === undefined) return Effect.succeed(response)
        const wait = retryAfterSeconds(failure, response)
        return wait !== undefined && retries > 0 && wait <= longest
          ? Effect.zipRight(Effect.sleep(Duration.seconds(wait)), execute(effect, retries - 1))
          : Effect.fail(failure)
      })
    // A credential that does not fit a header would cause an error of the HTTP library, which quotes it.
    const sendable = /^[\x21-\x7e]{1,512}$/.test(Redacted.value(options.credential))
    return client.pipe(
      HttpClient.mapRequest((request) =>
        request.pipe(
          HttpClientRequest.prependUrl((options.url ?? defaultUrl).replace(/\/+$/, "")),
          HttpClientRequest.bearerToken(options.credential),
          HttpClientRequest.setHeader("user-agent", options.userAgent ?? "ampoule-client")
        )
      ),
      HttpClient.transformResponse((effect) => (sendable ? execute(effect, times) : new Errors.CredentialInvalid()))
    )
  })

/**
 * Groups of routes by name, and routes by name. A route fails with its declared errors, or with an unusable response.
 */
export type Client =
  typeof Api extends HttpApi.HttpApi<infer _Id, infer Groups, infer AnyRoute, infer _R>
    ? {
        readonly [Name in HttpApiGroup.HttpApiGroup.Name<Groups>]: RoutesOf<
          HttpApiGroup.HttpApiGroup.WithName<Groups, Name>,
          Extract<AnyRoute, ApiError> | ServerUnreachable | UnexpectedAnswer
        >
      }
    : never

type RoutesOf<Group, Always> =
  Group extends HttpApiGroup.HttpApiGroup<infer _Id, infer Endpoints, infer _E, infer _R>
    ? { readonly [Endpoint in Endpoints as HttpApiEndpoint.HttpApiEndpoint.Name<Endpoint>]: Route<Endpoint, Always> }
    : never

type Route<Endpoint, Always> =
  Endpoint extends HttpApiEndpoint.HttpApiEndpoint<
    infer _Name,
    infer _Method,
    infer Path,
    infer UrlParams,
    infer Payload,
    infer Headers,
    infer Success,
    infer Failure,
    infer _R,
    infer _RE
  >
    ? (
        request: HttpApiEndpoint.HttpApiEndpoint.ClientRequest<Path, UrlParams, Payload, Headers, false>
      ) => Effect.Effect<Success, Failure | Always>
    : never

/** The path of the first problem in a request, with the server's name for it. Its value is input and not repeated. */
const fieldOf = (error: ParseResult.ParseError): { readonly field?: string } => {
  const [first] = ParseResult.ArrayFormatter.formatErrorSync(error)
  return first === undefined || first.path.length === 0 ? {} : { field: first.path.map(String).join(".") }
}

/** Declared error codes of each route, by group and route. */
const declaredCodes = new Map<string, ReadonlySet<string>>()
HttpApi.reflect(Api, {
  onGroup: () => undefined,
  onEndpoint: ({ endpoint, errors, group }) => {
    const codes = [...errors.values()].flatMap(({ ast }) => Option.toArray(ast).flatMap(codesOf))
    declaredCodes.set(`${group.identifier}.${endpoint.name}`, new Set(codes))
  }
})

/**
 * Failures that `httpClient` has not named: an unsendable request, or an undeclared code from a later server. Messages
 * of schemas quote input, so they are dropped.
 */
const routeFailure =
  (route: string) =>
  (error: unknown): unknown => {
    if (ParseResult.isParseError(error)) return new Errors.ValidationFailed(fieldOf(error))
    if (isApiError(error) && declaredCodes.get(route)?.has(error._tag) !== true) {
      return new UnexpectedAnswer({ status: statusOf(error), code: error._tag })
    }
    return HttpClientError.isHttpClientError(error) ? unreachable("The request could not be sent.") : error
  }

const answerFailure = (error: unknown): unknown =>
  ParseResult.isParseError(error) || HttpClientError.isHttpClientError(error) ? unexpected(200) : error

type AnyRoute = (request: unknown) => Effect.Effect<unknown, unknown>

/** The routes of the contract: `client.secrets.readValue({ urlParams: { projectId, environment, key } })`. */
export const make = (options: Options): Effect.Effect<Client, never, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const typed = yield* HttpApiClient.makeWith(Api, {
      httpClient: yield* httpClient(options),
      transformResponse: (effect) => inTime(options)(Effect.mapError(effect, answerFailure))
    })
    const named = (routes: Record<string, AnyRoute>, group: string) =>
      Record.map(
        routes,
        (route, name): AnyRoute =>
          (request) =>
            Effect.mapError(route(request), routeFailure(`${group}.${name}`))
      )
    // One function for every route. The types stay those of the routes, except for the failures named here.
    const routes = typed as unknown as Record<string, Record<string, AnyRoute>>
    return Record.map(routes, named) as unknown as Client
  })
