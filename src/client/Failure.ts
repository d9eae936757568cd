/** The error of the clients without Effect. Its message names the server and never a value. */

/** Codes that the client gives itself; all others are the server's (docs/contract/errors.md). */
export type OwnCode =
  | "SERVER_UNREACHABLE"
  | "UNEXPECTED_ANSWER"
  | "SETTINGS_INVALID"
  | "NO_CREDENTIAL"
  | "TARGET_MISSING"
  | "PROJECT_UNCLEAR"
  | "KEY_MISSING"
  | "DANGEROUS_NAMES"
  | "VALUE_UNUSABLE"
  | "NO_VARIABLES"

export interface Details {
  /** Address of the server. */
  readonly address?: string
  /** HTTP status of the answer. */
  readonly status?: number
  /** `X-Request-Id` of the answer, which the server's log and trail have too. */
  readonly requestId?: string
  /** The offending member of the request, as a dotted path. */
  readonly field?: string
  /** Page of the server with the meaning of the code, and the next step. */
  readonly docs?: string
  readonly cause?: unknown
}

/** `code` is an `OwnCode` or the server's. */
export class AmpouleError extends Error implements Details {
  override readonly name = "AmpouleError"
  declare readonly address?: string
  declare readonly status?: number
  declare readonly requestId?: string
  declare readonly field?: string
  declare readonly docs?: string
  constructor(
    readonly code: OwnCode | (string & {}),
    message: string,
    details: Details = {}
  ) {
    super(message)
    Object.assign(this, details)
  }
}
