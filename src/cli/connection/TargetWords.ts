/** Sentences about the source of a project and an environment. Pure. */
import * as ClientTarget from "#src/ClientTarget.ts"
import * as Patterns from "#schema/Patterns.ts"
import { plain } from "#src/cli/terminal/Output.ts"
import type { OnlyAnswer } from "./OnlyEnvironment.ts"

type Which = "project" | "environment"

export const sourceOf = (which: Which, source: ClientTarget.Source): string => {
  switch (source) {
    case "option":
      return which === "project" ? "--project" : "--env"
    case "variable":
      return which === "project" ? ClientTarget.projectVariable : ClientTarget.environmentVariable
    case "credential":
      return "the credential's only environment"
    case "file":
      return ".ampoule.json"
  }
}

export const hasVariable = ({ environment, project }: ClientTarget.Parts): boolean =>
  project?.source === "variable" || environment?.source === "variable"

/** Options that replace the names of the file. Empty: the file names nothing that counts. */
export const optionsInstead = ({ environment, project }: ClientTarget.Parts): string =>
  [
    ...(project?.source === "file" ? ["--project ID-OR-SLUG"] : []),
    ...(environment?.source === "file" ? ["--env SLUG"] : [])
  ].join(" ")

interface FileNames {
  readonly project?: string | undefined
  readonly environment?: string | undefined
}

const isUuid = (text: string): boolean => Patterns.uuid.test(text)

/** False also when one is an id and the other a slug, of which nothing can be said. */
const differs = (part: ClientTarget.Part | undefined, name: string | undefined): boolean => {
  if (part === undefined || name === undefined || part.source === "option" || part.source === "file") return false
  const own = [part.name, part.id].flatMap((one) => (one === undefined ? [] : [one.toLowerCase()]))
  return !own.includes(name.toLowerCase()) && own.some((one) => isUuid(one) === isUuid(name))
}

/** Undefined: no variable and no credential chose something else than the file. */
export const overrides = (
  { environment, project }: ClientTarget.Parts,
  file: FileNames,
  path: string
): string | undefined => {
  const sentenceOf = (which: Which, part: ClientTarget.Part | undefined, name: string | undefined) =>
    part !== undefined && name !== undefined && differs(part, name)
      ? `${sourceOf(which, part.source)} chooses the ${which} ${plain(part.name)}, not ${plain(name)} of ${plain(path)}`
      : undefined
  const first = sentenceOf("project", project, file.project) ?? sentenceOf("environment", environment, file.environment)
  return first === undefined ? undefined : `${first}. --project and --env choose without this warning.`
}

interface Tried extends OnlyAnswer {
  readonly file: FileNames
  readonly hasFile: boolean
}

const aboutCredential = ({ project }: ClientTarget.Parts, { only, unsaid }: Tried): string => {
  if (unsaid === "older server") return "the server is older and does not say which environments the credential reaches"
  if (unsaid === "not allowed") return "the credential may not read which environments it reaches (identity:read)"
  if (only === null) return "the credential does not reach exactly one environment"
  return `the credential reaches only ${plain(only.environment)} of ${plain(only.project)}, not ${plain(project?.name ?? "another project")}`
}

/** The question, and the sources that were tried. */
export const missing = (parts: ClientTarget.Parts, tried: Tried) => {
  const which: Which = parts.project === undefined ? "project" : "environment"
  const [option, variable] =
    which === "project"
      ? ["--project ID-OR-SLUG", ClientTarget.projectVariable]
      : ["--env SLUG", ClientTarget.environmentVariable]
  const file = tried.hasFile ? `.ampoule.json names no ${which}` : "there is no .ampoule.json here or above"
  const project =
    parts.project === undefined
      ? ""
      : ` The project is ${plain(parts.project.name)} (${sourceOf("project", parts.project.source)}).`
  return {
    message: `Which ${which}?`,
    hint: `Use ${option}, or set ${variable}: ${aboutCredential(parts, tried)}, and ${file}.${project}`
  }
}

/** Next step after ENVIRONMENT_NOT_FOUND. */
export const noSuchEnvironment = ({ environment, project }: ClientTarget.Parts): string => {
  const name = plain(environment?.name ?? "")
  const from = environment === undefined ? "" : `${name} comes from ${sourceOf("environment", environment.source)}. `
  return `${from}\`ampoule projects environments ${plain(project?.name ?? "")}\` lists the environments that this credential can reach.`
}

/** Members of `--json`; null: no source names it. */
export const sources = ({ environment, project }: ClientTarget.Parts) => ({
  projectFrom: project === undefined ? null : sourceOf("project", project.source),
  environmentFrom: environment === undefined ? null : sourceOf("environment", environment.source)
})

/** `shop (AMPOULE_PROJECT)`. */
export const described = (which: Which, part: ClientTarget.Part): string =>
  `${plain(part.name)} (${sourceOf(which, part.source)})`

/** Project and environment with their sources, or the variable that would name a missing one. */
export const overview = ({ environment, project }: ClientTarget.Parts): string =>
  [
    project === undefined
      ? `no project (--project or ${ClientTarget.projectVariable})`
      : `project ${described("project", project)}`,
    environment === undefined
      ? `no environment (--env or ${ClientTarget.environmentVariable})`
      : `environment ${described("environment", environment)}`
  ].join(", ")
