/** Looks through the causes of an error, whatever wraps it. */
import * as Cause from "effect/Cause"

/** A code of Node or an SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html). */
export const codeOf = (error: object) => ("code" in error && typeof error.code === "string" ? error.code : undefined)

/** Whether any error in it matches. Looks into Causes, SqlErrors, AggregateErrors and their causes. */
export const some = (cause: unknown, matches: (error: object) => boolean): boolean => {
  const pending: Array<unknown> = [cause]
  const seen = new Set<unknown>()
  while (pending.length > 0) {
    const next = pending.pop()
    if (typeof next !== "object" || next === null || seen.has(next)) continue
    seen.add(next)
    if (Cause.isCause(next)) {
      for (const one of Cause.failures(next)) pending.push(one)
      for (const one of Cause.defects(next)) pending.push(one)
      continue
    }
    if (matches(next)) return true
    if ("cause" in next) pending.push(next.cause)
    if ("errors" in next && Array.isArray(next.errors)) for (const one of next.errors) pending.push(one)
  }
  return false
}

/** The code of the first error in it that has one. */
export const firstCode = (cause: unknown): string | undefined => {
  let code: string | undefined
  some(cause, (error) => (code = codeOf(error)) !== undefined)
  return code
}
