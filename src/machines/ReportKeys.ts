/**
 * Keys of senders of leak reports, in the form of GitHub's `public_keys`. The operator sets them, or an address to read
 * them from. A report counts when one of them signed its bytes.
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

/** The keys cannot be read at present. */
class ReportKeysUnavailable extends Data.TaggedError("ReportKeysUnavailable")<{}> {}

const keysAge = 600_000
/** Minimum milliseconds between reads for an unknown key: GitHub answers 60 requests an hour. */
const cooldown = 120_000
const fetchMillis = 4_000
const maxBytes = 65_536
/** Milliseconds that old keys count when they cannot be read again. */
const maxStale = 86_400_000

interface CachedKeys {
  readonly keys: Keys
  /** Time of the keys, and of the last attempt to read them. Milliseconds since 1970. */
  readonly at: number
  readonly triedAt: number
}
const none: CachedKeys = { keys: new Map(), at: Number.NEGATIVE_INFINITY, triedAt: Number.NEGATIVE_INFINITY }

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
    const cache = yield* SynchronizedRef.make(none)
    // Used for an unknown key, so that both cases take as long.
    const dummyKey = generateKeyPairSync("ec", { namedCurve: "prime256v1" }).publicKey

    const fetchKeys = Effect.fnUntraced(function* (url: string) {
      const headers = { accept: "application/json" }
      const answer = yield* outbound.send({ method: "GET", url, headers, millis: fetchMillis, maxBytes })
      return answer.status === 200 ? keysIn(answer.text) : Option.none()
    })

    const read = (url: string, identifier: string) =>
      SynchronizedRef.updateAndGetEffect(cache, (last) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const isFresh = now - last.at < keysAge && last.keys.has(identifier)
          if (isFresh || now - last.triedAt < cooldown) return last
          const keys = yield* Effect.catchAll(fetchKeys(url), () => Effect.succeedNone)
          return Option.match(keys, {
            onNone: () => ({ ...last, triedAt: now }),
            onSome: (keys) => ({ keys, at: now, triedAt: now })
          })
        })
      )

    const keysFor = Effect.fnUntraced(function* (source: string, identifier: string) {
      const fixedKeys = keysIn(source)
      if (Option.isSome(fixedKeys)) return fixedKeys.value
      // Uninterruptible, since other requests wait for the same response.
      const { at, keys } = yield* Effect.uninterruptible(read(source, identifier))
      const now = yield* Clock.currentTimeMillis
      return now - at < maxStale ? keys : yield* new ReportKeysUnavailable()
    })

    /** Whether the key with this identifier signed the body. */
    const holds = Effect.fn("ReportKeys.holds")(function* (report: {
      readonly identifier: string
      readonly signature: string
      readonly body: Uint8Array
    }) {
      const { body, identifier, signature } = report
      if (Option.isNone(leakReportKeys) || !signaturePattern.test(signature)) return false
      const key = (yield* keysFor(leakReportKeys.value, identifier)).get(identifier)
      return isSigned(key ?? dummyKey, body, signature) && key !== undefined
    })

    return { isOn: Option.isSome(leakReportKeys), holds } as const
  })
}) {}
