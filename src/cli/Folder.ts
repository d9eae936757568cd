/** `ampoule init`, `use` and `open`: the project and environment of a folder. */
import * as Args from "@effect/cli/Args"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ask from "./Ask.ts"
import * as Browser from "./Browser.ts"
import { call } from "./Client.ts"
import * as Choice from "./Choice.ts"
import * as Credential from "./Credential.ts"
import { CliFailure, usage } from "./Failure.ts"
import { importFile } from "./Files.ts"
import * as Help from "./Help.ts"
import { parseAddress } from "./Link.ts"
import { logIn, plaintext } from "./Login.ts"
import * as Shared from "./Options.ts"
import { json, note, out, plain, stderrIsTerminal, stdinIsTerminal } from "./Output.ts"
import * as ProjectFile from "./ProjectFile.ts"
import { projects as projectsClient } from "./Routes.ts"
import * as SealingKeys from "./SealingKeys.ts"
import * as Target from "./Target.ts"

const noEnvironment = (name: string, project: string, there: ReadonlyArray<string>) =>
  new CliFailure({
    message: `This credential reaches no environment ${plain(name)} of ${plain(project)}.`,
    hint: there.length === 0 ? "It reaches none of that project." : `It reaches: ${there.map(plain).join(", ")}.`
  })

// --- use ---

export const use = Help.command(
  "use",
  {
    says: "Choose the environment of this folder, or show it: it is written to .ampoule.json, and trusted.",
    more: ["Into the nearest .ampoule.json from here upwards, or a new one here."],
    examples: ["ampoule use staging", "ampoule use production --project shop", "ampoule use"]
  },
  {
    ...Shared.connection,
    project: Shared.project,
    json: Shared.json,
    environment: Args.text({ name: "ENVIRONMENT" }).pipe(
      Args.withDescription("Its slug; without it, the choice is shown"),
      Args.optional
    )
  },
  Effect.fnUntraced(function* (options) {
    if (Option.isNone(options.environment)) {
      const target = yield* Target.target({ project: options.project, environment: Option.none() })
      return yield* options.json ? json(target) : out(`${plain(target.project)} ${target.environment}\n`)
    }
    const environment = yield* Target.slug(options.environment.value)
    const project = yield* Target.project(options.project)
    const session = yield* Credential.open(options)
    const slugs = (yield* SealingKeys.environments(session, project)).map(({ slug }) => slug)
    if (!slugs.includes(environment)) return yield* noEnvironment(environment, project, slugs)
    const file = yield* ProjectFile.save({ project, environment })
    if (options.json) return yield* json({ file, project, environment })
    yield* note(`${plain(file)}: ${plain(project)}, ${environment}`)
  })
)

// --- open ---

export const open = Help.command(
  "open",
  {
    says: "Open the environment in the dashboard, and print its address; with --json print it alone.",
    examples: ["ampoule open", "ampoule open --env production --no-browser"]
  },
  { ...Shared.inEnvironment, json: Shared.json, noBrowser: Shared.noBrowser },
  Effect.fnUntraced(function* (options) {
    const target = yield* Target.target(options)
    const session = yield* Credential.open(options)
    const projectId = yield* Target.withProject(session, target.project, Effect.succeed)
    const url = `${session.url}/app/projects/${projectId}/env/${target.environment}`
    yield* options.json ? json({ url }) : Browser.offer(url, options)
  })
)

// --- init ---

/** The address that is used anyway, or another one that the person names. */
const chooseServer = Effect.fnUntraced(function* (given: Option.Option<string>) {
  const { url, urlFrom } = yield* Choice.address(given, Option.none())
  if (urlFrom !== "default" || !stdinIsTerminal()) return url
  const answer = yield* Ask.line(`Server [${url}]: `)
  return answer === "" ? url : yield* parseAddress(answer)
})

const chooseCredential = Effect.fnUntraced(function* (
  options: Credential.ConnectionOptions & { readonly plaintext: boolean }
) {
  if (Option.isSome(yield* Choice.choose(options))) return yield* Credential.open(options)
  if (!stdinIsTerminal()) return yield* Choice.noCredential
  const url = yield* chooseServer(options.url)
  yield* logIn({ url: Option.some(url), json: false, plaintext: options.plaintext, machine: false, noBrowser: false })
  return yield* Credential.open({ ...options, url: Option.some(url) })
})

const isSome = (names: ReadonlyArray<string>): names is readonly [string, ...ReadonlyArray<string>] => names.length > 0

const chooseProject = Effect.fnUntraced(function* (session: Credential.Session, given: Option.Option<string>) {
  if (Option.isSome(given)) return given.value
  const client = yield* projectsClient(session)
  const { items } = yield* call(session, client.list())
  const seen = items.map(({ slug }) => slug)
  // Two teams may have a project of one name: then its id says which.
  const names = items.map(({ id, slug }) => (seen.filter((other) => other === slug).length > 1 ? id : slug))
  if (isSome(names)) {
    if (names.length > 1 && !stdinIsTerminal()) return yield* usage("Which project?", "Say --project ID-OR-SLUG.")
    return yield* Ask.oneOf("Project", names)
  }
  return yield* new CliFailure({
    message: "This credential sees no project.",
    hint: `Make one at ${session.url}/app, then run \`ampoule init\` again.`
  })
})

const chooseEnvironment = Effect.fnUntraced(function* (
  session: Credential.Session,
  project: string,
  given: Option.Option<string>
) {
  const slugs = (yield* SealingKeys.environments(session, project)).map(({ slug }): string => slug)
  if (Option.isSome(given)) {
    if (!slugs.includes(given.value)) return yield* noEnvironment(given.value, project, slugs)
    return given.value
  }
  if (!isSome(slugs)) return yield* noEnvironment("development", project, slugs)
  if (slugs.length > 1 && !stdinIsTerminal()) return yield* usage("Which environment?", "Say --env SLUG.")
  return yield* Ask.oneOf("Environment", slugs)
})

export const init = Help.command(
  "init",
  {
    says: "Set this folder up: log in, choose a project and an environment, and import the .env that is found.",
    more: [
      "Asks for what the options do not say. Writes .ampoule.json, which can be committed: it holds two names. Imports after you have seen the keys, and leaves the .env where it is."
    ],
    examples: ["ampoule init", "ampoule init --url https://ampoule.example.com --project shop --env development"]
  },
  { ...Shared.inEnvironment, plaintext },
  Effect.fnUntraced(function* (options) {
    const session = yield* chooseCredential(options)
    const project = yield* chooseProject(session, options.project)
    const environment = yield* chooseEnvironment(session, project, options.environment)
    const file = yield* ProjectFile.save({ project, environment })
    yield* note(`${plain(file)}: ${plain(project)}, ${environment}`)
    const fs = yield* FileSystem.FileSystem
    const isThere = yield* Effect.orElseSucceed(fs.exists(".env"), () => false)
    if (isThere && stdinIsTerminal() && stderrIsTerminal()) {
      if (yield* Ask.confirm(`There is a .env here. Look at its keys, to import them into ${environment}?`)) {
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
      }
    }
    yield* note("Next: ampoule run -- npm start   (or whatever starts your program)")
  })
)
