/** Makes new bearer credentials: the text that is shown once, and the row that proves it later. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as TokenText from "./TokenText.ts"

export interface Issued {
  /** `amp_<kind>_…`: goes to its holder once and is stored nowhere. */
  readonly text: Redacted.Redacted
  /** What the kind's table keeps: columns `lookup_id`, `salt` (16 bytes), `hash` (32 bytes). */
  readonly proof: { readonly lookupId: string; readonly salt: Buffer; readonly hash: Buffer }
}

/** The columns that prove a presented secret. */
export const ProofRow = Schema.Struct({ salt: Schema.Uint8ArrayFromSelf, hash: Schema.Uint8ArrayFromSelf })

export const issue = (crypto: Crypto, kind: TokenText.TokenKind): Effect.Effect<Issued> =>
  Effect.gen(function* () {
    const id = yield* crypto.lookupId
    const secret = Redacted.value(yield* crypto.credentialSecret)
    const salt = yield* crypto.randomBytes(16)
    return {
      text: Redacted.make(TokenText.print({ kind, id, secret })),
      proof: { lookupId: id, salt, hash: TokenText.hash(salt, secret) }
    }
  })
