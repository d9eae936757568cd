/** Capabilities of a server, read before a route that an older server may not have. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import type { Link } from "./Link.ts"
import { plain } from "#src/cli/terminal/Output.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"

/** Only the members that are used: another version may have others (docs/contract/README.md). */
export const CapabilitiesBody = Shape.struct({
  version: Shape.optional(Shape.string),
  clientAddress: Shape.optional(Shape.string),
  commit: Shape.optional(Shape.string),
  durability: Shape.optional(Shape.string),
  features: Shape.optional(Shape.record(Shape.unknown))
})

const decode = Shape.json(CapabilitiesBody)

export const read = (server: Link) => Effect.map(server.ask({ path: "/capabilities" }), ({ text }) => decode(text))

const names = { sealedValues: "sealed values", deviceAuthorization: "logins from the command line" } as const

/** Passes when the server does not answer the question: its answer to the request decides then. */
export const requireFeature = Effect.fnUntraced(function* (server: Link, feature: keyof typeof names) {
  const capabilities = yield* Effect.catchIf(
    read(server),
    (error) => error._tag === "ServerRefused" && error.status === 404,
    () => Effect.succeedNone
  )
  if (Option.isNone(capabilities) || capabilities.value.features?.[feature] === true) return
  const { version } = capabilities.value
  return yield* new CliFailure({
    message: `This server${version === undefined ? "" : ` (${plain(version)})`} has no ${names[feature]}.`,
    hint: "It may be older than this command: `ampoule doctor` compares them."
  })
})
