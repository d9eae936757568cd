/** Connection of an ordinary command. */
import * as Effect from "effect/Effect"
import * as Choice from "./Choice.ts"
import { type Connection, connect } from "./Client.ts"

export type ConnectionOptions = Choice.ConnectionOptions

export interface Session extends Connection {
  readonly chosen: Choice.Chosen
}

export const open = Effect.fnUntraced(function* (options: ConnectionOptions) {
  const chosen = yield* Choice.requireCredential(options)
  return { ...(yield* connect(chosen)), chosen } satisfies Session
})
