/**
 * Runs the endpoints of the HttpApi: steps, decoders, encoders and statuses of each declaration, compiled once at the
 * start. The platform's own runtime copies the map of all services several times per request, which costs more than
 * most use cases. `test/http/declared.test.ts` checks that both engines respond alike.
 *
 * A handler closes over its services. The context of a request holds only facts about that request, and the services
 * that the platform gives to a route.
 */
import type * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Credentials from "#schema/Authentication.ts"
import { UnencodableAnswer, validationFailed } from "./ErrorEnvelope.ts"

/** Services of every request. */
export type RequestServices = Exclude<HttpRouter.HttpRouter.Provided, Scope.Scope>

type Endpoint = HttpApiEndpoint.HttpApiEndpoint.AnyWithProps
type Item = HttpApiBuilder.Handlers.Item<unknown, RequestServices>

/** Routes of the HttpApi, in the order in which their groups were built. */
export class Declared extends Context.Tag("http/Declared")<
  Declared,
  Array<HttpRouter.Route<unknown, RequestServices>>
>() {
  static readonly Live = Layer.sync(Declared, () => [])
}

// --- responses ---

type Encode = (value: unknown) => Either.Either<HttpServerResponse.HttpServerResponse, ParseResult.ParseIssue>

const json = (text: string, status: number) =>
  HttpServerResponse.raw(text, { status, contentType: "application/json", contentLength: Buffer.byteLength(text) })

const encoderOf = (schema: Schema.Schema.Any): Encode => {
  const status = HttpApiSchema.getStatusSuccessAST(schema.ast)
  if (HttpApiSchema.isVoid(schema.ast)) return () => Either.right(HttpServerResponse.empty({ status }))
  // None of our responses needs a service for its encoding.
  const encode = ParseResult.encodeUnknownEither(schema as Schema.Schema.AnyNoContext)
  return (value) => Either.map(encode(value), (encoded) => json(JSON.stringify(encoded), status))
}

/** Encodes with the first of the declared successes that fits the value. */
const answerEncoder = (success: Schema.Schema.Any) => {
  const schemas = new Set<Schema.Schema.Any>()
  HttpApiSchema.deunionize(schemas, success)
  const encoders = Array.from(schemas, encoderOf)
  return (value: unknown): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
    if (HttpServerResponse.isServerResponse(value)) return Effect.succeed(value)
    for (const encode of encoders) {
      const answer = encode(value)
      if (Either.isRight(answer)) return Effect.succeed(answer.right)
    }
    return Effect.die(new UnencodableAnswer())
  }
}

// --- requests ---

/** Members of a request, by the names that a handler gets; the order is the platform's. */
type Input = { [name: string]: unknown }

type Read = (
  context: Context.Context<RequestServices>
) => Effect.Effect<unknown, unknown> | Readonly<Record<string, unknown>>

const bodiless = new Set(["GET", "HEAD", "OPTIONS", "TRACE"])
const query: Read = (context) => Context.get(context, HttpServerRequest.ParsedSearchParams)
const body: Read = (context) => {
  const request = Context.get(context, HttpServerRequest.HttpServerRequest)
  return bodiless.has(request.method) ? query(context) : Effect.orDie(request.json)
}
const readers: ReadonlyArray<readonly [name: string, schema: `${string}Schema` & keyof Endpoint, read: Read]> = [
  ["path", "pathSchema", (context) => Context.get(context, HttpRouter.RouteContext).params],
  ["payload", "payloadSchema", body],
  ["headers", "headersSchema", (context) => Context.get(context, HttpServerRequest.HttpServerRequest).headers],
  ["urlParams", "urlParamsSchema", query]
]

/** The decoder of a member. An empty query, as most requests have, is decoded once, at the start. */
const decoderOf = (schema: Schema.Schema.AnyNoContext, read: Read) => {
  const decode = ParseResult.decodeUnknownEither(schema)
  if (read !== query) return decode
  const ofNothing = decode({})
  return (raw: unknown) => {
    for (const _ in raw as object) return decode(raw)
    return ofNothing
  }
}

const inputReader = (endpoint: Endpoint, withoutPayload: boolean) => {
  const members = readers.flatMap(([name, key, read]) => {
    // The class types each schema apart; all have this type, and none of ours needs a service.
    const schema = endpoint[key] as Option.Option<Schema.Schema.AnyNoContext>
    if (Option.isNone(schema) || (withoutPayload && name === "payload")) return []
    return [{ name, read, decode: decoderOf(schema.value, read) }]
  })
  return Effect.fnUntraced(function* (context: Context.Context<RequestServices>) {
    const input: Input = { request: Context.get(context, HttpServerRequest.HttpServerRequest) }
    for (const { decode, name, read } of members) {
      const raw = read(context)
      const decoded = decode(Effect.isEffect(raw) ? yield* raw : raw)
      if (Either.isLeft(decoded)) {
        return yield* validationFailed(ParseResult.ArrayFormatter.formatIssueSync(decoded.left))
      }
      input[name] = decoded.right
    }
    return input
  })
}

