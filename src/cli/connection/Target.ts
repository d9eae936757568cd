/**
 * Project and environment of a command, by the rule that the client libraries share (`src/ClientTarget.ts`): option,
 * variable, the credential's only environment, trusted project file (`ProjectFile.ts`).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { ProjectId } from "#schema/Ids.ts"
import * as Patterns from "#schema/Patterns.ts"
import type { Project } from "#schema/ProjectsApi.ts"
import type { EnvironmentSlug } from "#schema/Values.ts"
import * as ClientTarget from "#src/ClientTarget.ts"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import { type CliError, CliFailure, ServerRefused, usage, withHint, withQuestion } from "#src/cli/terminal/Failure.ts"
import { jsonFile } from "#src/cli/terminal/Folders.ts"
import { bodyOf, type Link } from "./Link.ts"
import { plain, warn } from "#src/cli/terminal/Output.ts"
import { didYouMean } from "#src/cli/terminal/Closest.ts"
import * as Names from "./Names.ts"
import * as OnlyEnvironment from "./OnlyEnvironment.ts"
import * as ProjectFile from "./ProjectFile.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as TargetWords from "./TargetWords.ts"

export interface TargetOptions {
  readonly project: Option.Option<string>
  readonly environment: Option.Option<string>
}

/** A project as a command's user named it, or as another source did. */
export interface ProjectName {
  /** Id or slug. */
  readonly project: string
  /** Of a project whose id needs no look-up. */
  readonly projectId?: ProjectId
}

export interface Target extends ProjectName {
  readonly environment: EnvironmentSlug
  readonly parts: ClientTarget.Parts
  /** The failure of the server that a remembered answer replaced. Further requests need not be tried. */
  readonly unavailable?: CliError
}

export const slug = (text: string): Effect.Effect<EnvironmentSlug, CliFailure> => slugFrom({ name: text })

const slugFrom = ({ name, source }: { readonly name: string; readonly source?: ClientTarget.Source }) =>
  name.length <= Patterns.longestSlug && Patterns.environmentSlug.test(name)
    ? // Same check as its schema, which would be slow to load for `run`.
      Effect.succeed(name as EnvironmentSlug)
    : usage(
        `"${plain(name)}" is not an environment${source === undefined || source === "option" ? "" : ` (${TargetWords.sourceOf("environment", source)})`}.`,
        "Environments are slugs like development or pr-12."
      )

// --- the rule ---

/** The user's own words. A name that cannot be an environment fails before any request. */
export const fromCaller = Effect.fnUntraced(function* ({ environment, project }: Partial<TargetOptions>) {
  const names = {
    project: Option.getOrUndefined(project ?? Option.none()),
    environment: Option.getOrUndefined(environment ?? Option.none())
  }
  const parts = ClientTarget.fromCaller(names, process.env)
  if (parts.environment !== undefined) yield* slugFrom(parts.environment)
  return parts
})

type Needed = "project" | "both"
const isEnough = (parts: ClientTarget.Parts, needed: Needed): boolean =>
  needed === "both" ? ClientTarget.isComplete(parts) : parts.project !== undefined

const namesOf = (file: Option.Option<ProjectFile.ProjectFile>) =>
  Option.match(file, {
    onNone: () => ({}),
    onSome: ({ environment, project }) => ({
      project: Option.getOrUndefined(project),
      environment: Option.getOrUndefined(environment)
    })
  })

/** A trusted file that says something else is named, because its reader may expect it to count. */
const warnOfOverride = Effect.fnUntraced(function* (
  parts: ClientTarget.Parts,
  file: Option.Option<ProjectFile.ProjectFile>
) {
  if (Option.isNone(file)) return
  const sentence = TargetWords.overrides(parts, namesOf(file), file.value.path)
  if (sentence !== undefined && (yield* ProjectFile.isTrusted(file.value.digest))) yield* warn(sentence)
}, Effect.ignore)

interface Resolution {
  readonly parts: ClientTarget.Parts
  readonly unavailable?: CliError
}

interface ResolveOptions {
  readonly needed: Needed
  /** Remembered answers count while the server is away. */
  readonly offline: boolean
}

/** An open connection; or, for a command that asks no server, the identity of its credential. */
type OnlySource = OnlyEnvironment.Session | { readonly identity: Option.Option<string> }

const onlyOf = (source: OnlySource, options: { readonly hasOther: boolean; readonly offline: boolean }) =>
  "identity" in source
    ? Effect.map(
        Option.isNone(source.identity) ? Effect.succeedNone : OnlyEnvironment.recall(source.identity.value),
        (remembered) => ({
          only: Option.match(remembered, { onNone: () => null, onSome: ({ only }) => only }),
          unsaid: undefined,
          unavailable: undefined
        })
      )
    : OnlyEnvironment.of(source, options)

/** The one resolution of all commands. */
const resolve = Effect.fnUntraced(function* (
  own: ClientTarget.Parts,
  source: OnlySource,
  { needed, offline }: ResolveOptions
) {
  if (isEnough(own, needed)) {
    if (TargetWords.hasVariable(own)) {
      yield* warnOfOverride(own, yield* ProjectFile.find({ foreign: false, quiet: true }))
    }
    return { parts: own } satisfies Resolution
  }
  const file = yield* ProjectFile.find({ foreign: false })
  const hasOther = isEnough(ClientTarget.withFile(own, namesOf(file)), needed)
  const { only, unavailable, unsaid } = yield* onlyOf(source, { hasOther, offline })
  const away = unavailable === undefined ? {} : { unavailable }
  const withCredential = ClientTarget.withCredential(own, only)
  if (isEnough(withCredential, needed)) {
    yield* warnOfOverride(withCredential, file)
    return { parts: withCredential, ...away } satisfies Resolution
  }
  const parts = ClientTarget.withFile(withCredential, namesOf(file))
  if (!isEnough(parts, needed)) {
    if (unavailable !== undefined) return yield* Effect.fail(unavailable)
    const missing = TargetWords.missing(parts, { only, unsaid, file: namesOf(file), hasFile: Option.isSome(file) })
    return yield* usage(missing.message, missing.hint)
  }
  const instead = TargetWords.optionsInstead(needed === "both" ? parts : { ...parts, environment: undefined })
  if (instead !== "" && Option.isSome(file)) {
    if (needed === "both" && parts.environment !== undefined) yield* slugFrom(parts.environment)
    yield* ProjectFile.ensureTrusted(file.value, instead)
  }
  return { parts, ...away } satisfies Resolution
})

