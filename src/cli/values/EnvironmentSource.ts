/** Values of an environment from the server or the offline copy. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { InjectedSecrets } from "#schema/SecretResponses.ts"
import { secretKey } from "#schema/Patterns.ts"
import type { Representation } from "#schema/Values.ts"
import * as Choice from "#src/cli/connection/Choice.ts"
import {
  type CliError,
  CliFailure,
  describe,
  isUnavailable,
  type ServerRefused,
  UnexpectedAnswer
} from "#src/cli/terminal/Failure.ts"
import { bodyOf, type Link } from "#src/cli/connection/Link.ts"
import * as ChildEnvironment from "#src/cli/terminal/ChildEnvironment.ts"
import * as Names from "#src/cli/connection/Names.ts"
import * as OfflineCache from "./OfflineCache.ts"
import * as OnlyEnvironment from "#src/cli/connection/OnlyEnvironment.ts"
import { plain, warn } from "#src/cli/terminal/Output.ts"
import type { RunOptions } from "./RunOptions.ts"
import { missingFrom } from "./Selection.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "#src/cli/connection/Target.ts"

export const ValuesBody = Shape.struct({
  values: Shape.record(Shape.string),
  contained: Shape.optional(Shape.record(Shape.array(Shape.struct({ start: Shape.number, end: Shape.number }))))
}) satisfies Shape.Shape<Pick<typeof InjectedSecrets.Type, "values">>

/** Places by key, in UTF-16 code units. */
type Contained = Readonly<Record<string, ReadonlyArray<{ readonly start: number; readonly end: number }>>>

export interface Resolved {
  readonly values: Readonly<Record<string, string>>
  readonly etag: Option.Option<string>
  /** Names in other programs by key, of a source that has them. */
  readonly aliases?: ReadonlyMap<string, string>
  /** Where a value holds the values of keys that were not handed out themselves, for masks. */
  readonly contained?: Contained | undefined
}

export const noSecrets: Resolved = { values: {}, etag: Option.none() }

interface InjectOptions {
  readonly projectId: string
  readonly environment: string
  readonly representation?: Representation
  /** ETag of the present set. The result is None while it is current. */
  readonly etag?: string | undefined
  /** The only keys to hand out; undefined: all. */
  readonly keys?: ReadonlyArray<string> | undefined
  /** Plan that the run carries out. It has its own keys. */
  readonly plan?: string | undefined
}

export const inject = Effect.fnUntraced(function* (server: Link, options: InjectOptions) {
  const { environment, etag, keys, plan, projectId, representation } = options
  const response = yield* server.ask({
    path: "/secrets/inject",
    query: { projectId, environment, representation, plan, keys: keys?.join(",") },
    headers: etag === undefined ? {} : { "if-none-match": etag }
  })
  if (response.status === 304) return Option.none<Resolved>()
  const { contained, values } = yield* bodyOf(server, response, ValuesBody)
  // A name outside the contract could be one that a loader or a shell acts upon.
  if (!Object.keys(values).every((name) => secretKey.test(name))) {
    const reason = "it contains a name that is not a secret key"
    return yield* new UnexpectedAnswer({ url: server.url, status: response.status, reason })
  }
  return Option.some<Resolved>({ values, contained, etag: Option.fromNullable(response.headers["etag"]) })
})

/** Pages of an environment's keys. A selection must see all of them. */
const pagesAtMost = 1_000

const allKeys = (server: Link, { environment, projectId }: InjectOptions) =>
  Names.keys(server, projectId, environment, pagesAtMost)

/** The most characters of a list of keys in an address. Servers and proxies accept some 16,000 of one request. */
const longestKeyList = 8_000

/**
 * The values that `--only` selects: the server hands out and records no other. Patterns are matched against names first.
 * A plan has its own keys.
 */
export const injectOnly = Effect.fnUntraced(function* (
  server: Link,
  options: InjectOptions,
  only: ReadonlyArray<string>
) {
  if (only.length === 0 || options.plan !== undefined) return yield* inject(server, options)
  const exact = [...new Set(only)]
  const invalid = exact.filter((name) => !name.includes("*") && !secretKey.test(name))
  if (invalid.length > 0) return yield* missingFrom(invalid)
  const patterns = exact.some((name) => name.includes("*"))
  const keys = patterns ? (yield* allKeys(server, options)).filter(ChildEnvironment.anyOf(exact)) : exact
  if (keys.length === 0) return Option.some(noSecrets)
  // Refused whole rather than asked for whole: a longer list would hand out every key.
  if (keys.join(",").length > longestKeyList || keys.length > 500) {
    const message = `--only selects ${keys.length} keys, which is more than one request can name.`
    return yield* new CliFailure({ message, hint: "Leave --only out, or select fewer." })
  }
  return yield* Effect.catchIf(
    inject(server, { ...options, keys }),
    (error): error is ServerRefused => error._tag === "ServerRefused" && error.field === "keys",
    Effect.fnUntraced(function* (error: ServerRefused) {
      // The keys are well-formed, so a server that refuses the member does not know it.
      if (error.code === "VALIDATION_FAILED") {
        yield* warn(
          "This server is older and cannot limit a read: it hands out and records all keys, and --only selects among them here."
        )
        return yield* inject(server, options)
      }
      const present = yield* allKeys(server, options)
      const missing = keys.filter((key) => !present.includes(key))
      return yield* missing.length > 0 ? missingFrom(missing, present) : error
    })
  )
})