/** Credential checks that run before decoding. */
export type Guards =
  | Credentials.AnyCredential
  | Credentials.PersonCredential
  | Credentials.GrantCredential
  | Credentials.OwnTokenCredential
  | Credentials.SessionCredential
  | Credentials.ManagementCredential
  | Credentials.ManagingCredential
  | Credentials.OwnSessionCredential
  | Credentials.DeviceCodeCredential

const guardsOf = (endpoint: Endpoint, services: Context.Context<never>) =>
  // The layer of the group requires these tags, so `services` has them.
  Array.from(endpoint.middlewares as ReadonlySet<HttpApiMiddleware.TagClassAny>, (tag) => ({
    // The service is the check; the platform's type leaves the kind of middleware open.
    check: Context.unsafeGet(services, tag as Context.Tag<unknown, unknown>) as Effect.Effect<
      unknown,
      unknown,
      RequestServices
    >,
    provides: tag.provides
  }))

const routeOf = ({ endpoint, handler, withFullRequest }: Item, services: Context.Context<never>) => {
  // `HttpApiBuilder.Handlers` loses the endpoint's full type.
  const declared = endpoint as Endpoint
  const guards = guardsOf(declared, services)
  const read = inputReader(declared, withFullRequest)
  const encode = answerEncoder(declared.successSchema)
  const run = Effect.fnUntraced(function* (context: Context.Context<RequestServices>) {
    for (const { check, provides } of guards) {
      const service = yield* check
      // Mutated, since the map belongs to this request: `Effect.provideService` costs as much as the rest of this
      // function.
      if (provides !== undefined) context.unsafeMap.set(provides.key, service)
    }
    return yield* encode(yield* handler(yield* read(context)))
  })
  return HttpRouter.makeRoute(declared.method, declared.path, Effect.contextWithEffect(run))
}

/** Collects handlers, as `HttpApiBuilder.group` does. */
const collecting = (group: HttpApiGroup.HttpApiGroup.AnyWithProps, handlers: Chunk.Chunk<Item> = Chunk.empty()) => {
  const adding = (withFullRequest: boolean) => (name: string, handler: Item["handler"]) =>
    collecting(
      group,
      Chunk.append(handlers, { endpoint: group.endpoints[name], handler, withFullRequest, uninterruptible: false })
    )
  return { group, handlers, handle: adding(false), handleRaw: adding(true) }
}

/** All endpoints of a group, each with a handler that needs only the request and the results of its guards. */
type Complete<G extends Guards> = HttpApiBuilder.Handlers<unknown, unknown, RequestServices | G>

/** Makes a route from an endpoint and its handler. Only the test that compares with the platform replaces it. */
export class RouteMaker extends Context.Reference<RouteMaker>()("http/RouteMaker", { defaultValue: () => routeOf }) {}

/**
 * The handlers of one group, as `HttpApiBuilder.group` takes them. An endpoint without a handler is a type error, and
 * so is a handler that needs a service at run time.
 */
export const group = <
  Id extends string,
  Groups extends HttpApiGroup.HttpApiGroup.Any,
  ApiError,
  ApiR,
  const Name extends HttpApiGroup.HttpApiGroup.Name<Groups>,
  E,
  R,
  G extends Guards = never
>(
  api: HttpApi.HttpApi<Id, Groups, ApiError, ApiR>,
  name: Name,
  build: (
    handlers: HttpApiBuilder.Handlers.FromGroup<ApiError, ApiR, HttpApiGroup.HttpApiGroup.WithName<Groups, Name>>
  ) => Effect.Effect<Complete<G>, E, R>
) => {
  const registered = Effect.gen(function* () {
    const services = yield* Effect.context<G>()
    // `collecting` has the methods that the platform's type lists for each endpoint.
    const empty = collecting((api as unknown as HttpApi.HttpApi.AnyWithProps).groups[name])
    const { handlers } = yield* build(empty as unknown as Parameters<typeof build>[0])
    const routes = yield* Declared
    const make = yield* RouteMaker
    // The route runs the guards that the type of a handler requires.
    for (const item of handlers) routes.push(make(item as Item, services))
  })
  const layer = Layer.provide(Layer.effectDiscard(registered), Declared.Live)
  // `HttpApiBuilder.api` requires the service of each group; this layer provides it by its type alone.
  return layer as Layer.Layer<HttpApiGroup.ApiGroup<Id, Name>, E, Exclude<R | G, Declared>>
}