const projectOf = ({ project }: ClientTarget.Parts): ProjectName => ({
  project: project?.name ?? "",
  ...(project?.id === undefined ? {} : { projectId: project.id as ProjectId })
})

const targetOf = ({ parts, unavailable }: Resolution): Effect.Effect<Target, CliFailure> =>
  Effect.map(slugFrom(parts.environment ?? { name: "" }), (environment) => ({
    ...projectOf(parts),
    environment,
    parts,
    ...(unavailable === undefined ? {} : { unavailable })
  }))

/** The target of a command whose connection is open. */
export const target = (options: TargetOptions, session: OnlyEnvironment.Session, offline = false) =>
  fromCaller(options).pipe(
    Effect.flatMap((own) => resolve(own, session, { needed: "both", offline })),
    Effect.flatMap(targetOf)
  )

/** The target of a command that asks no server. */
export const targetOffline = (options: TargetOptions, identity: Option.Option<string>) =>
  fromCaller(options).pipe(
    Effect.flatMap((own) => resolve(own, { identity }, { needed: "both", offline: true })),
    Effect.flatMap(targetOf)
  )

/** Checks the user's words, opens the connection, and finds the target. */
export const reach = Effect.fnUntraced(function* <S extends OnlyEnvironment.Session, E extends CliError, R>(
  options: TargetOptions,
  open: Effect.Effect<S, E, R>,
  offline = false
) {
  yield* fromCaller(options)
  const session = yield* open
  return { session, target: yield* target(options, session, offline) }
})

/** For commands without --project and --env. */
export const noOptions: TargetOptions = { project: Option.none(), environment: Option.none() }

/** The choice of this folder for reports and completion: without a question, a warning or a failure. */
export const overview = Effect.fnUntraced(function* (
  { environment, project }: TargetOptions,
  only: ClientTarget.OnlyEnvironment | null
) {
  const names = { project: Option.getOrUndefined(project), environment: Option.getOrUndefined(environment) }
  const parts = ClientTarget.withCredential(ClientTarget.fromCaller(names, process.env), only)
  const file = yield* ProjectFile.find({ foreign: false, quiet: true })
  const isTrusted = Option.isSome(file) && (yield* ProjectFile.isTrusted(file.value.digest))
  return { file, isTrusted, parts: isTrusted ? ClientTarget.withFile(parts, namesOf(file)) : parts }
})

/** The project of a command that needs no environment. */
export const project = (option: Option.Option<string>, session: OnlyEnvironment.Session) =>
  fromCaller({ project: option }).pipe(
    Effect.flatMap((own) =>
      resolve({ ...own, environment: undefined }, session, { needed: "project", offline: false })
    ),
    Effect.map(({ parts }) => projectOf(parts))
  )

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
    hint: withQuestion(
      didYouMean(
        name,
        items.map(({ slug }) => slug)
      ),
      "`ampoule projects` lists the projects it can see."
    )
  })
})

/** Runs `use` with the project's id. A cached id that no longer exists is looked up again, once. */
export const withProject = Effect.fnUntraced(function* <A, E extends CliError, R>(
  connection: Link,
  { project: name, projectId }: ProjectName,
  use: (id: ProjectId) => Effect.Effect<A, E, R>
) {
  if (projectId !== undefined) return yield* use(projectId)
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

/** Names what is missing in a refusal, and the next step: another environment, or a request for access. */
const explained = (server: Link, { environment, parts, project }: Target, projectId: string) =>
  Effect.fnUntraced(function* <E extends CliError>(error: E) {
    if (error._tag !== "ServerRefused") return yield* Effect.fail(error)
    if (error.code === "ENVIRONMENT_NOT_FOUND") {
      const names = yield* Names.forQuestion(Names.environments(server, projectId))
      return yield* new ServerRefused({
        ...error,
        message: `${plain(project)} has no environment ${environment} that this credential can reach.`,
        hint: withQuestion(didYouMean(environment, names), TargetWords.noSuchEnvironment(parts))
      })
    }
    if (error.needs === undefined) return yield* Effect.fail(error)
    const target = `--project ${plain(project)} --env ${environment} --level ${error.needs}`
    return yield* withHint(error, `Ask for it: ampoule access request ${target} --for 2h --why "..."`)
  })

/** The same for an environment of the project; a refusal names what is missing. */
export const inEnvironment = <A, E extends CliError, R>(
  server: Link,
  target: Target,
  use: (id: ProjectId) => Effect.Effect<A, E, R>
) => withProject(server, target, (id) => Effect.catchAll(use(id), explained(server, target, id)))

/** Cached id without a request, for the offline cache. */
export const cachedProject = Effect.fnUntraced(function* (connection: Link, { project: name, projectId }: ProjectName) {
  const direct = projectId === undefined ? decodeId(name) : Option.some(projectId)
  if (Option.isSome(direct)) return direct
  const cached = yield* readIds
  return rememberedId(cached, connection, name)
})
