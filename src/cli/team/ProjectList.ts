/** `ampoule projects list`. Scripts and prompts call it often, so it loads no typed group. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { verify } from "#src/cli/connection/Verified.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import { bodyOf, type Link } from "#src/cli/connection/Link.ts"
import { list } from "#src/cli/terminal/Output.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"

/** `ProjectList`. */
export const Page = Shape.struct({
  items: Shape.array(
    Shape.struct({
      id: Shape.string,
      teamId: Shape.string,
      name: Shape.string,
      slug: Shape.string,
      visibility: Shape.optional(Shape.string),
      createdAt: Shape.string,
      updatedAt: Shape.string
    })
  )
})

/** Names of the credential's teams. Empty when it may not read them; the list then shows ids. */
const teamNames = (server: Link) =>
  Effect.map(
    Effect.option(verify(server)),
    (verified) => new Map(Option.toArray(verified).flatMap(({ teams }) => teams.map(({ id, name }) => [id, name])))
  )

interface ListOptions extends Choice.ConnectionOptions {
  readonly json: boolean
}

export const listProjects = Effect.fnUntraced(function* (options: ListOptions) {
  const server = yield* Choice.open(options)
  const { items } = yield* bodyOf(server, yield* server.ask({ path: "/projects" }), Page)
  const names = options.json ? new Map<string, string>() : yield* teamNames(server)
  yield* list(options, items, "This credential cannot see any project.", [
    ["SLUG", (item) => item.slug],
    ["NAME", (item) => item.name],
    ["ID", (item) => item.id],
    ["TEAM", (item) => names.get(item.teamId) ?? item.teamId]
  ])
})
