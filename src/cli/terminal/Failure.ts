/**
 * Everything a command can end with, and how it reads. No message here repeats a value, a credential or a decode error.
 */
import * as Data from "effect/Data"
import { paintNote, plain, sentences } from "./Output.ts"

/** The command cannot do what was asked. `exitCode` 1 unless named; 2 = wrong usage. */
export class CliFailure extends Data.TaggedError("CliFailure")<{
  readonly message: string
  readonly hint?: string
  readonly exitCode?: number
}> {}

/**
 * The server answered with its error envelope (docs/contract/secrets.md). `details` are the further members, e.g.
 * `references`.
 */
export class ServerRefused extends Data.TaggedError("ServerRefused")<{
  readonly status: number
  readonly code: string
  readonly message: string
  readonly field?: string
  readonly details: Readonly<Record<string, unknown>>
  readonly retryAfterSeconds?: number
  readonly requestId?: string
  /** What the request would have needed a grant for. */
  readonly needs?: "run" | "values" | "write"
  /** What to do about it, when the place where it happened says more than the code. */
  readonly hint?: string
}> {}

/** The same refusal with something to do about it. The message of an error is no member that a spread copies. */
export const hinted = (error: ServerRefused, hint: string): ServerRefused =>
  new ServerRefused({ ...error, message: error.message, hint })

/** Nothing came back. `reason` is one of our own sentences. */
export class ServerUnreachable extends Data.TaggedError("ServerUnreachable")<{
  readonly url: string
  readonly reason: string
}> {}

/** Something came back that this service does not say: a proxy's page, another program, a cut answer. */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<{
  readonly url: string
  readonly status: number
  readonly reason: string
}> {}

export type ServerError = ServerRefused | ServerUnreachable | UnexpectedAnswer
export type CliError = CliFailure | ServerError

export const usage = (message: string, hint?: string): CliFailure =>
  new CliFailure({ message, exitCode: 2, ...(hint === undefined ? {} : { hint }) })

const whichCredential = "`ampoule whoami` shows which credential is used; `ampoule login` gets a new one."

const hints: ReadonlyMap<string, string> = new Map(
  Object.entries({
    UNAUTHENTICATED: "Run `ampoule login`, or set AMPOULE_API_TOKEN.",
    CREDENTIAL_INVALID: `The text may be cut, or belong to another server. ${whichCredential}`,
    CREDENTIAL_EXPIRED: whichCredential,
    CREDENTIAL_REVOKED: whichCredential,
    STEP_UP_REQUIRED: "The proof of your second factor is too old: run the command again, and confirm in the browser.",
    SECOND_FACTOR_MISSING: "The team requires a second factor: add one on the dashboard, then `ampoule login` again.",
    FORBIDDEN: "Ask an owner or admin of the team.",
    SCOPE_MISSING: "Run `ampoule login` again and grant the scope, or use another credential.",
    API_TOKEN_READ_ONLY: "Use a token with access level write.",
    API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT: "Use a token that was created naming this environment.",
    ENVIRONMENT_NOT_GRANTED: "Ask for it: `ampoule access request --env SLUG --for 2h --why REASON`.",
    CREDENTIAL_KIND_NOT_ACCEPTED: "This needs a login: `ampoule login`.",
    PROJECT_NOT_FOUND: "`ampoule projects` lists what this credential sees.",
    ENVIRONMENT_NOT_FOUND: "`ampoule projects environments` lists what this credential sees.",
    SECRET_NOT_FOUND: "`ampoule secrets list` shows the keys.",
    SECRET_VERSION_NOT_FOUND: "`ampoule secrets history KEY` shows the versions there are.",
    SECRET_HAS_DEPENDENTS: "Say --disposition flatten (they keep their text) or --disposition cascade (they go too).",
    SECRET_VERSION_CONFLICT: "Someone changed it meanwhile. Look at `ampoule secrets history`, then try again.",
    TEMPLATE_REFERENCE_MISSING: "Write the missing keys first, or pass the text as --kind literal.",
    TEMPLATE_INVALID: "Write $${ for a plain ${, or pass the text as --kind literal.",
    SEALED_VALUE_INVALID:
      "Restore that line, or seal the value again. `_manifest`, after a merge you have looked at: `ampoule seal manifest`.",
    ROUTE_NOT_FOUND: "The server may be older than this command. `ampoule doctor` compares them.",
    SETUP_ALREADY_DONE: "Sign in, or ask an owner for an invitation.",
    DEPENDENCY_UNAVAILABLE: "The server is up, but something it needs is not. Try again shortly."
  })
)

