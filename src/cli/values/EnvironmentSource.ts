/** Values of an environment from the server or the offline copy. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { InjectedSecrets } from "#schema/SecretResponses.ts"
import { secretKey } from "#schema/Patterns.ts"
import type { Representation } from "#schema/Values.ts"
import type { ChosenLink } from "#src/cli/connection/Choice.ts"
import { type CliError, describe, UnexpectedAnswer } from "#src/cli/terminal/Failure.ts"
import { bodyOf, type Link } from "#src/cli/connection/Link.ts"
import * as OfflineCache from "./OfflineCache.ts"
import { warn } from "#src/cli/terminal/Output.ts"
import type { RunOptions } from "./RunOptions.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "#src/cli/connection/Target.ts"

export const ValuesBody = Shape.struct({ values: Shape.record(Shape.string) }) satisfies Shape.Shape<
  Pick<typeof InjectedSecrets.Type, "values">
>

export interface Resolved {
  readonly values: Readonly<Record<string, string>>
  readonly etag: Option.Option<string>
  /** Names in other programs by key, of a source that has them. */
  readonly aliases?: ReadonlyMap<string, string>
}

export const noSecrets: Resolved = { values: {}, etag: Option.none() }

interface InjectOptions {
  readonly projectId: string
  readonly environment: string
  readonly representation?: Representation
  /** ETag of the present set. The result is None while it is current. */
  readonly etag?: string | undefined
  /** Plan that the run carries out. */
  readonly plan?: string | undefined
}

export const inject = Effect.fnUntraced(function* (server: Link, options: InjectOptions) {
  const { environment, etag, plan, projectId, representation } = options
  const response = yield* server.ask({
    path: "/secrets/inject",
    query: { projectId, environment, representation, plan },
    headers: etag === undefined ? {} : { "if-none-match": etag }
  })
  if (response.status === 304) return Option.none<Resolved>()
  const { values } = yield* bodyOf(server, response, ValuesBody)
  // A name outside the contract could be one that a loader or a shell acts upon.
  if (!Object.keys(values).every((name) => secretKey.test(name))) {
    const reason = "it contains a name that is not a secret key"
    return yield* new UnexpectedAnswer({ url: server.url, status: response.status, reason })
  }
  return Option.some<Resolved>({ values, etag: Option.fromNullable(response.headers["etag"]) })
})

/** Network failures, 5xx and 429: the server has not refused. */
const isUnavailable = (error: CliError): boolean => {
  switch (error._tag) {
    case "ServerUnreachable":
      return true
    case "ServerRefused":
    case "UnexpectedAnswer":
      return error.status >= 500 || error.status === 429
    case "CliFailure":
      return false
  }
}
const isRefusal = (error: CliError): boolean =>
  (error._tag === "ServerRefused" || error._tag === "UnexpectedAnswer") && [401, 403, 404].includes(error.status)

const age = (millis: number): string => {
  const minutes = Math.floor(millis / 60_000)
  if (minutes < 1) return `${Math.floor(millis / 1_000)} s`
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`
}

/** `update`: a set exists already, with or without an ETag, so an older copy is of no use. */
type Purpose = { readonly _tag: "first" } | { readonly _tag: "update"; readonly etag: string | undefined }

export const fetchEnvironment = Effect.fnUntraced(function* (
  session: ChosenLink,
  target: Target.Target,
  options: Pick<RunOptions, "offline" | "offlineAge" | "plan">,
  purpose: Purpose
) {
  const conditions = purpose._tag === "update" ? { etag: purpose.etag } : { plan: Option.getOrUndefined(options.plan) }
  const copyOf = (projectId: string): OfflineCache.Location => ({
    url: session.url,
    credential: session.chosen.credential,
    projectId,
    environment: target.environment
  })
  const online = Target.withProject(session, target.project, (projectId) =>
    inject(session, { projectId, environment: target.environment, ...conditions }).pipe(
      Effect.tap(
        Option.match({
          onNone: () => Effect.void,
          onSome: ({ values }) =>
            options.offline
              ? Effect.catchAll(OfflineCache.store(copyOf(projectId), values), (error) => warn(error.message))
              : Effect.void
        })
      )
    )
  )
  return yield* Effect.catchAll(
    Target.withAccessHint(target)(online),
    Effect.fnUntraced(function* (error: CliError) {
      const projectId = yield* Target.cachedProject(session, target.project)
      if (Option.isNone(projectId)) return yield* Effect.fail(error)
      // Also without --offline: a copy of an earlier run must not outlive the right to it.
      if (isRefusal(error)) yield* OfflineCache.drop(copyOf(projectId.value))
      if (!options.offline || !isUnavailable(error) || purpose._tag === "update") return yield* Effect.fail(error)
      const copy = yield* OfflineCache.find(copyOf(projectId.value), options.offlineAge)
      if (Option.isNone(copy)) return yield* Effect.fail(error)
      yield* warn(`${describe(error).message} Using the offline copy of ${age(copy.value.ageMillis)} ago.`)
      return Option.some<Resolved>({ values: copy.value.values, etag: Option.none() })
    })
  )
})
