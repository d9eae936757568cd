/** From resolved secrets to the variables of a child process, or the reason why it cannot have them. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { readFileSync } from "node:fs"
import { danger } from "#src/formats/DangerousNames.ts"
import * as ChildEnvironment from "#src/cli/terminal/ChildEnvironment.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { formatFor, printed } from "./Formats.ts"
import type { RunOptions } from "./RunOptions.ts"
import { chosen, type SelectionOptions } from "./Selection.ts"

export interface Prepared {
  readonly environment: ChildEnvironment.Variables
  /** What came from Ampoule: in `environment`, or in `mounted`. */
  readonly values: ChildEnvironment.Variables
  /** Text of the file of `--mount`. */
  readonly mounted: string | undefined
}

const stackBytes = (): number | undefined => {
  if (process.platform !== "linux") return undefined
  const match = /^Max stack size\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))
  return match === null ? undefined : Number(match[1])
}

const names = (keys: ReadonlyArray<string>) => keys.join(", ")
const options = (name: string, keys: ReadonlyArray<string>) => keys.map((key) => `${name} ${key}`).join(" ")

/** A line each: `MAKEFLAGS gives options to a build tool, or names a compiler.` */
export const explained = (keys: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...keys.slice(0, 10).map((key) => `${key} ${danger(key) ?? ""}.`),
  ...(keys.length > 10 ? [`The other ${keys.length - 10} are of this kind too.`] : [])
]

const notAllowed = (dangerous: ReadonlyArray<string>) =>
  new CliFailure({
    message: `Not passed on: ${names(dangerous)}. Anyone who can write such a secret could run code as you.`,
    hint: [
      ...explained(dangerous),
      `To pass on what you mean to: ${options("--allow", dangerous)}. To leave out: ${options("--except", dangerous)}.`
    ].join("\n  ")
  })

const notCarried = (problem: ChildEnvironment.Uncarried): CliFailure => {
  switch (problem._tag) {
    case "Nul":
      return new CliFailure({
        message: `A variable cannot hold a NUL character, and the value of ${names(problem.keys)} has one.`,
        hint: `Leave out what the command does not need: ${options("--except", problem.keys)}.`
      })
    case "TooLong":
      return new CliFailure({
        message: `Too long for a variable on this system (at most ${problem.limit} bytes each): ${names(problem.keys)}.`,
        hint: `Leave out what the command does not need: ${options("--except", problem.keys)}.`
      })
    case "TooMuch":
      return new CliFailure({
        message: `Too much for this system: ${problem.size} bytes of arguments and variables, at most ${problem.limit}.`,
        hint: `Leave out what the command does not need (--only, --except). The longest: ${names(problem.keys)}.`
      })
  }
}

const mountedText = Effect.fnUntraced(function* (
  values: ChildEnvironment.Variables,
  { mount, mountFormat }: Pick<RunOptions, "mount" | "mountFormat">
) {
  if (Option.isNone(mount)) return undefined
  const format = Option.isSome(mountFormat) ? mountFormat.value : yield* formatFor(mount.value)
  return yield* printed(format, values, "--mount-format")
})

export const prepare = Effect.fnUntraced(function* (
  values: ChildEnvironment.Variables,
  command: ReadonlyArray<string>,
  options: SelectionOptions &
    Pick<RunOptions, "allow" | "keepExisting" | "preserve" | "passCredentials" | "mount" | "mountFormat">
) {
  const selected = yield* chosen(values, options)
  const mounted = yield* mountedText(selected, options)
  const passed = mounted === undefined ? selected : {}
  // Under the names that the command gets: HTTPS_PROXY and https_proxy do the same.
  const dangerous = ChildEnvironment.dangerousNames(Object.keys(passed), options.allow)
  if (dangerous.length > 0) return yield* notAllowed(dangerous)
  const environment = ChildEnvironment.compose({
    inherited: process.env,
    values: passed,
    keepsExisting: options.keepExisting
      ? () => true
      : ChildEnvironment.anyOf(options.preserve.flatMap((names) => names.split(","))),
    passCredentials: options.passCredentials
  })
  const limits = ChildEnvironment.systemLimits(process.platform, stackBytes())
  const problem = ChildEnvironment.uncarried(environment, passed, command, limits)
  if (problem !== undefined) return yield* notCarried(problem)
  return { environment, values: selected, mounted } satisfies Prepared
})
