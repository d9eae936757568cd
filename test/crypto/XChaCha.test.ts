import { assert, describe, it } from "@effect/vitest"
import { xchacha20poly1305 } from "@noble/ciphers/chacha.js"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { createSecretKey, hkdfSync } from "node:crypto"
import { tagLength, xChaCha } from "#src/crypto/Aead.ts"

const hex = (text: string) => Buffer.from(text, "hex")

const seal = (key: Uint8Array, nonce: Uint8Array, aad: Uint8Array, plaintext: Uint8Array) => {
  const out = Buffer.alloc(plaintext.length + tagLength)
  xChaCha.sealInto(out, 0, key, nonce, aad, plaintext)
  return out
}

const bytes = (length: number) => FastCheck.uint8Array({ minLength: length, maxLength: length })

describe("XChaCha20-Poly1305", () => {
  it("gives the result of draft-irtf-cfrg-xchacha-03 A.3.1", () => {
    const key = hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f")
    const nonce = hex("404142434445464748494a4b4c4d4e4f5051525354555657")
    const aad = hex("50515253c0c1c2c3c4c5c6c7")
    const plaintext = Buffer.from(
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
    )
    const sealed = seal(key, nonce, aad, plaintext)
    assert.strictEqual(
      sealed.toString("hex"),
      "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39" +
        "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9" +
        "21f9664c97637da9768812f615c68b13b52e" +
        "c0875924c1c7987947deafd8780acf49"
    )
    assert.deepStrictEqual(xChaCha.open(key, nonce, aad, sealed), Option.some(plaintext))
  })

  it("is bit for bit what @noble/ciphers computes, in both directions", () => {
    FastCheck.assert(
      FastCheck.property(
        bytes(32),
        bytes(24),
        FastCheck.uint8Array({ maxLength: 80 }),
        FastCheck.uint8Array({ maxLength: 400 }),
        (key, nonce, aad, plaintext) => {
          const noble = xchacha20poly1305(key, nonce, aad)
          const sealed = seal(key, nonce, aad, plaintext)
          assert.strictEqual(sealed.toString("hex"), Buffer.from(noble.encrypt(plaintext)).toString("hex"))
          assert.deepStrictEqual(Uint8Array.from(noble.decrypt(sealed)), plaintext)
          assert.deepStrictEqual(
            Option.map(xChaCha.open(key, nonce, aad, sealed), (opened) => Uint8Array.from(opened)),
            Option.some(plaintext)
          )
        }
      ),
      { numRuns: 500 }
    )
  })

  it("agrees with @noble/ciphers at block borders and on large values", () => {
    const key = Buffer.alloc(32, 7)
    const nonce = Buffer.alloc(24, 9)
    for (const length of [0, 1, 15, 16, 17, 63, 64, 65, 255, 256, 257, 65_536, 262_144]) {
      const plaintext = Buffer.alloc(length, length & 0xff)
      const sealed = seal(key, nonce, Buffer.alloc(0), plaintext)
      assert.isTrue(sealed.equals(xchacha20poly1305(key, nonce).encrypt(plaintext)), `at ${length} bytes`)
    }
  })

  it("refuses what is shorter than a tag", () => {
    for (let length = 0; length < 16; length++) {
      assert.isTrue(
        Option.isNone(xChaCha.open(Buffer.alloc(32), Buffer.alloc(24), Buffer.alloc(0), Buffer.alloc(length)))
      )
    }
  })
})

describe("HKDF-SHA256 from a KeyObject", () => {
  it("gives the results of RFC 5869 A.1 and A.3", () => {
    const key = createSecretKey(Buffer.alloc(22, 0x0b))
    const derive = (salt: string, info: string) =>
      Buffer.from(hkdfSync("sha256", key, hex(salt), hex(info), 42)).toString("hex")
    assert.strictEqual(
      derive("000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9"),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )
    assert.strictEqual(
      derive("", ""),
      "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    )
  })
})
