/**
 * `ampoule/client/promise`: for programs without Effect, on every runtime that has `fetch`.
 *
 *     const env = await open()
 *     env.require("DATABASE_URL")
 */
import { isDangerous } from "#src/formats/DangerousNames.ts"
import { AmpouleError } from "./Failure.ts"
import { type Options, resolve } from "./Resolve.ts"
import { ownProcess } from "./Settings.ts"

export { AmpouleError, type Options }

export interface OpenEnvironment {
  readonly get: (key: string) => string | undefined
  /** Throws `KEY_MISSING` for a key that the environment lacks. */
  readonly require: (key: string) => string
  /** Values by key; throws `KEY_MISSING` with every key that the environment lacks. */
  readonly requireAll: <const Keys extends ReadonlyArray<string>>(
    keys: Keys
  ) => { readonly [Key in Keys[number]]: string }
  readonly keys: () => ReadonlyArray<string>
  /** All values by key, for uses that need them at once. */
  readonly toObject: () => Record<string, string>
  /** Fetches again if something changed; resolves to whether it did. */
  readonly refresh: () => Promise<boolean>
}

/** Resolves an environment. Rejects with `AmpouleError`. */
export const open = async (options: Options = {}): Promise<OpenEnvironment> => {
  const { environment, refresh, values } = await resolve(options)
  const requireAll: OpenEnvironment["requireAll"] = (keys) => {
    const missing = keys.filter((key) => !values().has(key))
    if (missing.length > 0) {
      throw new AmpouleError("KEY_MISSING", `The environment ${environment} has no ${missing.join(", ")}.`)
    }
    // Every key has a value, which the type of `fromEntries` does not say.
    return Object.fromEntries(keys.map((key) => [key, values().get(key)])) as Record<string, string> as never
  }
  return {
    get: (key) => values().get(key),
    require: (key) => requireAll([key])[key],
    requireAll,
    keys: () => [...values().keys()],
    toObject: () => Object.fromEntries(values()),
    refresh: () => refresh()
  }
}

export interface LoadOptions extends Options {
  /** Also replaces variables that `process.env` has already. */
  readonly override?: boolean
  /** Allowed names that change which code runs (`NODE_OPTIONS`, `LD_PRELOAD`, …). */
  readonly allow?: ReadonlyArray<string>
}

/** Resolves an environment and sets the variables that `process.env` lacks. All or none. */
export const load = async (options: LoadOptions = {}): Promise<OpenEnvironment> => {
  const variables = ownProcess()?.env
  if (variables === undefined) {
    throw new AmpouleError("NO_VARIABLES", "This runtime has no process.env to set. Use `open`.")
  }
  const environment = await open(options)
  const missing = Object.entries(environment.toObject()).filter(
    ([key]) => options.override === true || variables[key] === undefined
  )
  const refuse = (code: "DANGEROUS_NAMES" | "VALUE_UNUSABLE", keys: ReadonlyArray<string>, reason: string) => {
    if (keys.length > 0) throw new AmpouleError(code, `Not set: ${keys.join(", ")}. ${reason}`)
  }
  const keysWith = (test: (key: string, value: string) => boolean) =>
    missing.flatMap(([key, value]) => (test(key, value) ? [key] : []))
  refuse(
    "DANGEROUS_NAMES",
    keysWith((key) => isDangerous(key) && options.allow?.includes(key) !== true),
    "Such variables can change which code runs; name them in `allow` if that is meant."
  )
  refuse(
    "VALUE_UNUSABLE",
    keysWith((_, value) => value.includes("\0")),
    "A variable ends at the character U+0000, which the value has."
  )
  for (const [key, value] of missing) variables[key] = value
  return environment
}
