/** Folders of the command line, and atomic writes: temporary file, mode 0600, rename. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { basename, dirname, isAbsolute, join } from "node:path"
import { crypto, fs } from "./BuiltIn.ts"
import { CliFailure } from "./Failure.ts"
import * as Home from "./Home.ts"
import { plain, warn } from "./Output.ts"
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

const refused = (code: string) => Object.assign(new Error(code), { code })

/** Links that a path may have, as in the kernel. */
const mostLinks = 40

/** Whether another user put this into a folder of all, such as `/tmp`, where values would reach them. */
const isPlanted = (file: string, owner: number): boolean => {
  const folder = fs().statSync(dirname(file))
  return (folder.mode & 0o1002) === 0o1002 && owner !== folder.uid && owner !== process.geteuid?.()
}

/**
 * The file behind links, which need not exist. A link that another user put into a folder of all, such as /tmp, is not
 * followed: the kernel refuses the same (protected_symlinks).
 */
const behindLinks = (file: string, remaining = mostLinks): string => {
  const link = fs().lstatSync(file, { throwIfNoEntry: false })
  if (link?.isSymbolicLink() !== true) return file
  if (remaining === 0) throw refused("ELOOP")
  if (isPlanted(file, link.uid)) throw refused("EACCES")
  const target = fs().readlinkSync(file)
  const joined = isAbsolute(target) ? target : `${dirname(file)}/${target}`
  // The kernel's order: a `..` is the parent of the folder behind a link. path.resolve() removes both from the text.
  return behindLinks(join(fs().realpathSync.native(dirname(joined)), basename(joined)), remaining - 1)
}

/** A file that is a mount by itself, as containers get them, cannot be replaced. Of Linux. */
const isMount = (file: string): boolean => {
  try {
    const path = fs().realpathSync(file).replaceAll(" ", "\\040")
    const mounts = fs().readFileSync("/proc/self/mountinfo", "utf8").split("\n")
    return mounts.some((line) => line.split(" ")[4] === path)
  } catch {
    return false
  }
}

/** Not atomic. Owner and mode stay. */
const overwrite = (file: string, content: string | Uint8Array): void => {
  const fd = fs().openSync(file, fs().constants.O_WRONLY)
  try {
    const bytes = Buffer.from(content)
    for (let at = 0; at < bytes.length;) at += fs().writeSync(fd, bytes, at)
    if (fs().fstatSync(fd).isFile()) fs().ftruncateSync(fd, bytes.length)
  } finally {
    fs().closeSync(fd)
  }
}

interface WriteOptions {
  /** Keeps the mode of the replaced file. */
  readonly keepMode?: boolean
  /** 0600 by default. */
  readonly mode?: number
}

const replace = (file: string, content: string | Uint8Array, options: WriteOptions): void => {
  const temporary = join(dirname(file), `.${basename(file)}.${crypto().randomBytes(6).toString("hex")}`)
  const former = options.keepMode === true ? fs().statSync(file, { throwIfNoEntry: false }) : undefined
  try {
    fs().writeFileSync(temporary, content, { flag: "wx", mode: options.mode ?? 0o600 })
    if (former !== undefined) fs().chmodSync(temporary, former.mode & 0o777)
    fs().renameSync(temporary, file)
  } catch (error) {
    fs().rmSync(temporary, { force: true })
    throw error
  }
}

/** Errors of a folder in which no file can be made, and of a mount that no file can replace. */
const notReplaced: ReadonlySet<unknown> = new Set(["EBUSY", "EROFS", "EACCES", "EPERM"])

