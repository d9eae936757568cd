/** Builds the variables of a child process from resolved secrets, or fails with the reason. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { readFileSync } from "node:fs"
import { danger } from "#src/formats/DangerousNames.ts"
import * as ChildEnvironment from "#src/cli/terminal/ChildEnvironment.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { formatFor, printValues } from "./Formats.ts"
import type { RunOptions } from "./RunOptions.ts"
import { keysByName, selectValues, type SelectionOptions } from "./Selection.ts"

export interface Prepared {
  readonly environment: ChildEnvironment.Variables
  /** Values from Ampoule: in `environment`, or in `mounted`. */
  readonly values: ChildEnvironment.Variables
  /** Content of the file of `--mount`. */
  readonly mounted: string | undefined
}

const stackBytes = (): number | undefined => {
  if (process.platform !== "linux") return undefined
  const match = /^Max stack size\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))
  return match === null ? undefined : Number(match[1])
}

const names = (keys: ReadonlyArray<string>) => keys.join(", ")
const options = (name: string, keys: ReadonlyArray<string>) => keys.map((key) => `${name} ${key}`).join(" ")

/** One line per key: `MAKEFLAGS gives options to a build tool, or names a compiler.` */
export const riskLines = (keys: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...keys.slice(0, 10).map((key) => `${key} ${danger(key) ?? ""}.`),
  ...(keys.length > 10 ? [`The other ${keys.length - 10} are similar.`] : [])
]

/** Keys that `--except` takes for these variables. */
type KeysOf = (variables: ReadonlyArray<string>) => ReadonlyArray<string>

const notAllowed = (dangerous: ReadonlyArray<string>, keysOf: KeysOf) =>
  new CliFailure({
    message: `Not passed on: ${names(dangerous)}. Anyone who can write such a secret could run code as you.`,
    hint: [
      ...riskLines(dangerous),
      `To pass them on anyway: ${options("--allow", dangerous)}. To exclude them: ${options("--except", keysOf(dangerous))}.`
    ].join("\n  ")
  })

const notCarried = (problem: ChildEnvironment.Excess, keysOf: KeysOf): CliFailure => {
  switch (problem._tag) {
    case "Nul":
      return new CliFailure({
        message: `A variable cannot contain a NUL character, but the value of ${names(problem.keys)} does.`,
        hint: `Exclude values that the command does not need: ${options("--except", keysOf(problem.keys))}.`
      })
    case "TooLong":
      return new CliFailure({
        message: `Too long for a variable on this system (at most ${problem.limit} bytes each): ${names(problem.keys)}.`,
        hint: `Exclude values that the command does not need: ${options("--except", keysOf(problem.keys))}.`
      })
    case "TooMuch":
      return new CliFailure({
        message: `Too much for this system: ${problem.size} bytes of arguments and variables, at most ${problem.limit}.`,
        hint: `Exclude values that the command does not need (--only, --except). The longest: ${names(keysOf(problem.keys))}.`
      })
  }
}

const mountedText = Effect.fnUntraced(function* (
  values: ChildEnvironment.Variables,
  { mount, mountFormat }: Pick<RunOptions, "mount" | "mountFormat">,
  secrets: ReadonlyMap<string, string>
) {
  if (Option.isNone(mount)) return undefined
  const format = Option.isSome(mountFormat) ? mountFormat.value : yield* formatFor(mount.value)
  return yield* printValues(format, values, "--mount-format", secrets)
})

export const prepare = Effect.fnUntraced(function* (
  values: ChildEnvironment.Variables,
  command: ReadonlyArray<string>,
  options: SelectionOptions &
    Pick<RunOptions, "allow" | "keepExisting" | "preserve" | "passCredentials" | "mount" | "mountFormat">
) {
  const selected = yield* selectValues(values, options)
  const secrets = yield* keysByName(Object.keys(values), options)
  const keysOf: KeysOf = (variables) => variables.map((name) => secrets.get(name) ?? name)
  const mounted = yield* mountedText(selected, options, secrets)
  const variables = mounted === undefined ? selected : {}
  // Checked after renaming, because HTTPS_PROXY and https_proxy have the same effect.
  const dangerous = ChildEnvironment.dangerousNames(Object.keys(variables), options.allow)
  if (dangerous.length > 0) return yield* notAllowed(dangerous, keysOf)
  const environment = ChildEnvironment.compose({
    inherited: process.env,
    values: variables,
    keepsExisting: options.keepExisting
      ? () => true
      : ChildEnvironment.anyOf(options.preserve.flatMap((names) => names.split(","))),
    passCredentials: options.passCredentials
  })
  const limits = ChildEnvironment.systemLimits(process.platform, stackBytes())
  const problem = ChildEnvironment.excessOf(environment, variables, command, limits)
  if (problem !== undefined) return yield* notCarried(problem, keysOf)
  return { environment, values: selected, mounted } satisfies Prepared
})
