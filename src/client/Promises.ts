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
import type { ClientError } from "./Client.ts"
import * as Environment from "./Environment.ts"

export interface Options {
  /** Id or slug. */
  readonly project: string
  /** Slug. */
  readonly environment: string
  /** `AMPOULE_URL` by default, else http://127.0.0.1:4400. */
  readonly url?: string
  /** `AMPOULE_API_TOKEN`, then `AMPOULE_TOKEN` by default. */
  readonly credential?: string
}

/** `code`: the server's, or `SERVER_UNREACHABLE`, `UNEXPECTED_ANSWER`, `PROJECT_UNCLEAR`, `NO_CREDENTIAL`. No message repeats a value. */
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
      return new AmpouleError("PROJECT_UNCLEAR", `The project is unclear: ${failure.reason}.`)
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
  /** All values by key, for what wants them at once. */
  readonly toObject: () => Record<string, string>
  /** Fetches again when something changed; resolves to whether it did. */
  readonly refresh: () => Promise<boolean>
}

/** Resolves an environment. Rejects with `AmpouleError`. */
export const open = async (options: Options): Promise<OpenEnvironment> => {
  const variables = process.env
  const credential = options.credential ?? variables["AMPOULE_API_TOKEN"] ?? variables["AMPOULE_TOKEN"]
  if (credential === undefined) throw new AmpouleError("NO_CREDENTIAL", "Set AMPOULE_API_TOKEN, or pass a credential.")
  const url = options.url ?? variables["AMPOULE_URL"]
  const environment = await run(
    Environment.open({
      project: options.project,
      environment: options.environment,
      credential: Redacted.make(credential),
      ...(url === undefined ? {} : { url })
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )
  const plain = (key: string) => {
    const value = environment.values.get(key)
    return value === undefined ? undefined : Redacted.value(value)
  }
  return {
    get: plain,
    keys: () => [...environment.values.keys()],
    toObject: () => Object.fromEntries([...environment.values].map(([key, value]) => [key, Redacted.value(value)])),
    refresh: () => run(environment.refresh)
  }
}

/** Resolves an environment and sets what `process.env` does not have yet (`override`: all of it). */
export const load = async (options: Options & { readonly override?: boolean }): Promise<OpenEnvironment> => {
  const environment = await open(options)
  for (const key of environment.keys()) {
    const value = environment.get(key)
    if (value !== undefined && (options.override === true || process.env[key] === undefined)) process.env[key] = value
  }
  return environment
}
