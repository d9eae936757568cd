/** `ampoule use` and `open`: the project and environment of a folder. */
import * as Args from "@effect/cli/Args"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Browser from "#src/cli/terminal/Browser.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, out, plain } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "#src/cli/connection/ProjectFile.ts"
import { noEnvironment } from "./Init.ts"
import * as SealingKeys from "#src/cli/sealed/Keys.ts"
import * as Target from "#src/cli/connection/Target.ts"
import * as TargetWords from "#src/cli/connection/TargetWords.ts"

// --- use ---

/** The choice of the folder and its sources. */
const showChoice = Effect.fnUntraced(function* (
  options: Credential.ConnectionOptions & Pick<Target.TargetOptions, "project"> & { readonly json: boolean }
) {
  const names = { project: options.project, environment: Option.none() }
  const { target } = yield* Target.reach(names, Credential.open(options))
  const { environment, project } = target
  const { environmentFrom, projectFrom } = TargetWords.sources(target.parts)
  if (options.json) return yield* json({ project, environment, projectFrom, environmentFrom })
  yield* out(`${plain(project)} ${environment}\n`)
  yield* note(`The project comes from ${projectFrom}, the environment from ${environmentFrom}.`)
})

export const use = Help.command(
  "use",
  {
    says: "Choose the environment of this folder, or show it.",
    more: [
      "Writes the choice to the nearest .ampoule.json from here upwards, or to a new one here, and trusts the file."
    ],
    examples: ["ampoule use staging", "ampoule use production --project shop", "ampoule use"]
  },
  {
    ...Shared.connection,
    project: Shared.project,
    json: Shared.json,
    environment: Args.text({ name: "ENVIRONMENT" }).pipe(
      Args.withDescription("Slug of the environment; without it, the current choice is shown"),
      Args.optional
    )
  },
  Effect.fnUntraced(function* (options) {
    if (Option.isNone(options.environment)) {
      return yield* showChoice(options)
    }
    const environment = yield* Target.slug(options.environment.value)
    const session = yield* Credential.open(options)
    const { project, ...id } = yield* Target.project(options.project, session)
    const slugs = (yield* SealingKeys.environments(session, { project, ...id })).map(({ slug }) => slug)
    if (!slugs.includes(environment)) return yield* noEnvironment(environment, project, slugs)
    const file = yield* ProjectFile.save({ project, environment })
    yield* options.json
      ? json({ file, project, environment })
      : note(`${plain(file)}: ${plain(project)}, ${environment}`)
    // Warns of a variable or a credential that chooses something else here.
    yield* Effect.ignore(Target.target({ project: Option.none(), environment: Option.none() }, session))
  })
)

// --- open ---

export const open = Help.command(
  "open",
  {
    says: "Open the environment in the dashboard, and print its address; with --json only print it.",
    examples: ["ampoule open", "ampoule open --env production --no-browser"]
  },
  { ...Shared.inEnvironment, json: Shared.json, noBrowser: Shared.noBrowser },
  Effect.fnUntraced(function* (options) {
    const { session, target } = yield* Target.reach(options, Credential.open(options))
    const projectId = yield* Target.withProject(session, target, Effect.succeed)
    const url = `${session.url}/app/projects/${projectId}/env/${target.environment}`
    yield* options.json ? json({ url }) : Browser.offer(url, options)
  })
)
