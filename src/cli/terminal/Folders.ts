/** Folders of the command line, and atomic writes: temporary file, mode 0600, rename. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { basename, dirname, join } from "node:path"
import { crypto, fs } from "./BuiltIn.ts"
import { CliFailure } from "./Failure.ts"
import * as Home from "./Home.ts"
import { plain } from "./Output.ts"
import { json, type Shape } from "./Shape.ts"

export interface Folders {
  /** Login records. */
  readonly config: string
  /** Files that may be deleted at any time. */
  readonly cache: string
}

export const folders = (): Folders => ({
  config: join(Home.configBase(), "ampoule"),
  cache: join(Home.cacheBase(), "ampoule")
})

/** System calls with their original error. Synchronous: waiting for small local files costs less than a thread. */
const attempt = <A>(call: () => A): Effect.Effect<A, unknown> => Effect.try({ try: call, catch: (e) => e })

/**
 * Atomic write. Readable only by this user from the first byte, except with `mode`. With `keepMode` the mode of the
 * replaced file is kept.
 */
export const writeWhole = Effect.fnUntraced(function* (
  file: string,
  content: string | Uint8Array,
  what: string,
  options: { readonly keepMode?: boolean; readonly mode?: number } = {}
) {
  const temporary = join(dirname(file), `.${basename(file)}.${crypto().randomBytes(6).toString("hex")}`)
  const former = options.keepMode === true ? yield* Effect.option(attempt(() => fs().statSync(file))) : Option.none()
  const write = attempt(() => {
    fs().writeFileSync(temporary, content, { flag: "wx", mode: options.mode ?? 0o600 })
    if (Option.isSome(former)) fs().chmodSync(temporary, former.value.mode & 0o777)
    fs().renameSync(temporary, file)
  }).pipe(Effect.onError(() => remove(temporary)))
  yield* Effect.mapError(write, (error) => cannotWrite(what, file, error))
})

export const makeFolder = (folder: string, what: string) =>
  attempt(() => {
    fs().mkdirSync(folder, { recursive: true })
    fs().chmodSync(folder, 0o700)
  }).pipe(Effect.mapError((error) => cannotWrite(what, folder, error)))

const codeOf = (error: unknown): unknown => {
  if (typeof error !== "object" || error === null) return undefined
  if ("code" in error) return error.code
  return "cause" in error ? codeOf(error.cause) : undefined
}

const whyNot = (error: unknown): string => {
  const code = codeOf(error)
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
      return typeof code === "string" ? code : "failed"
  }
}

export const cannotWrite = (what: string, file: string, error: unknown) =>
  new CliFailure({ message: `Cannot write ${what} (${file}): ${whyNot(error)}.` })

const cannotRead = (what: string, error: unknown) =>
  new CliFailure({ message: `Cannot read ${what}: ${whyNot(error)}.` })

/** None when the file does not exist. */
export const readIfThere = (file: string, what: string) =>
  attempt(() => fs().readFileSync(file)).pipe(
    Effect.asSome,
    Effect.catchIf(
      (error) => codeOf(error) === "ENOENT",
      () => Effect.succeedNone
    ),
    Effect.mapError((error) => cannotRead(`${what} (${file})`, error))
  )

/** A file that the user named. */
export const readNamed = (file: string) =>
  Effect.mapError(
    // Asynchronous, because it may be a slow pipe, and signals must be handled in the meantime.
    Effect.tryPromise({ try: (): Promise<Uint8Array> => fs().promises.readFile(file), catch: (e) => e }),
    (error) => cannotRead(plain(file), error)
  )

export const remove = (file: string) => Effect.ignore(attempt(() => fs().rmSync(file, { force: true })))

/** Removes a folder and its content. */
export const removeFolder = (folder: string) =>
  Effect.ignore(attempt(() => fs().rmSync(folder, { recursive: true, force: true })))

/** None when the file does not exist, or access is denied. */
export const infoOf = (file: string) => Effect.option(attempt(() => fs().statSync(file)))

/** Exact text of the bytes; None when they are not UTF-8. The byte order mark stays. */
export const decodeUtf8 = Option.liftThrowable((bytes: Uint8Array) =>
  new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
)

/**
 * Small JSON file of the command line. A damaged one counts as absent, because all its content can be created again.
 */
export const jsonFile = <A>(folder: keyof Folders, name: string, shape: Shape<A>, what: string) => {
  const place = () => join(folders()[folder], name)
  const decode = json(shape)
  return {
    read: Effect.suspend(() => readIfThere(place(), what)).pipe(
      Effect.map((bytes) => Option.flatMap(Option.flatMap(bytes, decodeUtf8), decode))
    ),
    write: (content: A) =>
      Effect.zipRight(
        Effect.suspend(() => makeFolder(dirname(place()), what)),
        Effect.suspend(() => writeWhole(place(), `${JSON.stringify(content, null, 2)}\n`, what))
      )
  }
}
