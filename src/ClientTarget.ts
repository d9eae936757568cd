/**
 * The rule that chooses project and environment, for the command line and every client library (docs/command-line/folder.md,
 * "Which environment"): option or argument, variable, the credential's only environment, trusted `.ampoule.json`.
 * Without Effect and without modules of Node, because clients in browsers' runtimes share it.
 */

/** Slug or id of the project. */
export const projectVariable = "AMPOULE_PROJECT"
/** Slug of the environment. */
export const environmentVariable = "AMPOULE_ENVIRONMENT"

/** In order of precedence. */
export type Source = "option" | "variable" | "credential" | "file"

/** A project or an environment, with the source that named it. */
export interface Part {
  /** Id or slug of a project; slug of an environment. */
  readonly name: string
  readonly source: Source
  /** Id of the project, when the credential's only environment is in it. It saves the look-up of a slug. */
  readonly id?: string
}

export interface Parts {
  readonly project: Part | undefined
  readonly environment: Part | undefined
}

/** `only` of `GET /me/verify`: the one environment that the credential reaches. */
export interface OnlyEnvironment {
  readonly projectId: string
  readonly project: string
  readonly environmentId: string
  readonly environment: string
}

interface Names {
  readonly project?: string | undefined
  readonly environment?: string | undefined
}

const part = (source: Source, name: string | undefined): Part | undefined => {
  const trimmed = name?.trim() ?? ""
  return trimmed === "" ? undefined : { name: trimmed, source }
}

const partsOf = (source: Source, { environment, project }: Names): Parts => ({
  project: part(source, project),
  environment: part(source, environment)
})

const orElse = (first: Parts, second: Parts): Parts => ({
  project: first.project ?? second.project,
  environment: first.environment ?? second.environment
})

/** Question of a library whose program names no project or no environment. */
export const question = (which: "project" | "environment"): string =>
  `Which ${which}? Pass \`${which}\`, or set ${which === "project" ? projectVariable : environmentVariable}: the credential alone does not choose one.`

/** True when no further source is needed. */
export const isComplete = ({ environment, project }: Parts): boolean =>
  project !== undefined && environment !== undefined

/** The caller's own words, which need no trust. An empty variable is none. */
export const fromCaller = (options: Names, variables: Readonly<Record<string, string | undefined>>): Parts =>
  orElse(
    partsOf("option", options),
    partsOf("variable", { project: variables[projectVariable], environment: variables[environmentVariable] })
  )

/**
 * Adds the credential's only environment. For another project it says nothing: its slug would name an environment of
 * that project.
 */
export const withCredential = (parts: Parts, only: OnlyEnvironment | null): Parts => {
  if (only === null) return parts
  const { project } = parts
  if (project !== undefined && project.name !== only.project && project.name.toLowerCase() !== only.projectId) {
    return parts
  }
  return {
    project: { ...(project ?? { name: only.project, source: "credential" }), id: only.projectId },
    environment: parts.environment ?? { name: only.environment, source: "credential" }
  }
}

/** Adds the choice of a `.ampoule.json`. The caller checks that it is trusted. */
export const withFile = (parts: Parts, file: Names): Parts => orElse(parts, partsOf("file", file))
