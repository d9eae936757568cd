import * as Context from "effect/Context"

export type Via = "rest" | "mcp" | "dashboard" | "cli"

/** The origin of a request, for the audit entry. */
export interface RequestOrigin {
  readonly id: string
  readonly ip: string
  readonly userAgent: string | null
  readonly via: Via
  /**
   * The team that queues charge for the request, or its address while the team is unknown. Absent: the service itself.
   */
  readonly owner?: string
  /**
   * Whether a change of this request was, or may have been, committed. Then "busy, nothing was changed" would be false.
   */
  committed?: boolean
}

/** A reference with a default, so that work without a request (purge, start) needs no provider. */
export class RequestInfo extends Context.Reference<RequestInfo>()("database/RequestInfo", {
  defaultValue: (): RequestOrigin => ({ id: "system", ip: "", userAgent: null, via: "rest" })
}) {}
