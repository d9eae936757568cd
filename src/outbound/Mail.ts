/** E-mail through the operator's mail server, if one is configured. No feature requires it. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"

export interface Message {
  readonly to: string
  readonly subject: string
  /** Plain text. */
  readonly text: string
}

/**
 * The mail server refused the message. `lasting`: permanently (a 5yz reply). The error repeats neither address nor
 * text.
 */
export class MailRefused extends Data.TaggedError("MailRefused")<{ readonly lasting: boolean }> {}

/** None: no mail server is configured. */
export class Mail extends Context.Tag("outbound/Mail")<
  Mail,
  Option.Option<(message: Message) => Effect.Effect<void, MailRefused>>
>() {}
