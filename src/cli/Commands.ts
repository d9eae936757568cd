/** Every command. `run` starts before many programs, so it can also be loaded without the others (`Cli.ts`). */
import * as Command from "@effect/cli/Command"
import { access } from "./Access.ts"
import { changes } from "./Changes.ts"
import { sessions } from "./Sessions.ts"
import { activity } from "./Activity.ts"
import { admin } from "./Admin.ts"
import { audit } from "./Audit.ts"
import { backup, restore } from "./Backup.ts"
import { doctor } from "./Doctor.ts"
import { exposed } from "./Exposed.ts"
import { open, use } from "./Folder.ts"
import { graph } from "./Graph.ts"
import { incident } from "./Incident.ts"
import * as Help from "./Help.ts"
import { licences } from "./Licences.ts"
import { init } from "./Init.ts"
import { login, logout } from "./Login.ts"
import { environments } from "./ManageProjects.ts"
import { members } from "./Members.ts"
import { projects } from "./Projects.ts"
import { injectCommand } from "./Render.ts"
import { run } from "./RunCommand.ts"
import { seal } from "./Sealing.ts"
import { secrets } from "./Secrets.ts"
import { migrate, server } from "./Server.ts"
import { setup } from "./Setup.ts"
import { tokens } from "./Tokens.ts"
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
  environments,
  tokens,
  members,
  graph,
  seal,
  unseal,
  reseal,
  login,
  logout,
  whoami,
  trust,
  access,
  activity,
  exposed,
  incident,
  changes,
  sessions,
  doctor,
  licences,
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

export const tree = { parse: Command.run(root, { name: "Ampoule", version, executable: "ampoule" }) }

/** What the help says of all of them: written beside the program by its build. */
export const manual = () => Help.pageOf(root.node)
