/**
 * An answer without an end that says something now and then: what is held between is a socket and the calls that write
 * to it, where an Effect stream holds some 50 KB of fibers and channels.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
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

/** What is said of one stream; what comes before its answer began waits for that. */
export class Voice {
  #out: Out | undefined
  #waiting = ""
  #isOver = false

  get isOver() {
    return this.#isOver
  }

  say(text: string) {
    if (this.#out === undefined) this.#waiting += text
    else this.#out.write(text)
  }

  end() {
    this.#isOver = true
    this.#out?.end()
  }

  /** The headers leave with the first byte of the body: `opening`, then what waited. */
  begin(out: Out, opening: string) {
    this.#out = out
    out.write(opening + this.#waiting)
    this.#waiting = ""
    if (this.#isOver) out.end()
  }
}

export interface Hold {
  /** What is to be called when the stream is done; at once, when it is. */
  readonly until: (release: () => void) => void
  readonly began: () => void
  readonly end: () => void
}

/**
 * What a stream holds. It is let go of with the request, unless the stream began: then when `end` is called, from wherever
 * that is.
 */
export const hold: Effect.Effect<Hold, never, Scope.Scope> = Effect.gen(function* () {
  const releases: Array<() => void> = []
  let began = false
  let isOver = false
  const end = () => {
    isOver = true
    for (const release of releases.splice(0)) release()
  }
  yield* Effect.addFinalizer(() => (began ? Effect.void : Effect.sync(end)))
  return {
    until: (release) => void (isOver ? release() : releases.push(release)),
    began: () => {
      began = true
    },
    end
  }
})
