/** `ampoule init`: sets up a folder with server, login, project and environment, and imports its .env. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { basename } from "node:path"
import { CreateEnvironment, CreateProject } from "#schema/ManageProjectsApi.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { call } from "#src/cli/connection/Client.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import { importFile } from "#src/cli/secrets/Import.ts"
import * as Help from "#src/cli/help/Help.ts"
import { parseAddress } from "#src/cli/connection/Link.ts"
import { logIn, plaintext } from "./Login.ts"
import { makeEnvironment, makeProject } from "#src/cli/team/ManageProjects.ts"
import * as Management from "#src/cli/team/Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, plain, stderrIsTerminal, stdinIsTerminal } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "#src/cli/connection/ProjectFile.ts"
import { projects as projectsClient } from "#src/cli/connection/Routes.ts"
import * as SealingKeys from "#src/cli/sealed/Keys.ts"
import * as Target from "#src/cli/connection/Target.ts"

/** The default address, or another one that the user types. */
const chooseServer = Effect.fnUntraced(function* (urlOption: Option.Option<string>) {
  const { url, urlFrom } = yield* Choice.chooseAddress(urlOption, Option.none())
  if (urlFrom !== "default" || !stdinIsTerminal()) return url
  const answer = yield* Ask.line(`Server [${url}]: `)
  return answer === "" ? url : yield* parseAddress(answer)
})

const chooseCredential = Effect.fnUntraced(function* (
  options: Credential.ConnectionOptions & { readonly plaintext: boolean; readonly noBrowser: boolean }
) {
  if (Option.isSome(yield* Choice.choose(options))) return yield* Credential.open(options)
  if (!stdinIsTerminal()) return yield* Choice.noCredential
  const url = yield* chooseServer(options.url)
  const { noBrowser, plaintext } = options
  yield* logIn({ url: Option.some(url), json: false, plaintext, machine: false, noBrowser })
  return yield* Credential.open({ ...options, url: Option.some(url) })
})

interface BrowserChoice {
  readonly noBrowser: boolean
}

/** Creating needs a user at a terminal and a login: no token manages projects. */
const mayCreate = ({ chosen }: Credential.Session) => stdinIsTerminal() && Choice.isLogin(chosen)

// --- project ---

const defaults = ["development", "staging", "production"]

/** Adds the requested environment to the default ones. */
const newProject = Effect.fnUntraced(function* (
  session: Credential.Session,
  browser: BrowserChoice,
  members: { readonly name: string; readonly slug?: string },
  environment: Option.Option<string>
) {
  const first = Option.getOrElse(environment, () => defaults[0] ?? "")
  const environments = [...new Set([first, ...defaults])].map((slug) => ({ slug, protected: slug === "production" }))
  const payload = yield* Management.payloadOf(CreateProject)({ ...members, environments })
  const team = yield* Management.teamOf(session, Option.none())
  const project = yield* Management.managing(session, team, browser, (managed) => makeProject(managed, payload))
  yield* note(`Created the project ${plain(project.slug)} of ${plain(team.name)}.`)
  return project.slug
})

const askForProject = Effect.fnUntraced(function* (
  session: Credential.Session,
  browser: BrowserChoice,
  environment: Option.Option<string>
) {
  const folder = basename(process.cwd())
  const answer = yield* Ask.line(`Name of the new project [${plain(folder)}]: `)
  return yield* newProject(session, browser, { name: answer === "" ? folder : answer }, environment)
})

const aNewProject = "a new project"

const chooseProject = Effect.fnUntraced(function* (
  session: Credential.Session,
  options: BrowserChoice & Target.TargetOptions
) {
  const client = yield* projectsClient(session)
  const { items } = yield* call(session, client.list())
  const slugs = items.map(({ slug }) => slug)
  // Two teams may have a project of the same name. Then offer their ids.
  const names = items.map(({ id, slug }) => (slugs.filter((other) => other === slug).length > 1 ? String(id) : slug))
  if (Option.isSome(options.project)) {
    const requested = options.project.value
    if (items.some(({ id, slug }) => id === requested || slug === requested) || !mayCreate(session)) return requested
    if (!(yield* Ask.confirm(`This login sees no project ${plain(requested)}. Create it?`))) return requested
    return yield* newProject(session, options, { name: requested, slug: requested }, options.environment)
  }
  if (names.length > 1 && !stdinIsTerminal()) return yield* usage("Which project?", "Use --project ID-OR-SLUG.")
  // A single project is taken without a question; --project creates another.
  const choices = names.length !== 1 && mayCreate(session) ? [...names, aNewProject] : names
  const [first, ...others] = choices
  if (first === undefined) {
    return yield* new CliFailure({
      message: "This credential sees no project.",
      hint: "Log in (`ampoule login`), then `ampoule init` creates one; or ask an owner or admin to create one."
    })
  }
  const chosen = yield* Ask.oneOf("Project", [first, ...others])
  return chosen === aNewProject && mayCreate(session)
    ? yield* askForProject(session, options, options.environment)
    : chosen
})

