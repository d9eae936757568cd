/** Properties of every answer, to any request. */
import * as Errors from "#schema/Errors.ts"
import * as OpenApiComponents from "#schema/OpenApiComponents.ts"
import type { Answer } from "./Exchange.ts"
import { isErrorResponse, type Operation } from "./Documents.ts"
import { type Marks, secretMark } from "./Inputs.ts"

/** Operations that hand values out, by id. */
const showsValues = new Set([
  "secrets.listWithValues",
  "secrets.readValue",
  "secrets.inject",
  "sealed.open",
  "mcp.request",
  "mcp.stream"
])

const statusOf = new Map(OpenApiComponents.errorCodes.map(({ code, status }) => [code, status]))
const extrasOf = new Map<string, ReadonlyArray<string>>(
  Object.values(Errors).map(({ code, extra }) => [code, Object.keys(extra)])
)
/** Members of a refusal that name members and keys of the request. */
const naming = ["field", "references", "dependents", "cycle"]

const bodyTooLarge = new Errors.PayloadTooLarge().message

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const header = (answer: Answer, name: string): string => {
  const value = answer.headers[name]
  return typeof value === "string" ? value : (value?.join(", ") ?? "")
}

/**
 * The error response to the letter: members, status, a code of the published list, one that this operation may give.
 */
const refusalProblems = (operation: Operation | undefined, answer: Answer, body: unknown): ReadonlyArray<string> => {
  if (!isErrorResponse(body) || !isObject(body)) return ["the error response is not as published"]
  const problems: Array<string> = []
  const code = String(body["code"])
  if (body["statusCode"] !== answer.status) problems.push("statusCode is not the status")
  if (statusOf.get(code) !== answer.status) problems.push(`${code} with status ${answer.status}`)
  const allowed = ["statusCode", "code", "message", "field", ...(extrasOf.get(code) ?? [])]
  for (const name of Object.keys(body)) if (!allowed.includes(name)) problems.push(`${code} with the member ${name}`)
  if (operation === undefined) {
    if (!["ROUTE_NOT_FOUND", "RATE_LIMITED"].includes(code)) problems.push(`no operation, but ${code}`)
  } else if (operation.codes.get(answer.status)?.includes(code) !== true) {
    problems.push(`${code} is not among the codes of the operation`)
  }
  return problems
}

export interface Asked {
  /** None: the request is for nothing that the documents list. */
  readonly operation: Operation | undefined
  /** The path or method was tampered with, so that another operation, or none, may have answered. */
  readonly elsewhere: boolean
  readonly head: boolean
  readonly refusable: boolean
  readonly marks: Marks
  /** Texts of another team that nobody here may see. */
  readonly canaries: ReadonlyArray<string>
}

export const problemsOf = (asked: Asked, answer: Answer): ReadonlyArray<string> => {
  const { operation } = asked
  const { status, text } = answer
  const problems: Array<string> = []
  const everything = `${JSON.stringify(answer.headers)} ${text}`

  if (status >= 500) problems.push(`status ${status}`)
  for (const canary of asked.canaries) if (everything.includes(canary)) problems.push("a text of another team")
  if (JSON.stringify(answer.headers).includes(asked.marks.text)) problems.push("a header repeats the request")
  const isEnvelope = operation?.path !== "/mcp"
  const body = parse(text)
  if (status >= 400) {
    // A refusal of JSON-RPC repeats the id of its request: by it the client knows which one was refused.
    const named = isEnvelope ? naming : [...naming, "id"]
    const repeatable = isObject(body)
      ? JSON.stringify(Object.fromEntries(Object.entries(body).filter(([name]) => !named.includes(name))))
      : text
    if (repeatable.includes(asked.marks.text) || secretMark.test(everything))
      problems.push("a refusal repeats the request")
  } else if (!asked.elsewhere && (operation === undefined || !showsValues.has(operation.id)) && secretMark.test(text)) {
    problems.push("a value where none was asked for")
  }
  if (asked.refusable && status < 400) problems.push(`status ${status} to a request that the document does not allow`)

  if (header(answer, "x-request-id") === "") problems.push("no X-Request-Id")
  if (header(answer, "x-content-type-options") !== "nosniff") problems.push("no X-Content-Type-Options")
  // Bytes that are no HTTP, too large a head, and a body that no operation takes are refused before routing.
  if (isErrorResponse(body) && isObject(body)) {
    const { code, message } = body
    if (code === "PAYLOAD_TOO_LARGE" && (operation?.body === undefined || message !== bodyTooLarge)) return problems
    if (code === "UNSUPPORTED_MEDIA_TYPE" && operation?.body === undefined) return problems
    if (message === "The request is not HTTP.") return problems
  }
  if (operation !== undefined && operation.credentials.length > 0 && header(answer, "cache-control") !== "no-store") {
    if (!asked.elsewhere && operation.id !== "mcp.stream" && !header(answer, "content-type").startsWith("text/event"))
      problems.push(`Cache-Control is ${header(answer, "cache-control")}`)
  }
  if (asked.head || status === 304) {
    if (text !== "") problems.push("a body where none may be")
    return problems
  }
  if (asked.elsewhere) {
    if (status >= 400 && header(answer, "content-type").startsWith("application/json") && isObject(body)) {
      // The authorization server and /mcp have their own shapes.
      if ("code" in body && !isErrorResponse(body)) problems.push("the error response is not as published")
    }
    return problems
  }
  if (operation === undefined) return [...problems, ...refusalProblems(operation, answer, body)]
  const declared = operation.answers.get(status)
  if (declared === undefined) return [...problems, `status ${status} is not declared`]
  const [type] = header(answer, "content-type").split(";")
  if (declared.size === 0) return text === "" ? problems : [...problems, "a body where none is declared"]
  const accepts = declared.get(type.trim())
  if (accepts === undefined) return [...problems, `status ${status} as ${type}`]
  if (type === "application/json" && !accepts(body)) {
    const [first] = accepts.errors ?? []
    // Where and what of the schema, never the value.
    const params = JSON.stringify(first?.params ?? {})
    problems.push(
      `the answer to ${status} is not as declared: ${first?.instancePath ?? ""} ${first?.keyword} ${params}`
    )
  }
  if (status >= 400 && isEnvelope && status !== 503) problems.push(...refusalProblems(operation, answer, body))
  return problems
}
