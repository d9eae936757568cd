/** Transport of a request to a server, and of its response. Implementation: `layers/CliTransport.ts`. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"

export interface Request {
  readonly method: "GET" | "POST"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** Timeout in milliseconds. */
  readonly longest: number
  /** Timeout in milliseconds while nothing arrives. */
  readonly silence: number | undefined
}

/** Header names are in lower case. */
export interface Response {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** Cause of a failure after one of the timeouts. */
export class TooLong extends Error {
  readonly seconds: number
  constructor(millis: number) {
    super()
    this.seconds = millis / 1_000
  }
}

export class NotDelivered extends Data.TaggedError("NotDelivered")<{
  readonly cause: unknown
  /** The head of a response had arrived. */
  readonly answered: boolean
}> {}

export class Transport extends Context.Tag("cli/Transport")<
  Transport,
  { readonly send: (request: Request) => Effect.Effect<Response, NotDelivered> }
>() {}
