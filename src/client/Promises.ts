/**
 * `ampoule/client/promise`: for programs without Effect.
 *
 *     const env = await open({ project: "demo", environment: "development" })
 *     env.get("DATABASE_URL")
 */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import { isDangerous } from "#src/formats/DangerousNames.ts"
import type { ClientError } from "./Client.ts"
import * as Credential from "./Credential.ts"
import * as Environment from "./Environment.ts"

/** Milliseconds, or a text such as `"30 seconds"`. */
export type Wait = number | `${number} ${"millis" | "second" | "seconds" | "minute" | "minutes"}`

/** The options of `ampoule/client`, without types of Effect, which such a program may lack. */
export interface Options {
  /** Id or slug. */
  readonly project: string
  /** Slug. */
  readonly environment: string
  /** Retries of refusals with a `Retry-After`: at most `times` (3), for waits of at most `longest` (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Wait }
  /** Longest wait for one response; 30 s by default. */
  readonly timeout?: Wait
  readonly userAgent?: string
  /** `AMPOULE_API_TOKEN`, then `AMPOULE_TOKEN` by default, each also as `…_FILE`. */
  readonly credential?: string
  /** `AMPOULE_URL` by default, else http://127.0.0.1:4400. */
  readonly url?: string
}

/**
 * `code` is the server's, or `SERVER_UNREACHABLE`, `UNEXPECTED_ANSWER`, `PROJECT_UNCLEAR`, `NO_CREDENTIAL` or
 * `DANGEROUS_NAMES`. No message repeats a value.
 */
export class AmpouleError extends Error {
  override readonly name = "AmpouleError"
  constructor(
    readonly code: string,
    message: string
  ) {
    super(message)
  }
}

const errorOf = (failure: Environment.Failure | ClientError): AmpouleError => {
  switch (failure._tag) {
    case "ServerUnreachable":
      return new AmpouleError("SERVER_UNREACHABLE", failure.reason)
    case "UnexpectedAnswer":
      return new AmpouleError(
        failure.code ?? "UNEXPECTED_ANSWER",
        `The server gave an unexpected answer (${failure.status}).`
      )
    case "ProjectUnclear":
      return new AmpouleError(
        "PROJECT_UNCLEAR",
        failure.reason === "not found"
          ? "This credential sees no project of that id or slug."
          : "Several projects have this slug: use the id."
      )
    default:
      return new AmpouleError(failure._tag, failure.message)
  }
}

const run = async <A>(effect: Effect.Effect<A, Environment.Failure>): Promise<A> => {
  const exit = await Effect.runPromiseExit(effect)
  if (Exit.isSuccess(exit)) return exit.value
  const failure = Cause.failureOption(exit.cause)
  throw failure._tag === "Some" ? errorOf(failure.value) : new AmpouleError("UNEXPECTED", "The request failed.")
}

export interface OpenEnvironment {
  readonly get: (key: string) => string | undefined
  readonly keys: () => ReadonlyArray<string>
  /** All values by key, for uses that need them at once. */
  readonly toObject: () => Record<string, string>
  /** Fetches again if something changed; resolves to whether it did. */
  readonly refresh: () => Promise<boolean>
}

/** Resolves an environment. Rejects with `AmpouleError`. */
export const open = async (options: Options): Promise<OpenEnvironment> => {
  const credential =
    options.credential === undefined ? Credential.ofEnvironment() : Redacted.make(options.credential.trim())
  if (credential === undefined) throw new AmpouleError("NO_CREDENTIAL", "Set AMPOULE_API_TOKEN, or pass a credential.")
  const url = options.url ?? Credential.variable("AMPOULE_URL")
  const environment = await run(
    Environment.open({ ...options, credential, ...(url === undefined ? {} : { url }) }).pipe(
      Effect.provide(FetchHttpClient.layer)
    )
  )
  return {
    get: (key) => {
      const value = environment.values.get(key)
      return value === undefined ? undefined : Redacted.value(value)
    },
    keys: () => [...environment.values.keys()],
    toObject: () => Object.fromEntries([...environment.values].map(([key, value]) => [key, Redacted.value(value)])),
    refresh: () => run(environment.refresh)
  }
}

export interface LoadOptions extends Options {
  /** Also replaces variables that `process.env` has already. */
  readonly override?: boolean
  /** Allowed names that change which code runs (`NODE_OPTIONS`, `LD_PRELOAD`, …). */
  readonly allow?: ReadonlyArray<string>
}

/** Resolves an environment and sets the variables that `process.env` lacks. All or none. */
export const load = async (options: LoadOptions): Promise<OpenEnvironment> => {
  const environment = await open(options)
  const missing = Object.entries(environment.toObject()).filter(
    ([key]) => options.override === true || process.env[key] === undefined
  )
  const dangerous = missing
    .map(([key]) => key)
    .filter((key) => isDangerous(key) && options.allow?.includes(key) !== true)
  if (dangerous.length > 0) {
    throw new AmpouleError(
      "DANGEROUS_NAMES",
      `Not set: ${dangerous.join(", ")}. Such variables can change which code runs; name them in \`allow\` if that is meant.`
    )
  }
  for (const [key, value] of missing) process.env[key] = value
  return environment
}
