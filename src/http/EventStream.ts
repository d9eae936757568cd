/**
 * An answer without an end that says something now and then: what is held between is a socket and the calls that write
 * to it, where an Effect stream holds some 50 KB of fibers and channels.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import type { ServerResponse } from "node:http"

/** Calls of either after the end do nothing. */
export interface Out {
  readonly write: (part: string | Uint8Array) => void
  /** The answer is complete. */
  readonly end: () => void
}

/** The body of such an answer (`HttpServerResponse.raw`). */
export class EventStream {
  /** Called once, when the head is out; what it returns is called once, when the connection is done, whoever ended it. */
  readonly open: (out: Out) => () => void
  constructor(open: EventStream["open"]) {
    this.open = open
  }
}

/** Bytes that wait for a client which does not read: it is gone, or comes back and looks anew. */
const mostUnread = 64 * 1024

export const send = (outgoing: ServerResponse, { open }: EventStream) => {
  let isOver = false
  const closed = open({
    write: (part) => {
      if (isOver) return
      outgoing.write(part)
      if (outgoing.writableLength > mostUnread) outgoing.destroy()
    },
    end: () => {
      isOver = true
      outgoing.end()
    }
  })
  const done = () => {
    isOver = true
    closed()
  }
  if (outgoing.closed) done()
  else outgoing.once("close", done)
}

/**
 * A scope for what a stream holds. It closes with the request, unless the stream began: then when `end` is called, from
 * wherever that is.
 */
export const streamScope = Effect.gen(function* () {
  const scope = yield* Scope.make()
  // The request's own services are not held for as long as the stream is open.
  const fork = Runtime.runFork(Runtime.defaultRuntime)
  const close = Scope.close(scope, Exit.void)
  let began = false
  yield* Effect.addFinalizer(() => (began ? Effect.void : close))
  return {
    scope,
    began: () => {
      began = true
    },
    end: () => void fork(close)
  }
})
