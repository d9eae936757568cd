/**
 * Suggests the next call after a failure: one sentence per error code, for the model that made the call. It names only
 * inputs that the tool has, and repeats no part of the input.
 */
import { type AnyApiError, bodyOf } from "#schema/ApiError.ts"
import type * as Errors from "#schema/Errors.ts"
import type { ToolName } from "#schema/McpTools.ts"

type Classes = (typeof Errors)[keyof typeof Errors]
/** Every code of `schema/Errors.ts`. */
type Code = Classes extends infer C ? (C extends { readonly code: infer One extends string } ? One : never) : never

interface Call {
  readonly tool: ToolName
  /** Names of the tool's inputs. */
  readonly inputs: ReadonlyArray<string>
  readonly field: string | undefined
  /** Slugs of the environments that the caller sees in the project of the call; empty if the project is unknown. */
  readonly environments: ReadonlyArray<string>
}
type Next = string | ((call: Call) => string)

/** Slugs that one sentence names. */
const maxNamed = 20

const byField = new Map<string, string>([
  ["projectId", "list_projects gives the ids and slugs of projects."],
  ["environment", "list_environments gives the slugs of environments."],
  ["sourceEnv", "list_environments gives the slugs of environments."],
  ["targetEnv", "list_environments gives the slugs of environments."],
  ["key", "list_secrets gives the keys that exist. A new key consists of A-Z, 0-9 and _."],
  ["keys", "list_secrets gives the keys that exist."],
  ["secretId", 'list_secrets with fields ["id"] gives ids.'],
  ["ids", 'list_secrets with fields ["id"] gives ids.'],
  ["keyId", "get_environment_keypair gives the key of the environment."],
  ["entries", "export_encrypted_env gives entries. Pass them on unchanged."],
  ["command", 'Give command as a list of arguments, such as ["npm", "start"].'],
  ["recipientPublicKey", "Leave recipientPublicKey out to seal values to the environment's key."],
  ["cursor", "Call again without cursor, then with the nextCursor of each answer."]
])

const correct = ({ field = "", inputs, tool }: Call): string => {
  const advice = byField.get(field.split(".")[0] ?? "")
  if (inputs.includes(field.split(".")[0] ?? "") && advice !== undefined) return advice
  return inputs.length === 0 ? `${tool} takes no input.` : `${tool} takes ${inputs.join(", ")}.`
}

const findSecret: Next = ({ inputs }) =>
  inputs.includes("secretId") || inputs.includes("ids")
    ? 'list_secrets gives the keys that exist, and with fields ["id"] their ids.'
    : "list_secrets with query finds the key."
const exists: Next = ({ inputs, tool }) =>
  inputs.includes("replace")
    ? `${tool} with replace true asks for a new value. Or use the existing secret.`
    : "update_secret gives it another value. Or use the existing secret."
const dependents: Next = ({ inputs, tool }) =>
  inputs.includes("disposition")
    ? `${tool} with disposition flatten (the dependents keep their text) or cascade (they are deleted too).`
    : `${tool} with the dependents as well; delete_secret has flatten and cascade for one.`
const environment: Next = ({ environments }) =>
  environments.length === 0
    ? "list_environments gives the slugs that exist."
    : `The project has ${environments.slice(0, maxNamed).join(", ")}; list_environments gives their names and ids.`
const reconnect = "Tell the person to connect again."
const askPerson = "whoami shows what this connection may do; tell the person what is missing."
const repair = "get_composition with key shows the references. Correct the template and call again."
const later = "Wait, then make the same call again."
const notHere = "No tool of this server can resolve this: tell the person."

