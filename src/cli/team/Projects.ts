/** `ampoule projects`: projects that the credential can see. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import * as Help from "#src/cli/help/Help.ts"
import { listProjects } from "./ProjectList.ts"
import { createProject, deleteProject, updateProject } from "./ManageProjects.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { list as printList } from "#src/cli/terminal/Output.ts"
import { projects as projectsClient } from "#src/cli/connection/Routes.ts"
import * as Target from "#src/cli/connection/Target.ts"

export const listOptions = { ...Shared.connection, json: Shared.json } as const

const listCommand = Help.command(
  "list",
  { says: "List projects.", examples: ["ampoule projects list --json"] },
  listOptions,
  listProjects
)

const environments = Help.command(
  "environments",
  { says: "List the environments of a project.", examples: ["ampoule projects environments shop"] },
  {
    ...Shared.connection,
    json: Shared.json,
    project: Shared.project,
    name: Args.text({ name: "PROJECT" }).pipe(
      Args.withDescription("Id or slug (default: that of --project)"),
      Args.optional
    )
  },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const name = yield* Target.project(
      Option.orElse(options.name, () => options.project),
      session
    )
    const client = yield* projectsClient(session)
    const { items } = yield* Target.withProject(session, name, (projectId) =>
      call(session, client.listEnvironments({ path: { projectId } }))
    )
    yield* printList(options, items, "This credential cannot reach any environment of the project.", [
      ["SLUG", (item) => item.slug],
      ["NAME", (item) => item.name],
      ["PROTECTED", (item) => (item.protected ? "yes" : "no")],
      ["ID", (item) => item.id]
    ])
  })
)

const commands = [listCommand, environments, createProject, updateProject, deleteProject] as const
export const projects = Help.described(
  Command.make("projects", listOptions, listProjects).pipe(Command.withSubcommands(commands)),
  {
    says: "List the projects that the credential can see, and create, change and delete them.",
    examples: ["ampoule projects", "ampoule projects environments shop", "ampoule projects create Shop"]
  },
  commands
)
