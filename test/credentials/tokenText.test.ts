import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHash, createHmac, createSecretKey } from "node:crypto"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import * as RowMac from "#src/rows/RowMac.ts"
import * as TokenText from "#src/credentials/TokenText.ts"

const base62 = FastCheck.constantFrom(..."0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
const text = (length: number) => FastCheck.string({ unit: base62, minLength: length, maxLength: length })
const token = FastCheck.record({ kind: FastCheck.constantFrom(...TokenText.kinds), id: text(16), secret: text(43) })

const pepperedWith = (pepper: string) => {
  const key = KeyRing.unbound(createSecretKey(Buffer.from(pepper)))
  return RowMac.make({ rows: key, credentials: key, passwords: key }, () => {})
}
const macs = pepperedWith("pepper")
const others = pepperedWith("another pepper")

describe("credential text", () => {
  it.prop("is parsed back, and matches the published pattern", [token], ([token]) => {
    const printed = TokenText.print(token)
    assert.deepStrictEqual(TokenText.parse(printed), token)
    assert.match(printed, TokenText.pattern)
    assert.notMatch(`x${printed}`, TokenText.pattern)
    assert.notMatch(`${printed}x`, TokenText.pattern)
  })

  it.prop("with any one character changed is not parsed", [token, FastCheck.nat(75), base62], ([token, at, other]) => {
    const printed = TokenText.print(token)
    const i = at % printed.length
    const changed = printed.slice(0, i) + other + printed.slice(i + 1)
    if (changed !== printed) assert.isUndefined(TokenText.parse(changed))
  })

  it.prop("is parsed from nothing but what was printed", [FastCheck.string({ maxLength: 120 })], ([text]) => {
    assert.isUndefined(TokenText.parse(text))
  })

  it("carries the CRC-32 of all characters before it, in base62", () => {
    const head = `amp_at_${"0".repeat(16)}_${"0".repeat(43)}`
    let crc = 0xffffffff
    for (const byte of Buffer.from(head)) {
      crc ^= byte
      for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
    }
    let rest = (crc ^ 0xffffffff) >>> 0
    let digits = ""
    for (let i = 0; i < 6; i++) {
      digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[rest % 62] + digits
      rest = Math.floor(rest / 62)
    }
    assert.strictEqual(TokenText.print({ kind: "at", id: "0".repeat(16), secret: "0".repeat(43) }), head + digits)
  })

  it.prop(
    "is proven by SHA-256(salt ‖ secret) under the pepper, and by no other secret, kind or pepper",
    [token, text(43)],
    ([token, other]) => {
      const salt = createHash("md5").update(token.id).digest()
      const row = {
        salt,
        hash: createHmac("sha256", "pepper")
          .update("ampoule credential v1 at\0")
          .update(
            createHash("sha256")
              .update(Buffer.concat([salt, Buffer.from(token.secret)]))
              .digest()
          )
          .digest()
      }
      assert.isTrue(TokenText.verify(macs, "at", row, token.secret))
      assert.strictEqual(TokenText.verify(macs, "at", row, other), other === token.secret)
      assert.isFalse(TokenText.verify(macs, "at", undefined, token.secret))
      assert.isFalse(TokenText.verify(macs, "cg", row, token.secret), "of another kind")
      assert.isFalse(TokenText.verify(others, "at", row, token.secret), "under another pepper")
    }
  )
})

describe("a credential", () => {
  const rowSeal = { ready: Effect.succeed(macs) }
  const crypto = {
    lookupId: Effect.succeed("i".repeat(16)),
    credentialSecret: Effect.succeed(Redacted.make("s".repeat(43))),
    randomBytes: (length: number) => Effect.succeed(Buffer.alloc(length, 7))
  }

  it("is made of bytes as base62, with leading zeros", () => {
    const bytes = (length: number, last: number) => Buffer.alloc(length).fill(last, length - 1)
    assert.deepStrictEqual(TokenText.make("or", bytes(12, 62), bytes(32, 61)), {
      kind: "or",
      id: "10".padStart(16, "0"),
      secret: "z".padStart(43, "0")
    })
  })

  it.effect("that is issued is proven by its row alone, by its own kind alone", () =>
    Effect.gen(function* () {
      const { proof, text } = yield* TokenText.issue({ crypto, rowSeal }, "at")
      assert.strictEqual(
        Redacted.value(text),
        TokenText.print({ kind: "at", id: "i".repeat(16), secret: "s".repeat(43) })
      )
      const { lookupId, ...row } = proof
      assert.deepStrictEqual([lookupId, row.salt], ["i".repeat(16), Buffer.alloc(16, 7)])
      const lookUps: Array<string> = []
      const prove = (kind: TokenText.TokenKind, text: Parameters<typeof TokenText.prove>[2], found = true) =>
        TokenText.prove({ rowSeal }, kind, text, (id) => {
          lookUps.push(id)
          return Effect.succeed(found ? row : undefined)
        })
      assert.strictEqual(yield* prove("at", text), row)
      assert.strictEqual(yield* prove("at", Redacted.value(text)), row)
      assert.isUndefined(yield* prove("at", text, false))
      const wrong = TokenText.print({ kind: "at", id: "i".repeat(16), secret: "t".repeat(43) })
      assert.isUndefined(yield* prove("at", wrong))
      assert.deepStrictEqual(
        lookUps,
        Array.from({ length: 4 }, () => lookupId)
      )
      // Of another kind, no text of ours, and none: nothing is looked up.
      assert.isUndefined(yield* prove("cg", text))
      assert.isUndefined(yield* prove("at", "amp_at_x"))
      assert.isUndefined(yield* prove("at", null))
      assert.lengthOf(lookUps, 4)
    })
  )

  it("is proven by bytes: a row without them is none", () => {
    const decode = Schema.decodeUnknownEither(TokenText.ProofRow)
    assert.isTrue(Either.isRight(decode({ salt: new Uint8Array(16), hash: new Uint8Array(32) })))
    assert.isTrue(Either.isLeft(decode({ salt: "salt", hash: new Uint8Array(32) })))
    assert.isTrue(Either.isLeft(decode({ salt: new Uint8Array(16) })))
  })
})
