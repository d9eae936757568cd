/** `GET /secrets/inject`: an environment in one request, or the word that nothing changed. */
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { InjectedSecrets } from "#schema/SecretResponses.ts"
import { secretKeyPattern } from "#schema/Values.ts"
import type { Representation } from "#schema/Values.ts"
import { type Connection, readBody } from "./Client.ts"
import { UnexpectedAnswer } from "./Failure.ts"

// Written again, and held to the contract by its type alone: its module is half of the contract, which `run` can do
// without.
const Body: Schema.Schema<Pick<typeof InjectedSecrets.Type, "values">, string> = Schema.parseJson(
  Schema.Struct({ values: Schema.Record({ key: Schema.String, value: Schema.String }) })
)

export interface Resolved {
  readonly values: Readonly<Record<string, string>>
  readonly etag: Option.Option<string>
}

export interface InjectOptions {
  readonly projectId: string
  readonly environment: string
  readonly representation?: Representation
  /** Of the set at hand: the answer is None when it still holds. */
  readonly etag?: string
}

export const inject = Effect.fnUntraced(function* (connection: Connection, options: InjectOptions) {
  const { environment, etag, projectId, representation } = options
  const request = HttpClientRequest.get("/secrets/inject").pipe(
    HttpClientRequest.setUrlParams({
      projectId,
      environment,
      ...(representation === undefined ? {} : { representation })
    }),
    etag === undefined ? (r) => r : HttpClientRequest.setHeader("if-none-match", etag)
  )
  const response = yield* connection.http.execute(request)
  if (response.status === 304) return Option.none<Resolved>()
  const { values } = yield* readBody(connection, response, Body)
  // A name outside the contract could be one that a loader or a shell acts upon.
  if (!Object.keys(values).every((name) => secretKeyPattern.test(name))) {
    const reason = "it names a key that no secret can have"
    return yield* new UnexpectedAnswer({ url: connection.url, status: response.status, reason })
  }
  return Option.some<Resolved>({ values, etag: Option.fromNullable(response.headers["etag"]) })
})
