/** Warnings before the write of a secret that `ampoule run` will not pass on. */
import * as Effect from "effect/Effect"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { dangerousNames, sizeOf, systemLimits } from "#src/cli/terminal/ChildEnvironment.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { note, stderrIsTerminal, stdinIsTerminal, warn } from "#src/cli/terminal/Output.ts"
import { riskLines } from "./Prepare.ts"

interface Entry {
  readonly key: string
  readonly value: string
}

/** Always checked for Linux, where another user may run the environment. */
const isTooLong = (key: string, value: string): boolean =>
  sizeOf(key, value) > (systemLimits("linux", undefined).oneString ?? Infinity)

/** Prints the risks on standard error, and returns the keys that need a confirmation. */
export const warnOfRisks = Effect.fnUntraced(function* (entries: ReadonlyArray<Entry>, allow: ReadonlyArray<string>) {
  const withNul = entries.filter(({ value }) => value.includes("\0")).map(({ key }) => key)
  if (withNul.length > 0) {
    yield* warn(
      `${withNul.slice(0, 10).join(", ")}: no variable can contain a NUL character. \`ampoule run\` will refuse the environment without --except.`
    )
  }
  const long = entries.filter(({ key, value }) => isTooLong(key, value)).map(({ key }) => key)
  if (long.length > 0) {
    yield* warn(
      `${long.slice(0, 10).join(", ")}: longer than a variable on Linux can be (128 KiB). \`ampoule run\` will refuse the environment there without --except.`
    )
  }
  const dangerous = dangerousNames(
    entries.map(({ key }) => key),
    allow
  )
  if (dangerous.length > 0) {
    yield* warn("anyone who can write such a secret could run code on the machines that run the environment:")
    for (const line of riskLines(dangerous)) yield* note(`  ${line}`)
    yield* note("  `ampoule run` passes it on only with --allow.")
  }
  return dangerous
})

const notWritten = (dangerous: ReadonlyArray<string>) =>
  new CliFailure({
    message: "Nothing was written.",
    hint: `To write it anyway: ${dangerous.map((key) => `--allow ${key}`).join(" ")}.`
  })

/** Passes when nothing is dangerous, or the user confirms. Without a terminal it needs `--allow`. */
export const confirm = Effect.fnUntraced(function* (entries: ReadonlyArray<Entry>, allow: ReadonlyArray<string>) {
  const dangerous = yield* warnOfRisks(entries, allow)
  if (dangerous.length === 0) return
  const isConfirmed = stdinIsTerminal() && stderrIsTerminal() && (yield* Ask.confirm("Write it?"))
  if (!isConfirmed) return yield* notWritten(dangerous)
})

/** Like `confirm`, for a command that asks a question of its own afterwards. */
export const refuseUnasked = (dangerous: ReadonlyArray<string>, asks: boolean) =>
  dangerous.length === 0 || asks ? Effect.void : Effect.fail(notWritten(dangerous))
