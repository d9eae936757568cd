/** All commands. `run` starts before many programs, so `Cli.ts` can load it without the others. */
import * as Command from "@effect/cli/Command"
import { access } from "./team/Access.ts"
import { changes } from "./secrets/Changes.ts"
import { sessions } from "./team/Sessions.ts"
import { activity } from "./team/Activity.ts"
import { admin } from "./operator/Admin.ts"
import { audit } from "./operator/Audit.ts"
import { backup, restore } from "./operator/Backup.ts"
import { doctor, whoami } from "./account/Commands.ts"
import { exposed } from "./secrets/ExposedCommand.ts"
import { open, use } from "./account/Folder.ts"
import { graph } from "./secrets/Graph.ts"
import { incident } from "./team/Incident.ts"
import * as Help from "./help/Help.ts"
import { licences } from "./help/Licences.ts"
import { init } from "./account/Init.ts"
import { login, logout } from "./account/Login.ts"
import { environments } from "./team/ManageProjects.ts"
import { members } from "./team/Members.ts"
import { secondPerson } from "./team/SecondPerson.ts"
import { projects } from "./team/Projects.ts"
import { injectCommand } from "./run/Render.ts"
import { run } from "./run/Command.ts"
import { seal } from "./sealed/Sealing.ts"
import { secrets } from "./secrets/Secrets.ts"
import { migrate, server } from "./operator/Server.ts"
import { setup } from "./operator/Setup.ts"
import { tokens } from "./team/Tokens.ts"
import { trust } from "./account/Trust.ts"
import { reseal, unseal } from "./sealed/Unsealing.ts"
import { vault } from "./operator/Vault.ts"
import { release } from "#src/Release.ts"

const commands = [
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
  secondPerson,
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
  Command.make("ampoule").pipe(Command.withSubcommands(commands)),
  { says: "Secrets stay sealed until the moment they are injected." },
  commands,
  true
)

export const tree = { parse: Command.run(root, { name: "Ampoule", version: release, executable: "ampoule" }) }

/** Pages of help for all commands. The build writes them beside the program. */
export const manual = () => Help.pageOf(root.node)
