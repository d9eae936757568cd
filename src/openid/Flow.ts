/**
 * A sign-in under way at an issuer. Its state is in a sealed cookie, so a stranger who begins one writes no row.
 * `state`, `nonce` and the PKCE verifier derive from its secret. A response therefore works once, and only in the
 * browser that began (against login CSRF).
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHmac } from "node:crypto"
import { UserIdOut } from "#schema/Ids.ts"
import { dieWhenVaultIsDown } from "#src/database/Dependency.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as ServiceBox from "#src/crypto/ServiceBox.ts"
import type { ServiceKeys } from "#src/crypto/ServiceKeys.ts"

interface Needs {
  readonly crypto: Crypto
  readonly keys: ServiceKeys
}

/** Milliseconds from the button to the issuer's response. */
export const flowLife = 600_000

const Flow = Schema.Struct({
  secret: Schema.String,
  issuer: Schema.String,
  /** `link`: links the sign-in to the account of `userId`. A `userId` without `link`: confirms this person. */
  link: Schema.Boolean,
  userId: Schema.NullOr(UserIdOut),
  next: Schema.String,
  /** Milliseconds since 1970. */
  endsAt: Schema.Number
})
export type Flow = typeof Flow.Type

const FlowText = Schema.parseJson(Flow)
const decode = Schema.decodeUnknownOption(FlowText)
const encode = Schema.encodeSync(FlowText)

const place: ServiceBox.Place = { purpose: "sign-in flow", ids: [] }

const keyOf = ({ keys }: Pick<Needs, "keys">) => Effect.orDie(dieWhenVaultIsDown(keys.ring("sign-in-flows")))

/** Text of the browser's cookie. */
export const seal = Effect.fnUntraced(function* (needs: Needs, flow: Flow) {
  const key = yield* keyOf(needs)
  const box = ServiceBox.seal(
    key,
    place,
    Buffer.from(encode(flow)),
    yield* needs.crypto.randomBytes(Envelope.saltLength)
  )
  return Redacted.make(box.toString("base64url"))
})

/** Undefined without a cookie, or for a foreign or expired one. */
export const open = Effect.fnUntraced(function* (needs: Needs, text: Redacted.Redacted | null, now: number) {
  if (text === null) return undefined
  const opened = ServiceBox.open(yield* keyOf(needs), place, Buffer.from(Redacted.value(text), "base64url"))
  const flow = Either.isRight(opened) ? Option.getOrUndefined(decode(opened.right.toString())) : undefined
  return flow !== undefined && flow.endsAt > now ? flow : undefined
})

/** 43 characters of base64url, as PKCE requires of a verifier (RFC 7636 4.1). */
const derive = ({ secret }: Flow, name: string): string => createHmac("sha256", secret).update(name).digest("base64url")
export const stateOf = (flow: Flow): string => derive(flow, "state")
export const nonceOf = (flow: Flow): string => derive(flow, "nonce")
export const verifierOf = (flow: Flow): string => derive(flow, "pkce")
