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
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Record from "effect/Record"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { Api } from "#schema/Api.ts"
import { codesOf, isApiError, statusOf } from "#schema/ApiError.ts"
import * as Errors from "#schema/Errors.ts"
import type { AmpouleError } from "./Failure.ts"
import { causeOf, originOf } from "./Fetch.ts"
import { addressOf, credentialOf } from "./Settings.ts"

/** Every error of the contract; `_tag` is its code. */
export type ApiError = InstanceType<(typeof Errors)[keyof typeof Errors]>

/** No response: no connection, a timeout, or an unusable address. `reason` is a fixed sentence. */
export class ServerUnreachable extends Data.TaggedError("ServerUnreachable")<{
  readonly reason: string
  /** Address of the server. */
  readonly address?: string
  /** The short name of the cause, such as ECONNREFUSED. */
  readonly cause?: Error
}> {
  override get message(): string {
    const { address, cause, reason } = this
    return [reason, cause?.message, address].filter((part) => part !== undefined).join(" ")
  }
}

/**
 * A response that this release does not know, such as a newer server's code or a proxy's page. It never repeats the
 * text.
 */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<{
  readonly status: number
  /** The code, if the response has the contract's error format. */
  readonly code: string | undefined
  /** Address of the server. */
  readonly address?: string
  /** `X-Request-Id` of the response. */
  readonly requestId?: string
}> {
  override get message(): string {
    const { code = "no code of the contract", status } = this
    return `The answer with status ${status} is unexpected: ${code}. ${originOf(this)}`
  }
}

export type ClientError = ApiError | ServerUnreachable | UnexpectedAnswer

export interface Options {
  /** Address of the server; `AMPOULE_URL` by default, else http://127.0.0.1:4400. */
  readonly url?: string
  /** API token or CLI grant; `AMPOULE_API_TOKEN`, then `AMPOULE_TOKEN` by default, each also as `…_FILE`. */
  readonly credential?: Redacted.Redacted
  /** Retries of refusals with a `Retry-After`: at most `times` (3), for waits of at most `longest` (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Duration.DurationInput }
  /** Longest wait for one response; 30 s by default. */
  readonly timeout?: Duration.DurationInput
  readonly userAgent?: string
}

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

type Response = HttpClientResponse.HttpClientResponse

/** Origin of a response, for its error. */
const receivedFrom = (address: string, { headers }: Pick<Response, "headers">) => ({
  address,
  ...(headers["x-request-id"] === undefined ? {} : { requestId: headers["x-request-id"] })
})

/** The failure of a response. Undefined: the route's own schema decodes it. */
const failureOf = (address: string, response: Response) =>
  response.status < 300 || response.status === 304
    ? Effect.succeed(undefined)
    : Effect.map(
        Effect.orElseSucceed(response.text, () => ""),
        (text): ApiError | UnexpectedAnswer => {
          const from = receivedFrom(address, response)
          const envelope = decodeEnvelope(text)
          const code = Option.getOrUndefined(Option.map(envelope, (body) => body.code))
          // A code in another format is untrusted text.
          if (code === undefined || !/^[A-Z][A-Z0-9_]{0,99}$/.test(code)) {
            return new UnexpectedAnswer({ status: response.status, code: undefined, ...from })
          }
          const decoded = Option.flatMap(envelope, decoders.get(code) ?? Option.none<ApiError>)
          return Option.match(decoded, {
            onNone: () => new UnexpectedAnswer({ status: response.status, code, ...from }),
            onSome: (error) => Object.assign(error, from)
          })
        }
      )

/** Seconds until the same request may be repeated. Undefined: it may not. */
const retryAfterSeconds = (error: ClientError, response: Response): number | undefined => {
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
export const inTime = (options: Options, address: string | undefined = options.url) =>
  Effect.timeoutFail({
    duration: options.timeout ?? "30 seconds",
    onTimeout: () =>
      new ServerUnreachable({
        reason: "The server did not answer in time.",
        ...(address === undefined ? {} : { address })
      })
  })

/** Address and credential of the options, else of the variables. */
const serverOf = (options: Options): Either.Either<Server, ClientError> =>
  Either.try({
    try: () => ({
      address: addressOf(options.url),
      credential: options.credential ?? Redacted.make(credentialOf(undefined))
    }),
    catch: (error) => {
      const { code, message } = error as AmpouleError
      return code === "NO_CREDENTIAL"
        ? new Errors.Unauthenticated({ message })
        : new ServerUnreachable({ reason: message })
    }
  })

interface Server {
  readonly address: string
  readonly credential: Redacted.Redacted
}

/** `fetch` would send the credential to another path of the same server, and return what it finds there. */
const withoutRedirects = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.serviceOption(FetchHttpClient.RequestInit), (requestInit) =>
    Effect.provideService(effect, FetchHttpClient.RequestInit, {
      ...Option.getOrUndefined(requestInit),
      redirect: "manual"
    })
  )

type Exchange = Effect.Effect<Response, HttpClientError.HttpClientError>

/** Repeats what the server asks to repeat, within the bounds of the options. */
const executeWith = (options: Options, { address }: Server) => {
  const longest = Duration.toSeconds(options.retry?.longest ?? "10 seconds")
  const once = (effect: Exchange) =>
    withoutRedirects(effect).pipe(
      Effect.mapError(
        (error) => new ServerUnreachable({ reason: "The server could not be reached.", address, cause: causeOf(error) })
      ),
      Effect.flatMap((response) => Effect.map(failureOf(address, response), (failure) => ({ response, failure }))),
      inTime(options, address)
    )
  const execute = (effect: Exchange, retries: number): Effect.Effect<Response, ClientError> =>
    Effect.flatMap(once(effect), ({ failure, response }) => {
      if (failure === undefined) return Effect.succeed(response)
      const wait = retryAfterSeconds(failure, response)
      return wait !== undefined && retries > 0 && wait <= longest
        ? Effect.zipRight(Effect.sleep(Duration.seconds(wait)), execute(effect, retries - 1))
        : Effect.fail(failure)
    })
  return (effect: Exchange) => execute(effect, options.retry?.times ?? 3)
}

/** The HttpClient of one server and credential: typed refusals, bounded retries, and no redirects with a credential. */
export const httpClient = (options: Options) =>
  Effect.map(HttpClient.HttpClient, (client): HttpClient.HttpClient.With<ClientError> => {
    const server = serverOf(options)
    if (Either.isLeft(server)) return HttpClient.transformResponse(client, () => Effect.fail(server.left))
    const { address, credential } = server.right
    // A credential that does not fit a header would cause an error of the HTTP library, which quotes it.
    const sendable = /^[\x21-\x7e]{1,512}$/.test(Redacted.value(credential))
    const execute = executeWith(options, server.right)
    return client.pipe(
      HttpClient.mapRequest((request) =>
        request.pipe(
          HttpClientRequest.prependUrl(address),
          HttpClientRequest.bearerToken(credential),
          HttpClientRequest.setHeader("user-agent", options.userAgent ?? "ampoule-client")
        )
      ),
      HttpClient.transformResponse((effect) => (sendable ? execute(effect) : new Errors.CredentialInvalid()))
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
    return HttpClientError.isHttpClientError(error)
      ? new ServerUnreachable({ reason: "The request could not be sent." })
      : error
  }

const answerFailure = (error: unknown): unknown =>
  ParseResult.isParseError(error) || HttpClientError.isHttpClientError(error)
    ? new UnexpectedAnswer({ status: 200, code: undefined })
    : error

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
