/** `ampoule init`: server, login, project and environment of a folder, chosen or made, and its .env imported. */
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
import { importFile } from "#src/cli/secrets/Files.ts"
import * as Help from "#src/cli/help/Help.ts"
import { parseAddress } from "#src/cli/connection/Link.ts"
import { logIn, plaintext } from "./Login.ts"
import { makeEnvironment, makeProject } from "#src/cli/team/ManageProjects.ts"
import * as Management from "#src/cli/team/Management.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, plain, stderrIsTerminal, stdinIsTerminal } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "#src/cli/connection/ProjectFile.ts"
import { projects as projectsClient } from "#src/cli/connection/Routes.ts"
import * as SealingKeys from "#src/cli/sealed/SealingKeys.ts"
import * as Target from "#src/cli/connection/Target.ts"

/** The address that is used anyway, or another one that the person names. */
const chooseServer = Effect.fnUntraced(function* (given: Option.Option<string>) {
  const { url, urlFrom } = yield* Choice.address(given, Option.none())
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

interface Asked {
  readonly noBrowser: boolean
}

/** Only a person at a terminal makes something, and only by a login: no token manages anything. */
const mayMake = ({ chosen }: Credential.Session) => stdinIsTerminal() && Choice.isLogin(chosen)

// --- project ---

const defaults = ["development", "staging", "production"]

/** With the environment that was asked for, beside those that a project begins with. */
const newProject = Effect.fnUntraced(function* (
  session: Credential.Session,
  asked: Asked,
  members: { readonly name: string; readonly slug?: string },
  environment: Option.Option<string>
) {
  const wanted = Option.getOrElse(environment, () => defaults[0] ?? "")
  const environments = [...new Set([wanted, ...defaults])].map((slug) => ({ slug, protected: slug === "production" }))
  const payload = yield* Management.payloadOf(CreateProject)({ ...members, environments })
  const team = yield* Management.teamOf(session, Option.none())
  const made = yield* Management.managing(session, team, asked, (managed) => makeProject(managed, payload))
  yield* note(`Made the project ${plain(made.slug)} of ${plain(team.name)}.`)
  return made.slug
})

const askForProject = Effect.fnUntraced(function* (
  session: Credential.Session,
  asked: Asked,
  environment: Option.Option<string>
) {
  const folder = basename(process.cwd())
  const answer = yield* Ask.line(`Name of the new project [${plain(folder)}]: `)
  return yield* newProject(session, asked, { name: answer === "" ? folder : answer }, environment)
})

const aNewProject = "a new project"

const chooseProject = Effect.fnUntraced(function* (session: Credential.Session, options: Asked & Target.TargetOptions) {
  const client = yield* projectsClient(session)
  const { items } = yield* call(session, client.list())
  const seen = items.map(({ slug }) => slug)
  // Two teams may have a project of one name: then its id says which.
  const names = items.map(({ id, slug }) => (seen.filter((other) => other === slug).length > 1 ? String(id) : slug))
  if (Option.isSome(options.project)) {
    const wanted = options.project.value
    if (items.some(({ id, slug }) => id === wanted || slug === wanted) || !mayMake(session)) return wanted
    if (!(yield* Ask.confirm(`This login sees no project ${plain(wanted)}. Make it?`))) return wanted
    return yield* newProject(session, options, { name: wanted, slug: wanted }, options.environment)
  }
  if (names.length > 1 && !stdinIsTerminal()) return yield* usage("Which project?", "Say --project ID-OR-SLUG.")
  // One alone is no question; --project makes another.
  const choices = names.length !== 1 && mayMake(session) ? [...names, aNewProject] : names
  const [first, ...others] = choices
  if (first === undefined) {
    return yield* new CliFailure({
      message: "This credential sees no project.",
      hint: "Log in (`ampoule login`), then `ampoule init` makes one; or have an owner or admin make one."
    })
  }
  const chosen = yield* Ask.oneOf("Project", [first, ...others])
  return chosen === aNewProject && mayMake(session)
    ? yield* askForProject(session, options, options.environment)
    : chosen
})

// --- environment ---

export const noEnvironment = (name: string, project: string, there: ReadonlyArray<string>) =>
  new CliFailure({
    message: `This credential reaches no environment ${plain(name)} of ${plain(project)}.`,
    hint: there.length === 0 ? "It reaches none of that project." : `It reaches: ${there.map(plain).join(", ")}.`
  })

const newEnvironment = Effect.fnUntraced(function* (
  session: Credential.Session,
  asked: Asked,
  project: string,
  slug: string
) {
  const payload = yield* Management.payloadOf(CreateEnvironment)({ slug })
  const made = yield* makeEnvironment(session, asked, project, payload)
  yield* note(`Made the environment ${plain(made.slug)}.`)
  return made.slug
})

const aNewEnvironment = "a new environment"

const chooseEnvironment = Effect.fnUntraced(function* (
  session: Credential.Session,
  project: string,
  options: Asked & Target.TargetOptions
) {
  const slugs = (yield* SealingKeys.environments(session, project)).map(({ slug }): string => slug)
  if (Option.isSome(options.environment)) {
    const wanted = options.environment.value
    if (slugs.includes(wanted)) return wanted
    const makes =
      mayMake(session) && (yield* Ask.confirm(`${plain(project)} has no environment ${plain(wanted)}. Make it?`))
    return makes
      ? yield* newEnvironment(session, options, project, wanted)
      : yield* noEnvironment(wanted, project, slugs)
  }
  if (slugs.length > 1 && !stdinIsTerminal()) return yield* usage("Which environment?", "Say --env SLUG.")
  const choices = mayMake(session) ? [...slugs, aNewEnvironment] : slugs
  const [first, ...others] = choices
  if (first === undefined) return yield* noEnvironment("development", project, slugs)
  const chosen = yield* Ask.oneOf("Environment", [first, ...others])
  if (chosen !== aNewEnvironment || !mayMake(session)) return chosen
  return yield* newEnvironment(session, options, project, yield* Ask.line("Slug of the new environment: "))
})

// --- the command ---

/** After a look at its keys, by the person. */
const importDotenv = Effect.fnUntraced(function* (
  session: Credential.Session,
  options: Credential.ConnectionOptions,
  { environment, project }: { readonly environment: string; readonly project: string }
) {
  const fs = yield* FileSystem.FileSystem
  const isThere = yield* Effect.orElseSucceed(fs.exists(".env"), () => false)
  if (!isThere || !stdinIsTerminal() || !stderrIsTerminal()) return
  if (!(yield* Ask.confirm(`There is a .env here. Look at its keys, to import them into ${environment}?`))) return
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
    allow: [],
    dryRun: false,
    file: ".env"
  })
  yield* note("Once you have no need of the .env any more, delete it.")
})

export const init = Help.command(
  "init",
  {
    says: "Set this folder up: log in, choose or make a project and an environment, and import the .env that is found.",
    more: [
      "Asks for what the options do not say. Making a project or an environment needs your approval in the browser. Writes .ampoule.json, which can be committed: it holds two names. Imports after you have seen the keys, and leaves the .env where it is."
    ],
    examples: ["ampoule init", "ampoule init --url https://ampoule.example.com --project shop --env development"]
  },
  { ...Shared.inEnvironment, plaintext, noBrowser: Shared.noBrowser },
  Effect.fnUntraced(function* (options) {
    const session = yield* chooseCredential(options)
    const project = yield* chooseProject(session, options)
    const environment = yield* chooseEnvironment(session, project, options)
    const file = yield* ProjectFile.save({ project, environment })
    yield* note(`${plain(file)}: ${plain(project)}, ${environment}`)
    yield* importDotenv(session, options, { project, environment })
    yield* note("Next: ampoule run -- npm start   (or whatever starts your program)")
  })
)
