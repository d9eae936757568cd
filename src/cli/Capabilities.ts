/** What a server can do, read before a route that an older one may not have. */
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Connection } from "./Client.ts"
import { CliFailure } from "./Failure.ts"
import { plain } from "./Output.ts"

/** The members that are looked at, and no more: another version may have others (docs/contract/README.md). */
const Answer = Schema.parseJson(
  Schema.Struct({
    version: Schema.optional(Schema.String),
    durability: Schema.optional(Schema.String),
    features: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), { default: () => ({}) })
  })
)
export type Capabilities = typeof Answer.Type
const decode = Schema.decodeUnknownOption(Answer)

export const read = Effect.fnUntraced(function* (connection: Connection) {
  const response = yield* connection.http.execute(HttpClientRequest.get("/capabilities"))
  return Option.flatMap(yield* Effect.option(response.text), (text) => decode(text))
})

const names = { sealedValues: "sealed values", deviceAuthorization: "logins from the command line" } as const

/** Goes on when the server does not say: then its own answer to the request will. */
export const need = Effect.fnUntraced(function* (connection: Connection, feature: keyof typeof names) {
  const capabilities = yield* Effect.catchIf(
    read(connection),
    (error) => error._tag === "ServerRefused" && error.status === 404,
    () => Effect.succeedNone
  )
  if (Option.isNone(capabilities) || capabilities.value.features[feature] === true) return
  const { version } = capabilities.value
  return yield* new CliFailure({
    message: `This server${version === undefined ? "" : ` (${plain(version)})`} has no ${names[feature]}.`,
    hint: "It may be older than this command: `ampoule doctor` compares them."
  })
})
