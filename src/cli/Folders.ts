/** Where the command line keeps things, and how it writes: temporary file, mode 0600, rename. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { randomBytes } from "node:crypto"
import { CliFailure } from "./Failure.ts"
import * as Home from "./Home.ts"
import { plain } from "./Output.ts"

export interface Folders {
  /** Log-in records. */
  readonly config: string
  /** What may be deleted at any time. */
  readonly cache: string
}

export const folders: Effect.Effect<Folders, never, Path.Path> = Effect.map(Path.Path, (path) => ({
  config: path.join(Home.configBase(), "ampoule"),
  cache: path.join(Home.cacheBase(), "ampoule")
}))

/**
 * Written in full or not at all. Readable by this user alone from its first byte, unless `mode` says otherwise, or the
 * file whose place it takes does and `keepMode` is given.
 */
export const writeWhole = Effect.fnUntraced(function* (
  file: string,
  content: string | Uint8Array,
  what: string,
  options: { readonly keepMode?: boolean; readonly mode?: number } = {}
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const temporary = path.join(path.dirname(file), `.${path.basename(file)}.${randomBytes(6).toString("hex")}`)
  const bytes = typeof content === "string" ? Buffer.from(content) : content
  const former = options.keepMode === true ? yield* Effect.option(fs.stat(file)) : Option.none()
  const write = fs.writeFile(temporary, bytes, { flag: "wx", mode: options.mode ?? 0o600 }).pipe(
    Effect.zipRight(Option.isSome(former) ? fs.chmod(temporary, former.value.mode & 0o777) : Effect.void),
    Effect.zipRight(fs.rename(temporary, file)),
    Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true })))
  )
  yield* Effect.mapError(write, (error) => cannotWrite(what, file, error))
})

export const makeFolder = Effect.fnUntraced(function* (folder: string, what: string) {
  const fs = yield* FileSystem.FileSystem
  yield* fs.makeDirectory(folder, { recursive: true }).pipe(
    Effect.zipRight(fs.chmod(folder, 0o700)),
    Effect.mapError((error) => cannotWrite(what, folder, error))
  )
})

const reasonOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "reason" in error ? String(error.reason) : "failed"

const whyNot = (error: unknown): string => {
  const cause = typeof error === "object" && error !== null && "cause" in error ? error.cause : undefined
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined
  switch (code) {
    case "ENOENT":
    case "ENOTDIR":
      return "there is no such file"
    case "EEXIST":
      return "there is one already"
    case "EISDIR":
      return "it is a folder"
    case "EACCES":
    case "EPERM":
      return "permission denied"
    case "EROFS":
      return "the file system is read-only"
    case "ENOSPC":
    case "EDQUOT":
      return "the disk is full"
    default:
      return reasonOf(error)
  }
}

export const cannotWrite = (what: string, file: string, error: unknown) =>
  new CliFailure({ message: `Cannot write ${what} (${file}): ${whyNot(error)}.` })

/** None when there is no such file. */
export const readIfThere = Effect.fnUntraced(function* (file: string, what: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFile(file).pipe(
    Effect.map((bytes) => Option.some(Buffer.from(bytes))),
    Effect.catchIf(
      (error) => error._tag === "SystemError" && error.reason === "NotFound",
      () => Effect.succeedNone
    ),
    Effect.mapError((error) => new CliFailure({ message: `Cannot read ${what} (${file}): ${whyNot(error)}.` }))
  )
})

/** A file that somebody named. */
export const readNamed = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  return yield* fs
    .readFile(file)
    .pipe(Effect.mapError((error) => new CliFailure({ message: `Cannot read ${plain(file)}: ${whyNot(error)}.` })))
})

export const remove = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  yield* Effect.ignore(fs.remove(file, { force: true }))
})

/** Exactly the text that the bytes encode; None when they are not UTF-8. The byte order mark stays. */
export const decodeUtf8 = Option.liftThrowable((bytes: Uint8Array) =>
  new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
)

/** A small JSON file of our own. A damaged one counts as absent: nothing in it cannot be had again. */
export const jsonFile = <A, I>(folder: keyof Folders, name: string, schema: Schema.Schema<A, I>, what: string) => {
  const place = Effect.zipWith(folders, Path.Path, (all, path) => path.join(all[folder], name))
  const decode = Schema.decodeUnknownOption(Schema.parseJson(schema))
  return {
    read: Effect.map(
      Effect.flatMap(place, (file) => readIfThere(file, what)),
      (bytes) => Option.flatMap(Option.flatMap(bytes, decodeUtf8), (text) => decode(text))
    ),
    write: Effect.fnUntraced(function* (content: I) {
      yield* makeFolder((yield* folders)[folder], what)
      yield* writeWhole(yield* place, `${JSON.stringify(content, null, 2)}\n`, what)
    })
  }
}
