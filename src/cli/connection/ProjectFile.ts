/**
 * `.ampoule.json`: the project and environment of a folder. The file arrives with a repository. It
 * chooses only after its reader has trusted this content in this place, as with direnv.
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

// No server address: a file from somebody's repository must not decide where a credential is sent.
const decodeContent = Shape.json(
  Shape.struct({ project: Shape.optional(Shape.string), environment: Shape.optional(Shape.string) })
)

export interface ProjectFile {
  readonly path: string
  readonly project: Option.Option<string>
  readonly environment: Option.Option<string>
  /** Digest of its path and content. */
  readonly digest: string
}

// --- trust ---

const Trusted = Shape.struct({ digests: Shape.array(Shape.string) })
/** Beyond this number the oldest are dropped, and the user is asked again. */
const maximumTrusted = 1_000

const trustedFile = jsonFile("config", "trusted.json", Trusted, "the list of trusted files")

const digestOf = (path: string, content: Uint8Array): string =>
  crypto().createHash("sha256").update(`${path}\0`).update(content).digest("base64url")

const readTrusted = Effect.map(
  trustedFile.read,
  Option.match({ onNone: (): ReadonlyArray<string> => [], onSome: ({ digests }) => digests })
)

export const isTrusted = (digest: string) => Effect.map(readTrusted, (digests) => digests.includes(digest))

export const trust = Effect.fnUntraced(function* ({ digest }: ProjectFile) {
  yield* trustedFile.write({ digests: [...new Set([...(yield* readTrusted), digest])].slice(-maximumTrusted) })
})

// --- the file ---

/** Files of root count as own, since root can replace any file. Windows has no user ids. */
const isOfAnotherUser = Effect.fnUntraced(function* (file: string) {
  const userId = process.getuid?.()
  if (userId === undefined) return false
  const info = yield* infoOf(file)
  return Option.isNone(info) || (info.value.uid !== userId && info.value.uid !== 0)
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

interface FindOptions {
  /** Accept a file of another user. */
  readonly foreign: boolean
  /** Pass over a file that cannot be used, without a word: the command does not need it. */
  readonly quiet?: boolean
}

/** The nearest file, from the working folder upwards. */
export const find = Effect.fnUntraced(function* (options: FindOptions) {
  for (let folder = resolve("."); ; folder = dirname(folder)) {
    const file = join(folder, fileName)
    const foreign = !options.foreign && Option.isSome(yield* infoOf(file)) && (yield* isOfAnotherUser(file))
    const projectFile = yield* read(file).pipe(
      // A broken file of another user must not stop the command.
      Effect.catchAll((error) => (foreign || options.quiet === true ? Effect.succeedNone : Effect.fail(error)))
    )
    if (Option.isSome(projectFile)) {
      if (!foreign || (yield* isTrusted(projectFile.value.digest))) return projectFile
      if (options.quiet !== true) {
        yield* warn(
          `${plain(file)} belongs to another user and is ignored; after a look at it, \`ampoule trust\` accepts it.`
        )
      }
    }
    if (dirname(folder) === folder) return Option.none<ProjectFile>()
  }
})

const decodeMembers = Shape.json(Shape.record(Shape.unknown))

/**
 * Writes the choice to the nearest file, or a new one here, keeps its other members, and trusts the result. Returns its
 * path.
 */
export const save = Effect.fnUntraced(function* (choice: { readonly project: string; readonly environment: string }) {
  const existing = yield* find({ foreign: false })
  const file = Option.match(existing, { onNone: () => resolve(fileName), onSome: (one) => one.path })
  const before = Option.flatMap(Option.flatMap(yield* readIfThere(file, fileName), decodeUtf8), decodeMembers)
  const content = `${JSON.stringify({ ...Option.getOrElse(before, () => ({})), ...choice }, null, 2)}\n`
  // Readable by others, because it belongs to a repository.
  yield* writeWhole(file, content, fileName, { mode: 0o644, keepMode: true })
  const saved = yield* read(file)
  if (Option.isSome(saved)) yield* trust(saved.value)
  return file
})

export const description = ({ environment, project }: ProjectFile): string =>
  [
    ...Option.toArray(project).map((name) => `project ${plain(name)}`),
    ...Option.toArray(environment).map((name) => `environment ${plain(name)}`)
  ].join(", ")

/**
 * Passes when the file may choose a project or an environment. Asks the user once at a terminal, and fails elsewhere.
 * `instead`: options that replace its choice.
 */
export const ensureTrusted = Effect.fnUntraced(function* (file: ProjectFile, instead: string) {
  if (yield* isTrusted(file.digest)) return
  const where = plain(file.path)
  if (stdinIsTerminal() && stderrIsTerminal()) {
    if (yield* Ask.confirm(`${where} chooses ${description(file)}, and has not been used here before. Use it?`)) {
      return yield* trust(file)
    }
    return yield* new CliFailure({
      message: `${where} is not used.`,
      hint: `Choose yourself: ${instead}.`
    })
  }
  return yield* usage(
    `${where} chooses ${description(file)}, but is not trusted yet: its author could choose which secrets a program receives.`,
    `Look at it and run \`ampoule trust\` there once, or choose yourself: ${instead}.`
  )
})
