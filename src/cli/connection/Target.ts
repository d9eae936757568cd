/** Project and environment: from the options, then from the project file (`ProjectFile.ts`). */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { ProjectId } from "#schema/Ids.ts"
import * as Patterns from "#schema/Patterns.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import type { EnvironmentSlug } from "#schema/Values.ts"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import { type CliError, CliFailure, withHint, type ServerRefused, usage } from "#src/cli/terminal/Failure.ts"
import { jsonFile } from "#src/cli/terminal/Folders.ts"
import { bodyOf, type Link } from "./Link.ts"
import { plain } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "./ProjectFile.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"

export interface TargetOptions {
  readonly project: Option.Option<string>
  readonly environment: Option.Option<string>
}

export interface Target {
  /** Id or slug, as typed. */
  readonly project: string
  readonly environment: EnvironmentSlug
}

export const slug = (text: string): Effect.Effect<EnvironmentSlug, CliFailure> =>
  text.length <= Patterns.longestSlug && Patterns.environmentSlug.test(text)
    ? // Same check as its schema, which would be slow to load for `run`.
      Effect.succeed(text as EnvironmentSlug)
    : usage(`"${plain(text)}" is not an environment.`, "Environments are slugs like development or pr-12.")

const whichProject = usage("Which project?", `Use --project ID-OR-SLUG, or put "project" into ${ProjectFile.fileName}.`)
const whichEnvironment = usage(
  "Which environment?",
  `Use --env SLUG, or put "environment" into ${ProjectFile.fileName}.`
)

export const project = Effect.fnUntraced(function* (option: Option.Option<string>) {
  if (Option.isSome(option)) return option.value
  const file = yield* ProjectFile.find({ foreign: false })
  return yield* Effect.mapError(
    Option.flatMap(file, ({ project }) => project),
    () => whichProject
  )
})

export const target = Effect.fnUntraced(function* (options: TargetOptions) {
  const isComplete = Option.isSome(options.project) && Option.isSome(options.environment)
  const file = isComplete ? Option.none() : yield* ProjectFile.find({ foreign: false })
  const name = Option.orElse(options.project, () => Option.flatMap(file, ({ project }) => project))
  if (Option.isNone(name)) return yield* whichProject
  if (Option.isSome(options.environment)) {
    return { project: name.value, environment: yield* slug(options.environment.value) } satisfies Target
  }
  if (Option.isNone(file) || Option.isNone(file.value.environment)) return yield* whichEnvironment
  const environment = yield* slug(file.value.environment.value)
  yield* ProjectFile.ensureTrusted(file.value)
  return { project: name.value, environment } satisfies Target
})

/** Adds the command that requests access to a refusal for lack of a grant. */
export const withAccessHint =
  ({ environment, project }: Target) =>
  <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
    Effect.mapError(self, (error) => {
      if (error._tag !== "ServerRefused" || error.needs === undefined) return error
      const target = `--project ${plain(project)} --env ${environment} --level ${error.needs}`
      return withHint(error, `Ask for it: ampoule access request ${target} --for 2h --why "..."`)
    })

// --- slug to id: cached, so that `run` makes a single request ---

const CachedIds = Shape.record(Shape.record(Shape.string))
const idCache = jsonFile("cache", "projects.json", CachedIds, "the list of project ids")
/** One-way: the file reveals neither the credential nor its owner. */
const ownerOf = ({ credential, url }: Link): string =>
  crypto()
    .createHash("sha256")
    .update(`${url}\0${Option.match(credential, { onNone: () => "", onSome: Redacted.value })}`)
    .digest("base64url")
    .slice(0, 22)

const decodeId = (text: string | undefined): Option.Option<ProjectId> =>
  text !== undefined && Patterns.uuid.test(text) ? Option.some(text.toLowerCase() as ProjectId) : Option.none()

/** Ids by slug, by owner. */
type IdsByOwner = ReadonlyMap<string, ReadonlyMap<string, string>>

const readIds = idCache.read.pipe(
  Effect.map((known): IdsByOwner => {
    const owners = Object.entries(Option.getOrElse(known, () => ({})) satisfies Shape.Of<typeof CachedIds>)
    return new Map(owners.map(([owner, ids]) => [owner, new Map(Object.entries(ids))]))
  }),
  // A broken cache must not stop a command.
  Effect.orElseSucceed((): IdsByOwner => new Map())
)
const rememberedId = (cached: IdsByOwner, connection: Link, slug: string): Option.Option<ProjectId> =>
  Option.flatMap(Option.fromNullable(cached.get(ownerOf(connection))?.get(slug)), decodeId)
const writeIds = Effect.fnUntraced(function* (connection: Link, ids: ReadonlyMap<string, string>) {
  const cached = yield* readIds
  const owners = [
    ...[...cached].filter(([owner]) => owner !== ownerOf(connection)).slice(-19),
    [ownerOf(connection), ids] as const
  ]
  yield* idCache.write(Object.fromEntries(owners.map(([owner, ids]) => [owner, Object.fromEntries(ids)])))
}, Effect.ignore)

export const ProjectListBody = Shape.struct({
  items: Shape.array(Shape.struct({ id: Shape.string, slug: Shape.string, teamId: Shape.string }))
}) satisfies Shape.Shape<{
  readonly items: ReadonlyArray<Record<keyof Pick<Project, "id" | "slug" | "teamId">, string>>
}>

const listProjects = (server: Link) =>
  Effect.flatMap(server.ask({ path: "/projects" }), (answer) =>
    Effect.map(bodyOf(server, answer, ProjectListBody), ({ items }) => items)
  )

const askServer = Effect.fnUntraced(function* (connection: Link, name: string) {
  const items = yield* listProjects(connection)
  const matches = items.filter((item) => item.slug === name)
  const id = matches.length === 1 ? decodeId(matches[0]?.id) : Option.none()
  if (Option.isSome(id)) {
    const unique = items.filter((item) => items.filter((other) => other.slug === item.slug).length === 1)
    yield* writeIds(connection, new Map(unique.map((item) => [item.slug, item.id])))
    return id.value
  }
  if (matches.length > 1) {
    return yield* new CliFailure({
      message: `Several teams have a project ${plain(name)}. Use its id:`,
      hint: matches.map((item) => `${plain(item.id)}  (team ${plain(item.teamId)})`).join("\n  ")
    })
  }
  return yield* new CliFailure({
    message: `This credential cannot see a project ${plain(name)}.`,
    hint: "`ampoule projects` lists the projects it can see."
  })
})

/** Runs `use` with the project's id. A cached id that no longer exists is looked up again, once. */
export const withProject = Effect.fnUntraced(function* <A, E extends CliError, R>(
  connection: Link,
  name: string,
  use: (id: ProjectId) => Effect.Effect<A, E, R>
) {
  const direct = decodeId(name)
  if (Option.isSome(direct)) return yield* use(direct.value)
  const cached = yield* readIds
  const remembered = rememberedId(cached, connection, name)
  const fresh = Effect.flatMap(askServer(connection, name), use)
  if (Option.isNone(remembered)) return yield* fresh
  return yield* Effect.catchIf(
    use(remembered.value),
    (error) => error._tag === "ServerRefused" && error.code === "PROJECT_NOT_FOUND",
    () => fresh
  )
})

/** Cached id without a request, for the offline cache. */
export const cachedProject = Effect.fnUntraced(function* (connection: Link, name: string) {
  const direct = decodeId(name)
  if (Option.isSome(direct)) return direct
  const cached = yield* readIds
  return rememberedId(cached, connection, name)
})