/** Replaces the file behind links. Writes into a device or pipe, and into a file that is a mount. */
const writeTo = (path: string, content: string | Uint8Array, options: WriteOptions): "replaced" | "in place" => {
  refuseUnreachable(path)
  const existing = fs().statSync(path, { throwIfNoEntry: false })
  if (existing !== undefined && !existing.isFile() && !existing.isDirectory()) {
    if (isPlanted(path, fs().lstatSync(path).uid)) throw refused("EACCES")
    overwrite(path, content)
    return "in place"
  }
  const file = behindLinks(path)
  try {
    replace(file, content, options)
    return "replaced"
  } catch (error) {
    if (existing?.isFile() !== true || !notReplaced.has(codeOf(error)) || !isMount(file)) throw error
    overwrite(file, content)
    return "in place"
  }
}

/**
 * Atomic write. Readable only by this user from the first byte, except with `mode`. A link stays, and its target is
 * replaced. A file that is a mount is overwritten, with a warning, because nothing can replace it.
 */
export const writeWhole = Effect.fnUntraced(function* (
  file: string,
  content: string | Uint8Array,
  what: string,
  options: WriteOptions = {}
) {
  const way = yield* Effect.mapError(
    attempt(() => writeTo(file, content, options)),
    (error) => cannotWrite(what, file, error)
  )
  const info = way === "in place" ? yield* infoOf(file) : Option.none()
  if (Option.isSome(info) && info.value.isFile()) {
    const mode = (info.value.mode & 0o777).toString(8).padStart(4, "0")
    yield* warn(
      `${plain(file)} is a mount, so it was written in place: a reader may have seen a part of it. Its mode stays ${mode}.`
    )
  }
  return way
})

export const makeFolder = (folder: string, what: string) =>
  attempt(() => {
    refuseUnreachable(folder)
    Home.makeFolders(folder)
    fs().chmodSync(folder, 0o700)
  }).pipe(Effect.mapError((error) => cannotWrite(what, folder, error)))

/** No call may touch a file system that does not answer: this process would wait with it. */
const refuseUnreachable = (path: string): void => {
  if (Home.isUnreachable(path)) throw refused("ETIMEDOUT")
}

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
    case "ENOTREG":
      return "it is not a regular file"
    case "ELOOP":
      return "too many links"
    case "ETIMEDOUT":
      return "its file system does not answer"
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

/** A file of the command line itself. A pipe in its place would keep this process waiting for a writer. */
const readOwn = (file: string): Buffer => {
  const fd = fs().openSync(file, fs().constants.O_RDONLY | (fs().constants.O_NONBLOCK ?? 0))
  try {
    if (!fs().fstatSync(fd).isFile()) throw refused("ENOTREG")
    return fs().readFileSync(fd)
  } finally {
    fs().closeSync(fd)
  }
}

/** None when the file does not exist. */
export const readIfThere = (
  file: string,
  what: string,
  read: (file: string) => Buffer = (name) => fs().readFileSync(name)
) =>
  attempt(() => {
    refuseUnreachable(file)
    return read(file)
  }).pipe(
    Effect.asSome,
    Effect.catchIf(
      // ENOTDIR: HOME=/dev/null, where an account has no home.
      (error) => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR",
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

export const remove = (file: string) =>
  Effect.ignore(
    attempt(() => {
      refuseUnreachable(file)
      fs().rmSync(file, { force: true })
    })
  )

/** Removes a folder and its content. */
export const removeFolder = (folder: string) =>
  Effect.ignore(
    attempt(() => {
      refuseUnreachable(folder)
      fs().rmSync(folder, { recursive: true, force: true })
    })
  )

/** None when the file does not exist, or access is denied. */
export const infoOf = (file: string) =>
  Effect.option(
    attempt(() => {
      refuseUnreachable(file)
      return fs().statSync(file)
    })
  )

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
    read: Effect.suspend(() => readIfThere(place(), what, readOwn)).pipe(
      Effect.map((bytes) => Option.flatMap(Option.flatMap(bytes, decodeUtf8), decode))
    ),
    write: (content: A) =>
      Effect.zipRight(
        Effect.suspend(() => makeFolder(dirname(place()), what)),
        Effect.suspend(() => writeWhole(place(), `${JSON.stringify(content, null, 2)}\n`, what))
      )
  }
}
