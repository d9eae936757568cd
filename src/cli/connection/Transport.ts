/** How a request travels to a server, and its answer back. Implementation: `layers/CliTransport.ts`. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"

export interface Request {
  readonly method: "GET" | "POST"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** Milliseconds until it is given up. */
  readonly longest: number
}

/** Names of headers are in lower case. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** The cause where `longest` was over. */
export class TooLong extends Error {}

export class NotDelivered extends Data.TaggedError("NotDelivered")<{
  readonly cause: unknown
  /** The head of an answer had come. */
  readonly answered: boolean
}> {}

export class Transport extends Context.Tag("cli/Transport")<
  Transport,
  { readonly send: (request: Request) => Effect.Effect<Answer, NotDelivered> }
>() {}
