/**
 * Names for a shell's completion: projects, environments and keys that the credential sees, never a value. They are
 * cached for a minute in the user's cache folder, so that the next key press needs no request. It never prompts, prints
 * no error and gives up after a second, because the user is waiting.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { join } from "node:path"
import type { ProjectId } from "#schema/Ids.ts"
import * as Patterns from "#schema/Patterns.ts"
import { crypto, fs } from "#src/cli/terminal/BuiltIn.ts"
import * as Choice from "./Choice.ts"
import { folders, jsonFile, removeFolder } from "#src/cli/terminal/Folders.ts"
import { isInTheClear, link, type Link } from "./Link.ts"
import * as Names from "./Names.ts"
import { out } from "#src/cli/terminal/Output.ts"
import * as OnlyEnvironment from "./OnlyEnvironment.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "./Target.ts"
import { type NameRequest, nameRequest } from "#src/cli/help/NameRequest.ts"

// --- requests to the server ---

const isSlug = (text: string): boolean => text.length <= Patterns.longestSlug && Patterns.environmentSlug.test(text)
const isKey = (text: string): boolean => text.length <= Patterns.longestKey && Patterns.secretKey.test(text)

interface NamesQuery extends NameRequest {
  readonly project: string
  readonly projectId?: ProjectId
  readonly environment: string
}

const ask = (server: Link, query: NamesQuery) => {
  const { environment, kind } = query
  if (kind === "projects") return Names.projects(server)
  return Target.withProject(server, query, (id) =>
    kind === "environments" ? Names.environments(server, id) : Names.keys(server, id, environment)
  )
}

/** Drops every name that a shell could read as an instruction. */
const safe = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  [...new Set(names)].filter((name) => isSlug(name) || isKey(name) || Patterns.uuid.test(name)).sort()

// --- cache ---

const CachedNames = Shape.struct({ at: Shape.number, names: Shape.array(Shape.string) })
/** Milliseconds. */
const fresh = 60_000
/** Milliseconds that names stay in use while the server is unreachable. */
const usableOffline = 3_600_000
const folder = () => join(folders().cache, "completion")
const maximumFiles = 50

/** One-way: the file's name reveals neither the credential nor the query. */
const fileOf = (who: string, { environment, kind, project }: NamesQuery) => {
  const query = JSON.stringify([who, kind, project, environment])
  const name = crypto().createHash("sha256").update(query).digest("base64url").slice(0, 22)
  return jsonFile("cache", join("completion", name), CachedNames, "the names for completion")
}

/** Removes all cached names at a logout. */
export const forget = Effect.suspend(() => removeFolder(folder()))

const makeRoom = Effect.gen(function* () {
  const cachedFiles = yield* Effect.orElseSucceed(
    Effect.try(() => fs().readdirSync(folder())),
    (): ReadonlyArray<string> => []
  )
  if (cachedFiles.length >= maximumFiles) yield* forget
})

// --- identity ---

/** Longest wait after a key press. */
const longestWait = "1 second"

/** Undefined: no credential, or one that would be sent in the clear. */
const openImpatiently = Effect.fnUntraced(function* (options: Choice.ConnectionOptions) {
  const chosen = Option.getOrUndefined(yield* Choice.choose(options))
  if (chosen === undefined || isInTheClear(chosen.url)) return undefined
  return { ...(yield* link({ ...chosen, impatient: true })), chosen }
})

/** The credential's only environment: the last answer, or a first one. */
const onlyOf = Effect.fnUntraced(function* (options: Choice.ConnectionOptions, identity: string) {
  const remembered = yield* OnlyEnvironment.recall(identity)
  if (Option.isSome(remembered)) return remembered.value.only
  const session = yield* openImpatiently(options)
  return session === undefined ? null : (yield* OnlyEnvironment.of(session, { hasOther: false, offline: false })).only
})

/** The target by the rule of the commands. Completion never asks the user to trust a file. */
const placeOf = Effect.fnUntraced(function* (
  { environment, kind, project }: NameRequest,
  options: Choice.ConnectionOptions,
  identity: string
) {
  const names = { project: Option.fromNullable(project), environment: Option.fromNullable(environment) }
  const own = yield* Target.fromCaller(names)
  const isEnough = own.project !== undefined && (kind === "environments" || own.environment !== undefined)
  const only = isEnough
    ? null
    : yield* onlyOf(options, identity).pipe(
        Effect.timeout(longestWait),
        Effect.orElseSucceed(() => null)
      )
  const { parts } = yield* Target.overview(names, only)
  return {
    project: parts.project?.name ?? "",
    ...(parts.project?.id === undefined ? {} : { projectId: parts.project.id as ProjectId }),
    environment: parts.environment?.name ?? ""
  }
})

const completeNames = Effect.fnUntraced(function* (request: NameRequest) {
  const options = { url: Option.none(), credential: request.credential }
  const identity = yield* Choice.closedIdentity(options)
  if (Option.isNone(identity)) return []
  const nowhere = { project: "", environment: "" }
  const place = request.kind === "projects" ? nowhere : yield* placeOf(request, options, identity.value)
  const { environment, project } = place
  const isComplete =
    request.kind === "projects" || (project !== "" && (request.kind === "environments" || isSlug(environment)))
  if (!isComplete) return []
  const question = { ...request, ...place, environment: request.kind === "keys" ? environment : "" }
  const file = fileOf(identity.value, question)
  const cached = Option.getOrUndefined(yield* file.read)
  const now = yield* Clock.currentTimeMillis
  const age = cached === undefined ? Infinity : now - cached.at
  if (cached !== undefined && age >= 0 && age < fresh) return cached.names
  const fetched = Effect.gen(function* () {
    const session = yield* openImpatiently(options)
    return session === undefined ? undefined : yield* ask(session, question)
  })
  const names = yield* fetched.pipe(
    Effect.timeout(longestWait),
    Effect.orElseSucceed(() => undefined)
  )
  const remembered = names !== undefined ? safe(names) : age < usableOffline ? (cached?.names ?? []) : []
  yield* makeRoom
  // Stored also without a response, so that the next key press does not wait again.
  yield* file.write({ at: now, names: remembered })
  return remembered
})

/** `words`: the command line up to the cursor; the last word is unfinished. */
export const suggest = (words: ReadonlyArray<string>) => {
  const request = nameRequest(words)
  if (request === undefined) return Effect.void
  return completeNames(request).pipe(
    Effect.catchAll(() => Effect.succeed<ReadonlyArray<string>>([])),
    Effect.flatMap((names) => out(names.map((name) => `${name}\n`).join("")))
  )
}
