/**
 * Names for a shell's completion: projects, environments and keys that the credential sees, never a value. Kept for a
 * minute in the user's cache folder, so that the second press of a key asks nobody. It asks no person anything, prints
 * no error, and gives up early: who presses a key waits for it.
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
import { bodyOf, isInTheClear, link, type Link } from "./Link.ts"
import * as Logins from "./Logins.ts"
import { out } from "#src/cli/terminal/Output.ts"
import * as ProjectFile from "./ProjectFile.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"
import * as Target from "./Target.ts"
import { type Wanted, wanted } from "#src/cli/help/Wanted.ts"

// --- what the server is asked ---

const isSlug = (text: string): boolean => text.length <= Patterns.longestSlug && Patterns.environmentSlug.test(text)
const isKey = (text: string): boolean => text.length <= Patterns.longestKey && Patterns.secretKey.test(text)

const Projects = Shape.struct({ items: Shape.array(Shape.struct({ id: Shape.string, slug: Shape.string })) })
const Environments = Shape.struct({ items: Shape.array(Shape.struct({ slug: Shape.string })) })
const Keys = Shape.struct({ items: Shape.array(Shape.struct({ key: Shape.string })), hasMore: Shape.boolean })

const projects = Effect.fnUntraced(function* (server: Link) {
  const { items } = yield* bodyOf(server, yield* server.ask({ path: "/projects" }), Projects)
  const slugs = items.map(({ slug }) => slug)
  // Two teams may have a project of one name: then its id says which.
  return items.map(({ id, slug }) => (slugs.indexOf(slug) === slugs.lastIndexOf(slug) ? slug : id))
})

const environments = Effect.fnUntraced(function* (server: Link, projectId: ProjectId) {
  const answer = yield* server.ask({ path: `/projects/${projectId}/environments` })
  return (yield* bodyOf(server, answer, Environments)).items.map(({ slug }) => slug)
})

const page = { size: 500, most: 10 } as const

const keys = Effect.fnUntraced(function* (server: Link, projectId: ProjectId, environment: string) {
  const found: Array<string> = []
  for (let n = 1; n <= page.most; n++) {
    const query = { projectId, environment, page: String(n), pageSize: String(page.size) }
    const { hasMore, items } = yield* bodyOf(server, yield* server.ask({ path: "/secrets", query }), Keys)
    found.push(...items.map(({ key }) => key))
    if (!hasMore) break
  }
  return found
})

interface Question extends Wanted {
  readonly project: string
  readonly environment: string
}

const ask = (server: Link, { environment, kind, project }: Question) => {
  if (kind === "projects") return projects(server)
  return Target.withProject(server, project, (id) =>
    kind === "environments" ? environments(server, id) : keys(server, id, environment)
  )
}

/** Whatever a server says: a shell gets words in which nothing is an instruction. */
const safe = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  [...new Set(names)].filter((name) => isSlug(name) || isKey(name) || Patterns.uuid.test(name)).sort()

// --- what is kept ---

const Kept = Shape.struct({ at: Shape.number, names: Shape.array(Shape.string) })
const fresh = 60_000
/** While the server is away. */
const stillOfUse = 3_600_000
const folder = () => join(folders().cache, "completion")
const mostKept = 50

/** One-way: the name of the file tells neither the credential nor what was asked. */
const fileOf = (who: string, { environment, kind, project }: Question) => {
  const asked = JSON.stringify([who, kind, project, environment])
  const name = crypto().createHash("sha256").update(asked).digest("base64url").slice(0, 22)
  return jsonFile("cache", join("completion", name), Kept, "the names for completion")
}

/** At a logout nothing is left behind. */
export const forget = Effect.suspend(() => removeFolder(folder()))

const makeRoom = Effect.gen(function* () {
  const there = yield* Effect.orElseSucceed(
    Effect.try(() => fs().readdirSync(folder())),
    (): ReadonlyArray<string> => []
  )
  if (there.length >= mostKept) yield* forget
})

// --- who asks ---

/** Known without the keychain, which may ask for a password. */
const whoAsks = Effect.fnUntraced(function* (options: Choice.ConnectionOptions) {
  const token = yield* Choice.environmentCredential
  const logins = yield* Logins.read
  const { url } = yield* Choice.address(options.url, logins)
  const login = Logins.find(logins, url)
  const wantsVariable = Option.contains(options.credential, "env") || Option.isNone(login)
  if (!wantsVariable && Option.isSome(login)) return Option.some(`${url} ${login.value.grantId}`)
  return Option.map(token, ({ value }) => `${url} ${Choice.digestOf(value)}`)
})

/** What was typed, else what a trusted file says: nobody is asked to trust one here. */
const placeOf = Effect.fnUntraced(function* ({ environment, project }: Pick<Wanted, "environment" | "project">) {
  if (project !== undefined && environment !== undefined) return { project, environment }
  const file = Option.getOrUndefined(yield* ProjectFile.find({ foreign: false }))
  const counts = file !== undefined && (yield* ProjectFile.isTrusted(file.digest))
  return {
    project: project ?? (counts ? Option.getOrUndefined(file.project) : undefined),
    environment: environment ?? (counts ? Option.getOrUndefined(file.environment) : undefined)
  }
})

/** Longest wait of a person who pressed a key. */
const patience = "1 second"

const answer = Effect.fnUntraced(function* (want: Wanted) {
  const { environment = "", project = "" } = yield* placeOf(want)
  const isWhole = want.kind === "projects" || (project !== "" && (want.kind === "environments" || isSlug(environment)))
  const options = { url: Option.none(), credential: want.credential }
  const who = yield* whoAsks(options)
  if (!isWhole || Option.isNone(who)) return []
  const question = { ...want, project, environment: want.kind === "keys" ? environment : "" }
  const file = fileOf(who.value, question)
  const kept = Option.getOrUndefined(yield* file.read)
  const now = yield* Clock.currentTimeMillis
  const age = kept === undefined ? Infinity : now - kept.at
  if (kept !== undefined && age >= 0 && age < fresh) return kept.names
  const asked = Effect.gen(function* () {
    const found = Option.getOrUndefined(yield* Choice.choose(options))
    if (found === undefined || isInTheClear(found.url)) return undefined
    return yield* ask(yield* link({ ...found, impatient: true }), question)
  })
  const names = yield* asked.pipe(
    Effect.timeout(patience),
    Effect.orElseSucceed(() => undefined)
  )
  const remembered = names !== undefined ? safe(names) : age < stillOfUse ? (kept?.names ?? []) : []
  yield* makeRoom
  // Also when nobody answered: the next press does not wait again.
  yield* file.write({ at: now, names: remembered })
  return remembered
})

/** `words`: of the command line up to the cursor, the last one unfinished. */
export const suggest = (words: ReadonlyArray<string>) => {
  const want = wanted(words)
  if (want === undefined) return Effect.void
  return answer(want).pipe(
    Effect.catchAll(() => Effect.succeed<ReadonlyArray<string>>([])),
    Effect.flatMap((names) => out(names.map((name) => `${name}\n`).join("")))
  )
}
