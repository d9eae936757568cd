/**
 * Standard output and error that write at once, as those of Node do for files and pipes. Those of Bun set the pipe itself
 * to non-blocking, so that a program on the same pipe fails with EAGAIN.
 */
import { writeSync } from "node:fs"
import { Writable } from "node:stream"

/** Milliseconds between two tries on a pipe that another process has set to non-blocking. */
const pause = 2

const isFull = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "EAGAIN"

const writeAll = (fd: number, bytes: Uint8Array): void => {
  for (let rest = bytes; rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(fd, rest))
    } catch (error) {
      if (!isFull(error)) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause)
    }
  }
}

/** `fd`: a file, pipe or socket. Errors arrive as those of any stream. */
export const make = (fd: 1 | 2): Writable =>
  new Writable({
    decodeStrings: true,
    write: (chunk: Uint8Array, _encoding, done) => {
      try {
        writeAll(fd, chunk)
        done()
      } catch (error) {
        done(error instanceof Error ? error : new Error())
      }
    }
  })
