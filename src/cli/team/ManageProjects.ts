/** Making, changing and deleting projects and environments, each after an approval (`Management.ts`). */
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

/** Members that were given. */
const given = (members: Readonly<Record<string, Option.Option<unknown>>>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(members).flatMap(([name, one]) => (Option.isSome(one) ? [[name, one.value]] : [])))

// --- projects ---

const visibility = Options.choice("visibility", ["team", "granted"]).pipe(
  Options.withDescription("Who sees it: the team, or those who were granted something in it"),
  Options.optional
)
const slug = Options.optional(Shared.text("slug", "slug", "Its short name, for addresses and .ampoule.json"))

/** The project that a command names, with its team. */
const projectOf = Effect.fnUntraced(function* (session: Connection, name: string) {
  const client = yield* projectsClient(session)
  const projectId = yield* Target.withProject(session, name, Effect.succeed)
  const { items } = yield* call(session, client.list())
  const found = items.find(({ id }) => id === projectId)
  if (found !== undefined) return found
  return yield* new CliFailure({ message: `This credential sees no project ${plain(name)}.` })
})

/** The team that owns a project, which the approval is for. */
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
    says: "Make a project, and print its id.",
    more: [
      Management.approved,
      "Its environments are development, staging and protected production, unless --environment says which."
    ],
    examples: [
      "ampoule projects create Shop",
      "ampoule projects create Shop --slug shop --environment development --environment production"
    ]
  },
  {
    ...Management.options,
    slug,
    visibility,
    environments: Options.repeated(Shared.text("environment", "slug", "An environment to begin with; may be repeated")),
    name: Shared.argument("NAME", "Its name, as people read it")
  },
  Effect.fnUntraced(function* (options) {
    const { environments, name, slug, visibility } = options
    const payload = yield* Management.payloadOf(CreateProject)({
      name,
      ...given({ slug, visibility }),
      ...(environments.length === 0 ? {} : { environments: environments.map((slug) => ({ slug })) })
    })
    const made = yield* Management.inTeam(options, (managed) => makeProject(managed, payload))
    yield* options.json ? json(made) : created(made)
  })
)

const projectArgument = Shared.argument("PROJECT", "Id or slug of the project")
/** The team is that of the project. */
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
    name: Options.optional(Shared.text("name", "text", "Its new name")),
    slug,
    visibility,
    project: projectArgument
  },
  Effect.fnUntraced(function* (options) {
    const members = given({ name: options.name, slug: options.slug, visibility: options.visibility })
    if (Object.keys(members).length === 0) return yield* usage("Say what to change: --name, --slug or --visibility.")
    const payload = yield* Management.payloadOf(UpdateProject)(members)
    const session = yield* Credential.open(options)
    const project = yield* projectOf(session, options.project)
    const team = yield* teamOf(session, project)
    const changed = yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.update({ path: { projectId: project.id }, payload }))
      )
    )
    yield* options.json ? json(changed) : note(`Changed ${plain(changed.slug)}.`)
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
    const project = yield* projectOf(session, options.project)
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
  Options.withDescription("Whether owners and admins alone change it"),
  Options.optional
)
const readers = Options.choice("readers", ["team", "granted"]).pipe(
  Options.withDescription("Who reads its values: the team by role, or those who were granted it"),
  Options.optional
)
const changes = Options.choice("changes", ["direct", "proposed"]).pipe(
  Options.withDescription("What people below admin write: it is written, or waits for an approval"),
  Options.optional
)
const environmentName = Options.optional(Shared.text("name", "text", "Its name, as people read it"))
const rules = { name: environmentName, protected: protection, readers, changes } as const
const membersOf = (options: {
  readonly name: Option.Option<string>
  readonly protected: Option.Option<"yes" | "no">
  readonly readers: Option.Option<string>
  readonly changes: Option.Option<string>
}) =>
  given({
    name: options.name,
    protected: Option.map(options.protected, (answer) => answer === "yes"),
    readers: options.readers,
    changes: options.changes
  })

const position = Options.integer("position").pipe(
  Options.withPseudoName("n"),
  Options.withDescription("Its place among the environments of the project; 1 is the first"),
  Options.optional
)

