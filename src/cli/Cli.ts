/** The command tree. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import { standardInputName } from "./Ask.ts"
import * as Completion from "./Completion.ts"
import type { tree } from "./Commands.ts"
import { usage } from "./Failure.ts"
import * as Help from "./Help.ts"
import { out, withoutColour } from "./Output.ts"
import { run } from "./Run.ts"
import { version } from "./Version.ts"

/** `run` precedes many programs at each of their starts: it does not load the other commands. */
const runAlone = (): typeof tree => {
  const root = Help.described(Command.make("ampoule").pipe(Command.withSubcommands([run])), { says: "" }, [run])
  return {
    help: root.node,
    rewrite: (words) => words,
    parse: Command.run(root, { name: "Ampoule", version, executable: "ampoule" })
  }
}

/**
 * A sentence for a command line that the parser does not understand. The parser's own sentence quotes the argument,
 * which
 * may be a value at the wrong place. Its errors of these kinds differ by their sentences alone (all are
 * `InvalidValue`), so
 * these are matched; `test/cli/help.test.ts` notices when another release of the library words them differently.
 */
const notUnderstood = (error: ValidationError.ValidationError, found: Help.Found) => {
  const text = withoutColour(HelpDoc.toAnsiText(error.error))
    .trim()
    .replaceAll(/\s*\n\s*/g, " ")
  const hint = `\`${found.path.join(" ")} --help\` shows how it is used.`
  if (text.startsWith("Invalid subcommand")) return usage(`The commands are: ${Help.commandNames(found)}.`, hint)
  const needed = /^Expected to find option: '(--[a-z-]+)'/.exec(text)?.[1]
  if (needed !== undefined) return usage(`This command needs ${needed}.`, hint)
  if (/ is not a (integer|float)$/.test(text)) return usage("This takes a whole number.", hint)
  const cases = /^Expected one of the following cases: (.*)$/.exec(text)?.[1]
  if (cases !== undefined) {
    const option = Help.optionTaking(found, cases.replaceAll(", ", " | "))
    return usage(`${option === undefined ? "Expected" : `${option} takes`} one of: ${cases}.`, hint)
  }
  const unknown = /^Received unknown argument: '(--?[A-Za-z][A-Za-z-]*)?/.exec(text)
  if (unknown === null) return usage(`${text.replace(/\.$/, "")}.`, hint)
  if (unknown[1] !== undefined) return usage(`This command has no option ${unknown[1]}.`, hint)
  return found.path[1] === "run"
    ? usage("Put -- before the command to run.", "Example: ampoule run [options] -- node app.js")
    : usage("This command takes fewer arguments.", hint)
}

const allCommands = Effect.map(
  Effect.promise(() => import("./Commands.ts")),
  (loaded) => loaded.tree
)

/** `help secrets set` and `version`, as other programs have them. */
const asOptions = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (words[0] === "help") return [...words.slice(1), "--help"]
  return words[0] === "version" && words.length === 1 ? ["--version"] : words
}

/** `given`: argv as Node has it; what belongs to a child process is cut off already. */
export const execute = Effect.fnUntraced(function* (given: ReadonlyArray<string>) {
  const { help, parse, rewrite } = given[2] === "run" ? runAlone() : yield* allCommands
  const words = rewrite(asOptions(given.slice(2))).map((word) => (word === "-" ? standardInputName : word))
  const argv = [...given.slice(0, 2), ...words]
  if (words[0] === "completion" || words[0] === "--completions") {
    const [, shell, ...more] = words
    if (Completion.isShell(shell) && more.length === 0) return yield* out(Completion.script(shell, help))
    return yield* usage("Which shell?", `Example: ampoule completion ${Completion.shells.join(" | ")}`)
  }
  const found = Help.find(help, words)
  const asked = words.includes("--help") || words.includes("-h")
  if (found.unknown !== undefined) {
    // Only what looks like the name of a command is repeated.
    const word = /^[a-z][a-z-]{0,20}$/.test(found.unknown) ? ` ${found.unknown}` : " of that name"
    const meant = Help.meant(found)
    return yield* usage(
      `\`${found.path.join(" ")}\` has no command${word}.`,
      meant === undefined ? `The commands are: ${Help.commandNames(found)}` : `Did you mean \`${meant}\`?`
    )
  }
  if (asked || (found.at.isGroup && words.length === found.path.length - 1)) return yield* out(Help.page(found))
  if (words[0] === "--version" && words.length === 1) return yield* out(`${version}\n`)
  if (found.path.length === 1 && words[0] !== "--version") {
    return yield* usage(
      "Options come after the command.",
      "Example: ampoule secrets list --url https://ampoule.example.com"
    )
  }
  return yield* parse(argv).pipe(
    Effect.mapError((error) => (ValidationError.isValidationError(error) ? notUnderstood(error, found) : error))
  )
})

export const config = CliConfig.layer({ showBuiltIns: false, isCaseSensitive: true })
