/** Sealed files come back as they went in, or not at all. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import * as SealedFile from "#src/backup/SealedFile.ts"
import * as Hpke from "#src/sealed/Hpke.ts"
import * as RecipientKey from "#src/sealed/RecipientKey.ts"

const pair = Effect.suspend(() => Hpke.deriveKeyPair(Redacted.make<Uint8Array>(randomBytes(32))))

const collect = async (parts: AsyncIterable<Buffer>) => {
  const all: Array<Buffer> = []
  for await (const part of parts) all.push(part)
  return Buffer.concat(all)
}

/** `pieces`: how the bytes arrive. */
const inPieces = (bytes: Buffer, size: number) =>
  Readable.from(
    (function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
    })()
  )

const sealed = (plain: Buffer, recipients: ReadonlyArray<Uint8Array>, kind: SealedFile.Kind = "ampoule-backup v1") =>
  Effect.gen(function* () {
    const { header, key } = yield* SealedFile.begin(kind, recipients, randomBytes(32), randomBytes(32))
    const sealing = new SealedFile.Sealing(key)
    const body = collect(sealing)
    yield* Effect.promise(() => pipeline(inPieces(plain, 10_007), sealing))
    return Buffer.concat([header, yield* Effect.promise(() => body)])
  })

const opened = (
  file: Buffer,
  identity: Redacted.Redacted<Uint8Array>,
  size = 65_536,
  kind: SealedFile.Kind = "ampoule-backup v1"
) =>
  Effect.promise(async () => {
    const opening = SealedFile.opening(kind, identity)
    const parts: Array<Buffer> = []
    try {
      await pipeline(inPieces(file, size), opening, async (source: AsyncIterable<Buffer>) => {
        for await (const part of source) parts.push(part)
      })
      return Either.right(Buffer.concat(parts))
    } catch (error) {
      return Either.left({ error, before: Buffer.concat(parts) })
    }
  })

const chunk = 65_536

describe("a sealed file", () => {
  it.effect(
    "opens with each recipient's identity, whatever its length and however it arrives",
    () =>
      Effect.gen(function* () {
        const [a, b] = [yield* pair, yield* pair]
        for (const length of [0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 17]) {
          const plain = randomBytes(length)
          const file = yield* sealed(plain, [a.publicKey, b.publicKey])
          for (const size of [1 + (length % 977), 65_536]) {
            for (const { privateKey } of [a, b]) {
              const back = yield* opened(file, privateKey, size + 200)
              assert.isTrue(Either.isRight(back) && back.right.equals(plain), String(length))
            }
          }
        }
      }),
    60_000
  )

  it.effect("opens with no other identity, and not as another kind", () =>
    Effect.gen(function* () {
      const [mine, other] = [yield* pair, yield* pair]
      const file = yield* sealed(Buffer.from("text"), [mine.publicKey])
      assert.isTrue(Either.isLeft(yield* opened(file, other.privateKey)))
      assert.isTrue(Either.isLeft(yield* opened(file, mine.privateKey, 100, "ampoule-root-key v1")))
      const renamed = Buffer.from(file.toString("latin1").replace("ampoule-backup v1", "ampoule-root-key v1"), "latin1")
      assert.isTrue(Either.isLeft(yield* opened(renamed, mine.privateKey, 100, "ampoule-root-key v1")))
    })
  )

  it.effect(
    "gives up no end it does not have: cut, flipped, swapped, repeated, or lengthened",
    () =>
      Effect.gen(function* () {
        const { privateKey, publicKey } = yield* pair
        const plain = randomBytes(3 * chunk + 100)
        const file = yield* sealed(plain, [publicKey])
        const body = file.length - (plain.length + 4 * 16)
        const whole = chunk + 16
        const refused = (changed: Buffer, what: string) =>
          Effect.map(opened(changed, privateKey), (result) => {
            assert.isTrue(Either.isLeft(result), what)
            // The output before was authentic.
            if (Either.isLeft(result))
              assert.isTrue(plain.subarray(0, result.left.before.length).equals(result.left.before))
          })
        for (const end of FastCheck.sample(FastCheck.nat(file.length - 1), 60)) {
          yield* refused(file.subarray(0, end), `cut at ${end}`)
        }
        for (let n = 0; n <= 3; n++) yield* refused(file.subarray(0, body + n * whole), `cut after chunk ${n}`)
        for (const [at, bit] of FastCheck.sample(
          FastCheck.tuple(FastCheck.nat(file.length - 1), FastCheck.nat(7)),
          60
        )) {
          const changed = Buffer.from(file)
          changed[at] ^= 1 << bit
          yield* refused(changed, `bit ${bit} of ${at}`)
        }
        const part = (n: number) => file.subarray(body + n * whole, body + (n + 1) * whole)
        const assembled = (...parts: ReadonlyArray<number>) =>
          Buffer.concat([file.subarray(0, body), ...parts.map(part)])
        yield* refused(assembled(1, 0, 2, 3), "swapped")
        yield* refused(assembled(0, 0, 1, 2, 3), "repeated")
        yield* refused(assembled(0, 2, 3), "left out")
        yield* refused(assembled(0, 1, 2, 3, 3), "lengthened")
        yield* refused(Buffer.concat([file, Buffer.alloc(5)]), "with a tail")
      }),
    60_000
  )
})

describe("keys of backups", () => {
  it.effect("are read back, and refused when mistyped", () =>
    Effect.gen(function* () {
      const keys = yield* pair
      const recipient = RecipientKey.printRecipient(keys.publicKey)
      assert.deepStrictEqual(
        Option.map(RecipientKey.parseRecipient(recipient), (key) => Buffer.from(key).toString("hex")),
        Option.some(Buffer.from(keys.publicKey).toString("hex"))
      )
      for (let i = 0; i < recipient.length; i++) {
        const wrong = recipient.slice(0, i) + (recipient[i] === "A" ? "B" : "A") + recipient.slice(i + 1)
        assert.isTrue(Option.isNone(RecipientKey.parseRecipient(wrong)), wrong)
      }
      const identity = RecipientKey.parseIdentity(RecipientKey.printIdentity(keys))
      assert.isTrue(Option.isSome(identity))
      if (Option.isSome(identity)) {
        const publicKey = yield* Hpke.publicKeyOf(identity.value)
        assert.strictEqual(RecipientKey.printRecipient(publicKey), recipient)
      }
      // A recipient is no identity, and the other way round.
      assert.isTrue(Option.isNone(RecipientKey.parseIdentity(Redacted.make(recipient))))
    })
  )
})
