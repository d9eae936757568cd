/** The command tree. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import { standardInputName } from "./Ask.ts"
import { audit, auditHelp } from "./Audit.ts"
import { backup, backupHelp, backupWords, restore } from "./Backup.ts"
import { doctor } from "./Doctor.ts"
import { usage } from "./Failure.ts"
import { graph } from "./Graph.ts"
import * as Help from "./Help.ts"
import { login, logout } from "./Login.ts"
import { out, withoutColour } from "./Output.ts"
import { projects, projectsHelp } from "./Projects.ts"
import { run } from "./Run.ts"
import { reseal, seal, sealHelp, sealWords, unseal } from "./Sealing.ts"
import { secrets, secretsHelp } from "./Secrets.ts"
import { migrate, server } from "./ServerPrograms.ts"
import { setup } from "./Setup.ts"
import { vault, vaultHelp } from "./Vault.ts"
import { version } from "./Version.ts"
import { whoami } from "./Whoami.ts"

const root = Command.make("ampoule").pipe(
  Command.withDescription("Secrets stay sealed until the moment they are injected."),
  Command.withSubcommands([
    run,
    secrets,
    projects,
    graph,
    seal,
    unseal,
    reseal,
    login,
    logout,
    whoami,
    doctor,
    setup,
    server,
    vault,
    migrate,
    audit,
    backup,
    restore
  ])
)
const help = Help.node(
  root,
  Help.node(run),
  secretsHelp,
  projectsHelp,
  Help.node(graph),
  sealHelp,
  Help.node(unseal),
  Help.node(reseal),
  Help.node(login),
  Help.node(logout),
  Help.node(whoami),
  Help.node(doctor),
  Help.node(setup),
  Help.node(server),
  vaultHelp,
  Help.node(migrate),
  auditHelp,
  backupHelp,
  Help.node(restore)
)

const parsed = Command.run(root, { name: "Ampoule", version, executable: "ampoule" })

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

/** `seal FILE` is `seal file FILE`, `backup FILE` is `backup create FILE`: a command of the parser has arguments or commands, not both. */
const withFileCommand = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [command, next] = words
  const meant = (own: ReadonlyArray<string>) => next !== undefined && !["--help", "-h", ...own].includes(next)
  if (command === "seal" && meant(sealWords)) return ["seal", "file", ...words.slice(1)]
  if (command === "backup" && meant(backupWords)) return ["backup", "create", ...words.slice(1)]
  return words
}

/** `given`: argv as Node has it; what belongs to a child process is cut off already. */
export const execute = (given: ReadonlyArray<string>) => {
  const words = withFileCommand(given.slice(2)).map((word) => (word === "-" ? standardInputName : word))
  const argv = [...given.slice(0, 2), ...words]
  const found = Help.find(help, words)
  const asked = words.includes("--help") || words.includes("-h")
  if (found.unknown !== undefined) {
    // Only what looks like the name of a command is repeated.
    const word = /^[a-z][a-z-]{0,20}$/.test(found.unknown) ? ` ${found.unknown}` : " of that name"
    return usage(`\`${found.path.join(" ")}\` has no command${word}.`, `There are: ${Help.commandNames(found)}`)
  }
  if (asked || words.length === 0) return out(Help.page(found))
  const hint = `\`${found.path.join(" ")} --help\` shows how it is used.`
  return parsed(argv).pipe(
    Effect.mapError((error) => {
      if (!ValidationError.isValidationError(error)) return error
      const failure = notUnderstood(error)
      return usage(failure.message, hint)
    })
  )
}

export const config = CliConfig.layer({ showBuiltIns: false, isCaseSensitive: true })
