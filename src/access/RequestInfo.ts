import * as Context from "effect/Context"

export type Via = "rest" | "mcp" | "dashboard" | "cli"

/** Where a request came from; what the audit trail says of it beside the actor. */
export interface RequestOrigin {
  readonly id: string
  readonly ip: string
  readonly userAgent: string | null
  readonly via: Via
}

/** A reference with a default, so that work without a request (purge, start) needs nothing provided. */
export class RequestInfo extends Context.Reference<RequestInfo>()("access/RequestInfo", {
  defaultValue: (): RequestOrigin => ({ id: "system", ip: "", userAgent: null, via: "rest" })
}) {}