const isRefusal = (error: CliError): boolean =>
  (error._tag === "ServerRefused" || error._tag === "UnexpectedAnswer") && [401, 403, 404].includes(error.status)

/**
 * Drops the copies of the only environment that the credential reached, when the server refuses the credential before
 * the target is known.
 */
export const dropRefused = Effect.fnUntraced(function* ({ chosen, url }: Choice.ChosenLink, error: CliError) {
  if (!isRefusal(error)) return
  const remembered = yield* OnlyEnvironment.recall(Choice.identityOf(chosen))
  const only = Option.getOrUndefined(remembered)?.only ?? undefined
  if (only === undefined) return
  const { environment, projectId } = only
  yield* OfflineCache.drop({ url, credential: chosen.credential, projectId, environment, only: [] })
})

const age = (millis: number): string => {
  const minutes = Math.floor(millis / 60_000)
  if (minutes < 1) return `${Math.floor(millis / 1_000)} s`
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`
}

/** `update`: a set exists already, with or without an ETag, so an older copy is of no use. */
type Purpose = { readonly _tag: "first" } | { readonly _tag: "update"; readonly etag: string | undefined }

type SourceOptions = Pick<RunOptions, "offline" | "offlineAge" | "fallbackOnly" | "only" | "plan">

const locationOf = (
  session: Choice.ChosenLink,
  target: Target.Target,
  { only }: SourceOptions,
  projectId: string
): OfflineCache.Location => ({
  url: session.url,
  credential: session.chosen.credential,
  projectId,
  environment: target.environment,
  only
})

/** Copy of an earlier run that may be used, and where it is. Without a request. */
const findCopy = Effect.fnUntraced(function* (
  session: Choice.ChosenLink,
  target: Target.Target,
  options: SourceOptions
) {
  const projectId = yield* Target.cachedProject(session, target)
  return Option.isNone(projectId)
    ? Option.none()
    : yield* OfflineCache.find(locationOf(session, target, options, projectId.value), options.offlineAge)
})

const resolvedOf = ({ values }: OfflineCache.OfflineCopy): Option.Option<Resolved> =>
  Option.some({ values, etag: Option.none() })

/** The connection for a first request: with a copy, a silent server is not waited for. */
const withPatience = Effect.fnUntraced(function* (
  session: Choice.ChosenLink,
  target: Target.Target,
  options: SourceOptions
) {
  if (!options.offline || Option.isNone(yield* findCopy(session, target, options))) return session
  return { ...session, ...(yield* Choice.hurried(session)) }
})

const onlyCopy = Effect.fnUntraced(function* (
  session: Choice.ChosenLink,
  target: Target.Target,
  options: SourceOptions
) {
  const copy = yield* findCopy(session, target, options)
  if (Option.isNone(copy)) {
    return yield* new CliFailure({
      message: `No usable offline copy of ${plain(target.project)}/${target.environment} for this credential.`,
      hint: "`ampoule run --offline` makes one, for 24 hours; --offline-max-age changes that."
    })
  }
  yield* warn(`Using the offline copy of ${age(copy.value.ageMillis)} ago.`)
  return resolvedOf(copy.value)
})

export const fetchEnvironment = Effect.fnUntraced(function* (
  session: Choice.ChosenLink,
  target: Target.Target,
  options: SourceOptions,
  purpose: Purpose
) {
  if (options.fallbackOnly) return yield* onlyCopy(session, target, options)
  const conditions = purpose._tag === "update" ? { etag: purpose.etag } : { plan: Option.getOrUndefined(options.plan) }
  const server = purpose._tag === "update" ? session : yield* withPatience(session, target, options)
  const online = Target.inEnvironment(server, target, (projectId) =>
    injectOnly(server, { projectId, environment: target.environment, ...conditions }, options.only).pipe(
      // Also without --offline: a copy of an earlier run must not outlive the right to it.
      Effect.tapError((error) =>
        isRefusal(error) ? OfflineCache.drop(locationOf(session, target, options, projectId)) : Effect.void
      ),
      Effect.tap((resolved) =>
        options.offline && Option.isSome(resolved)
          ? Effect.catchAll(
              OfflineCache.store(locationOf(session, target, options, projectId), resolved.value.values),
              (error) => warn(error.message)
            )
          : Effect.void
      )
    )
  )
  return yield* Effect.catchAll(
    target.unavailable === undefined ? online : Effect.fail(target.unavailable),
    Effect.fnUntraced(function* (error: CliError) {
      if (!options.offline || !isUnavailable(error) || purpose._tag === "update") return yield* Effect.fail(error)
      const copy = yield* findCopy(session, target, options)
      if (Option.isNone(copy)) return yield* Effect.fail(error)
      yield* warn(`${describe(error).message} Using the offline copy of ${age(copy.value.ageMillis)} ago.`)
      return resolvedOf(copy.value)
    })
  )
})
