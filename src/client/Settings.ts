/**
 * Server, credential and variables of the client libraries. No Effect and no import of Node: runtimes at the edge have
 * neither, and some have no `process`.
 */
import { AmpouleError } from "./Failure.ts"

export type Variables = Readonly<Record<string, string | undefined>>

const defaultUrl = "http://127.0.0.1:4400"
/** In order of precedence; each also as `NAME_FILE`. */
const tokenVariables = ["AMPOULE_API_TOKEN", "AMPOULE_TOKEN"]

interface Process {
  readonly env: Record<string, string | undefined>
  /** Node from 20.16, Bun, Deno. Bundlers do not see it as an import. */
  readonly getBuiltinModule?: (name: "fs") => { readonly readFileSync: (path: string, encoding: "utf8") => string }
}

/** `process` where the runtime has one. */
export const ownProcess = (): Process | undefined => (globalThis as { readonly process?: Process }).process

/** A variable without blanks around it. Undefined: it is unset, empty, or not readable by this program (Deno). */
const variable = (variables: Variables, name: string): string | undefined => {
  try {
    return variables[name]?.trim() || undefined
  } catch {
    return undefined
  }
}

/** The variables that the libraries read, by name. */
export const readVariables = (variables: Variables = ownProcess()?.env ?? {}, names: ReadonlyArray<string>) =>
  Object.fromEntries(names.map((name) => [name, variable(variables, name)]))

const fileText = (name: string, path: string): string => {
  let text: string | undefined
  try {
    text = ownProcess()?.getBuiltinModule?.("fs").readFileSync(path, "utf8").trim()
  } catch {
    // The same refusal as for an empty file.
  }
  if (text) return text
  throw new AmpouleError("NO_CREDENTIAL", `The file that ${name} names is empty or cannot be read.`)
}

/** The credential of an option, else of the first variable that is set. */
export const credentialOf = (option: string | undefined, variables?: Variables): string => {
  if (option !== undefined) return option.trim()
  const names = tokenVariables.flatMap((name) => [name, `${name}_FILE`])
  const text = readVariables(variables, names)
  const first = names.find((name) => text[name])
  const value = first === undefined ? undefined : text[first]
  if (first === undefined || value === undefined) {
    throw new AmpouleError("NO_CREDENTIAL", "No credential. Set AMPOULE_API_TOKEN, or pass `credential`.")
  }
  return first.endsWith("_FILE") ? fileText(first, value) : value
}

/** Address of the server, without a slash at its end. The message does not repeat a text that may be a secret. */
export const addressOf = (option: string | undefined, variables?: Variables): string => {
  const text = option ?? readVariables(variables, ["AMPOULE_URL"])["AMPOULE_URL"] ?? defaultUrl
  try {
    const { hash, href, password, protocol, search, username } = new URL(text)
    if (/^https?:$/.test(protocol) && !(hash || password || search || username)) return href.replace(/\/+$/, "")
  } catch {
    // The same refusal as for an unusable address.
  }
  const source = option === undefined ? "AMPOULE_URL" : "`url`"
  throw new AmpouleError(
    "SETTINGS_INVALID",
    `${source} is no address of a server: it needs http:// or https://, and takes no user, query or fragment.`
  )
}
