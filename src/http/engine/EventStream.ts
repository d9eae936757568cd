/**
 * An endless response that writes rarely. Between two writes it holds a socket and callbacks, where an Effect stream
 * holds some 50 KB of fibers and channels.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ServerResponse } from "node:http"

/** After the end, both calls do nothing. */
export interface Out {
  readonly write: (part: string | Uint8Array) => void
  /** Completes the response. */
  readonly end: () => void
}

/** Body of an endless response (`HttpServerResponse.raw`). */
export class EventStream {
  /**
   * Called once, after the head is sent. The returned function is called once, when either side closed the connection.
   */
  readonly open: (out: Out) => () => void
  constructor(open: EventStream["open"]) {
    this.open = open
  }
}

/** Unread bytes after which a connection is cut: the client is gone, or reconnects and reads the current state. */
const mostUnread = 64 * 1024

export const send = (outgoing: ServerResponse, { open }: EventStream) => {
  let isOver = false
  const onClose = open({
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
  const finish = () => {
    isOver = true
    onClose()
  }
  if (outgoing.closed) finish()
  else outgoing.once("close", finish)
}

/** Writer of one stream. Text from before the response began waits for its start. */
export class StreamWriter {
  #out: Out | undefined
  #waiting = ""
  #isOver = false

  get isOver() {
    return this.#isOver
  }

  write(text: string) {
    if (this.#out === undefined) this.#waiting += text
    else this.#out.write(text)
  }

  end() {
    this.#isOver = true
    this.#out?.end()
  }

  /** Sends `opening` and then the waiting text. The headers leave with the first byte of the body. */
  begin(out: Out, opening: string) {
    this.#out = out
    out.write(opening + this.#waiting)
    this.#waiting = ""
    if (this.#isOver) out.end()
  }
}

export interface Hold {
  /** Registers a call for the end of the stream; calls at once if the stream has ended. */
  readonly until: (release: () => void) => void
  readonly began: () => void
  readonly end: () => void
}

/** Resources of a stream. They are released with the request, or by `end` if the stream has begun. */
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
