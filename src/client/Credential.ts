/** The credential from the process's environment: `AMPOULE_API_TOKEN`, then `AMPOULE_TOKEN`, each also as `…_FILE`. */
import * as Redacted from "effect/Redacted"
import { readFileSync } from "node:fs"

const names = ["AMPOULE_API_TOKEN", "AMPOULE_TOKEN"] as const

/** An empty variable counts as unset: compose files pass such variables. */
export const variable = (name: string): string | undefined => {
  const value = process.env[name]
  return value === undefined || value.trim() === "" ? undefined : value.trim()
}

const fileText = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8").trim()
  } catch {
    return undefined
  }
}

/** The first credential. Undefined if none is set, or if the first one's file is missing or empty. */
export const ofEnvironment = (): Redacted.Redacted | undefined => {
  for (const name of names) {
    const file = variable(`${name}_FILE`)
    const text = variable(name) ?? (file === undefined ? undefined : (fileText(file) ?? ""))
    if (text !== undefined) return text === "" ? undefined : Redacted.make(text)
  }
  return undefined
}
