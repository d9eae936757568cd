/** How a page tells an error of the service: what happened and what to do, never what was typed. */
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"

export interface Told {
  readonly title: string
  readonly detail: string
}

const told: Readonly<Record<string, Told>> = {
  ROUTE_NOT_FOUND: { title: "There is no such page", detail: "The address may be mistyped, or the page has moved." },
  TEAM_NOT_FOUND: { title: "There is no such team", detail: "Or you are not a member of it." },
  PROJECT_NOT_FOUND: { title: "There is no such project", detail: "It was deleted, or you cannot see it." },
  ENVIRONMENT_NOT_FOUND: { title: "There is no such environment", detail: "It was deleted, or you cannot see it." },
  SECRET_NOT_FOUND: { title: "There is no such secret", detail: "It was deleted, or you cannot see it." },
  SECRET_VERSION_NOT_FOUND: {
    title: "That version is not kept any more",
    detail: "On the Developer plan only the current version is kept."
  },
  TOKEN_NOT_FOUND: { title: "There is no such API token", detail: "It was revoked or deleted." },
  GRANT_NOT_FOUND: {
    title: "There is no such request",
    detail: "Check the code in your terminal. Codes live ten minutes; start the login again for a new one."
  },
  GRANT_ALREADY_DECIDED: {
    title: "This request was already decided",
    detail: "If that was not you, look at your CLI logins and revoke what you do not know."
  },
  MEMBER_NOT_FOUND: { title: "There is no such member", detail: "The person has left the team." },
  SEALING_KEY_NOT_FOUND: { title: "There is no such sealing key", detail: "It does not belong to this environment." },
  SEALING_KEY_EXPIRED: { title: "This sealing key was retired", detail: "Seal the file again with the active key." },
  FORBIDDEN: { title: "Your role does not allow this", detail: "Ask an owner or admin of the team." },
  CROSS_SITE_REQUEST: {
    title: "This request came from another site",
    detail: "Nothing was changed. Open the page here and try again."
  },
  PLAN_LIMIT_REACHED: { title: "A limit is reached", detail: "The plan or the service allows no more of these." },
  RATE_LIMITED: { title: "Too many requests", detail: "Wait a moment, then try again." },
  INTERNAL_ERROR: {
    title: "Something went wrong on the server",
    detail: "Nothing about your data is shown here. The server's log has the details."
  },
  DEPENDENCY_UNAVAILABLE: {
    title: "A part of the service is not reachable",
    detail: "Nothing was changed. Try again in a moment."
  },
  INTEGRITY_FAILURE: {
    title: "A stored value failed its integrity check",
    detail: "It was not used. The server's operator should know."
  },
  PAYLOAD_TOO_LARGE: { title: "That is too much at once", detail: "Send it in smaller parts." },
  SECRET_ALREADY_EXISTS: {
    title: "This key exists already",
    detail: "Choose another key, or edit the secret that has it."
  },
  SECRET_VERSION_CONFLICT: {
    title: "Somebody changed this secret meanwhile",
    detail: "Nothing was written. Look at the current version, then decide again."
  },
  SECRET_HAS_DEPENDENTS: {
    title: "Other secrets use this one",
    detail: "Choose what happens to them: keep their current text, or delete them too."
  },
  TEMPLATE_INVALID: {
    title: "The text has a ${ that is not a reference",
    detail: "Write ${KEY} for a reference, and $${ for the characters themselves."
  },
  TEMPLATE_REFERENCE_MISSING: {
    title: "The text refers to a key that this environment does not have",
    detail: "Add that secret first, or choose “Plain text” to keep ${…} as it is."
  },
  TEMPLATE_TOO_DEEP: { title: "The references go too deep", detail: "A path of references has at most 10 steps." },
  TEMPLATE_CYCLE: {
    title: "The references form a circle",
    detail: "A secret cannot use itself, not even in a roundabout way."
  },
  VALUE_TOO_LARGE: { title: "The expanded value is too long", detail: "It may have at most 65,536 characters." },
  NAME_TAKEN: { title: "This name is taken", detail: "Choose another one." },
  SETUP_ALREADY_DONE: { title: "This server is set up already", detail: "Sign in, or ask an owner for an invitation." },
  SIGN_IN_FAILED: { title: "E-mail address or password is wrong", detail: "Check both and try again." },
  CREDENTIAL_INVALID: { title: "This link does not work", detail: "Check that you have copied all of it." },
  CREDENTIAL_EXPIRED: { title: "This link has expired", detail: "Ask for a new one." },
  CREDENTIAL_REVOKED: { title: "This link was used or replaced", detail: "Ask for a new one." }
}

const extra = (problem: AnyApiError, member: string): ReadonlyArray<string> => {
  const value = (problem as unknown as Record<string, unknown>)[member]
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : []
}

/** Keys that an error names: the missing ones, the dependents, the members of a circle. */
export const keysOf = (problem: AnyApiError): ReadonlyArray<string> => [
  ...extra(problem, "references"),
  ...extra(problem, "dependents"),
  ...extra(problem, "cycle")
]

/** Codes of several things: a message that names the thing needs none of the words about the usual one. */
const namesItsThing: ReadonlySet<string> = new Set(["GRANT_NOT_FOUND", "ROUTE_NOT_FOUND", "NAME_TAKEN"])

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1)
const sentence = (text: string) => (text.endsWith(".") ? text : `${text}.`)

/** Sentences of the API speak of members; a form has fields. */
const asField = (message: string): string => sentence(capital(message.replace(/^This member /, "")))

/** Seconds to wait, when the error says so. */
export const waitOf = (problem: AnyApiError): number | undefined => {
  const { retryAfterSeconds } = problem as unknown as { readonly retryAfterSeconds?: unknown }
  return typeof retryAfterSeconds === "number" ? retryAfterSeconds : undefined
}

const inWords = (seconds: number) =>
  seconds < 120 ? `${seconds} ${seconds === 1 ? "second" : "seconds"}` : `${Math.ceil(seconds / 60)} minutes`

export const tell = (problem: AnyApiError): Told => {
  const { _tag: code, message } = problem
  if (code === "VALIDATION_FAILED") return { title: asField(message), detail: "" }
  const known = told[code]
  if (known === undefined) return { title: sentence(message), detail: "" }
  const wait = waitOf(problem)
  if (wait !== undefined) return { title: known.title, detail: `Try again in ${inWords(wait)}.` }
  // A message that the thrower chose says more than the one of the code.
  const own = (problem.constructor as unknown as { readonly sentence?: string }).sentence !== message
  if (!own) return known
  return { title: sentence(message), detail: namesItsThing.has(code) ? "" : known.detail }
}

/** The sentence next to a field, when the problem is about this field. `secrets.3.value` is about `secrets`, too. */
export const about = (problem: AnyApiError | undefined, field: string): string | undefined => {
  if (problem?.field === undefined || !isApiError(problem)) return undefined
  if (problem.field !== field && !problem.field.startsWith(`${field}.`)) return undefined
  const { detail, title } = tell(problem)
  return detail === "" ? title : `${sentence(title)} ${detail}`
}
