/** E-mail, where the operator set a mail server: nothing here needs one. */
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

/** The mail server did not take it. `lasting`: it never will (a 5yz answer); no address and no text of it is repeated. */
export class MailRefused extends Data.TaggedError("MailRefused")<{ readonly lasting: boolean }> {}

/** None: no mail server is set. */
export class Mail extends Context.Tag("outbound/Mail")<
  Mail,
  Option.Option<(message: Message) => Effect.Effect<void, MailRefused>>
>() {}
