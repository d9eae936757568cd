/** Passwords: argon2id, sealed PHC strings, and equal cost for known and unknown people. */
import * as argon2 from "@node-rs/argon2"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { timingSafeEqual } from "node:crypto"
import { ValidationFailed } from "#schema/Errors.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as FairTurns from "#src/limits/FairTurns.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import { isCommon } from "./CommonPasswords.ts"

/**
 * 64 MiB and three passes (memory and passes of RFC 9106's second choice), with one lane, so that a hash takes one
 * thread. Five times the memory-time product of OWASP's minimum for argon2id, which releases before 1.1 used.
 */
const parameters = { memoryCost: 65_536, timeCost: 3, parallelism: 1, outputLen: 32 } as const
/** Of releases before 1.1. Such hashes open, and are renewed at the next sign-in. */
const formerParameters = { ...parameters, memoryCost: 19_456, timeCost: 2 } as const
/** `Algorithm.Argon2id` and `Version.V0x13`: ambient const enums, unreadable with `isolatedModules`. */
const argon2id = 2
const version13 = 1

/**
 * Bounds memory (128 MiB) and threads: two hashes at a time, and a queue of a few seconds. A bound of the process, not a
 * rate limit: it applies even when those are off.
 */
const queue = { atOnce: 2, waiting: 64, retryAfterSeconds: 3 } as const

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

    /** The salt of the `sibling`, a stored hash of another account of the address, or a random one. */
    const saltFor = (sibling: string | undefined) =>
      Effect.flatMap(rowSeal.ready, (macs) =>
        Effect.flatMap(Effect.orDie(macs.openPassword(sibling ?? "")), (phc) => {
          const salt = saltOf(phc)
          return salt === undefined ? crypto.randomBytes(saltLength) : Effect.succeed(salt)
        })
      )

    const compute = (text: string, sibling: string | undefined) =>
      Effect.zipWith(
        rowSeal.ready,
        Effect.flatMap(saltFor(sibling), (salt) =>
          inTurn(
            Effect.promise(() => argon2.hash(text, { ...parameters, algorithm: argon2id, version: version13, salt }))
          )
        ),
        (macs, phc) => macs.sealPassword(phc)
      )

    /**
     * Hashes without a password, of today's parameters and the former ones. Each comparison computes both kinds: an
     * unknown person, one with a former hash and one with a renewed hash cost the same time, from the first request.
     */
    const absentHashes = yield* Effect.forEach([parameters, formerParameters], (of) =>
      Effect.map(Effect.all([crypto.randomBytes(saltLength), crypto.randomBytes(of.outputLen)]), ([salt, hash]) => {
        const [s, h] = [salt, hash].map((bytes) => bytes.toString("base64").replaceAll("=", ""))
        return `$argon2id$v=19$m=${of.memoryCost},t=${of.timeCost},p=${of.parallelism}$${s}$${h}`
      })
    )

    /**
     * Sealed hash of a password that `NewPassword` accepted. Refuses the most common ones, naming `field`. RATE_LIMITED
     * when the queue is full. `sibling`: stored hash of another account of the address, whose salt it shares, so that one
     * computation compares a password with all accounts of the address.
     */
    const hash = Effect.fn("Passwords.hash")(function* (password: Redacted.Redacted, field: string, sibling?: string) {
      const text = canonical(password)
      if (yield* isCommon(text)) {
        return yield* new ValidationFailed({ field, message: "The password is one of the most common ones." })
      }
      return yield* compute(text, sibling)
    })

    /**
     * Index of the first stored hash that is the password's, or undefined. No hash at all takes as long as one, and
     * hashes of one salt and the same parameters take as long as one. `stale`: that hash has old parameters, or is not
     * sealed. RATE_LIMITED when the queue is full.
     */
    const find = Effect.fn("Passwords.find")(function* (stored: ReadonlyArray<string>, password: Redacted.Redacted) {
      const macs = yield* rowSeal.ready
      const opened = yield* Effect.orDie(Effect.forEach(stored, macs.openPassword))
      const matches = new Set<string>()
      for (const group of groupsOf(opened, absentHashes)) {
        const hashes = yield* inTurn(Effect.promise(() => matchesIn(group, canonical(password))))
        for (const phc of hashes) matches.add(phc)
      }
      const index = opened.findIndex((phc) => matches.has(phc))
      const phc = opened[index]
      if (phc === undefined) return { index: undefined, stale: false }
      return { index, stale: isStale(phc) || macs.sealPassword(phc) !== stored[index] }
    })

    /** Whether the password has this hash. Undefined (no such person) and an account without a password take as long. */
    const verify = (stored: string | undefined, password: Redacted.Redacted) =>
      Effect.map(find(stored === undefined ? [] : [stored], password), ({ index, stale }) => ({
        matches: index !== undefined,
        stale
      }))

    /**
     * Hash of a just verified password with today's parameters; undefined when the queue is full, since the old hash
     * still works. `sibling`: as in `hash`.
     */
    const rehash = (password: Redacted.Redacted, sibling?: string) =>
      Effect.catchTag(compute(canonical(password), sibling), "RATE_LIMITED", () => Effect.succeed(undefined))

    return {
      hash,
      find,
      verify,
      rehash,
      /** Exposed for tests. */
      turns
    } as const
  })
}) {}

/** Bytes. */
const saltLength = 16

/** The salt of a PHC text, if it is one of this server's length. */
const saltOf = (phc: string): Uint8Array | undefined => {
  const salt = Buffer.from(phc.split("$")[4] ?? "", "base64")
  return phc.startsWith("$argon2") && salt.length === saltLength ? salt : undefined
}

const parametersOf = (phc: string): string => phc.split("$")[3] ?? ""

/** Hashes by salt and parameters, and an absent one for parameters without a hash, so that the work is the same. */
const groupsOf = (
  opened: ReadonlyArray<string>,
  absentHashes: ReadonlyArray<string>
): ReadonlyArray<ReadonlyArray<string>> => {
  const groups = new Map<string, Array<string>>()
  for (const phc of opened) {
    if (!phc.startsWith("$argon2")) continue
    const saltAndParameters = phc.slice(0, phc.lastIndexOf("$"))
    groups.set(saltAndParameters, [...(groups.get(saltAndParameters) ?? []), phc])
  }
  const computed = new Set([...groups.keys()].map(parametersOf))
  const absent = absentHashes.filter((phc) => !computed.has(parametersOf(phc))).map((phc) => [phc])
  return [...groups.values(), ...absent]
}

/** Hashes of the password, of those with one salt and the same parameters, in one computation. */
const matchesIn = async (group: ReadonlyArray<string>, password: string): Promise<ReadonlyArray<string>> => {
  const [first = "", ...more] = group
  const salt = saltOf(first)
  if (more.length === 0 || salt === undefined) {
    // One after the other: a turn has the memory of one hash.
    const verified: Array<string> = []
    for (const phc of group) if (await argon2.verify(phc, password)) verified.push(phc)
    return verified
  }
  const own = Buffer.from(await argon2.hash(password, { ...argon2.parseOptions(first), salt }))
  return group.filter((phc) => own.length === phc.length && timingSafeEqual(own, Buffer.from(phc)))
}

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
