/** Addresses and contents of resources; contents hold names only. */
import * as Effect from "effect/Effect"
import { CurrentCaller } from "#schema/Caller.ts"
import { type ProjectId, uuidPattern } from "#schema/Ids.ts"
import { environmentResource, guide } from "#schema/McpPrompts.ts"
import { type EnvironmentSlug, environmentSlugPattern } from "#schema/Values.ts"
import { Environments } from "#src/projects/Environments.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { missingScopes } from "./Credentials.ts"

/** Environments of the listing; `list_projects` and `list_environments` give all. */
const maxListed = 100
/** Keys of one environment's resource; `list_secrets` gives all. */
const maxKeys = 200
const prefix = "secrets://projects/"

const environmentUri = (projectId: string, environment: string) => `${prefix}${projectId}/environments/${environment}`

/** Undefined for any other address. Parses by hand, without a library for templates. */
export const parseEnvironmentUri = (
  uri: string
): { readonly projectId: ProjectId; readonly environment: EnvironmentSlug } | undefined => {
  if (uri.length > 200 || !uri.startsWith(prefix)) return undefined
  const [projectId, environments, slug, ...rest] = uri.slice(prefix.length).split("/")
  if (rest.length > 0 || environments !== "environments" || projectId === undefined || slug === undefined)
    return undefined
  if (!uuidPattern.test(projectId) || slug.length > 50 || !environmentSlugPattern.test(slug)) return undefined
  // The patterns check what the two brands stand for.
  return { projectId: projectId.toLowerCase() as ProjectId, environment: slug as EnvironmentSlug }
}

export const templates = [
  {
    uriTemplate: environmentResource.uriTemplate,
    name: environmentResource.name,
    title: environmentResource.title,
    description: environmentResource.description,
    mimeType: environmentResource.mimeType
  }
]

export const make = Effect.gen(function* () {
  const environments = yield* Environments
  const { reads: secrets } = yield* SecretStore

  /** The guide, and the environments that the caller reaches. */
  const list = Effect.gen(function* () {
    const caller = yield* CurrentCaller
    const { mimeType, name, title, description, uri } = guide
    const first = { uri, name, title, description, mimeType }
    if (missingScopes(caller, ["projects:read", "secrets:read"]).length > 0) return [first]
    const visible = yield* environments.reachable(maxListed)
    return [
      first,
      ...visible.map(({ projectId, projectName, slug }) => ({
        uri: environmentUri(projectId, slug),
        name: `${projectName}/${slug}`,
        mimeType: environmentResource.mimeType
      }))
    ]
  })

  /** Undefined for an unknown resource. Errors are those of the environment's route. */
  const read = Effect.fnUntraced(function* (uri: string) {
    if (uri === guide.uri) return { uri, mimeType: guide.mimeType, text: guide.text }
    const at = parseEnvironmentUri(uri)
    if (at === undefined) return undefined
    const { groups, rows, total } = yield* secrets.search({ ...at, pageSize: maxKeys })
    const text = JSON.stringify({
      projectId: at.projectId,
      environment: at.environment,
      total,
      groups,
      secrets: rows.map(({ key, kind, refs }) => ({ key, kind, references: refs })),
      ...(total > rows.length ? { next: "list_secrets shows the rest" } : {})
    })
    return { uri, mimeType: environmentResource.mimeType, text }
  })

  return { list, read } as const
})
