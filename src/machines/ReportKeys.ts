/**
 * Keys of those who report leaked credentials, in the form of GitHub's `public_keys`: given by the operator, or read from
 * an address that the operator gave. A report counts when one of them signed its bytes.
 */
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as SynchronizedRef from "effect/SynchronizedRef"
import { generateKeyPairSync, type KeyObject, verify } from "node:crypto"
import { AppConfig } from "#src/AppConfig.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { type Keys, keysIn } from "./ReportKeyDocument.ts"

/** The keys cannot be read now. */
export class ReportKeysUnavailable extends Data.TaggedError("ReportKeysUnavailable")<{}> {}

const keysAge = 600_000
/** A key that nobody knows is asked for again at most so often: GitHub answers 60 such requests an hour. */
const cooldown = 120_000
const fetchMillis = 4_000
const maxBytes = 65_536
/** Keys that cannot be read anew count that long. */
const staleAtMost = 86_400_000

interface Held {
  readonly keys: Keys
  /** Of the keys, and of the last attempt to read them. Milliseconds. */
  readonly at: number
  readonly triedAt: number
}
const none: Held = { keys: new Map(), at: Number.NEGATIVE_INFINITY, triedAt: Number.NEGATIVE_INFINITY }

/** 64 bytes of DER with its frame, in base64. */
const signaturePattern = /^[A-Za-z0-9+/]{40,120}={0,2}$/

const isSigned = (key: KeyObject, body: Uint8Array, signature: string) =>
  Option.getOrElse(
    Option.liftThrowable(() => verify("sha256", body, key, Buffer.from(signature, "base64")))(),
    () => false
  )

export class ReportKeys extends Effect.Service<ReportKeys>()("machines/ReportKeys", {
  effect: Effect.gen(function* () {
    const { leakReportKeys } = yield* AppConfig
    const outbound = yield* Outbound
    const held = yield* SynchronizedRef.make(none)
    // Verified in place of a key that is not known, so that both take as long.
    const stranger = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).publicKey

    const fetched = Effect.fnUntraced(function* (url: string) {
      const headers = { accept: "application/json" }
      const answer = yield* outbound.send({ method: "GET", url, headers, millis: fetchMillis, maxBytes })
      return answer.status === 200 ? keysIn(answer.text) : Option.none()
    })

    const read = (url: string, identifier: string) =>
      SynchronizedRef.updateAndGetEffect(held, (last) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const isFresh = now - last.at < keysAge && last.keys.has(identifier)
          if (isFresh || now - last.triedAt < cooldown) return last
          const keys = yield* Effect.catchAll(fetched(url), () => Effect.succeedNone)
          return Option.match(keys, {
            onNone: () => ({ ...last, triedAt: now }),
            onSome: (keys) => ({ keys, at: now, triedAt: now })
          })
        })
      )

    const keysFor = Effect.fnUntraced(function* (source: string, identifier: string) {
      const given = keysIn(source)
      if (Option.isSome(given)) return given.value
      // Others wait for the same answer: it is kept when this request is interrupted.
      const { at, keys } = yield* Effect.uninterruptible(read(source, identifier))
      const now = yield* Clock.currentTimeMillis
      return now - at < staleAtMost ? keys : yield* new ReportKeysUnavailable()
    })

    /** Whether a key of this name signed the body. */
    const holds = Effect.fn("ReportKeys.holds")(function* (report: {
      readonly identifier: string
      readonly signature: string
      readonly body: Uint8Array
    }) {
      const { body, identifier, signature } = report
      if (Option.isNone(leakReportKeys) || !signaturePattern.test(signature)) return false
      const known = (yield* keysFor(leakReportKeys.value, identifier)).get(identifier)
      return isSigned(known ?? stranger, body, signature) && known !== undefined
    })

    return { isOn: Option.isSome(leakReportKeys), holds } as const
  })
}) {}
