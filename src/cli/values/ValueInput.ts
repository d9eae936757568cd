/** One value from a person, a pipe or a file. Never from the command line, which other users can see. */
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
  Shared.text("value-from-file", "file", "Take the value from a file, exactly as it is")
)
export const allowEmpty = Shared.flag(
  "allow-empty",
  "Write an empty value (else no input is an error, and nothing is written)"
)

/** Named so that a value at this place gets a sentence of its own instead of being quoted as an unknown argument. */
export const more = Args.text({ name: Help.notAnArgument }).pipe(Args.repeated)

const onCommandLine = usage(
  "The value is not taken from the command line: other users and the shell's history can see it there.",
  "Type it when asked, pipe it in, or say --value-from-file. A value given this way should be replaced."
)

export const refuseArgument = ({ key, more }: { readonly key: string; readonly more: ReadonlyArray<string> }) =>
  more.length === 0 && !key.includes("=") ? Effect.void : Effect.fail(onCommandLine)

/** Where several keys may stand: what is none behind the first is a value. */
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
  // A failed command on the left side of a pipe sends nothing: that must not replace a value.
  if (text === "" && !options.allowEmpty) {
    return yield* new CliFailure({
      message: `${Option.isSome(options.valueFile) ? "The file" : "Standard input"} was empty, so ${key} was not written.`,
      hint: "To write an empty value: --allow-empty."
    })
  }
  return text
})
