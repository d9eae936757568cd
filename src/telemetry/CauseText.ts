/**
 * A failure for the log, without any external input. Messages quote input: a driver's `detail` the row, a parser's
 * message the text. So only names, codes and places in our code are logged (docs/architecture.md, S4).
 */
import * as Cause from "effect/Cause"

const text = (u: unknown): string | undefined => (typeof u === "string" && /^[\w.:-]{1,80}$/.test(u) ? u : undefined)

/** Effect's own defects for impossible states, with messages from programmers. */
const plainMessages = new Set(["RuntimeException", "IllegalArgumentException"])

const frames = (error: object): ReadonlyArray<string> =>
  "stack" in error && typeof error.stack === "string"
    ? error.stack
        .split("\n")
        .filter((line) => /^\s+at /.test(line) && !line.includes("node_modules"))
        .slice(0, 6)
        .map((line) => line.trim())
    : []

const describe = (error: unknown, depth: number): string => {
  if (typeof error !== "object" || error === null) return typeof error
  const tag = "_tag" in error ? text(error._tag) : undefined
  const parts = [tag ?? ("name" in error ? text(error.name) : undefined) ?? "Error"]
  for (const key of ["code", "constraint", "table", "column", "syscall", "dependency"] as const) {
    const value = text(Reflect.get(error, key))
    if (value !== undefined) parts.push(`${key}=${value}`)
  }
  if (tag !== undefined && plainMessages.has(tag) && error instanceof Error) parts.push(error.message)
  const line = [parts.join(" "), ...frames(error)].join("\n    ")
  return depth > 0 && "cause" in error && error.cause !== undefined
    ? `${line}\n  caused by ${describe(error.cause, depth - 1)}`
    : line
}

export const causeText = (cause: Cause.Cause<unknown>): string =>
  [...Cause.failures(cause), ...Cause.defects(cause)].map((error) => describe(error, 3)).join("\n")
