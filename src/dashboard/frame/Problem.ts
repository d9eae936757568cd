/** Explanations of errors for pages: the fault and the next step, never the input. */
import { type AnyApiError, isApiError } from "#schema/ApiError.ts"

interface Explanation {
  readonly title: string
  readonly detail: string
}

const explanations: ReadonlyMap<string, Explanation> = new Map(
  Object.entries({
    ROUTE_NOT_FOUND: { title: "There is no such page", detail: "The address may be mistyped, or the page has moved." },
    TEAM_NOT_FOUND: { title: "There is no such team", detail: "It was deleted, or you are not a member of it." },
    PROJECT_NOT_FOUND: { title: "There is no such project", detail: "It was deleted, or you cannot see it." },
    ENVIRONMENT_NOT_FOUND: { title: "There is no such environment", detail: "It was deleted, or you cannot see it." },
    SECRET_NOT_FOUND: { title: "There is no such secret", detail: "It was deleted, or you cannot see it." },
    SECRET_VERSION_NOT_FOUND: {
      title: "That version no longer exists",
      detail: "The Developer plan keeps only the current version."
    },
    TOKEN_NOT_FOUND: { title: "There is no such API token", detail: "It was revoked or deleted." },
    GRANT_NOT_FOUND: {
      title: "There is no such request",
      detail:
        "Check the code in your terminal. A code is valid for ten minutes. To get a new one, start the login again."
    },
    GRANT_ALREADY_DECIDED: {
      title: "This request was already decided",
      detail: "If you did not decide it, check your CLI logins and revoke any that you do not recognize."
    },
    MEMBER_NOT_FOUND: { title: "There is no such member", detail: "The person has left the team." },
    SEALING_KEY_NOT_FOUND: { title: "There is no such sealing key", detail: "It does not belong to this environment." },
    SEALING_KEY_EXPIRED: { title: "This sealing key was retired", detail: "Seal the file again with the active key." },
    FORBIDDEN: { title: "Your role does not allow this", detail: "Ask an owner or admin of the team." },
    CROSS_SITE_REQUEST: {
      title: "This request came from another site",
      detail: "Nothing was changed. Open the page here and try again."
    },
    PLAN_LIMIT_REACHED: {
      title: "A limit is reached",
      detail: "Your plan or this server does not allow more of these."
    },
    RATE_LIMITED: { title: "Too many requests", detail: "Wait a moment, then try again." },
    SERVER_BUSY: { title: "The server is overloaded", detail: "Nothing was changed. Try again in a moment." },
    INTERNAL_ERROR: {
      title: "Something went wrong on the server",
      detail: "Try again. If it happens again, ask the operator of the server, whose log has the details."
    },
    DEPENDENCY_UNAVAILABLE: {
      title: "A part of the service is not available",
      detail: "Try again in a moment. If you changed something, check first whether it was saved."
    },
    INTEGRITY_FAILURE: {
      title: "A stored value failed its integrity check",
      detail: "The value was not used. Tell the operator of the server."
    },
    PAYLOAD_TOO_LARGE: { title: "That is too much at once", detail: "Send it in smaller parts." },
    SECRET_ALREADY_EXISTS: {
      title: "This key already exists",
      detail: "Choose another key, or edit the secret that has it."
    },
    SECRET_VERSION_CONFLICT: {
      title: "Someone else changed this secret",
      detail: "Nothing was saved. Check the current version, then try again."
    },
    SECRETS_CHANGED: {
      title: "Someone else changed some of these secrets",
      detail: "Nothing was saved. Check their current versions, then try again."
    },
    CHANGES_DIFFER: {
      title: "This is not the change that you saw",
      detail: "Nothing was saved. Show its values again, then decide."
    },
    SECRET_HAS_DEPENDENTS: {
      title: "Other secrets use this one",
      detail: "Choose what happens to them: keep their current text, or delete them too."
    },
    TEMPLATE_INVALID: {
      title: "The text has a ${ that is not a reference",
      detail: "Write ${KEY} for a reference, or $${ for the characters ${."
    },
    TEMPLATE_REFERENCE_MISSING: {
      title: "The text refers to a key that this environment does not have",
      detail: "Add that secret first, or choose “Plain text” to keep ${…} as it is."
    },
    TEMPLATE_TOO_DEEP: {
      title: "The references are nested too deeply",
      detail: "A chain of references can have at most 10 steps."
    },
    TEMPLATE_CYCLE: {
      title: "The references form a circle",
      detail: "A secret cannot use itself, neither directly nor through other secrets."
    },
    VALUE_TOO_LARGE: { title: "The expanded value is too long", detail: "It can have at most 65,536 characters." },
    NAME_TAKEN: { title: "This name is taken", detail: "Choose another name." },
    SETUP_ALREADY_DONE: {
      title: "This server is already set up",
      detail: "Sign in, or ask an owner for an invitation."
    },
    SIGN_IN_FAILED: { title: "E-mail address or password is wrong", detail: "Check both and try again." },
    SECOND_FACTOR_FAILED: {
      title: "The code is wrong, or it was used before",
      detail: "A code of the app works once. Wait for the next one, or use a recovery code."
    },
    CREDENTIAL_INVALID: { title: "This link does not work", detail: "Check that you copied the whole link." },
    CREDENTIAL_EXPIRED: { title: "This link has expired", detail: "Ask for a new one." },
    CREDENTIAL_REVOKED: { title: "This link was used or replaced", detail: "Ask for a new one." }
  })
)

