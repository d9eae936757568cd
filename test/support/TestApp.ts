/**
 * The whole server on a port of its own, over a migrated test database, a vault in memory and limits in process.
 *
 * `layer(TestApp.shared, { excludeTestServices: true })("…", (it) => { it.effect("…", () => Effect.gen(function* () {
 *   const world = yield* World.project()
 *   const answer = yield* TestApp.get("/secrets?…", { bearer: yield* World.token({ team: world.team }) })
 * }) })`
 *
 * `excludeTestServices` gives the server a clock that runs; without it time stays at 1970 until a test adjusts it.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as EventBusMemory from "#layers/EventBusMemory.ts"
import * as RateLimitMemory from "#layers/RateLimitMemory.ts"
import * as Server from "#layers/Server.ts"
import * as VaultLocal from "#layers/VaultLocal.ts"
import { AppConfig, type Settings } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Listening } from "#src/http/engine/Server.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import * as Bodies from "./Bodies.ts"
import * as Shared from "./Shared.ts"
import * as TestDatabase from "./TestDatabase.ts"

/** Public address of the server: cookies, origins and links follow it, not the port it really has. */
export const baseUrl = "http://127.0.0.1:4400"

export const settings: Settings = {
  host: "127.0.0.1",
  port: 0,
  baseUrl,
  dataDir: "/nowhere",
  databaseUrl: Option.none(),
  databasePoolSize: 10,
  unsafeDatabase: false,
  redisUrl: Option.none(),
  plaintextHosts: [],
  vaultUrl: Option.none(),
  workers: 1,
  rootKey: Option.none(),
  valueCipher: "xchacha20-poly1305",
  setupCode: Option.none(),
  trustedProxies: [],
  rateLimits: true,
  mcpReveal: true,
  teamCreation: "everyone",
  signInIssuers: Option.none(),
  sealRows: "never",
  auditCheckpoints: Option.none(),
  leakReportKeys: Option.none(),
  logLevel: LogLevel.Warning,
  logFormat: "json",
  metricsHost: "127.0.0.1",
  metricsPort: Option.none(),
  otlpEndpoint: Option.none(),
  otlpHeaders: Option.none(),
  serviceName: "ampoule",
  smtpUrl: Option.none(),
  mailFrom: Option.none()
}

export const config = (changes: Partial<Settings> = {}) => Layer.succeed(AppConfig, { ...settings, ...changes })

/** The choices of `layers/Services.ts`, made for tests. Replace one with `Layer.provide` on `server` below it. */
export const backends = Layer.mergeAll(
  TestDatabase.layer,
  Layer.provide(VaultLocal.layerMemory, Crypto.Default),
  RateLimitMemory.layer,
  EventBusMemory.layer,
  NodeContext.layer
)

/** Everything but backends and settings. */
export const server = Server.layer({ host: "127.0.0.1", port: 0, traced: false })

/** A server and a database of its own: with other backends, settings or limits, or for a test that spoils or counts what others see. */
export const layer = server.pipe(Layer.provideMerge(Layer.merge(backends, config())))

/** The one that the files of a process share, as it is: what is provided to it comes too late. */
export const shared = Shared.perProcess(layer)

/** The same without limits. */
export const unlimited = Shared.perProcess(layer.pipe(Layer.provide(Layer.succeed(RateLimits, "off"))))

export interface Asked {
  /** Credential text for `Authorization: Bearer`. */
  readonly bearer?: string | Redacted.Redacted
  /** Text of a session, sent as the cookie. */
  readonly session?: string | Redacted.Redacted
  readonly headers?: Record<string, string>
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is. */
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>
}

export type Answer<Body = unknown> = Bodies.Answer<Body>

const textOf = (secret: string | Redacted.Redacted) => (Redacted.isRedacted(secret) ? Redacted.value(secret) : secret)

/** Name of this machine in requests: pages of a server with a host name redirect from the number. */
export class HostName extends Context.Reference<HostName>()("test/HostName", { defaultValue: () => "127.0.0.1" }) {}

export const request = <const Method extends string, const Path extends string>(
  method: Method,
  path: Path,
  asked: Asked = {}
): Effect.Effect<Answer<Bodies.BodyOf<Method, Path>>, never, Listening> =>
  Effect.flatMap(Effect.all([Listening, HostName]), ([{ port }, host]) =>
    Effect.promise(async (signal) => {
      const headers = new Headers(asked.headers)
      if (asked.bearer !== undefined) headers.set("authorization", `Bearer ${textOf(asked.bearer)}`)
      if (asked.session !== undefined) headers.set("cookie", `ampoule_session=${textOf(asked.session)}`)
      if (asked.json !== undefined && !headers.has("content-type")) headers.set("content-type", "application/json")
      const body = asked.json === undefined ? asked.body : JSON.stringify(asked.json)
      const response = await fetch(`http://${host}:${port}${path}`, {
        method,
        headers,
        signal,
        redirect: "manual",
        ...(body === undefined ? {} : { body }),
        ...(body instanceof ReadableStream ? { duplex: "half" } : {})
      })
      return Bodies.ofResponse(method, path, response)
    })
  )

export const get = <const Path extends string>(path: Path, asked?: Asked) => request("GET", path, asked)
export const post = <const Path extends string>(path: Path, asked?: Asked) => request("POST", path, asked)
export const patch = <const Path extends string>(path: Path, asked?: Asked) => request("PATCH", path, asked)
export const del = <const Path extends string>(path: Path, asked?: Asked) => request("DELETE", path, asked)

/** Status and code of an answer: what most tests of refusals look at. */
export const codeOf = (answer: Answer): ReadonlyArray<unknown> => refusalOf(answer).slice(0, 2)
/** The same with the member of the request that the answer names. */
export const refusalOf = (answer: Answer): ReadonlyArray<unknown> => {
  if (answer.status < 400) return [answer.status, undefined, undefined]
  const { code, field } = answer.error
  return [answer.status, code, field]
}
