/** Passwords: argon2id, sealed PHC strings, one cost for known and unknown people. */
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
/** `Algorithm.Argon2id` and `Version.V0x13`: ambient const enums, which cannot be read from a module compiled alone. */
const argon2id = 2
const version13 = 1

/**
 * Memory and threads that passwords may take: two hashes at a time, and a second or two of them waiting, however many
 * people knock. A bound of the process, not one of the rate limits: it holds when those are off.
 */
const queue = { atOnce: 2, waiting: 64, retryAfterSeconds: 2 } as const

/** What is hashed: one form for every way to type the same text. */
const canonical = (password: Redacted.Redacted): string => Redacted.value(password).normalize("NFC")

export class Passwords extends Effect.Service<Passwords>()("credentials/Passwords", {
  effect: Effect.gen(function* () {
    const crypto = yield* Crypto
    const rowSeal = yield* RowSeal
    const turns = FairTurns.make(queue)

    /** One address waits for itself, not for all that another one asks. Refused before anything is hashed. */
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

    /** A hash that no password has: unknown people cost what known ones cost, the first of them too. */
    const absentHash = yield* Effect.map(
      Effect.all([crypto.randomBytes(16), crypto.randomBytes(32)]),
      ([salt, hash]) => {
        const { memoryCost, parallelism, timeCost } = parameters
        const [s, h] = [salt, hash].map((bytes) => bytes.toString("base64").replaceAll("=", ""))
        return `$argon2id$v=19$m=${memoryCost},t=${timeCost},p=${parallelism}$${s}$${h}`
      }
    )

    /**
     * Sealed hash of a password that `NewPassword` let through. Refuses the most common ones, naming `field`;
     * RATE_LIMITED when too many wait for a hash.
     */
    const hash = Effect.fn("Passwords.hash")(function* (password: Redacted.Redacted, field: string) {
      const text = canonical(password)
      if (yield* isCommon(text)) {
        return yield* new ValidationFailed({ field, message: "The password is one of the most common ones." })
      }
      return yield* compute(text)
    })

    /**
     * Whether the password has this hash; undefined = there is no such person, which takes as
     * long; so does an account without a password. `stale` says that the hash was made with other parameters than
     * today's, or is not sealed. RATE_LIMITED for everybody when too many wait.
     */
    const verify = Effect.fn("Passwords.verify")(function* (stored: string | undefined, password: Redacted.Redacted) {
      const macs = yield* rowSeal.ready
      const absent = macs.sealPassword(absentHash)
      const opened = yield* Effect.orDie(macs.openPassword(stored ?? absent))
      const known = stored !== undefined && opened.startsWith("$argon2")
      const phc = known ? opened : absentHash
      const matches = yield* inTurn(Effect.promise(() => argon2.verify(phc, canonical(password))))
      return { matches: matches && known, stale: isStale(phc) || macs.sealPassword(phc) !== stored }
    })

    /** Today's hash of a password that was just verified; undefined when too many wait: the old one is good for now. */
    const rehash = (password: Redacted.Redacted) =>
      Effect.catchTag(compute(canonical(password)), "RATE_LIMITED", () => Effect.succeed(undefined))

    return {
      hash,
      verify,
      rehash,
      /** For tests, which fill them. */
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
