/** One exchange with the server over `fetch`: bounded in time, repeated where the server asks for it. No Effect. */
import { AmpouleError, type Details } from "./Failure.ts"

/** Milliseconds, or a text such as `"30 seconds"`. */
export type Wait = number | `${number} ${"millis" | "second" | "seconds" | "minute" | "minutes"}`

export interface Connection {
  /** Address of the server, without a slash at its end. */
  readonly address: string
  readonly credential: string
  /** Retries of refusals with a `Retry-After`: at most `times` (3), for waits of at most `longest` (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Wait } | undefined
  /** Longest wait for one response; 30 s by default. */
  readonly timeout?: Wait | undefined
  readonly userAgent?: string | undefined
}

export interface Request {
  readonly method?: string
  /** With its query. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
}

export interface Reply {
  readonly status: number
  readonly text: string
  readonly etag: string | undefined
  readonly requestId: string | undefined
  readonly retryAfter: string | undefined
}

const milliseconds = (wait: Wait): number => {
  if (typeof wait === "number") return wait
  const [count, unit = ""] = wait.split(" ")
  return Number(count) * (unit.startsWith("minute") ? 60_000 : unit.startsWith("second") ? 1000 : 1)
}

/** The short name of a cause, such as ECONNREFUSED. Its text and data may contain a part of an answer. */
export const causeOf = (error: unknown): Error => {
  let name = "no connection"
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    const label = "code" in at ? at.code : at.name
    // Deno gives no code, and a name that says nothing.
    if (typeof label === "string" && /^(?!(?:Type)?Error$)\w{3,40}$/.test(label)) name = label
  }
  return new Error(name)
}

/** Next.js would store an answer on its disk. Older Workers refuse the option, and have no such member. */
const uncached = (): { readonly cache?: "no-store" } => ("cache" in Request.prototype ? { cache: "no-store" } : {})

const once = async (connection: Connection, request: Request, signal?: AbortSignal): Promise<Reply> => {
  const { address, credential, timeout = 30_000, userAgent = "ampoule-client" } = connection
  const limit = milliseconds(timeout)
  const controller = new AbortController()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    controller.abort()
  }, limit)
  const abort = () => controller.abort()
  signal?.addEventListener("abort", abort)
  if (signal?.aborted === true) abort()
  try {
    const response = await fetch(address + request.path, {
      method: request.method ?? "GET",
      headers: {
        authorization: `Bearer ${credential}`,
        "user-agent": userAgent,
        ...(request.body === undefined ? {} : { "content-type": "application/json" }),
        ...request.headers
      },
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      // A redirect would take the credential to another path.
      redirect: "manual",
      signal: controller.signal,
      ...uncached()
    })
    const header = (name: string) => response.headers.get(name) ?? undefined
    return {
      status: response.status,
      // An answer that stops half-way times out like a missing one.
      text: await response.text(),
      etag: header("etag"),
      requestId: header("x-request-id"),
      retryAfter: header("retry-after")
    }
  } catch (error) {
    const cause = causeOf(error)
    const message = isLate
      ? `${address} did not answer within ${limit / 1000} s.`
      : `${address} could not be reached (${cause.message}).`
    throw new AmpouleError("SERVER_UNREACHABLE", message, { address, cause })
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener("abort", abort)
  }
}

export const isRefused = ({ status }: Reply): boolean => (status < 200 || status > 299) && status !== 304

/** Members of a JSON object. Undefined: the text is another one. */
export const objectOf = (text: string): Readonly<Record<string, unknown>> | undefined => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined
  } catch {
    return undefined
  }
}

/** Seconds until the same request may be repeated. Undefined: it may not. */
const repeatableAfter = (reply: Reply, { headers, method = "GET" }: Request): number | undefined => {
  if (!/^[0-9]{1,6}$/.test(reply.retryAfter ?? "")) return undefined
  // A refused request was not carried out, so any request may be repeated. A dependency may have failed half-way.
  const isSafe = method === "GET" || headers?.["idempotency-key"] !== undefined
  const isOutage = isSafe && reply.status === 500 && objectOf(reply.text)?.["code"] === "DEPENDENCY_UNAVAILABLE"
  return reply.status === 429 || isOutage ? Number(reply.retryAfter) : undefined
}

const pause = (seconds: number, signal?: AbortSignal) =>
  new Promise<void>((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener("abort", end)
      resolve()
    }
    const timer = setTimeout(end, seconds * 1000)
    signal?.addEventListener("abort", end)
  })

/** The last answer, refusals included. Rejects when no answer arrives. */
export const exchange = async (connection: Connection, request: Request, signal?: AbortSignal): Promise<Reply> => {
  // A credential that does not fit a header would cause an error of the runtime, which quotes it.
  if (!/^[\x21-\x7e]{1,512}$/.test(connection.credential)) {
    throw new AmpouleError("CREDENTIAL_INVALID", "The credential has a length or characters that no credential has.")
  }
  const { longest, times } = connection.retry ?? { times: 3, longest: 10_000 }
  for (let remaining = times; ; remaining--) {
    const reply = await once(connection, request, signal)
    const wait = repeatableAfter(reply, request)
    if (wait === undefined || remaining <= 0 || wait * 1000 > milliseconds(longest) || signal?.aborted) return reply
    await pause(wait, signal)
  }
}

/** Origin of an answer, for an error. */
export const detailsOf = ({ address }: Connection, { requestId, status }: Reply): Details => ({
  address,
  status,
  ...(requestId === undefined ? {} : { requestId })
})

/** Code, sentence and field of a refusal. Undefined: the answer is no refusal of the contract. */
export const refusalOf = (reply: Reply) => {
  const { code, field, message } = objectOf(reply.text) ?? {}
  // A code in another format is untrusted text.
  if (typeof code !== "string" || !/^[A-Z][A-Z0-9_]{0,99}$/.test(code)) return undefined
  return {
    code,
    message: typeof message === "string" ? message.slice(0, 500) : "The server refused the request.",
    ...(typeof field === "string" ? { field } : {})
  }
}

/** `request 0198…`, for the person who looks it up in the server's log. */
export const originOf = ({ address = "", requestId }: Details): string =>
  `(${address}${requestId === undefined ? "" : `, request ${requestId}`})`

export const unexpected = (connection: Connection, reply: Reply): AmpouleError => {
  const details = detailsOf(connection, reply)
  return new AmpouleError(
    "UNEXPECTED_ANSWER",
    `The answer with status ${reply.status} is no answer of Ampoule. ${originOf(details)}`,
    details
  )
}

/** The error of a refused answer. `about` completes the server's sentence. */
export const failureOf = (connection: Connection, reply: Reply, about = ""): AmpouleError => {
  const refusal = refusalOf(reply)
  if (refusal === undefined) return unexpected(connection, reply)
  const { code, field, message } = refusal
  const docs = `${connection.address}/docs/errors#${code}`
  const details = { ...detailsOf(connection, reply), docs, ...(field === undefined ? {} : { field }) }
  return new AmpouleError(code, `${message}${about} ${originOf(details)}`, details)
}
