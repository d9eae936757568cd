/** Every command. `run` starts before many programs, so it can also be loaded without the others (`Cli.ts`). */
import * as Command from "@effect/cli/Command"
import { access } from "./Access.ts"
import { changes } from "./Changes.ts"
import { admin } from "./Admin.ts"
import { audit } from "./Audit.ts"
import { backup, backupWords, restore } from "./Backup.ts"
import { doctor } from "./Doctor.ts"
import { exposed } from "./Exposed.ts"
import { init, open, use } from "./Folder.ts"
import { graph } from "./Graph.ts"
import * as Help from "./Help.ts"
import { login, logout } from "./Login.ts"
import { projects } from "./Projects.ts"
import { injectCommand } from "./Render.ts"
import { run } from "./Run.ts"
import { seal, sealWords } from "./Sealing.ts"
import { secrets } from "./Secrets.ts"
import { migrate, server } from "./Server.ts"
import { setup } from "./Setup.ts"
import { trust } from "./Trust.ts"
import { reseal, unseal } from "./Unsealing.ts"
import { vault } from "./Vault.ts"
import { version } from "./Version.ts"
import { whoami } from "./Whoami.ts"

const below = [
  init,
  use,
  run,
  secrets,
  injectCommand,
  open,
  projects,
  graph,
  seal,
  unseal,
  reseal,
  login,
  logout,
  whoami,
  trust,
  access,
  exposed,
  changes,
  doctor,
  setup,
  server,
  vault,
  migrate,
  admin,
  audit,
  backup,
  restore
] as const
const root = Help.described(
  Command.make("ampoule").pipe(Command.withSubcommands(below)),
  { says: "Secrets stay sealed until the moment they are injected." },
  below,
  true
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
  help: root.node,
  rewrite: withFileCommand,
  parse: Command.run(root, { name: "Ampoule", version, executable: "ampoule" })
}
