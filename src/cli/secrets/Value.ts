/** `ampoule secrets get`. Programs call it often, so it loads no typed group of the contract. */
import * as Effect from "effect/Effect"
import * as Choice from "#src/cli/connection/Choice.ts"
import { withKey, parseKey } from "#src/cli/terminal/Keys.ts"
import { bodyOf } from "#src/cli/connection/Link.ts"
import * as Names from "#src/cli/connection/Names.ts"
import { json, value } from "#src/cli/terminal/Output.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "#src/cli/connection/Target.ts"

export interface GetOptions extends Choice.ConnectionOptions, Target.TargetOptions {
  readonly key: string
  readonly source: boolean
  readonly raw: boolean
  readonly json: boolean
}

export const ValueBody = Shape.struct({ value: Shape.string })
/** `SecretWithValue`. Other members of a response are not printed. */
export const PrintedMembers = Shape.struct({
  id: Shape.string,
  projectId: Shape.string,
  environment: Shape.string,
  key: Shape.string,
  kind: Shape.string,
  version: Shape.number,
  createdAt: Shape.string,
  updatedAt: Shape.string,
  value: Shape.string,
  representation: Shape.string
})

export const readValue = Effect.fnUntraced(function* (options: GetOptions) {
  const key = yield* parseKey(options.key)
  const { session: server, target } = yield* Target.reach(options, Choice.open(options))
  const { environment } = target
  const representation = options.source ? "source" : undefined
  const response = yield* Target.inEnvironment(server, target, (projectId) =>
    server
      .ask({ path: "/secrets/value", query: { projectId, environment, key, representation } })
      .pipe(withKey(key, environment, Names.forQuestion(Names.keys(server, projectId, environment))))
  )
  if (options.json) return yield* json(yield* bodyOf(server, response, PrintedMembers))
  yield* value((yield* bodyOf(server, response, ValueBody)).value, options)
})
