/** The command tree. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import { standardInputName } from "./Ask.ts"
import type { tree } from "./Commands.ts"
import { usage } from "./Failure.ts"
import * as Help from "./Help.ts"
import { out, withoutColour } from "./Output.ts"
import { run } from "./Run.ts"
import { version } from "./Version.ts"

/** `run` stands before many programs at each of their starts: it does not load the other commands. */
const runAlone = (): typeof tree => {
  const root = Command.make("ampoule").pipe(Command.withSubcommands([run]))
  return {
    help: Help.node(root, Help.node(run)),
    rewrite: (words) => words,
    parse: Command.run(root, { name: "Ampoule", version, executable: "ampoule" })
  }
}

/**
 * What the parser makes of a command line it does not understand. It quotes the argument, which may be a value at the
 * wrong place: that is left out.
 */
const notUnderstood = (error: ValidationError.ValidationError) => {
  const text = withoutColour(HelpDoc.toAnsiText(error.error))
    .trim()
    .replaceAll(/\s*\n\s*/g, " ")
  const unknown = /^Received unknown argument: '(--?[A-Za-z][A-Za-z-]*)?/.exec(text)
  if (unknown === null) return usage(text)
  return usage(unknown[1] === undefined ? "There is an argument too many." : `There is no option ${unknown[1]} here.`)
}

const allCommands = Effect.map(
  Effect.promise(() => import("./Commands.ts")),
  (loaded) => loaded.tree
)

/** `given`: argv as Node has it; what belongs to a child process is cut off already. */
export const execute = Effect.fnUntraced(function* (given: ReadonlyArray<string>) {
  const { help, parse, rewrite } = given[2] === "run" ? runAlone() : yield* allCommands
  const words = rewrite(given.slice(2)).map((word) => (word === "-" ? standardInputName : word))
  const argv = [...given.slice(0, 2), ...words]
  const found = Help.find(help, words)
  const asked = words.includes("--help") || words.includes("-h")
  if (found.unknown !== undefined) {
    // Only what looks like the name of a command is repeated.
    const word = /^[a-z][a-z-]{0,20}$/.test(found.unknown) ? ` ${found.unknown}` : " of that name"
    return yield* usage(`\`${found.path.join(" ")}\` has no command${word}.`, `There are: ${Help.commandNames(found)}`)
  }
  if (asked || words.length === 0) return yield* out(Help.page(found))
  const hint = `\`${found.path.join(" ")} --help\` shows how it is used.`
  return yield* parse(argv).pipe(
    Effect.mapError((error) => {
      if (!ValidationError.isValidationError(error)) return error
      const failure = notUnderstood(error)
      return usage(failure.message, hint)
    })
  )
})

export const config = CliConfig.layer({ showBuiltIns: false, isCaseSensitive: true })
