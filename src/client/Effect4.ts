/**
 * `ampoule/client/effect4`: settings and every route for programs on Effect 4. The service itself is built on Effect 3,
 * so the routes come from the OpenAPI document, with its types.
 *
 *     program.pipe(Effect.provide(Ampoule.layer()))
 */
import type * as Cause from "effect4/Cause"
import * as ConfigProvider from "effect4/ConfigProvider"
import * as Data from "effect4/Data"
import * as Duration from "effect4/Duration"
import * as Effect from "effect4/Effect"
import * as Layer from "effect4/Layer"
import * as Redacted from "effect4/Redacted"
import * as Schedule from "effect4/Schedule"
import type * as Scope from "effect4/Scope"
import type { AmpouleError, Details } from "./Failure.ts"
import { type Connection, detailsOf, exchange, isRefused, objectOf, refusalOf, type Reply } from "./Fetch.ts"
import type { Operations, RefusalMembers } from "./Operations.ts"
import * as Resolve from "./Resolve.ts"
import { refusalMembers, type Route, routes } from "./Routes.ts"

/** A refusal of the server; `_tag` is its code (docs/contract/errors.md). */
export type Refusal<Code extends string> = Code extends string
  ? Cause.YieldableError & { readonly _tag: Code } & Omit<Details, "cause"> &
      (Code extends keyof RefusalMembers ? RefusalMembers[Code] : unknown)
  : never

/** No response: no connection, a timeout, or an unusable address. */
export class ServerUnreachable extends Data.TaggedError("ServerUnreachable")<Details & { readonly message: string }> {}

/** A response that this release does not know, such as a newer server's code or a proxy's page. */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<
  Details & {
    readonly message: string
    /** The code, if the response has the contract's error format. */
    readonly code: string | undefined
  }
> {}

/** No project or environment is named and the credential reaches several, or the name is not the one of a project. */
export class TargetUnclear extends Data.TaggedError("TargetUnclear")<Details & { readonly message: string }> {}

class Refused extends Data.Error<Record<string, unknown>> {}

type CredentialCode = "UNAUTHENTICATED" | "CREDENTIAL_INVALID" | "CREDENTIAL_EXPIRED" | "CREDENTIAL_REVOKED"
/** Failures of every request. */
export type ClientFailure = Refusal<CredentialCode> | ServerUnreachable | UnexpectedAnswer

export interface Options {
  /** Address of the server; `AMPOULE_URL` by default, else http://127.0.0.1:4400. */
  readonly url?: string
  /** API token or CLI grant; `AMPOULE_API_TOKEN`, then `AMPOULE_TOKEN` by default, each also as `…_FILE`. */
  readonly credential?: Redacted.Redacted
  /** Retries of refusals with a `Retry-After`: at most `times` (3), for waits of at most `longest` (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Duration.Input }
  /** Longest wait for one response; 30 s by default. */
  readonly timeout?: Duration.Input
  readonly userAgent?: string
  /** Variables of the program; `process.env` by default. Workers pass their `env`. */
  readonly variables?: Readonly<Record<string, string | undefined>>
}

const plainOf = ({ credential, retry, timeout, ...rest }: Options): Resolve.Options => ({
  ...rest,
  ...(credential === undefined ? {} : { credential: Redacted.value(credential) }),
  ...(timeout === undefined ? {} : { timeout: Duration.toMillis(timeout) }),
  ...(retry === undefined ? {} : { retry: { times: retry.times, longest: Duration.toMillis(retry.longest) } })
})

const refused = <Code extends string>(code: Code, members: object) =>
  new Refused({ _tag: code, ...members }) as unknown as Refusal<Code>

/** The tagged failure of the client without Effect. */
const failureOf = (error: unknown) => {
  const { address, cause, code, docs, field, message, requestId, status } = error as AmpouleError
  const members = Object.fromEntries(
    Object.entries({ address, cause, docs, field, message, requestId, status }).filter(
      ([, value]) => value !== undefined
    )
  ) as unknown as Details & { readonly message: string }
  switch (code) {
    case "SERVER_UNREACHABLE":
    case "SETTINGS_INVALID":
      return new ServerUnreachable(members)
    case "UNEXPECTED_ANSWER":
      return new UnexpectedAnswer({ ...members, code: undefined })
    case "TARGET_MISSING":
    case "PROJECT_UNCLEAR":
      return new TargetUnclear(members)
    case "NO_CREDENTIAL":
      return refused("UNAUTHENTICATED", members)
    default:
      return refused(code, members)
  }
}

// --- settings ---

export interface EnvironmentOptions extends Options {
  /** Id or slug; `AMPOULE_PROJECT` by default, else the credential's only environment decides. */
  readonly project?: string
  /** Slug; `AMPOULE_ENVIRONMENT` by default, else the credential's only environment. */
  readonly environment?: string
  /** Interval of refreshes (jittered). Absent: no refreshes. A failed refresh keeps the last values. */
  readonly refresh?: Duration.Input
  /** Provides names that the environment lacks; the process's variables by default. */
  readonly fallback?: ConfigProvider.ConfigProvider
}