// --- environment ---

export const noEnvironment = (name: string, project: string, slugs: ReadonlyArray<string>) =>
  new CliFailure({
    message: `This credential cannot reach an environment ${plain(name)} of ${plain(project)}.`,
    hint:
      slugs.length === 0 ? "It reaches no environment of that project." : `It reaches: ${slugs.map(plain).join(", ")}.`
  })

const newEnvironment = Effect.fnUntraced(function* (
  session: Credential.Session,
  browser: BrowserChoice,
  project: string,
  slug: string
) {
  const payload = yield* Management.payloadOf(CreateEnvironment)({ slug })
  const environment = yield* makeEnvironment(session, browser, { project }, payload)
  yield* note(`Created the environment ${plain(environment.slug)}.`)
  return environment.slug
})

const aNewEnvironment = "a new environment"

const chooseEnvironment = Effect.fnUntraced(function* (
  session: Credential.Session,
  project: string,
  options: BrowserChoice & Target.TargetOptions
) {
  const slugs = (yield* SealingKeys.environments(session, { project })).map(({ slug }): string => slug)
  if (Option.isSome(options.environment)) {
    const requested = options.environment.value
    if (slugs.includes(requested)) return requested
    const confirmed =
      mayCreate(session) && (yield* Ask.confirm(`${plain(project)} has no environment ${plain(requested)}. Create it?`))
    return confirmed
      ? yield* newEnvironment(session, options, project, requested)
      : yield* noEnvironment(requested, project, slugs)
  }
  if (slugs.length > 1 && !stdinIsTerminal()) return yield* usage("Which environment?", "Use --env SLUG.")
  const choices = mayCreate(session) ? [...slugs, aNewEnvironment] : slugs
  const [first, ...others] = choices
  if (first === undefined) return yield* noEnvironment("development", project, slugs)
  const chosen = yield* Ask.oneOf("Environment", [first, ...others])
  if (chosen !== aNewEnvironment || !mayCreate(session)) return chosen
  return yield* newEnvironment(session, options, project, yield* Ask.line("Slug of the new environment: "))
})

// --- the command ---

/** Offers the import only to a user at a terminal, who sees the keys first. */
const importDotenv = Effect.fnUntraced(function* (
  session: Credential.Session,
  options: Credential.ConnectionOptions,
  { environment, project }: { readonly environment: string; readonly project: string }
) {
  const fs = yield* FileSystem.FileSystem
  const exists = yield* Effect.orElseSucceed(fs.exists(".env"), () => false)
  if (!exists || !stdinIsTerminal() || !stderrIsTerminal()) return
  if (!(yield* Ask.confirm(`This folder has a .env. Show its keys, to import them into ${environment}?`))) return
  yield* importFile({
    ...options,
    url: Option.some(session.url),
    project: Option.some(project),
    environment: Option.some(environment),
    yes: false,
    json: false,
    format: Option.none(),
    upperCase: false,
    literal: false,
    bareReferences: false,
    flatten: Option.none(),
    lastWins: false,
    allow: [],
    dryRun: false,
    file: ".env"
  })
  yield* note("Delete the .env when you no longer need it.")
})

export const init = Help.command(
  "init",
  {
    says: "Set this folder up: log in, choose or create a project and an environment, and import its .env.",
    more: [
      "Asks for everything that the options leave open. Creating a project or an environment needs your approval in the browser. Writes .ampoule.json, which can be committed: it holds two names. Shows the keys of the .env before it imports them, and leaves the file where it is."
    ],
    examples: ["ampoule init", "ampoule init --url https://ampoule.example.com --project shop --env development"]
  },
  { ...Shared.inEnvironment, plaintext, noBrowser: Shared.noBrowser },
  Effect.fnUntraced(function* (options) {
    const own = yield* Target.fromCaller(options)
    const session = yield* chooseCredential(options)
    const choices = {
      ...options,
      project: Option.fromNullable(own.project?.name),
      environment: Option.fromNullable(own.environment?.name)
    }
    const project = yield* chooseProject(session, choices)
    const environment = yield* chooseEnvironment(session, project, choices)
    const file = yield* ProjectFile.save({ project, environment })
    yield* note(`${plain(file)}: ${plain(project)}, ${environment}`)
    yield* importDotenv(session, options, { project, environment })
    yield* note("Next: ampoule run -- npm start   (or whatever starts your program)")
  })
)
