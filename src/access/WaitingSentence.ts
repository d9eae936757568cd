/**
 * The sentence that a second person approves: the action, its place, and each changed field with its new value. It is
 * made from the stored input, so no field can be absent. Names and settings only, never a value of a secret.
 */
import type { Waiting } from "./WaitingActions.ts"

/** Characters. The fields of every input fit; only a change with many warnings is cut. */
const maxLength = 8_000

const wordOf = (value: unknown): string => {
  if (typeof value === "boolean") return value ? "on" : "off"
  if (value === null) return "none"
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(wordOf).join(" ")
  if (typeof value === "string" && /^[\w.:@/+-]+$/.test(value)) return value
  return JSON.stringify(value)
}

/** Fields of the action that change something. A request names others, which its use case adds. */
const inputOf = (waiting: Waiting): object => {
  switch (waiting.kind) {
    case "project_grant":
    case "environment_grant": {
      const { level: _level, userId: _userId, until, ...others } = waiting.input
      return { ...others, until: until ?? null }
    }
    case "environment":
    case "project":
    case "member":
    case "invitation":
    case "team":
      return waiting.input
    case "password":
    case "access_request":
    case "change_request":
      return {}
  }
}

/** Ids of people in the input, whose addresses the sentence shows. */
export const peopleOf = (waiting: Waiting): ReadonlyArray<string> =>
  waiting.kind === "environment" ? (waiting.input.approvers ?? []) : []

/** `place`: slugs, with the preposition. `facts`: what the use case adds. `emails`: addresses by id. */
export const sentenceOf = (
  waiting: Waiting,
  action: string,
  {
    emails,
    facts,
    place
  }: {
    readonly place: string
    readonly facts: ReadonlyArray<string>
    readonly emails: ReadonlyMap<string, string>
  }
): string => {
  const named = (value: unknown) =>
    Array.isArray(value) ? value.map((one) => (typeof one === "string" ? (emails.get(one) ?? one) : one)) : value
  const fields = Object.entries(inputOf(waiting)).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${wordOf(named(value))}`]
  )
  const details = [...facts, ...fields].join(", ")
  const sentence = `${action}${place}${details === "" ? "" : ` (${details})`}`
  return sentence.length <= maxLength ? sentence : `${sentence.slice(0, maxLength)} … (cut)`
}

const shownKeys = 10

/** Keys of a change: those that run code first, each with its warnings, and the number of those that follow. */
export const keyFacts = (
  changes: ReadonlyArray<{
    readonly key: string
    readonly change: string
    readonly conflict: boolean
    readonly warnings: ReadonlyArray<string>
  }>
): ReadonlyArray<string> => {
  const sorted = changes.toSorted((a, b) => b.warnings.length - a.warnings.length)
  const facts = sorted.slice(0, shownKeys).map(({ change, conflict, key, warnings }) => {
    const notes = [...(conflict ? ["changed since"] : []), ...warnings]
    return `${change} ${key}${notes.length === 0 ? "" : ` [${notes.join("; ")}]`}`
  })
  const more = sorted.length - facts.length
  return more === 0 ? facts : [...facts, `and ${more} more`]
}
