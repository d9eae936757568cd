/** One resolved environment of a server. Refreshes use its ETag, so that most of them read no values. */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { uuidPattern } from "#schema/Ids.ts"
import { ProjectList } from "#schema/ProjectsApi.ts"
import { InjectedSecrets } from "#schema/SecretResponses.ts"
import { secretKeyPattern } from "#schema/Values.ts"
import * as Client from "./Client.ts"

export interface Options extends Client.Options {
  /** Id or slug. */
  readonly project: string
  /** Slug. */
  readonly environment: string
}

/**
 * The project does not exist, the credential cannot see it, or two teams have one of this slug.
 *
 * @public The declarations of the package name it.
 */
export class ProjectUnclear extends Schema.TaggedError<ProjectUnclear>()("ProjectUnclear", {
  reason: Schema.Literal("not found", "several projects have this slug; use the id")
}) {}

export type Failure = Client.ClientError | ProjectUnclear

export interface Environment {
  /** Values by key, as of the last fetch. */
  readonly values: ReadonlyMap<string, Redacted.Redacted>
  /** Fetches again if something changed, and returns whether it did. After a failure the values stay. */
  readonly refresh: Effect.Effect<boolean, Failure>
}

const unexpected = (status: number) => new Client.UnexpectedAnswer({ status, code: undefined })
const decodeProjects = Schema.decodeUnknownOption(Schema.parseJson(ProjectList))
const decodeInjected = Schema.decodeUnknownOption(Schema.parseJson(InjectedSecrets.pick("values")))

type Get = (
  request: HttpClientRequest.HttpClientRequest
) => Effect.Effect<
  { readonly status: number; readonly etag: string | undefined; readonly text: string },
  Client.ClientError
>

const getWith =
  (http: HttpClient.HttpClient.With<Client.ClientError>, options: Client.Options): Get =>
  (request) =>
    Effect.flatMap(http.execute(request), (response) =>
      response.text.pipe(
        Effect.mapError(() => unexpected(response.status)),
        Client.inTime(options),
        Effect.map((text) => ({ status: response.status, etag: response.headers["etag"], text }))
      )
    )

const projectId = Effect.fnUntraced(function* (get: Get, project: string) {
  if (uuidPattern.test(project)) return project
  const { status, text } = yield* get(HttpClientRequest.get("/projects"))
  const list = decodeProjects(text)
  if (Option.isNone(list)) return yield* unexpected(status)
  const matches = list.value.items.filter((one) => one.slug === project)
  if (matches.length === 1) return matches[0].id
  return yield* new ProjectUnclear({
    reason: matches.length === 0 ? "not found" : "several projects have this slug; use the id"
  })
})

/** Resolves the environment, or fails if it is unavailable. */
export const open = Effect.fnUntraced(function* (options: Options) {
  const get = getWith(yield* Client.httpClient(options), options)
  const id = yield* projectId(get, options.project)
  // An older response must not replace a newer one.
  const one = yield* Effect.makeSemaphore(1)
  let values: ReadonlyMap<string, Redacted.Redacted> = new Map()
  let etag: string | undefined

  const refresh: Environment["refresh"] = Effect.gen(function* () {
    const response = yield* get(
      HttpClientRequest.get("/secrets/inject").pipe(
        HttpClientRequest.setUrlParams({ projectId: id, environment: options.environment }),
        etag === undefined ? (request) => request : HttpClientRequest.setHeader("if-none-match", etag)
      )
    )
    if (response.status === 304) return false
    const body = decodeInjected(response.text)
    // A name outside the contract could be one that a loader acts on.
    if (Option.isNone(body) || !Object.keys(body.value.values).every((name) => secretKeyPattern.test(name))) {
      return yield* unexpected(response.status)
    }
    values = new Map(Object.entries(body.value.values).map(([key, value]) => [key, Redacted.make(value)]))
    etag = response.etag
    return true
  }).pipe(one.withPermits(1))

  yield* refresh
  const environment: Environment = {
    get values() {
      return values
    },
    refresh
  }
  return environment
})