const columns = [
  ["SLUG", (item: ProjectEnvironment) => item.slug],
  ["NAME", (item: ProjectEnvironment) => item.name],
  ["PROTECTED", (item: ProjectEnvironment) => (item.protected ? "yes" : "no")],
  ["READERS", (item: ProjectEnvironment) => item.readers ?? "team"],
  ["ID", (item: ProjectEnvironment) => item.id]
] as const

export const environmentsOf = (session: Connection, name: string) =>
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
    const name = yield* Target.project(options.project)
    const session = yield* Credential.open(options)
    const items = yield* environmentsOf(session, name)
    yield* printList(options, items, "This credential reaches no environment of the project.", columns)
  })
)

/** A command about one environment, or a new one, of the project that is named or of this folder. */
const ofEnvironment = {
  ...ofProject,
  project: Shared.project,
  environment: Shared.argument("ENVIRONMENT", "Its slug")
} as const

/** In a project that is named, by who manages its team. */
export const makeEnvironment = Effect.fnUntraced(function* (
  session: Connection,
  asked: { readonly noBrowser: boolean },
  name: string,
  payload: CreateEnvironment
) {
  const project = yield* projectOf(session, name)
  const team = yield* teamOf(session, project)
  return yield* Management.managing(session, team, asked, ({ connection }) =>
    Effect.flatMap(clientOf(connection), (client) =>
      call(connection, client.createEnvironment({ path: { projectId: project.id }, payload }))
    )
  )
})

const createEnvironment = Help.command(
  "create",
  {
    says: "Make an environment in a project, and print its id.",
    more: [Management.approved],
    examples: ["ampoule environments create qa", "ampoule environments create live --project shop --protected yes"]
  },
  { ...ofEnvironment, ...rules },
  Effect.fnUntraced(function* (options) {
    const payload = yield* Management.payloadOf(CreateEnvironment)({ slug: options.environment, ...membersOf(options) })
    const name = yield* Target.project(options.project)
    const session = yield* Credential.open(options)
    const made = yield* makeEnvironment(session, options, name, payload)
    yield* options.json ? json(made) : created(made)
  })
)

/** An environment of a project that is named, with the team that owns it. */
const environmentOf = Effect.fnUntraced(function* (
  options: Credential.ConnectionOptions & { readonly project: Option.Option<string>; readonly environment: string }
) {
  const name = yield* Target.project(options.project)
  const session = yield* Credential.open(options)
  const project = yield* projectOf(session, name)
  const items = yield* environmentsOf(session, project.id)
  const environment = items.find(({ id, slug }) => slug === options.environment || id === options.environment)
  if (environment === undefined) {
    return yield* new CliFailure({
      message: `This credential reaches no environment ${plain(options.environment)} of ${plain(project.slug)}.`,
      hint: "`ampoule environments list` shows those that it reaches."
    })
  }
  return { session, project, environment, team: yield* teamOf(session, project) }
})

const updateEnvironment = Help.command(
  "update",
  {
    says: "Change the name, the rules or the place of an environment.",
    more: [Management.approved],
    examples: ["ampoule environments update staging --protected yes", "ampoule environments update qa --position 1"]
  },
  { ...ofEnvironment, ...rules, position },
  Effect.fnUntraced(function* (options) {
    const members = { ...membersOf(options), ...given({ position: options.position }) }
    if (Object.keys(members).length === 0) {
      return yield* usage("Say what to change: --name, --protected, --readers, --changes or --position.")
    }
    const payload = yield* Management.payloadOf(UpdateEnvironment)(members)
    const { environment, session, team } = yield* environmentOf(options)
    const changed = yield* Management.managing(session, team, options, ({ connection }) =>
      Effect.flatMap(clientOf(connection), (client) =>
        call(connection, client.updateEnvironment({ path: { envId: environment.id }, payload }))
      )
    )
    yield* options.json ? json(changed) : note(`Changed ${plain(changed.slug)}.`)
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

const below = [listEnvironments, createEnvironment, updateEnvironment, deleteEnvironment] as const
export const environments = Help.described(
  Command.make("environments").pipe(Command.withSubcommands(below)),
  { says: "List, make, change and delete the environments of a project." },
  below,
  true
)
