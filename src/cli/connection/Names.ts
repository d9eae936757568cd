/** Names that a credential sees on a server, never a value: for completion, and for a mistyped name. */
import * as Effect from "effect/Effect"
import type { ServerError } from "#src/cli/terminal/Failure.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import { bodyOf, type Link } from "./Link.ts"

export const Projects = Shape.struct({ items: Shape.array(Shape.struct({ id: Shape.string, slug: Shape.string })) })
export const Environments = Shape.struct({
  items: Shape.array(Shape.struct({ id: Shape.optional(Shape.string), slug: Shape.string }))
})
export const Keys = Shape.struct({ items: Shape.array(Shape.struct({ key: Shape.string })), hasMore: Shape.boolean })

const projectItems = Effect.fnUntraced(function* (server: Link) {
  return (yield* bodyOf(server, yield* server.ask({ path: "/projects" }), Projects)).items
})

const environmentItems = Effect.fnUntraced(function* (server: Link, projectId: string) {
  const answer = yield* server.ask({ path: `/projects/${projectId}/environments` })
  return (yield* bodyOf(server, answer, Environments)).items
})

export const projects = Effect.fnUntraced(function* (server: Link) {
  const items = yield* projectItems(server)
  const slugs = items.map(({ slug }) => slug)
  // Two teams may have a project of the same name. Then offer their ids.
  return items.map(({ id, slug }) => (slugs.indexOf(slug) === slugs.lastIndexOf(slug) ? slug : id))
})

export const environments = (server: Link, projectId: string) =>
  Effect.map(environmentItems(server, projectId), (items) => items.map(({ slug }) => slug))

/** Projects whose environments are asked for. */
const projectsAtMost = 20

/** Names by id of the projects that the credential sees, as `shop`, and of their environments, as `shop/production`. */
export const byId = Effect.fnUntraced(function* (server: Link) {
  const visible = yield* projectItems(server)
  const below = yield* Effect.forEach(visible.slice(0, projectsAtMost), (project) =>
    Effect.map(environmentItems(server, project.id), (items) =>
      items.flatMap(({ id, slug }) => (id === undefined ? [] : [[id, `${project.slug}/${slug}`] as const]))
    )
  )
  return new Map([...visible.map(({ id, slug }) => [id, slug] as const), ...below.flat()])
})

const page = { size: 500, most: 10 } as const

export const keys = Effect.fnUntraced(function* (
  server: Link,
  projectId: string,
  environment: string,
  most: number = page.most
) {
  const names: Array<string> = []
  for (let n = 1; n <= most; n++) {
    const query = { projectId, environment, page: String(n), pageSize: String(page.size) }
    const { hasMore, items } = yield* bodyOf(server, yield* server.ask({ path: "/secrets", query }), Keys)
    names.push(...items.map(({ key }) => key))
    if (!hasMore || items.length === 0) break
  }
  return names
})

/** For the question after a refusal, which does not wait long for them. */
export const forQuestion = (names: Effect.Effect<ReadonlyArray<string>, ServerError>) =>
  names.pipe(
    Effect.timeout("2 seconds"),
    Effect.orElseSucceed((): ReadonlyArray<string> => [])
  )
