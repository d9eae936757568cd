/** All failures of a command, and their text. No message repeats a value, a credential or a decode error. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import { paintNote, plain, wrapped } from "./Output.ts"

/** The command cannot do its work. `exitCode` 1 by default; 2 = wrong usage. */
export class CliFailure extends Data.TaggedError("CliFailure")<{
  readonly message: string
  readonly hint?: string
  readonly exitCode?: number
}> {}

/** Error envelope of the server (docs/contract/secrets.md). `details` has the further members, such as `references`. */
export class ServerRefused extends Data.TaggedError("ServerRefused")<{
  readonly status: number
  readonly code: string
  readonly message: string
  readonly field?: string
  readonly details: Readonly<Record<string, unknown>>
  readonly retryAfterSeconds?: number
  readonly requestId?: string
  /** Level that a grant for the request needs. */
  readonly needs?: "run" | "values" | "write"
  /** Next step, when the caller knows more than the code. */
  readonly hint?: string
  /** Page of the server that explains the code. */
  readonly docs?: string
}> {}

/**
 * Adds a next step to a refusal. The message is passed separately, because a spread does not copy an error's message.
 */
export const withHint = (error: ServerRefused, hint: string): ServerRefused =>
  new ServerRefused({ ...error, message: error.message, hint })

/** `Did you mean …?` before the next step. */
export const withQuestion = (question: string | undefined, hint: string): string =>
  question === undefined ? hint : `${question} ${hint}`

/** Adds the way out that this command's own options give to refusals of these codes. */
export const orRemedy =
  (remedies: ReadonlyMap<string, string>) =>
  <A, R>(work: Effect.Effect<A, CliError, R>): Effect.Effect<A, CliError, R> =>
    Effect.mapError(work, (error) => {
      if (error._tag !== "ServerRefused" || error.hint !== undefined) return error
      const remedy = remedies.get(error.code)
      return remedy === undefined ? error : withHint(error, `${hints.get(error.code) ?? ""} ${remedy}`.trim())
    })

/** No response. `reason` is a sentence of our own. */
export class ServerUnreachable extends Data.TaggedError("ServerUnreachable")<{
  readonly url: string
  readonly reason: string
}> {}

/** A response that this service never sends: a proxy's page, another program's answer, or a broken-off one. */
export class UnexpectedAnswer extends Data.TaggedError("UnexpectedAnswer")<{
  readonly url: string
  readonly status: number
  readonly reason: string
}> {}

export type ServerError = ServerRefused | ServerUnreachable | UnexpectedAnswer
export type CliError = CliFailure | ServerError

/** Network failures, 5xx and 429: the server has not refused. */
export const isUnavailable = (error: CliError): boolean => {
  switch (error._tag) {
    case "ServerUnreachable":
      return true
    case "ServerRefused":
    case "UnexpectedAnswer":
      return error.status >= 500 || error.status === 429
    case "CliFailure":
      return false
  }
}

export const usage = (message: string, hint?: string): CliFailure =>
  new CliFailure({ message, exitCode: 2, ...(hint === undefined ? {} : { hint }) })

const whichCredential = "`ampoule whoami` shows the credential in use; `ampoule login` creates a new one."

/**
 * Next steps by code, for any command: they name commands, and no option alone, which another command would not have.
 * A command that has an option for it says so with `orRemedy`.
 */
const hints: ReadonlyMap<string, string> = new Map(
  Object.entries({
    UNAUTHENTICATED: "Run `ampoule login`, or set AMPOULE_API_TOKEN.",
    CREDENTIAL_INVALID: `The text may be cut, or belong to another server. ${whichCredential}`,
    CREDENTIAL_EXPIRED: whichCredential,
    CREDENTIAL_REVOKED: whichCredential,
    STEP_UP_REQUIRED:
      "The confirmation of your second factor is too old. Run the command again, and confirm in the browser.",
    SECOND_FACTOR_MISSING: "The team requires a second factor: add one on the dashboard, then `ampoule login` again.",
    FORBIDDEN: "Ask an owner or admin of the team.",
    SCOPE_MISSING: "Run `ampoule login` again and grant the scope, or use another credential.",
    API_TOKEN_READ_ONLY: "Use a token with access level write.",
    API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT: "Use a token that was created with the slug of this environment.",
    ENVIRONMENT_NOT_GRANTED: "Request it: `ampoule access request --env SLUG --for 2h --why REASON`.",
    CREDENTIAL_KIND_NOT_ACCEPTED: "This needs a login: `ampoule login`.",
    PROJECT_NOT_FOUND: "`ampoule projects` lists the projects that this credential can see.",
    ENVIRONMENT_NOT_FOUND: "`ampoule projects environments` lists the environments that this credential can reach.",
    SECRET_NOT_FOUND: "`ampoule secrets list` shows the keys.",
    SECRET_VERSION_NOT_FOUND: "`ampoule secrets history KEY` shows the existing versions.",
    SECRET_HAS_DEPENDENTS:
      "`ampoule secrets unset KEY --disposition flatten` deletes it and keeps their text; cascade deletes them too.",
    SECRET_VERSION_CONFLICT: "Someone changed it in the meantime. Check `ampoule secrets history`, then try again.",
    CHANGES_DIFFER: "Look at it again: `ampoule changes show ID --reveal`, then approve with its digest.",
    TEMPLATE_REFERENCE_MISSING: "Write the missing keys first.",
    TEMPLATE_INVALID: "Write $${ for a plain ${.",
    SEALED_VALUE_INVALID:
      "Restore that line, or seal the value again. For `_manifest`, review the merge, then run `ampoule seal manifest`.",
    ROUTE_NOT_FOUND: "The server may be older than this command. `ampoule doctor` compares them.",
    SETUP_ALREADY_DONE: "Sign in, or ask an owner for an invitation.",
    DEPENDENCY_UNAVAILABLE: "The server runs, but a service that it needs does not. Try again shortly."
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

interface Description {
  readonly code: string
  readonly message: string
  readonly lines: ReadonlyArray<string>
  readonly hint: string | undefined
  readonly exitCode: number
}

export const describe = (error: CliError): Description => {
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
        hint: "Check AMPOULE_URL and the network. `ampoule doctor` checks each part.",
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

/** Lines for standard error. */
export const print = (error: CliError, json: boolean): string => {
  const { code, message, lines, hint } = describe(error)
  const docs = error._tag === "ServerRefused" ? error.docs : undefined
  if (json) {
    const details = error._tag === "ServerRefused" ? error.details : {}
    const field = error._tag === "ServerRefused" && error.field !== undefined ? { field: error.field } : {}
    const next = { ...(hint === undefined ? {} : { hint }), ...(docs === undefined ? {} : { docs }) }
    return `${JSON.stringify({ error: { ...details, code, message, ...field, ...next } })}\n`
  }
  const name = error._tag === "ServerRefused" ? ` [${plain(code)}]` : ""
  const all = [
    `ampoule: ${message}${name}`,
    ...[...lines, ...(hint === undefined ? [] : [hint]), ...(docs === undefined ? [] : [`Docs: ${docs}`])].map(
      (line) => `  ${line}`
    )
  ]
  return `${wrapped(all.join("\n")).replace("ampoule:", paintNote("ampoule:", "red"))}\n`
}
