/** The command tree. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import { standardInputName } from "./terminal/Ask.ts"
import * as Completion from "./help/Completion.ts"
import type { tree } from "./Commands.ts"
import { usage } from "./terminal/Failure.ts"
import * as Arguments from "./help/Arguments.ts"
import * as HelpPage from "./help/Page.ts"
import * as Manual from "./help/Manual.ts"
import { out, withoutColour } from "./terminal/Output.ts"
import { run } from "./run/Command.ts"
import { release } from "#src/Release.ts"

const about = { name: "Ampoule", version: release, executable: "ampoule" }

/** `run` precedes many programs at each of their starts: it does not load the other commands. */
const runAlone = (): typeof tree => ({
  parse: Command.run(Command.make("ampoule").pipe(Command.withSubcommands([run])), about)
})

/**
 * Sentence for a command line that the parser does not understand. The parser's own sentence quotes the argument, which
 * may be a value in the wrong place. Its errors of these kinds are all `InvalidValue`, so only their sentences tell them
 * apart. `test/cli/help.test.ts` fails when a release of the library words them differently.
 */
const notUnderstood = (
  error: ValidationError.ValidationError,
  found: HelpPage.Match,
  line: Arguments.CommandLine | undefined
) => {
  const text = withoutColour(HelpDoc.toAnsiText(error.error))
    .trim()
    .replaceAll(/\s*\n\s*/g, " ")
  const hint = `\`${found.path.join(" ")} --help\` shows how it is used.`
  if (text.startsWith("Invalid subcommand")) return usage(`The commands are: ${HelpPage.commandNames(found)}.`, hint)
  const needed = /^Expected to find option: '(--[a-z-]+)'/.exec(text)?.[1]
  if (needed !== undefined) return usage(`This command needs ${needed}.`, hint)
  const notNumber = /^'(.*)' is not a (?:integer|float)$/.exec(text)?.[1]
  if (notNumber !== undefined) {
    const name = line === undefined ? undefined : Arguments.nameOfText(found, line, notNumber)
    return usage(`${name ?? "This"} takes a whole number.`, hint)
  }
  const cases = /^Expected one of the following cases: (.*)$/.exec(text)?.[1]
  if (cases !== undefined) {
    const option = HelpPage.optionTaking(found, cases.replaceAll(", ", " | "))
    return usage(`${option === undefined ? "Expected" : `${option} takes`} one of: ${cases}.`, hint)
  }
  return text.startsWith("Received unknown argument")
    ? usage(HelpPage.surplus(found), hint)
    : usage(`${text.replace(/\.$/, "")}.`, hint)
}

const allCommands = Effect.map(
  Effect.promise(() => import("./Commands.ts")),
  (loaded) => loaded.tree
)

/** `args`: the words after the program's name, without those of a child process. */
export const execute = Effect.fnUntraced(function* (args: ReadonlyArray<string>) {
  const answer = Manual.textFor(args, release)
  if (answer !== undefined) return yield* out(answer)
  if (Manual.asksForCompletion(args)) {
    return yield* usage("Which shell?", `Example: ampoule completion ${Completion.shells.join(" | ")}`)
  }
  const words = Manual.parsedWords(args).map((word) => (word === "-" ? standardInputName : word))
  const lookup = HelpPage.find(Manual.pages(), words)
  if (lookup.unknown !== undefined) {
    // Repeat only a word that looks like the name of a command: another may be a value.
    const word = /^[a-z][a-z-]{0,20}$/.test(lookup.unknown) ? ` ${lookup.unknown}` : " of that name"
    const suggestion = HelpPage.suggestion(lookup)
    return yield* usage(
      `\`${lookup.path.join(" ")}\` has no command${word}.`,
      suggestion === undefined
        ? `The commands are: ${HelpPage.commandNames(lookup)}`
        : `Did you mean \`${suggestion}\`?`
    )
  }
  if (lookup.path.length === 1) {
    return yield* usage(
      "Options come after the command.",
      "Example: ampoule secrets list --url https://ampoule.example.com"
    )
  }
  const depth = lookup.path.length - 1
  const isAbove = lookup.at.below.some(({ name }) => words.indexOf(name, depth) >= 0)
  // Options of `projects` before a command below it: the parser divides them from those behind.
  const line = isAbove ? undefined : Arguments.read(lookup, words.slice(depth))
  if (line?._tag === "Misuse") return yield* usage(line.message, line.hint)
  const { parse } = words[0] === "run" ? runAlone() : yield* allCommands
  const parsed = line === undefined ? words : [...words.slice(0, depth), ...Arguments.canonical(line)]
  return yield* parse(["node", "ampoule", ...parsed]).pipe(
    Effect.mapError((error) => (ValidationError.isValidationError(error) ? notUnderstood(error, lookup, line) : error))
  )
})

export const config = CliConfig.layer({ showBuiltIns: false, isCaseSensitive: true })
