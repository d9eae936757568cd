/** One resolved environment of a server, kept in memory. Refreshes use its ETag. No Effect. */
import {
  environmentVariable,
  fromCaller,
  isComplete,
  type OnlyEnvironment,
  type Parts,
  projectVariable,
  question,
  withCredential
} from "#src/ClientTarget.ts"
import { AmpouleError } from "./Failure.ts"
import { type Connection, exchange, failureOf, isRefused, objectOf, refusalOf, unexpected, type Wait } from "./Fetch.ts"
import { addressOf, credentialOf, readVariables, type Variables } from "./Settings.ts"

export interface Options {
  /** Id or slug; `AMPOULE_PROJECT` by default, else the credential's only environment decides. */
  readonly project?: string | undefined
  /** Slug; `AMPOULE_ENVIRONMENT` by default, else the credential's only environment. */
  readonly environment?: string | undefined
  /** `AMPOULE_API_TOKEN`, then `AMPOULE_TOKEN` by default, each also as `…_FILE`. */
  readonly credential?: string | undefined
  /** `AMPOULE_URL` by default, else http://127.0.0.1:4400. */
  readonly url?: string | undefined
  /** Retries of refusals with a `Retry-After`: at most `times` (3), for waits of at most `longest` (10 s). */
  readonly retry?: { readonly times: number; readonly longest: Wait } | undefined
  /** Longest wait for one response; 30 s by default. */
  readonly timeout?: Wait | undefined
  readonly userAgent?: string | undefined
  /** Variables of the program; `process.env` by default. Workers pass their `env`. */
  readonly variables?: Variables | undefined
}

export interface Resolved {
  /** Slug of the environment. */
  readonly environment: string
  /** Values by key, as of the last fetch. */
  readonly values: () => ReadonlyMap<string, string>
  /** Fetches again if something changed, and resolves to whether it did. After a failure the values stay. */
  readonly refresh: (signal?: AbortSignal) => Promise<boolean>
}

export const connectionOf = ({ credential, retry, timeout, url, userAgent, variables }: Options): Connection => ({
  address: addressOf(url, variables),
  credential: credentialOf(credential, variables),
  retry,
  timeout,
  userAgent
})

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const secretKey = /^[A-Z][A-Z0-9_]{0,254}$/

/** The credential's only environment. Servers of before 1.1 do not say it, and a login may lack the scope. */
const onlyOf = async (connection: Connection, signal?: AbortSignal): Promise<OnlyEnvironment | null> => {
  const reply = await exchange(connection, { path: "/me/verify" }, signal)
  if (refusalOf(reply)?.code === "SCOPE_MISSING") return null
  if (isRefused(reply)) throw failureOf(connection, reply)
  return (objectOf(reply.text)?.["only"] ?? null) as OnlyEnvironment | null
}

const partsOf = async (connection: Connection, options: Options, signal?: AbortSignal) => {
  const names = options.project && options.environment ? [] : [projectVariable, environmentVariable]
  let parts: Parts = fromCaller(options, readVariables(options.variables, names))
  if (!isComplete(parts)) parts = withCredential(parts, await onlyOf(connection, signal))
  const { environment, project } = parts
  if (project !== undefined && environment !== undefined) return { environment, project }
  const missing = project === undefined ? "project" : "environment"
  throw new AmpouleError("TARGET_MISSING", question(missing), { address: connection.address })
}

const projectIdOf = async (connection: Connection, project: string, signal?: AbortSignal): Promise<string> => {
  if (uuid.test(project)) return project
  const reply = await exchange(connection, { path: "/projects" }, signal)
  if (isRefused(reply)) throw failureOf(connection, reply)
  const items = objectOf(reply.text)?.["items"]
  if (!Array.isArray(items)) throw unexpected(connection, reply)
  const matches: ReadonlyArray<{ readonly id: string; readonly slug: string }> = items
  const ids = matches.filter(({ slug }) => slug === project).map(({ id }) => id)
  if (ids.length === 1 && ids[0] !== undefined) return ids[0]
  const message =
    ids.length === 0
      ? "This credential sees no project of that id or slug."
      : "Several projects have this slug: use the id."
  throw new AmpouleError("PROJECT_UNCLEAR", `${message} (${connection.address})`, { address: connection.address })
}

/**
 * Values of an answer. Undefined: it is none of the contract. A name outside the contract could be one that a loader acts
 * on.
 */
const valuesOf = (text: string): ReadonlyMap<string, string> | undefined => {
  const values = objectOf(text)?.["values"]
  if (typeof values !== "object" || values === null || Array.isArray(values)) return undefined
  const entries = Object.entries(values)
  const isUsable = entries.every(([key, value]) => secretKey.test(key) && typeof value === "string")
  return isUsable ? new Map(entries) : undefined
}

/** Resolves the environment, or rejects with `AmpouleError`. */
export const resolve = async (options: Options, signal?: AbortSignal): Promise<Resolved> => {
  const connection = connectionOf(options)
  const { environment, project } = await partsOf(connection, options, signal)
  const projectId = project.id ?? (await projectIdOf(connection, project.name, signal))
  const path = `/secrets/inject?${new URLSearchParams({ projectId, environment: environment.name })}`
  let values: ReadonlyMap<string, string> = new Map()
  let etag: string | undefined

  const fetchValues = async (abort?: AbortSignal) => {
    const reply = await exchange(connection, { path, ...(etag && { headers: { "if-none-match": etag } }) }, abort)
    if (reply.status === 304) return false
    if (isRefused(reply)) throw failureOf(connection, reply, ` Environment: ${environment.name}.`)
    const received = valuesOf(reply.text)
    if (received === undefined) throw unexpected(connection, reply)
    values = received
    etag = reply.etag
    return true
  }
  // One at a time: an older response must not replace a newer one.
  let last: Promise<unknown> = Promise.resolve()
  const refresh = (abort?: AbortSignal): Promise<boolean> => {
    const next = last.then(() => fetchValues(abort))
    last = next.catch(() => undefined)
    return next
  }
  await refresh(signal)
  return { environment: environment.name, values: () => values, refresh }
}
