/** Reads one value from the user, a pipe or a file. Never from the command line, which other users can see. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { secretKeyPattern } from "#schema/Values.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import { stdinIsTerminal } from "#src/cli/terminal/Output.ts"
import * as Shared from "#src/cli/terminal/Options.ts"

export const valueFile = Options.optional(
  Shared.text("value-from-file", "file", "Take the value from a file, unchanged")
)
export const allowEmpty = Shared.flag("allow-empty", "Write an empty value (default: empty input is an error)")

/** Catches a value in this place, so that the error does not quote it as an unknown argument. */
export const more = Args.text({ name: Help.notAnArgument }).pipe(Args.repeated)

const onCommandLine = usage(
  "Values are not accepted on the command line, where other users and the shell's history can see them.",
  "Type it at the prompt, pipe it in, or use --value-from-file. Replace a value that you passed this way."
)

export const refuseArgument = ({ key, more }: { readonly key: string; readonly more: ReadonlyArray<string> }) =>
  more.length === 0 && !key.includes("=") ? Effect.void : Effect.fail(onCommandLine)

/** For commands with several keys: a later word that is not a key is taken for a value. */
export const refuseValues = (words: ReadonlyArray<string>) =>
  words.some((word, i) => word.includes("=") || (i > 0 && !secretKeyPattern.test(word)))
    ? Effect.fail(onCommandLine)
    : Effect.void

interface ValueOptions {
  readonly valueFile: Option.Option<string>
  readonly keepNewline: boolean
  readonly allowEmpty: boolean
}

const readText = Effect.fnUntraced(function* (key: string, { keepNewline, valueFile }: ValueOptions) {
  if (Option.isSome(valueFile)) return yield* Ask.fileText(valueFile.value, "The file")
  if (stdinIsTerminal()) return Redacted.value(yield* Ask.hidden(`Value of ${key} (not shown): `))
  const piped = yield* Ask.standardInput
  return keepNewline ? piped : Ask.withoutFinalNewline(piped)
})

export const read = Effect.fnUntraced(function* (key: string, options: ValueOptions) {
  const text = yield* readText(key, options)
  // A failed command on the left side of a pipe sends nothing, which must not replace a value.
  if (text === "" && !options.allowEmpty) {
    return yield* new CliFailure({
      message: `${Option.isSome(options.valueFile) ? "The file" : "Standard input"} was empty, so ${key} was not written.`,
      hint: "Use --allow-empty to write an empty value."
    })
  }
  return text
})
