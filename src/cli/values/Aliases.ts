/** Names that other programs have for the secrets of an environment, for `--names alias`. */
import * as Effect from "effect/Effect"
import { bodyOf, type Link } from "#src/cli/connection/Link.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "#src/cli/connection/Target.ts"

/** An older server sends no aliases. */
const Item = Shape.struct({ key: Shape.string, alias: Shape.optional(Shape.nullable(Shape.string)) })
export const Page = Shape.struct({ items: Shape.array(Item), hasMore: Shape.boolean })
const largestPage = "500"

export const fetchAliases = (server: Link, target: Target.Target) =>
  Target.inEnvironment(server, target, (projectId) =>
    Effect.gen(function* () {
      const aliases = new Map<string, string>()
      for (let page = 1; ; page++) {
        const query = { projectId, environment: target.environment, page: String(page), pageSize: largestPage }
        const { hasMore, items } = yield* bodyOf(server, yield* server.ask({ path: "/secrets", query }), Page)
        for (const { alias, key } of items) if (typeof alias === "string") aliases.set(key, alias)
        if (!hasMore) return aliases
      }
    })
  )
