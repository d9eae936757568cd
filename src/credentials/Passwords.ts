/** Passwords: argon2id, sealed PHC strings, and equal cost for known and unknown people. */
import * as argon2 from "@node-rs/argon2"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ValidationFailed } from "#schema/Errors.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as FairTurns from "#src/limits/FairTurns.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import { isCommon } from "./CommonPasswords.ts"

/** 19 MiB, two passes, one lane (OWASP's first choice for argon2id). */
const parameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1, outputLen: 32 } as const
/** `Algorithm.Argon2id` and `Version.V0x13`: ambient const enums, unreadable with `isolatedModules`. */
const argon2id = 2
const version13 = 1

/**
 * Bounds memory and threads: two hashes at a time, and a queue of a second or two. A bound of the process, not a rate
 * limit: it applies even when those are off.
 */
const queue = { atOnce: 2, waiting: 64, retryAfterSeconds: 2 } as const

/** Unicode form that is hashed, so that every way to type a text gives the same hash. */
const canonical = (password: Redacted.Redacted): string => Redacted.value(password).normalize("NFC")

export class Passwords extends Effect.Service<Passwords>()("credentials/Passwords", {
  effect: Effect.gen(function* () {
    const crypto = yield* Crypto
    const rowSeal = yield* RowSeal
    const turns = FairTurns.make(queue)

    /** Fair queue by address: one address does not delay another. Refuses before any hash. */
    const inTurn = <A>(work: Effect.Effect<A>) =>
      Effect.flatMap(RequestInfo, ({ ip }) =>
        Effect.tapError(turns.take(addressBucket(ip), work), () => Effect.sync(() => Metrics.rateLimited("password:")))
      )

    const compute = (text: string) =>
      Effect.zipWith(
        rowSeal.ready,
        inTurn(
          Effect.flatMap(crypto.randomBytes(16), (salt) =>
            Effect.promise(() => argon2.hash(text, { ...parameters, algorithm: argon2id, version: version13, salt }))
          )
        ),
        (macs, phc) => macs.sealPassword(phc)
      )

    /** A hash without a password: an unknown person costs as much time as a known one, from the first request. */
    const absentHash = yield* Effect.map(
      Effect.all([crypto.randomBytes(16), crypto.randomBytes(32)]),
      ([salt, hash]) => {
        const { memoryCost, parallelism, timeCost } = parameters
        const [s, h] = [salt, hash].map((bytes) => bytes.toString("base64").replaceAll("=", ""))
        return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${s}$${h}`
      }
    )

    /**
     * Sealed hash of a password that `NewPassword` accepted. Refuses the most common ones, naming `field`. RATE_LIMITED
     * when the queue is full.
     */
    const hash = Effect.fn("Passwords.hash")(function* (password: Redacted.Redacted, field: string) {
      const text = canonical(password)
      if (yield* isCommon(text)) {
        return yield* new ValidationFailed({ field, message: "The password is one of the most common ones." })
      }
      return yield* compute(text)
    })

    /**
     * Whether the password has this hash. Undefined (no such person) and an account without a password take as long.
     * `stale`: the hash has old parameters, or is not sealed. RATE_LIMITED for everyone when the queue is full.
     */
    const verify = Effect.fn("Passwords.verify")(function* (stored: string | undefined, password: Redacted.Redacted) {
      const macs = yield* rowSeal.ready
      const absent = macs.sealPassword(absentHash)
      const opened = yield* Effect.orDie(macs.openPassword(stored ?? absent))
      const hasPassword = stored !== undefined && opened.startsWith("$argon2")
      const phc = hasPassword ? opened : absentHash
      const matches = yield* inTurn(Effect.promise(() => argon2.verify(phc, canonical(password))))
      return { matches: matches && hasPassword, stale: isStale(phc) || macs.sealPassword(phc) !== stored }
    })

    /**
     * Hash of a just verified password with today's parameters; undefined when the queue is full, since the old hash
     * still works.
     */
    const rehash = (password: Redacted.Redacted) =>
      Effect.catchTag(compute(canonical(password)), "RATE_LIMITED", () => Effect.succeed(undefined))

    return {
      hash,
      verify,
      rehash,
      /** Exposed for tests. */
      turns
    } as const
  })
}) {}

const isStale = (phc: string): boolean => {
  const used = argon2.parseOptions(phc)
  return (
    used.algorithm !== argon2id ||
    used.memoryCost !== parameters.memoryCost ||
    used.timeCost !== parameters.timeCost ||
    used.parallelism !== parameters.parallelism ||
    used.outputLen !== parameters.outputLen
  )
}
