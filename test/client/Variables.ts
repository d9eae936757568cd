/** Variables of this process that the client libraries read. */
import * as Effect from "effect/Effect"

const names = [
  "AMPOULE_URL",
  ...["AMPOULE_API_TOKEN", "AMPOULE_TOKEN"].flatMap((name) => [name, `${name}_FILE`]),
  "AMPOULE_PROJECT",
  "AMPOULE_ENVIRONMENT"
]

const assign = (variables: Readonly<Record<string, string | undefined>>) => {
  for (const [name, value] of Object.entries(variables)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

/** Sets these variables for the scope, and unsets the others that the libraries read. */
export const set = (variables: Readonly<Record<string, string | undefined>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const all = { ...Object.fromEntries(names.map((name) => [name, undefined])), ...variables }
      const before = Object.fromEntries(Object.keys(all).map((name) => [name, process.env[name]]))
      assign(all)
      return before
    }),
    (before) => Effect.sync(() => assign(before))
  )
