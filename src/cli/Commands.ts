/** Every command. `run` starts before many programs, so it can also be loaded without the others (`Cli.ts`). */
import * as Command from "@effect/cli/Command"
import { admin, adminHelp } from "./Admin.ts"
import { audit, auditHelp } from "./Audit.ts"
import { backup, backupHelp, backupWords, restore } from "./Backup.ts"
import { doctor } from "./Doctor.ts"
import { graph } from "./Graph.ts"
import * as Help from "./Help.ts"
import { login, logout } from "./Login.ts"
import { projects, projectsHelp } from "./Projects.ts"
import { run } from "./Run.ts"
import { seal, sealHelp, sealWords } from "./Sealing.ts"
import { secrets, secretsHelp } from "./Secrets.ts"
import { migrate, server } from "./Server.ts"
import { setup } from "./Setup.ts"
import { trust } from "./Trust.ts"
import { reseal, unseal } from "./Unsealing.ts"
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
    trust,
    doctor,
    setup,
    server,
    vault,
    migrate,
    admin,
    audit,
    backup,
    restore
  ])
)
const help = Help.group(
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
  Help.node(trust),
  Help.node(doctor),
  Help.node(setup),
  Help.node(server),
  vaultHelp,
  Help.node(migrate),
  adminHelp,
  auditHelp,
  backupHelp,
  Help.node(restore)
)

/**
 * `seal FILE` is `seal file FILE`, `backup FILE` is `backup create FILE`: a command of the parser has arguments or
 * commands, not both.
 */
const withFileCommand = (words: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [command, next] = words
  const meant = (own: ReadonlyArray<string>) => next !== undefined && !["--help", "-h", ...own].includes(next)
  if (command === "seal" && meant(sealWords)) return ["seal", "file", ...words.slice(1)]
  if (command === "backup" && meant(backupWords)) return ["backup", "create", ...words.slice(1)]
  return words
}

export const tree = {
  help,
  rewrite: withFileCommand,
  parse: Command.run(root, { name: "Ampoule", version, executable: "ampoule" })
}
