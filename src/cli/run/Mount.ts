/**
 * `ampoule run --mount FILE`: the values in a named pipe. They pass from memory to memory. The first reader receives
 * them, and the file is deleted.
 */
import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { closeSync, constants, fstatSync, lstatSync, openSync, rmSync, type Stats, write as writeBytes } from "node:fs"
import { resolve } from "node:path"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { plain } from "#src/cli/terminal/Output.ts"
import { isWindows } from "#src/cli/terminal/Windows.ts"

interface Pipe {
  readonly path: string
  readonly inode: number
}

const statOf = (path: string) => lstatSync(path, { throwIfNoEntry: false })

const cannotCreate = (path: string, why: string, hint?: string) =>
  new CliFailure({ message: `Cannot create the pipe ${plain(path)}: ${why}.`, ...(hint === undefined ? {} : { hint }) })

/** Calls mkfifo(1), because Node has no mkfifo(3). The mode holds from the first moment. */
const make = Effect.fnUntraced(function* (file: string) {
  const path = resolve(file)
  if (isWindows) return yield* cannotCreate(path, "files of Windows cannot be pipes")
  const existing = statOf(path)
  if (existing !== undefined) {
    const hint = existing.isFIFO() ? "Delete it if a killed run has left it behind." : "Choose a name that is free."
    return yield* cannotCreate(path, "a file of that name exists", hint)
  }
  yield* Effect.async<void, CliFailure>((resume) => {
    // The PATH only, without any credential.
    const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" }
    execFile("mkfifo", ["-m", "600", path], { env }, (error) =>
      resume(
        error === null
          ? Effect.void
          : Effect.fail(
              cannotCreate(path, "check that its folder exists and is writable, and that the command mkfifo exists")
            )
      )
    )
  })
  return { path, inode: statOf(path)?.ino ?? 0 } satisfies Pipe
})

/** Another file in its place receives nothing, and stays. The inode's number is not enough, since it is soon reused. */
const isOurs = (pipe: Pipe, stats: Stats | undefined): boolean => stats?.isFIFO() === true && stats.ino === pipe.inode

const remove = (pipe: Pipe) =>
  Effect.sync(() => {
    if (isOurs(pipe, statOf(pipe.path))) rmSync(pipe.path, { force: true })
  })

/** Undefined without a reader. Does not block, because a blocked thread could not be stopped. */
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

/** Bytes that fit into the pipe now; 0 when it is full, undefined when its reader has gone. */
const writeSome = (fd: number, bytes: Uint8Array) =>
  // Never given up halfway: the descriptor is closed after it. It does not wait for the reader.
  Effect.uninterruptible(
    Effect.async<number | undefined>((resume) => {
      writeBytes(fd, bytes, (error, written) => {
        if (error === null) return resume(Effect.succeed(written))
        resume(Effect.succeed(error.code === "EAGAIN" ? 0 : undefined))
      })
    })
  )

/** Ends when everything is written, or the reader closes the pipe. Bun has no socket over a pipe. */
const write = Effect.fnUntraced(function* (fd: number, content: string) {
  let rest = Buffer.from(content)
  while (rest.length > 0) {
    const written = yield* writeSome(fd, rest)
    if (written === undefined) return
    rest = rest.subarray(written)
    if (written === 0) yield* Effect.sleep(pauses.full)
  }
})

/** Intervals of the search for a reader, which is frequent at first, because programs read their settings at the start. */
const pauses = { first: "10 millis", later: "100 millis", patience: 500, full: "5 millis" } as const

const feed = Effect.fnUntraced(function* (pipe: Pipe, content: string) {
  for (let attempts = 0; ; attempts++) {
    const fd = openForReader(pipe)
    if (fd === "gone") return
    if (fd !== undefined) {
      // Before the first byte: a second reader then finds no file, rather than part of the values.
      yield* remove(pipe)
      return yield* Effect.ensuring(
        write(fd, content),
        Effect.sync(() => closeSync(fd))
      )
    }
    yield* Effect.sleep(attempts < pauses.patience ? pauses.first : pauses.later)
  }
})

/** Serves one reader, and removes the pipe with the scope. */
export const serve = Effect.fnUntraced(function* (file: string, content: string) {
  const pipe = yield* Effect.acquireRelease(make(file), remove)
  yield* Effect.forkScoped(feed(pipe, content))
})
