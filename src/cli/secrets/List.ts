/** `ampoule secrets list` in its plain form. Scripts and prompts call it often, so it loads no typed group. */
import * as Effect from "effect/Effect"
import * as Choice from "#src/cli/connection/Choice.ts"
import { bodyOf, type Link } from "#src/cli/connection/Link.ts"
import { list } from "#src/cli/terminal/Output.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "#src/cli/connection/Target.ts"

export interface ListOptions extends Choice.ConnectionOptions, Target.TargetOptions {
  readonly json: boolean
}

/** `SecretListItem` without the members of `--last-read`. Members that an older server does not send are optional. */
const Item = Shape.struct({
  id: Shape.string,
  projectId: Shape.string,
  environment: Shape.string,
  key: Shape.string,
  kind: Shape.string,
  version: Shape.number,
  createdAt: Shape.string,
  updatedAt: Shape.string,
  owner: Shape.optional(Shape.nullable(Shape.string)),
  note: Shape.optional(Shape.nullable(Shape.string)),
  rotateBy: Shape.optional(Shape.nullable(Shape.string)),
  alias: Shape.optional(Shape.nullable(Shape.string)),
  tags: Shape.optional(Shape.array(Shape.string)),
  references: Shape.array(Shape.string),
  updatedBy: Shape.struct({ type: Shape.string, id: Shape.string, name: Shape.nullable(Shape.string) })
})
export const Page = Shape.struct({ items: Shape.array(Item), hasMore: Shape.boolean })
type ListItem = Shape.Of<typeof Item>

const largestPage = "500"

/** Keys and metadata of an environment, page by page. */
export const readItems = Effect.fnUntraced(function* (
  server: Link,
  place: Readonly<Record<string, string | undefined>>
) {
  const all: Array<ListItem> = []
  for (let page = 1; ; page++) {
    const query = { ...place, page: String(page), pageSize: largestPage }
    const { hasMore, items } = yield* bodyOf(server, yield* server.ask({ path: "/secrets", query }), Page)
    all.push(...items)
    if (!hasMore || items.length === 0) return all
  }
})

export const readList = Effect.fnUntraced(function* (options: ListOptions) {
  const { session: server, target } = yield* Target.reach(options, Choice.open(options))
  const { environment } = target
  const items = yield* Target.inEnvironment(server, target, (projectId) =>
    readItems(server, { projectId, environment })
  )
  yield* list(options, items, "No secrets.", columns)
})

interface Row {
  readonly key: string
  readonly kind: string
  readonly version: number
  readonly updatedAt: string
  readonly references: ReadonlyArray<string>
  readonly updatedBy: { readonly type: string; readonly name: string | null }
}

export const columns: ReadonlyArray<readonly [title: string, cell: (item: Row) => string]> = [
  ["KEY", (item) => item.key],
  ["KIND", (item) => (item.references.length === 0 ? item.kind : `${item.kind} (${item.references.join(", ")})`)],
  ["VERSION", (item) => String(item.version)],
  ["UPDATED", (item) => item.updatedAt],
  ["BY", (item) => item.updatedBy.name ?? item.updatedBy.type]
]
