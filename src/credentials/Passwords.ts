/** Passwords: argon2id, PHC strings, one cost for known and unknown people (decisions 9, security 3.6). */
import * as argon2 from "@node-rs/argon2"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { ValidationFailed } from "#schema/Errors.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { isCommon } from "./CommonPasswords.ts"

/** 19 MiB, two passes, one lane (OWASP's first choice for argon2id). */
const parameters = { memoryCost: 19_456, timeCost: 2, parallelism: 1, outputLen: 32 } as const
/** `Algorithm.Argon2id` and `Version.V0x13`: ambient const enums, which cannot be read from a module compiled alone. */
const argon2id = 2
const version13 = 1

/** Memory and threads that sign-in may take: two hashes at a time, however many people knock. */
const parallelHashes = 2

/** What is hashed: one form for every way to type the same text. */
const canonical = (password: Redacted.Redacted): string => Redacted.value(password).normalize("NFC")

export class Passwords extends Effect.Service<Passwords>()("credentials/Passwords", {
  effect: Effect.gen(function* () {
    const crypto = yield* Crypto
    const turns = yield* Effect.makeSemaphore(parallelHashes)

    const compute = (text: string) =>
      turns.withPermits(1)(
        Effect.flatMap(crypto.randomBytes(16), (salt) =>
          Effect.promise(() => argon2.hash(text, { ...parameters, algorithm: argon2id, version: version13, salt }))
        )
      )

    /** The hash that nobody's password has: unknown people cost what known ones cost. */
    const nobody = yield* Effect.cached(
      Effect.flatMap(crypto.randomBytes(32), (bytes) => compute(bytes.toString("base64")))
    )

    /** PHC string of a password that `NewPassword` let through. Refuses the most common ones, naming `field`. */
    const hash = Effect.fn("Passwords.hash")(function* (password: Redacted.Redacted, field: string) {
      const text = canonical(password)
      if (isCommon(text)) {
        return yield* new ValidationFailed({ field, message: "The password is one of the most common ones." })
      }
      return yield* compute(text)
    })

    /**
     * Whether the password has this hash; undefined = there is no such person, which takes as
     * long; so does an account without a password. `stale` says that
     * the hash was made with other parameters than today's.
     */
    const verify = Effect.fn("Passwords.verify")(function* (stored: string | undefined, password: Redacted.Redacted) {
      const known = stored?.startsWith("$argon2") === true
      const phc = known ? stored : yield* nobody
      const matches = yield* turns.withPermits(1)(Effect.promise(() => argon2.verify(phc, canonical(password))))
      return { matches: matches && known, stale: isStale(phc) }
    })

    /** Today's hash of a password that was just verified. */
    const rehash = (password: Redacted.Redacted) => compute(canonical(password))

    return { hash, verify, rehash } as const
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
