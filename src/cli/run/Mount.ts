/**
 * `ampoule run --mount FILE`: the values in a named pipe. They pass from memory to memory, the first reader gets them,
 * and after it the file is gone.
 */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { closeSync, constants, fstatSync, lstatSync, openSync, rmSync, type Stats } from "node:fs"
import { Socket } from "node:net"
import { resolve } from "node:path"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { plain } from "#src/cli/terminal/Output.ts"
import { isWindows } from "#src/cli/terminal/Windows.ts"

interface Pipe {
  readonly path: string
  readonly inode: number
}

const statOf = (path: string) => lstatSync(path, { throwIfNoEntry: false })

const cannotMake = (path: string, why: string, hint?: string) =>
  new CliFailure({ message: `Cannot make the pipe ${plain(path)}: ${why}.`, ...(hint === undefined ? {} : { hint }) })

/** Node has no mkfifo(3). The mode is that of its first moment. */
const make = Effect.fnUntraced(function* (file: string) {
  const path = resolve(file)
  if (isWindows) return yield* cannotMake(path, "files of Windows cannot be pipes")
  const there = statOf(path)
  if (there !== undefined) {
    const hint = there.isFIFO() ? "If a run that was killed has left it: delete it." : "Choose a name that is free."
    return yield* cannotMake(path, "there is something of that name", hint)
  }
  yield* Effect.async<void, CliFailure>((resume) => {
    // The PATH alone: nothing of our credentials.
    const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" }
    execFile("mkfifo", ["-m", "600", path], { env }, (error) =>
      resume(
        error === null
          ? Effect.void
          : Effect.fail(cannotMake(path, "is its folder there, may it be written, and is there a command mkfifo?"))
      )
    )
  })
  return { path, inode: statOf(path)?.ino ?? 0 } satisfies Pipe
})

/** Whatever else stands there later gets nothing, and stays. The number of an inode alone is soon used again. */
const isOurs = (pipe: Pipe, found: Stats | undefined): boolean => found?.isFIFO() === true && found.ino === pipe.inode

const remove = (pipe: Pipe) =>
  Effect.sync(() => {
    if (isOurs(pipe, statOf(pipe.path))) rmSync(pipe.path, { force: true })
  })

/** Undefined while nobody reads. It does not block: that would be a thread which cannot be stopped. */
const openForReader = (pipe: Pipe): number | "gone" | undefined => {
  try {
    const fd = openSync(pipe.path, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
    if (isOurs(pipe, fstatSync(fd))) return fd
    closeSync(fd)
    return "gone"
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "ENXIO" ? undefined : "gone"
  }
}

/** Until all is read, or the reader has had enough. */
const write = (fd: number, content: string) =>
  Effect.async<void>((resume) => {
    const socket = new Socket({ fd, readable: false, writable: true })
    socket.on("error", () => {})
    socket.once("close", () => resume(Effect.void))
    socket.end(content)
    return Effect.sync(() => socket.destroy())
  })

/** How often it looks for a reader: programs read their settings as they start. */
const pauses = { first: "10 millis", later: "100 millis", patience: 500 } as const

const feed = Effect.fnUntraced(function* (pipe: Pipe, content: string) {
  for (let looks = 0; ; looks++) {
    const fd = openForReader(pipe)
    if (fd === "gone") return
    if (fd !== undefined) {
      // Before the first byte: a second reader finds no file, instead of a part of the values.
      yield* remove(pipe)
      return yield* write(fd, content)
    }
    yield* Effect.sleep(looks < pauses.patience ? pauses.first : pauses.later)
  }
})

/** There from now on for one reader, and gone with the scope. */
export const serve = Effect.fnUntraced(function* (file: string, content: string) {
  const pipe = yield* Effect.acquireRelease(make(file), remove)
  yield* Effect.forkScoped(feed(pipe, content))
})