/** Failures of opening an environment. */
export type Failure = ClientFailure | TargetUnclear | Refusal<Operations["projects.list" | "secrets.inject"]["codes"]>

/** Reads the environment's current values at each read. */
const providerOf = ({ values }: Resolve.Resolved): ConfigProvider.ConfigProvider => {
  let last: ReadonlyMap<string, string> | undefined
  let provider = ConfigProvider.fromEnvRecord({})
  return ConfigProvider.make((path) =>
    Effect.suspend(() => {
      if (last !== values()) {
        last = values()
        // An empty value is one that somebody has written.
        provider = ConfigProvider.fromEnvRecord(Object.fromEntries(last), { preserveEmptyStrings: true })
      }
      return provider.load(path)
    })
  )
}

/** A provider of one environment, for programs that build their own layers. */
export const makeConfigProvider = (
  options: EnvironmentOptions = {}
): Effect.Effect<ConfigProvider.ConfigProvider, Failure, Scope.Scope> =>
  Effect.gen(function* () {
    const { environment: slug, fallback = ConfigProvider.fromEnv(), project, refresh } = options
    const environment = yield* Effect.tryPromise({
      try: (signal) => Resolve.resolve({ ...plainOf(options), project, environment: slug }, signal),
      catch: (error) => failureOf(error) as Failure
    })
    if (refresh !== undefined) {
      yield* Effect.tryPromise((signal) => environment.refresh(signal)).pipe(
        Effect.ignore,
        Effect.delay(refresh),
        Effect.repeat(Schedule.jittered(Schedule.spaced(refresh))),
        Effect.forkScoped
      )
    }
    return ConfigProvider.orElse(providerOf(environment), fallback)
  })

/** Fails if the environment is unavailable at the start: a program must not run with half its settings. */
export const layer = (options: EnvironmentOptions = {}): Layer.Layer<never, Failure> =>
  ConfigProvider.layer(makeConfigProvider(options))

// --- routes ---

type Group = keyof Operations extends `${infer Name}.${string}` ? Name : never
type NameIn<Of extends string> = keyof Operations extends infer Id
  ? Id extends `${Of}.${infer Name}`
    ? Name
    : never
  : never
type Call<Id extends keyof Operations> = (
  request: Operations[Id]["request"]
) => Effect.Effect<Operations[Id]["success"], ClientFailure | Refusal<Operations[Id]["codes"]>>

/**
 * Groups of routes by name, and routes by name: `client.secrets.readValue({ query: { projectId, environment, key } })`.
 * A route fails with its declared codes, or with an unusable response.
 */
export type Client = {
  readonly [Of in Group]: { readonly [Name in NameIn<Of>]: Call<Extract<`${Of}.${Name}`, keyof Operations>> }
}

interface RouteRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly payload?: unknown
}

const textOf = (pairs: Readonly<Record<string, unknown>> | undefined): Record<string, string> =>
  Object.fromEntries(
    Object.entries(pairs ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]))
  )

const pathOf = (path: string, { params, query }: RouteRequest): string => {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params?.[name] ?? ""))
  const search = new URLSearchParams(textOf(query)).toString()
  return search === "" ? filled : `${filled}?${search}`
}

const answerOf = (connection: Connection, { codes }: Route, reply: Reply) => {
  const details = detailsOf(connection, reply)
  const unexpected = (code?: string) =>
    Effect.fail(
      new UnexpectedAnswer({ ...details, code, message: `The answer with status ${reply.status} is unexpected.` })
    )
  // The answer to `if-none-match`: no type of a success has it.
  if (reply.status === 304) return unexpected()
  if (!isRefused(reply)) {
    const body = objectOf(reply.text)
    return body === undefined ? unexpected() : Effect.succeed(body)
  }
  const refusal = refusalOf(reply)
  if (refusal === undefined) return unexpected()
  if (!codes.includes(refusal.code)) return unexpected(refusal.code)
  const members = Object.entries(objectOf(reply.text) ?? {}).filter(([name]) => refusalMembers.includes(name))
  const docs = `${connection.address}/docs/errors#${refusal.code}`
  return Effect.fail(refused(refusal.code, { ...Object.fromEntries(members), ...refusal, docs, ...details }))
}

/** The routes of the contract. The credential is read now; nothing is sent before a route is called. */
export const makeClient = (options: Options = {}): Effect.Effect<Client, ClientFailure> =>
  Effect.try({
    try: () => {
      const connection = Resolve.connectionOf(plainOf(options))
      const groups: Record<string, Record<string, unknown>> = {}
      for (const route of routes) {
        const [group = "", name = ""] = route.id.split(".")
        const { method } = route
        const call = (request: RouteRequest = {}) =>
          Effect.tryPromise({
            try: (signal) =>
              exchange(
                connection,
                { method, path: pathOf(route.path, request), headers: textOf(request.headers), body: request.payload },
                signal
              ),
            catch: failureOf
          }).pipe(Effect.flatMap((reply) => answerOf(connection, route, reply)))
        groups[group] = { ...groups[group], [name]: call }
      }
      // One function for every route. The types are those of the OpenAPI document.
      return groups as unknown as Client
    },
    catch: (error) => failureOf(error) as ClientFailure
  })
