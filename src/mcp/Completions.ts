/** Completions for the arguments of prompts and resource templates: names that the caller sees, and nothing else. */
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import { CurrentCaller } from "#schema/Caller.ts"
import { ProjectId, uuidPattern } from "#schema/Ids.ts"
import { EnvironmentSlug, SecretKey } from "#schema/Values.ts"
import { Environments } from "#src/projects/Environments.ts"
import { Projects } from "#src/projects/Projects.ts"
import { SecretReads } from "#src/secrets/SecretReads.ts"
import { missingScopes } from "./Credentials.ts"

/** The protocol's own limit of one answer. */
const maxValues = 100

interface Asked {
  /** The argument, and what was typed of it. */
  readonly name: string
  readonly value: string
  /** Arguments that were chosen before. */
  readonly given: Readonly<Record<string, string>>
}

const idOf = ParseResult.decodeUnknown(ProjectId)
const slugOf = ParseResult.decodeUnknown(EnvironmentSlug)
const isKey = ParseResult.is(SecretKey)

export const make = Effect.gen(function* () {
  const projects = yield* Projects
  const environments = yield* Environments
  const secrets = yield* SecretReads

  const project = (text = "") => (uuidPattern.test(text) ? idOf(text) : projects.idOfSlug(text))

  const names = Effect.fnUntraced(function* ({ given, name, value }: Asked) {
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

  /** Names that begin with what was typed; none where the caller may not list them, or what was given is not there. */
  return (asked: Asked) =>
    Effect.map(
      Effect.orElseSucceed(names(asked), (): ReadonlyArray<string> => []),
      (found) => {
        const matching = found.filter((one) => one.startsWith(asked.value))
        const values = matching.slice(0, maxValues)
        return { completion: { values: [...values], total: matching.length, hasMore: matching.length > values.length } }
      }
    )
})
