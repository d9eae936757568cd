/**
 * `.ampoule.json`: the project and environment of a folder. It comes with a repository, so it counts for the choice of an
 * environment only after its reader trusted this very content in this very place, as with direnv.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { dirname, join, resolve } from "node:path"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import { decodeUtf8, infoOf, jsonFile, readIfThere, writeWhole } from "#src/cli/terminal/Folders.ts"
import { plain, stderrIsTerminal, stdinIsTerminal, warn } from "#src/cli/terminal/Output.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"

export const fileName = ".ampoule.json"

// No server address: a file that comes with somebody's repository must not decide where a credential is sent.
const decodeContent = Shape.json(
  Shape.struct({ project: Shape.optional(Shape.string), environment: Shape.optional(Shape.string) })
)

export interface ProjectFile {
  readonly path: string
  readonly project: Option.Option<string>
  readonly environment: Option.Option<string>
  /** Of its place and its content. */
  readonly digest: string
}

// --- trust ---

const Trusted = Shape.struct({ digests: Shape.array(Shape.string) })
/** The oldest are forgotten, and asked about again. */
const mostTrusted = 1_000

const trustedFile = jsonFile("config", "trusted.json", Trusted, "the list of trusted files")

const digestOf = (path: string, content: Uint8Array): string =>
  crypto().createHash("sha256").update(`${path}\0`).update(content).digest("base64url")

const readTrusted = Effect.map(
  trustedFile.read,
  Option.match({ onNone: (): ReadonlyArray<string> => [], onSome: ({ digests }) => digests })
)

export const isTrusted = (digest: string) => Effect.map(readTrusted, (digests) => digests.includes(digest))

export const trust = Effect.fnUntraced(function* ({ digest }: ProjectFile) {
  yield* trustedFile.write({ digests: [...new Set([...(yield* readTrusted), digest])].slice(-mostTrusted) })
})

// --- the file ---

/** Root can replace any file anyway. Windows has no user ids. */
const isOfAnotherUser = Effect.fnUntraced(function* (file: string) {
  const own = process.getuid?.()
  if (own === undefined) return false
  const info = yield* infoOf(file)
  return Option.isNone(info) || (info.value.uid !== own && info.value.uid !== 0)
})

const read = Effect.fnUntraced(function* (path: string) {
  const bytes = yield* readIfThere(path, fileName).pipe(Effect.orElseSucceed(Option.none))
  if (Option.isNone(bytes)) return Option.none<ProjectFile>()
  const content = Option.flatMap(decodeUtf8(bytes.value), decodeContent)
  if (Option.isNone(content)) {
    return yield* new CliFailure({
      message: `${plain(path)} cannot be read as a project file.`,
      hint: 'It holds JSON like {"project": "shop", "environment": "development"}.'
    })
  }
  return Option.some<ProjectFile>({
    path,
    project: Option.fromNullable(content.value.project),
    environment: Option.fromNullable(content.value.environment),
    digest: digestOf(path, bytes.value)
  })
})

/** The nearest one, from the working folder upwards. `foreign`: whether a file of another user counts. */
export const find = Effect.fnUntraced(function* (options: { readonly foreign: boolean }) {
  for (let folder = resolve("."); ; folder = dirname(folder)) {
    const file = join(folder, fileName)
    const foreign = !options.foreign && Option.isSome(yield* infoOf(file)) && (yield* isOfAnotherUser(file))
    const found = yield* read(file).pipe(
      // What another user wrote there is no reason to stop.
      Effect.catchAll((error) => (foreign ? Effect.succeedNone : Effect.fail(error)))
    )
    if (Option.isSome(found)) {
      if (!foreign || (yield* isTrusted(found.value.digest))) return found
      yield* warn(
        `${plain(file)} belongs to another user and is ignored; after a look at it, \`ampoule trust\` accepts it.`
      )
    }
    if (dirname(folder) === folder) return Option.none<ProjectFile>()
  }
})

const decodeMembers = Shape.json(Shape.record(Shape.unknown))

/**
 * Writes the choice into the nearest file, or a new one here, with whatever else stands there, and trusts it: who writes
 * it has looked at it. Answers its path.
 */
export const save = Effect.fnUntraced(function* (choice: { readonly project: string; readonly environment: string }) {
  const found = yield* find({ foreign: false })
  const file = Option.match(found, { onNone: () => resolve(fileName), onSome: (one) => one.path })
  const before = Option.flatMap(Option.flatMap(yield* readIfThere(file, fileName), decodeUtf8), decodeMembers)
  const content = `${JSON.stringify({ ...Option.getOrElse(before, () => ({})), ...choice }, null, 2)}\n`
  // For a repository: others may read it.
  yield* writeWhole(file, content, fileName, { mode: 0o644, keepMode: true })
  const written = yield* read(file)
  if (Option.isSome(written)) yield* trust(written.value)
  return file
})

export const description = ({ environment, project }: ProjectFile): string =>
  [
    ...Option.toArray(project).map((name) => `project ${plain(name)}`),
    ...Option.toArray(environment).map((name) => `environment ${plain(name)}`)
  ].join(", ")

/**
 * Goes on when the file may choose an environment. Asks a person once; without one it is an error that says what to do.
 */
export const ensureTrusted = Effect.fnUntraced(function* (file: ProjectFile) {
  if (yield* isTrusted(file.digest)) return
  const where = plain(file.path)
  if (stdinIsTerminal() && stderrIsTerminal()) {
    if (yield* Ask.confirm(`${where} chooses ${description(file)}, and was not used here before. Use it?`)) {
      return yield* trust(file)
    }
    return yield* new CliFailure({
      message: `${where} is not used.`,
      hint: "Name the environment yourself: --env SLUG."
    })
  }
  return yield* usage(
    `${where} chooses ${description(file)}, but is not trusted yet: whoever wrote it would choose which secrets a program gets.`,
    "Look at it and run `ampoule trust` there once, or name the environment yourself: --env SLUG."
  )
})
