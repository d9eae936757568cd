/** The memory of a running process, as a debugger of the same user would read it (Linux), and its contents. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fs from "node:fs"
import { join } from "node:path"

/** Whether it can be read here. */
export const readable = fs.existsSync("/proc/self/pagemap")

const pageSize = 4096
/** Bits of an entry of /proc/PID/pagemap: the page is in memory, or swapped out. */
const residentBits = 0xc0

/**
 * Every page of a process that is in memory and was its own to write, one after the other, in a file; it is stopped
 * meanwhile.
 */
export const core = (child: { readonly pid?: number | undefined }, folder: string, name: string) =>
  Effect.sync(() => {
    const pid = child.pid ?? assert.fail("no process")
    const file = join(folder, name)
    process.kill(pid, "SIGSTOP")
    const [memory, pages, out] = [`/proc/${pid}/mem`, `/proc/${pid}/pagemap`]
      .map((path) => fs.openSync(path, "r"))
      .concat(fs.openSync(file, "w"))
    for (const line of fs.readFileSync(`/proc/${pid}/maps`, "utf8").split("\n")) {
      const range = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line)
      if (range === null) continue
      const [from, to] = [Number.parseInt(range[1], 16), Number.parseInt(range[2], 16)]
      const entries = Buffer.alloc(((to - from) / pageSize) * 8)
      fs.readSync(pages, entries, 0, entries.length, (from / pageSize) * 8)
      const isResident = (page: number) => page * 8 < entries.length && (entries[page * 8 + 7] & residentBits) !== 0
      for (let page = 0; page * 8 < entries.length;) {
        let run = 0
        while (run < 4096 && isResident(page + run)) run++
        if (run > 0) {
          const bytes = Buffer.alloc(run * pageSize)
          const read = fs.readSync(memory, bytes, 0, bytes.length, from + page * pageSize)
          fs.writeSync(out, bytes, 0, read)
        }
        page += Math.max(1, run)
      }
    }
    for (const descriptor of [memory, pages, out]) fs.closeSync(descriptor)
    process.kill(pid, "SIGCONT")
    return file
  })

/** Occurrences of each needle in a file, read in windows that overlap. */
export const countIn = (file: string, needles: Readonly<Record<string, Buffer>>): Record<string, number> => {
  const windowSize = 64 * 1024 * 1024
  const overlap = Math.max(...Object.values(needles).map((needle) => needle.length)) - 1
  const counts: Record<string, number> = Object.fromEntries(Object.keys(needles).map((name) => [name, 0]))
  const buffer = Buffer.alloc(windowSize + overlap)
  const descriptor = fs.openSync(file, "r")
  let kept = 0
  for (;;) {
    const read = fs.readSync(descriptor, buffer, kept, windowSize, null)
    if (read === 0) break
    const window = buffer.subarray(0, kept + read)
    for (const [name, needle] of Object.entries(needles)) {
      for (let at = window.indexOf(needle); at !== -1; at = window.indexOf(needle, at + 1)) {
        // A needle inside the overlap was counted with the window before.
        if (at + needle.length > kept) counts[name] = (counts[name] ?? 0) + 1
      }
    }
    const end = window.length
    const next = Math.min(overlap, end)
    buffer.copyWithin(0, end - next, end)
    kept = next
  }
  fs.closeSync(descriptor)
  return counts
}