const nextCalls: Readonly<Record<Code, Next>> = {
  VALIDATION_FAILED: correct,
  TEMPLATE_INVALID: "Write ${KEY} for a reference and $${ for a plain ${, and call again.",
  TEMPLATE_REFERENCE_MISSING: "create_secret or request_secret_value for the missing keys, then call again.",
  TEMPLATE_TOO_DEEP: repair,
  VALUE_TOO_LARGE: "Split the value into several secrets.",
  SEALED_VALUE_INVALID: "export_encrypted_env makes a new file. Pass its entries on unchanged.",
  SEALING_KEY_EXPIRED: "export_encrypted_env makes a new file with the active key.",
  UNAUTHENTICATED: reconnect,
  CREDENTIAL_INVALID: reconnect,
  CREDENTIAL_EXPIRED: reconnect,
  CREDENTIAL_REVOKED: reconnect,
  SIGN_IN_FAILED: reconnect,
  SECOND_FACTOR_REQUIRED: reconnect,
  SECOND_FACTOR_FAILED: reconnect,
  PASSKEY_COPIED: reconnect,
  SECOND_FACTOR_MISSING: reconnect,
  STEP_UP_REQUIRED: notHere,
  FORBIDDEN: askPerson,
  SCOPE_MISSING: askPerson,
  RUN_NOT_PLANNED: "plan_run gives a command that may use the values, once, within 15 minutes.",
  API_TOKEN_READ_ONLY: askPerson,
  API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT: askPerson,
  ENVIRONMENT_NOT_GRANTED: "request_access with the level that is missing: run, values or write.",
  CREDENTIAL_KIND_NOT_ACCEPTED: askPerson,
  CROSS_SITE_REQUEST: reconnect,
  PLAN_LIMIT_REACHED: "get_capabilities shows the limits; tell the person.",
  ROUTE_NOT_FOUND: notHere,
  TEAM_NOT_FOUND: "whoami gives the teams of this connection.",
  PROJECT_NOT_FOUND: "list_projects gives the ids and slugs of projects.",
  ENVIRONMENT_NOT_FOUND: environment,
  SECRET_NOT_FOUND: findSecret,
  SECRET_VERSION_NOT_FOUND: 'list_secrets with fields ["version"] gives the current versions.',
  SEALING_KEY_NOT_FOUND: "get_environment_keypair gives the key of the environment.",
  TOKEN_NOT_FOUND: notHere,
  GRANT_NOT_FOUND: "request_secret_value asks the person again.",
  MEMBER_NOT_FOUND: notHere,
  SECRET_ALREADY_EXISTS: exists,
  SECRETS_CHANGED: "Read what others wrote, then call again with each currentVersion as expectedVersion.",
  SECRET_VERSION_CONFLICT: "If you may replace what others wrote, call again with currentVersion as expectedVersion.",
  CHANGES_DIFFER: notHere,
  SECRET_HAS_DEPENDENTS: dependents,
  TEMPLATE_CYCLE: repair,
  NAME_TAKEN: notHere,
  SETUP_ALREADY_DONE: notHere,
  GRANT_ALREADY_DECIDED: "request_secret_value asks the person again.",
  IDEMPOTENCY_KEY_REUSED: notHere,
  PAYLOAD_TOO_LARGE: "Make several calls with fewer members each.",
  UNSUPPORTED_MEDIA_TYPE: notHere,
  RATE_LIMITED: later,
  SERVER_BUSY: later,
  INTERNAL_ERROR: "Make the call again once; if it fails again, tell the person.",
  DEPENDENCY_UNAVAILABLE: later,
  INTEGRITY_FAILURE: "Tell the person: a stored value was altered. Do not write it again."
}
const byCode = new Map<string, Next>(Object.entries(nextCalls))

/** Replacements for sentences of REST that name a member which the tool does not have. */
const messages = new Map([["SECRET_HAS_DEPENDENTS", "Other secrets use this one."]])

/** Body of the error for a tool's result, with the suggested next call. */
export const explained = (error: AnyApiError, call: Omit<Call, "field">): Readonly<Record<string, unknown>> => {
  const body = bodyOf(error)
  const next = byCode.get(body.code)
  return {
    ...body,
    message: messages.get(body.code) ?? body.message,
    ...(next === undefined ? {} : { next: typeof next === "string" ? next : next({ ...call, field: body.field }) })
  }
}
