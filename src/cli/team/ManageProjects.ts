/** Commands that create, change and delete projects and environments, each after an approval (`Management.ts`). */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  CreateEnvironment,
  CreateProject,
  ManageProjectsApi,
  UpdateEnvironment,
  UpdateProject
} from "#schema/ManageProjectsApi.ts"
import type { Project, ProjectEnvironment } from "#schema/ProjectsApi.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Management from "./Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, list as printList, note, out, plain } from "#src/cli/terminal/Output.ts"
import { projects as projectsClient } from "#src/cli/connection/Routes.ts"
import * as Target from "#src/cli/connection/Target.ts"

const api = HttpApi.make("ampoule").add(ManageProjectsApi)
const clientOf = ({ http }: Connection) => HttpApiClient.group(api, { group: "manageProjects", httpClient: http })

/** Members with a value. */
const present = (members: Readonly<Record<string, Option.Option<unknown>>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(members).flatMap(([name, one]) => (Option.isSome(one) ? [[name, one.value]] : [])))

// --- projects ---

const visibility = Options.choice("visibility", ["team", "granted"]).pipe(
  Options.withDescription("Who sees it: the team, or people with a grant in it"),
  Options.optional
)
const slug = Options.optional(Shared.text("slug", "slug", "Short name, for addresses and .ampoule.json"))

/** Project of an argument, with its team. */
const projectOf = Effect.fnUntraced(function* (session: Connection, name: Target.ProjectName) {
  const client = yield* projectsClient(session)
  const projectId = yield* Target.withProject(session, name, Effect.succeed)
  const { items } = yield* call(session, client.list())
  const project = items.find(({ id }) => id === projectId)
  if (project !== undefined) return project
  return yield* new CliFailure({ message: `This credential cannot see a project ${plain(name.project)}.` })
})

/** Team that owns the project, for which the approval is requested. */
const teamOf = (session: Connection, { teamId }: Project) => Management.teamOf(session, Option.some(teamId))

export const makeProject = (managed: Management.Managed, payload: CreateProject) =>
  Effect.gen(function* () {
    const client = yield* clientOf(managed.connection)
    return yield* call(managed.connection, client.create({ path: { teamId: managed.team.id }, payload }))
  })

const created = ({ id, slug }: { readonly id: string; readonly slug: string }) =>
  Effect.zipRight(note(`Created ${plain(slug)}.`), out(`${plain(id)}\n`))

export const createProject = Help.command(
  "create",
  {
    says: "Create a project, and print its id.",
    more: [Management.approved, "Without --environment it has development, staging and a protected production."],
    examples: [
      "ampoule projects create Shop",
      "ampoule projects create Shop --slug shop --environment development --environment production"
    ]
  },
  {
    ...Management.options,
    slug,
    visibility,
    environments: Options.repeated(Shared.text("environment", "slug", "Environment to create; may be repeated")),
    name: Shared.argument("NAME", "Display name")
  },
  Effect.fnUntraced(function* (options) {
    const { environments, name, slug, visibility } = options
    const payload = yield* Management.payloadOf(CreateProject)({
      name,
      ...present({ slug, visibility }),
      ...(environments.length === 0 ? {} : { environments: environments.map((slug) => ({ slug })) })
    })
    const project = yield* Management.inTeam(options, (managed) => makeProject(managed, payload))
    yield* options.json ? json(project) : created(project)
  })
)

const projectArgument = Shared.argument("PROJECT", "Id or slug of the project")
/** The project determines the team. */
const { team: _, ...ofProject } = Management.options