const list = (value: unknown): string | undefined =>
  Array.isArray(value) && value.length > 0 ? value.map((item) => plain(String(item))).join(", ") : undefined

const detailLines = (error: ServerRefused): ReadonlyArray<string> => {
  const lines: Array<string> = []
  if (error.field !== undefined) lines.push(`field: ${plain(error.field)}`)
  for (const name of ["references", "dependents", "cycle"]) {
    const text = list(error.details[name])
    if (text !== undefined) lines.push(`${name}: ${text}`)
  }
  for (const name of ["currentVersion", "requiredScope"]) {
    const value = error.details[name]
    if (typeof value === "string" || typeof value === "number") lines.push(`${name}: ${plain(String(value))}`)
  }
  if (error.retryAfterSeconds !== undefined) lines.push(`try again in ${error.retryAfterSeconds} s`)
  if (error.requestId !== undefined && error.status >= 500) lines.push(`request id: ${plain(error.requestId)}`)
  return lines
}

interface Rendered {
  readonly code: string
  readonly message: string
  readonly lines: ReadonlyArray<string>
  readonly hint: string | undefined
  readonly exitCode: number
}

export const describe = (error: CliError): Rendered => {
  switch (error._tag) {
    case "CliFailure":
      return {
        code: error.exitCode === 2 ? "USAGE" : "FAILED",
        message: error.message,
        lines: [],
        hint: error.hint,
        exitCode: error.exitCode ?? 1
      }
    case "ServerRefused":
      return {
        code: error.code,
        message: plain(error.message),
        lines: detailLines(error),
        hint: error.hint ?? hints.get(error.code),
        exitCode: 1
      }
    case "ServerUnreachable":
      return {
        code: "SERVER_UNREACHABLE",
        message: `No answer from ${plain(error.url)}: ${error.reason}.`,
        lines: [],
        hint: "Check AMPOULE_URL and the network. `ampoule doctor` looks at each part.",
        exitCode: 1
      }
    case "UnexpectedAnswer":
      return {
        code: "UNEXPECTED_ANSWER",
        message: `Unexpected answer from ${plain(error.url)} (status ${error.status}): ${error.reason}.`,
        lines: [],
        hint: "Is this the address of an Ampoule server, or is a proxy in between? Check AMPOULE_URL.",
        exitCode: 1
      }
  }
}

/** The lines for standard error. */
export const print = (error: CliError, json: boolean): string => {
  const { code, message, lines, hint } = describe(error)
  if (json) {
    const details = error._tag === "ServerRefused" ? error.details : {}
    const field = error._tag === "ServerRefused" && error.field !== undefined ? { field: error.field } : {}
    return `${JSON.stringify({ error: { ...details, code, message, ...field, ...(hint === undefined ? {} : { hint }) } })}\n`
  }
  const name = error._tag === "ServerRefused" ? ` [${plain(code)}]` : ""
  const all = [
    `ampoule: ${message}${name}`,
    ...[...lines, ...(hint === undefined ? [] : [hint])].map((line) => `  ${line}`)
  ]
  return `${sentences(all.join("\n")).replace("ampoule:", paintNote("ampoule:", "red"))}\n`
}
