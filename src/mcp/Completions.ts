/** Completes arguments of prompts and resource templates, only with names that the caller can see. */
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import { CurrentCaller } from "#schema/Caller.ts"
import { ProjectId, uuidPattern } from "#schema/Ids.ts"
import { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { missingScopes } from "./Credentials.ts"

/** Limit of the protocol for one response. */
const maxValues = 100

interface CompletionRequest {
  /** Name of the argument. */
  readonly name: string
  /** Text that the person typed so far. */
  readonly value: string
  /** Arguments that the client already has. */
  readonly given: Readonly<Record<string, string>>
}

const idOf = ParseResult.decodeUnknown(ProjectId)
const slugOf = ParseResult.decodeUnknown(EnvironmentSlug)
const isKey = ParseResult.is(SecretKey)

export const make = Effect.gen(function* () {
  const projects = yield* Projects
  const environments = yield* Environments
  const { reads: secrets } = yield* SecretStore

  const project = (text = "") => (uuidPattern.test(text) ? idOf(text) : projects.idOfSlug(text))

  const names = Effect.fnUntraced(function* ({ given, name, value }: CompletionRequest) {
    const caller = yield* CurrentCaller
    const may = (...scopes: Parameters<typeof missingScopes>[1]) => missingScopes(caller, scopes).length === 0
    if (name === "projectId" && may("projects:read")) return (yield* projects.list()).map(({ slug }) => slug)
    if (name === "environment" && may("projects:read")) {
      const { items } = yield* environments.list(yield* project(given["projectId"]))
      return items.map(({ slug }) => slug)
    }
    if (name === "key" && may("secrets:read") && (value === "" || isKey(value))) {
      const projectId = yield* project(given["projectId"])
      const environment = yield* slugOf(given["environment"])
      const { rows } = yield* secrets.search({ projectId, environment, query: value, pageSize: 500 })
      return rows.map(({ key }) => key)
    }
    return []
  })

  /**
   * Names that begin with the typed text. Empty if the caller may not list them, or an earlier argument does not exist.
   */
  return (request: CompletionRequest) =>
    Effect.map(
      Effect.orElseSucceed(names(request), (): ReadonlyArray<string> => []),
      (visible) => {
        const matching = visible.filter((one) => one.startsWith(request.value))
        const values = matching.slice(0, maxValues)
        return { completion: { values: [...values], total: matching.length, hasMore: matching.length > values.length } }
      }
    )
})
