/** One resolved environment of a server. Refreshes use its ETag, so that most of them read no values. */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { EnvironmentNotFound } from "#schema/Errors.ts"
import { uuidPattern } from "#schema/Ids.ts"
import { ProjectList } from "#schema/ProjectsApi.ts"
import { InjectedSecrets } from "#schema/SecretResponses.ts"
import { secretKeyPattern } from "#schema/Values.ts"
import {
  environmentVariable,
  fromCaller,
  isComplete,
  type OnlyEnvironment,
  type Parts,
  projectVariable,
  question,
  withCredential
} from "#src/ClientTarget.ts"
import * as Client from "./Client.ts"
import { readVariables } from "./Settings.ts"

export interface Options extends Client.Options {
  /** Id or slug; `AMPOULE_PROJECT` by default, else the credential's only environment decides. */
  readonly project?: string
  /** Slug; `AMPOULE_ENVIRONMENT` by default, else the credential's only environment. */
  readonly environment?: string
}

/**
 * No project is named and the credential reaches several, the project does not exist or the credential cannot see it,
 * or two teams have one of this slug.
 *
 * @public The declarations of the package name it.
 */
export class ProjectUnclear extends Schema.TaggedError<ProjectUnclear>()("ProjectUnclear", {
  reason: Schema.Literal("not found", "several projects have this slug; use the id", "no project", "no environment")
}) {
  override get message(): string {
    return sentences[this.reason]
  }
}

const sentences = {
  "not found": "This credential sees no project of that id or slug.",
  "several projects have this slug; use the id": "Several projects have this slug: use the id.",
  "no project": question("project"),
  "no environment": question("environment")
}

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

/** Open: servers of before 1.1 do not say it. */
const Verified = Schema.Struct({
  only: Schema.optional(
    Schema.NullOr(
      Schema.Struct({
        projectId: Schema.String,
        project: Schema.String,
        environmentId: Schema.String,
        environment: Schema.String
      })
    )
  )
})
const decodeVerified = Schema.decodeUnknownOption(Schema.parseJson(Verified))

/** The credential's only environment. A login may lack the scope. */
const onlyEnvironment = (get: Get): Effect.Effect<OnlyEnvironment | null, Client.ClientError> =>
  get(HttpClientRequest.get("/me/verify")).pipe(
    Effect.map(({ text }) => Option.getOrUndefined(decodeVerified(text))?.only ?? null),
    Effect.catchTag("SCOPE_MISSING", () => Effect.succeed(null))
  )

const target = Effect.fnUntraced(function* (get: Get, options: Options) {
  let parts: Parts = fromCaller(options, readVariables(undefined, [projectVariable, environmentVariable]))
  if (!isComplete(parts)) parts = withCredential(parts, yield* onlyEnvironment(get))
  const { environment, project } = parts
  if (project === undefined) return yield* new ProjectUnclear({ reason: "no project" })
  if (environment === undefined) return yield* new ProjectUnclear({ reason: "no environment" })
  return { environment: environment.name, projectId: project.id ?? (yield* projectId(get, project.name)) }
})

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

/** The same failure, which names the environment that does not exist. */
const withName = ({ address, requestId }: EnvironmentNotFound, slug: string) =>
  Object.assign(new EnvironmentNotFound({ message: `No such environment: ${slug}.` }), {
    ...(address === undefined ? {} : { address }),
    ...(requestId === undefined ? {} : { requestId })
  })

/** Resolves the environment, or fails if it is unavailable. */
export const open = Effect.fnUntraced(function* (options: Options) {
  const get = getWith(yield* Client.httpClient(options), options)
  const { environment: slug, projectId: id } = yield* target(get, options)
  // An older response must not replace a newer one.
  const one = yield* Effect.makeSemaphore(1)
  let values: ReadonlyMap<string, Redacted.Redacted> = new Map()
  let etag: string | undefined

  const refresh: Environment["refresh"] = Effect.gen(function* () {
    const response = yield* get(
      HttpClientRequest.get("/secrets/inject").pipe(
        HttpClientRequest.setUrlParams({ projectId: id, environment: slug }),
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
  }).pipe(
    Effect.catchTag("ENVIRONMENT_NOT_FOUND", (error) => Effect.fail(withName(error, slug))),
    one.withPermits(1)
  )

  yield* refresh
  const environment: Environment = {
    get values() {
      return values
    },
    refresh
  }
  return environment
})
