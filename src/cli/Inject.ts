/** `GET /secrets/inject`: an environment in one request, or the word that nothing changed. */
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { InjectedSecrets } from "#schema/SecretsApi.ts"
import { secretKeyPattern } from "#schema/Values.ts"
import type { Representation } from "#schema/Values.ts"
import type { Connection } from "./Client.ts"
import { ServerUnreachable, UnexpectedAnswer } from "./Failure.ts"

// Written again, and held to the contract by its type alone: its module is half of the contract, which `run` can do without.
const Body: Schema.Schema<Pick<typeof InjectedSecrets.Type, "values">, string> = Schema.parseJson(
  Schema.Struct({ values: Schema.Record({ key: Schema.String, value: Schema.String }) })
)
const decodeBody = Schema.decodeUnknownOption(Body)

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
  const unexpected = (status: number, reason: string) => new UnexpectedAnswer({ url: connection.url, status, reason })
  const response = yield* connection.http.execute(request)
  if (response.status === 304) return Option.none<Resolved>()
  const text = yield* Effect.mapError(
    response.text,
    () => new ServerUnreachable({ url: connection.url, reason: "the answer broke off" })
  )
  const body = decodeBody(text)
  if (Option.isNone(body)) return yield* unexpected(response.status, "not an answer of this service")
  const { values } = body.value
  // A name outside the contract could be one that a loader or a shell acts upon.
  if (!Object.keys(values).every((name) => secretKeyPattern.test(name))) {
    return yield* unexpected(response.status, "it names a key that no secret can have")
  }
  return Option.some<Resolved>({ values, etag: Option.fromNullable(response.headers["etag"]) })
})
