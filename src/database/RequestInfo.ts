import * as Context from "effect/Context"

export type Via = "rest" | "mcp" | "dashboard" | "cli"

/** Where a request came from; what the audit trail says of it beside the actor. */
export interface RequestOrigin {
  readonly id: string
  readonly ip: string
  readonly userAgent: string | null
  readonly via: Via
  /** Whose turn it is where requests wait: a team, or an address as long as no team is known. Absent: the service's. */
  readonly owner?: string
  /** A change of this request was committed, or may have been: "busy, nothing was changed" would not be true. */
  committed?: boolean
}

/** A reference with a default, so that work without a request (purge, start) needs nothing provided. */
export class RequestInfo extends Context.Reference<RequestInfo>()("access/RequestInfo", {
  defaultValue: (): RequestOrigin => ({ id: "system", ip: "", userAgent: null, via: "rest" })
}) {}