export const updateProject = Help.command(
  "update",
  {
    says: "Change the name, the slug or the visibility of a project.",
    more: [Management.approved],
    examples: ["ampoule projects update shop --name 'Web shop'", "ampoule projects update shop --visibility granted"]
  },
  {
    ...ofProject,
    name: Options.optional(Shared.text("name", "text", "New display name")),
    slug,
    visibility,
    project: projectArgument
  },
  Effect.fnUntraced(function* (options) {
    const members = present({ name: options.name, slug: options.slug, visibility: options.visibility })
    if (Object.keys(members).length === 0) return yield* usage("Use --name, --slug or --visibility.")
    const payload = yield* Management.payloadOf(UpdateProject)(members)
    const session = yield* Credential.open(options)
    const project = yield* projectOf(session, { project: options.project })
    const team = yield* teamOf(session, project)
    const updated = yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.update({ path: { projectId: project.id }, payload }))
      )
    )
    yield* options.json
      ? json(updated)
      : note("requestId" in updated ? Management.waits(updated) : `Changed ${plain(updated.slug)}.`)
  })
)

export const deleteProject = Help.command(
  "delete",
  {
    says: "Delete a project with its environments and all their secrets.",
    more: [Management.approved],
    examples: ["ampoule projects delete old-shop", "ampoule projects delete old-shop --yes"]
  },
  { ...ofProject, yes: Shared.yes, project: projectArgument },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const project = yield* projectOf(session, { project: options.project })
    const team = yield* teamOf(session, project)
    const question = `Delete ${plain(project.slug)} of ${plain(team.name)}, with its environments and all their secrets?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was deleted.")
    yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.remove({ path: { projectId: project.id } }))
      )
    )
    yield* options.json ? json({ id: project.id, deleted: true }) : note(`Deleted ${plain(project.slug)}.`)
  })
)

// --- environments ---

const protection = Options.choice("protected", ["yes", "no"]).pipe(
  Options.withDescription("Whether only owners and admins can change it"),
  Options.optional
)
const readers = Options.choice("readers", ["team", "granted"]).pipe(
  Options.withDescription("Who reads its values: the team by role, or people with a grant"),
  Options.optional
)
const changes = Options.choice("changes", ["direct", "proposed"]).pipe(
  Options.withDescription("Writes of roles below admin: direct, or proposed and approved first"),
  Options.optional
)
const environmentName = Options.optional(Shared.text("name", "text", "Display name"))
const rules = { name: environmentName, protected: protection, readers, changes } as const
const membersOf = (options: {
  readonly name: Option.Option<string>
  readonly protected: Option.Option<"yes" | "no">
  readonly readers: Option.Option<string>
  readonly changes: Option.Option<string>
}) =>
  present({
    name: options.name,
    protected: Option.map(options.protected, (answer) => answer === "yes"),
    readers: options.readers,
    changes: options.changes
  })

const position = Options.integer("position").pipe(
  Options.withPseudoName("n"),
  Options.withDescription("Position among the environments of the project; 1 is the first"),
  Options.optional
)

const columns = [
  ["SLUG", (item: ProjectEnvironment) => item.slug],
  ["NAME", (item: ProjectEnvironment) => item.name],
  ["PROTECTED", (item: ProjectEnvironment) => (item.protected ? "yes" : "no")],
  ["READERS", (item: ProjectEnvironment) => item.readers ?? "team"],
  ["ID", (item: ProjectEnvironment) => item.id]
] as const

const environmentsOf = (session: Connection, name: Target.ProjectName) =>
  Effect.flatMap(projectsClient(session), (client) =>
    Target.withProject(session, name, (projectId) =>
      Effect.map(call(session, client.listEnvironments({ path: { projectId } })), ({ items }) => items)
    )
  )

const listEnvironments = Help.command(
  "list",
  {
    says: "List the environments of a project. It needs no approval.",
    examples: ["ampoule environments list", "ampoule environments list --project shop --json"]
  },
  { ...Shared.connection, project: Shared.project, json: Shared.json },
  Effect.fnUntraced(function* (options) {
    const session = yield* Credential.open(options)
    const name = yield* Target.project(options.project, session)
    const items = yield* environmentsOf(session, name)
    yield* printList(options, items, "This credential cannot reach any environment of the project.", columns)
  })
)

/** Options of a command about one existing or new environment. */
const ofEnvironment = {
  ...ofProject,
  project: Shared.project,
  environment: Shared.argument("ENVIRONMENT", "Slug of the environment")
} as const

/** Creates an environment in a project; needs a manager of its team. */
export const makeEnvironment = Effect.fnUntraced(function* (
  session: Connection,
  browser: { readonly noBrowser: boolean },
  name: Target.ProjectName,
  payload: CreateEnvironment
) {
  const project = yield* projectOf(session, name)
  const team = yield* teamOf(session, project)
  return yield* Management.managing(session, team, browser, ({ connection }) =>
    Effect.flatMap(clientOf(connection), (client) =>
      call(connection, client.createEnvironment({ path: { projectId: project.id }, payload }))
    )
  )
})

const createEnvironment = Help.command(
  "create",
  {
    says: "Create an environment in a project, and print its id.",
    more: [Management.approved],
    examples: ["ampoule environments create qa", "ampoule environments create live --project shop --protected yes"]
  },
  { ...ofEnvironment, ...rules },
  Effect.fnUntraced(function* (options) {
    const payload = yield* Management.payloadOf(CreateEnvironment)({ slug: options.environment, ...membersOf(options) })
    const session = yield* Credential.open(options)
    const name = yield* Target.project(options.project, session)
    const environment = yield* makeEnvironment(session, options, name, payload)
    yield* options.json ? json(environment) : created(environment)
  })
)

/** Environment of an argument, with its project and team. */
const environmentOf = Effect.fnUntraced(function* (
  options: Credential.ConnectionOptions & { readonly project: Option.Option<string>; readonly environment: string }
) {
  const session = yield* Credential.open(options)
  const name = yield* Target.project(options.project, session)
  const project = yield* projectOf(session, name)
  const items = yield* environmentsOf(session, { project: project.slug, projectId: project.id })
  const environment = items.find(({ id, slug }) => slug === options.environment || id === options.environment)
  if (environment === undefined) {
    return yield* new CliFailure({
      message: `This credential cannot reach an environment ${plain(options.environment)} of ${plain(project.slug)}.`,
      hint: "`ampoule environments list` shows those that it can reach."
    })
  }
  return { session, project, environment, team: yield* teamOf(session, project) }
})

const updateEnvironment = Help.command(
  "update",
  {
    says: "Change the name, the rules or the position of an environment.",
    more: [Management.approved],
    examples: ["ampoule environments update staging --protected yes", "ampoule environments update qa --position 1"]
  },
  { ...ofEnvironment, ...rules, position },
  Effect.fnUntraced(function* (options) {
    const members = { ...membersOf(options), ...present({ position: options.position }) }
    if (Object.keys(members).length === 0) {
      return yield* usage("Use --name, --protected, --readers, --changes or --position.")
    }
    const payload = yield* Management.payloadOf(UpdateEnvironment)(members)
    const { environment, session, team } = yield* environmentOf(options)
    const updated = yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.updateEnvironment({ path: { envId: environment.id }, payload }))
      )
    )
    yield* options.json
      ? json(updated)
      : note("requestId" in updated ? Management.waits(updated) : `Changed ${plain(updated.slug)}.`)
  })
)

const deleteEnvironment = Help.command(
  "delete",
  {
    says: "Delete an environment with all its secrets.",
    more: [Management.approved],
    examples: ["ampoule environments delete pr-12", "ampoule environments delete pr-12 --project shop --yes"]
  },
  { ...ofEnvironment, yes: Shared.yes },
  Effect.fnUntraced(function* (options) {
    const { environment, project, session, team } = yield* environmentOf(options)
    const question = `Delete ${plain(environment.slug)} of ${plain(project.slug)}, with all its secrets?`
    if (!options.yes && !(yield* Ask.confirm(question))) return yield* note("Nothing was deleted.")
    yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.removeEnvironment({ path: { envId: environment.id } }))
      )
    )
    yield* options.json ? json({ id: environment.id, deleted: true }) : note(`Deleted ${plain(environment.slug)}.`)
  })
)

const commands = [listEnvironments, createEnvironment, updateEnvironment, deleteEnvironment] as const
export const environments = Help.described(
  Command.make("environments").pipe(Command.withSubcommands(commands)),
  { says: "List, create, change and delete the environments of a project." },
  commands,
  true
)
