/** The secret that a path names, and the data of its pages. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { SecretNotFound } from "#schema/Errors.ts"
import { SecretId } from "#schema/Ids.ts"
import type { SecretCompositionGraph, SecretVersionList } from "#schema/SecretResponses.ts"
import { type AtEnvironment, environment, type Location } from "#src/dashboard/frame/EnvironmentFrame.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import { withIds } from "#src/dashboard/frame/Routes.ts"
import * as UseCases from "#src/dashboard/frame/UseCases.ts"

export interface SecretDetails {
  readonly location: Location
  readonly node: SecretCompositionGraph["nodes"][number]
  readonly graph: SecretCompositionGraph
  readonly versions: SecretVersionList["items"]
  readonly currentVersion: number
}
export interface AtSecret extends AtEnvironment {
  readonly secretId: SecretId
}

export const here = ({ location, node }: SecretDetails) => Paths.secret(location.path, node.id)
/** Keys of the secrets that use this one. */
export const usedBy = ({ graph, node }: SecretDetails) =>
  graph.edges.filter(({ to }) => to === node.key).map(({ from }) => from)

/** The version before a change; undefined if the change created none. */
export const versionBefore = (now: number, before: number | undefined) =>
  before === undefined || before === now ? undefined : String(before)

export const secret = withIds(environment, Schema.Struct({ secretId: SecretId }))

/** Loads the secret, which must belong to the environment of the path. */
export const load = Effect.fnUntraced(function* ({ location, secretId }: AtSecret) {
  const graph = yield* UseCases.secretReads.composition(location.query)
  const node = graph.nodes.find(({ id }) => id === secretId)
  if (node === undefined) return yield* new SecretNotFound()
  const { items } = yield* UseCases.secretReads.versions(secretId)
  const [current] = items
  if (current === undefined) return yield* new SecretNotFound()
  const details: SecretDetails = { location, node, graph, versions: items, currentVersion: current.version }
  return details
})
