/** Identity and access of a credential (`GET /me/verify`). */
import * as Effect from "effect/Effect"
import * as Shape from "#src/cli/terminal/Shape.ts"
import { bodyOf, type Link } from "./Link.ts"

const texts = Shape.array(Shape.string)

/** `VerifyAuthResponse`. */
export const Verified = Shape.struct({
  credential: Shape.struct({
    type: Shape.string,
    id: Shape.string,
    name: Shape.optional(Shape.string),
    expiresAt: Shape.nullable(Shape.string)
  }),
  accessLevel: Shape.optional(Shape.string),
  teams: Shape.array(Shape.struct({ id: Shape.string, name: Shape.string })),
  scopes: Shape.optional(Shape.array(Shape.struct({ teamId: Shape.string, scopes: texts }))),
  mcpScopes: Shape.optional(texts),
  restrictions: Shape.struct({ projectIds: Shape.nullable(texts), environmentIds: Shape.nullable(texts) }),
  // An older server sends none.
  only: Shape.optional(
    Shape.nullable(
      Shape.struct({
        projectId: Shape.string,
        project: Shape.string,
        environmentId: Shape.string,
        environment: Shape.string
      })
    )
  )
})
export type Verified = Shape.Of<typeof Verified>

export const verify = (server: Link) =>
  Effect.flatMap(server.ask({ path: "/me/verify" }), (answer) => bodyOf(server, answer, Verified))