const extra = (problem: AnyApiError, member: string): ReadonlyArray<string> => {
  const value: unknown = Reflect.get(problem, member)
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : []
}

/** Keys that an error names: missing references, dependents, or the members of a cycle. */
export const keysOf = (problem: AnyApiError): ReadonlyArray<string> => [
  ...extra(problem, "references"),
  ...extra(problem, "dependents"),
  ...extra(problem, "cycle")
]

/** Codes that several kinds of objects share: a message that names the object replaces the usual explanation. */
const namesItsThing: ReadonlySet<string> = new Set([
  "GRANT_NOT_FOUND",
  "GRANT_ALREADY_DECIDED",
  "ROUTE_NOT_FOUND",
  "NAME_TAKEN",
  "CREDENTIAL_EXPIRED"
])

const capital = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1)
const sentence = (text: string) => (text.endsWith(".") ? text : `${text}.`)

/** Removes "This member" of the API, because the sentence appears beside its field. */
const asField = (message: string): string => sentence(capital(message.replace(/^This member /, "")))

/** Seconds to wait, if the error has them. */
const waitOf = (problem: AnyApiError): number | undefined => {
  const seconds: unknown = Reflect.get(problem, "retryAfterSeconds")
  return typeof seconds === "number" ? seconds : undefined
}

const inWords = (seconds: number) =>
  seconds < 120 ? `${seconds} ${seconds === 1 ? "second" : "seconds"}` : `${Math.ceil(seconds / 60)} minutes`

export const explain = (problem: AnyApiError): Explanation => {
  const { _tag: code, message } = problem
  if (code === "VALIDATION_FAILED") return { title: asField(message), detail: "" }
  const explanation = explanations.get(code)
  if (explanation === undefined) return { title: sentence(message), detail: "" }
  const wait = waitOf(problem)
  if (wait !== undefined) return { title: explanation.title, detail: `Try again in ${inWords(wait)}.` }
  // A message for this case is more precise than the one of the code.
  const own = Reflect.get(problem.constructor, "sentence") !== message
  if (!own) return explanation
  return { title: sentence(message), detail: namesItsThing.has(code) ? "" : explanation.detail }
}

/** Sentence beside a field, if the problem concerns it. `secrets.3.value` also concerns `secrets`. */
export const about = (problem: AnyApiError | undefined, field: string): string | undefined => {
  if (problem?.field === undefined || !isApiError(problem)) return undefined
  if (problem.field !== field && !problem.field.startsWith(`${field}.`)) return undefined
  const { detail, title } = explain(problem)
  const keys = keysOf(problem)
  const text = detail === "" ? title : `${sentence(title)} ${detail}`
  return keys.length === 0 ? text : `${text} Keys: ${keys.join(", ")}.`
}
