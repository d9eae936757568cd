/** Published answers, and the edge cases that implementations got wrong, through our own wrappers. */
import { assert, describe, it } from "@effect/vitest"
import { gcm } from "@noble/ciphers/aes.js"
import { xchacha20poly1305 } from "@noble/ciphers/chacha.js"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { createPublicKey, createSecretKey, hkdfSync, randomBytes, sign } from "node:crypto"
import * as SignedNote from "#src/audit/SignedNote.ts"
import { aesGcm, tagLength, xChaCha } from "#src/crypto/Aead.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import * as Hpke from "#src/sealed/Hpke.ts"

const hex = (text: string) => Buffer.from(text, "hex")
const bytes = (length: number) => FastCheck.uint8Array({ minLength: length, maxLength: length })

const seal = (
  cipher: typeof aesGcm | typeof xChaCha,
  key: Uint8Array,
  nonce: Uint8Array,
  aad: Uint8Array,
  plaintext: Uint8Array
) => {
  const out = Buffer.alloc(plaintext.length + tagLength)
  cipher.sealInto(out, 0, key, nonce, aad, plaintext)
  return out
}

describe("AES-256-GCM", () => {
  const longKey = "feffe9928665731c6d6a8f9467308308".repeat(2)
  const longText =
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" +
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
  const longSealed =
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa" +
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
  /** Test cases 13 to 16 of McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B. */
  const cases = [
    ["00".repeat(32), "00".repeat(12), "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"],
    [
      "00".repeat(32),
      "00".repeat(12),
      "",
      "00".repeat(16),
      "cea7403d4d606b6e074ec5d3baf39d18",
      "d0d1c8a799996bf0265b98b5d48ab919"
    ],
    [longKey, "cafebabefacedbaddecaf888", "", longText, longSealed, "b094dac5d93471bdec1a502270e3cc6c"],
    [
      longKey,
      "cafebabefacedbaddecaf888",
      "feedfacedeadbeeffeedfacedeadbeefabaddad2",
      longText.slice(0, 120),
      longSealed.slice(0, 120),
      "76fc6ece0f4e1768cddf8853bb2d551b"
    ]
  ]

  for (const [i, [key, nonce, aad, plaintext, ciphertext, tag]] of cases.entries()) {
    it(`gives the answer of test case ${13 + i}`, () => {
      const sealed = seal(aesGcm, hex(key), hex(nonce), hex(aad), hex(plaintext))
      assert.strictEqual(sealed.toString("hex"), ciphertext + tag)
      assert.deepStrictEqual(aesGcm.open(hex(key), hex(nonce), hex(aad), sealed), Option.some(hex(plaintext)))
    })
  }
})

for (const [name, cipher, noble] of [
  ["AES-256-GCM", aesGcm, gcm],
  ["XChaCha20-Poly1305", xChaCha, xchacha20poly1305]
] as const) {
  describe(`${name}, its edges`, () => {
    it("is what an independent implementation computes, at every block border", () => {
      FastCheck.assert(
        FastCheck.property(
          bytes(32),
          bytes(cipher.nonceLength),
          FastCheck.uint8Array({ maxLength: 70 }),
          FastCheck.constantFrom(0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1_000),
          (key, nonce, aad, length) => {
            const plaintext = Buffer.alloc(length, 0xa5)
            const sealed = seal(cipher, key, nonce, aad, plaintext)
            assert.isTrue(sealed.equals(noble(key, nonce, aad).encrypt(plaintext)))
            assert.deepStrictEqual(cipher.open(key, nonce, aad, sealed), Option.some(plaintext))
          }
        )
      )
    })

    it("refuses every tag that differs, in one bit or in all", () => {
      const [key, nonce, aad] = [randomBytes(32), randomBytes(cipher.nonceLength), randomBytes(20)]
      const sealed = seal(cipher, key, nonce, aad, Buffer.from("a text of two blocks and a bit more"))
      const tagAt = sealed.length - tagLength
      const withTag = (change: (tag: Buffer) => void) => {
        const changed = Buffer.from(sealed)
        change(changed.subarray(tagAt))
        return cipher.open(key, nonce, aad, changed)
      }
      for (let bit = 0; bit < 128; bit++) {
        assert.isTrue(Option.isNone(withTag((tag) => void (tag[bit >> 3] ^= 1 << (bit & 7)))), `bit ${bit}`)
      }
      assert.isTrue(Option.isNone(withTag((tag) => tag.fill(0))))
      assert.isTrue(Option.isNone(withTag((tag) => tag.fill(0xff))))
      assert.isTrue(Option.isNone(withTag((tag) => tag.forEach((byte, i) => (tag[i] = byte ^ 0xff)))))
      assert.isTrue(Option.isNone(withTag((tag) => tag.forEach((byte, i) => (tag[i] = byte ^ 0x80)))))
      assert.isTrue(Option.isNone(withTag((tag) => tag.reverse())))
    })

    it("refuses shortened tags, other nonces, other data beside it, and an empty message's tag on another", () => {
      const [key, nonce, aad] = [randomBytes(32), randomBytes(cipher.nonceLength), randomBytes(20)]
      const sealed = seal(cipher, key, nonce, aad, Buffer.from("text"))
      for (let length = 0; length < sealed.length; length++) {
        assert.isTrue(Option.isNone(cipher.open(key, nonce, aad, sealed.subarray(0, length))), `${length} bytes`)
      }
      const flipped = (of: Buffer, at: number) => {
        const changed = Buffer.from(of)
        changed[at] ^= 1
        return changed
      }
      for (let at = 0; at < nonce.length; at++) {
        assert.isTrue(Option.isNone(cipher.open(key, flipped(nonce, at), aad, sealed)), `nonce ${at}`)
      }
      for (let at = 0; at < aad.length; at++) {
        assert.isTrue(Option.isNone(cipher.open(key, nonce, flipped(aad, at), sealed)), `aad ${at}`)
      }
      const empty = seal(cipher, key, nonce, aad, Buffer.alloc(0))
      assert.isTrue(Option.isNone(cipher.open(key, nonce, Buffer.alloc(0), empty)))
      assert.isTrue(Option.isNone(cipher.open(key, nonce, aad, Buffer.concat([Buffer.of(0), empty]))))
      assert.isTrue(Option.isSome(cipher.open(key, nonce, aad, empty)))
    })
  })
}

describe("HKDF-SHA256 from a KeyObject", () => {
  it("gives the long answer of RFC 5869 A.2", () => {
    const range = (from: number, to: number) => Buffer.from(Array.from({ length: to - from + 1 }, (_, i) => from + i))
    const key = createSecretKey(range(0x00, 0x4f))
    assert.strictEqual(
      Buffer.from(hkdfSync("sha256", key, range(0x60, 0xaf), range(0xb0, 0xff), 82)).toString("hex"),
      "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c" +
        "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71" +
        "cc30c58179ec3e87c14c01d5c1f3434f1d87"
    )
  })
})

describe("X25519", () => {
  /** RFC 7748 6.1: private and public key. */
  const pairs = [
    [
      "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
      "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    ],
    [
      "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
      "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    ]
  ]

  it.effect("derives the public keys of RFC 7748 6.1", () =>
    Effect.gen(function* () {
      for (const [secret, expected] of pairs) {
        const publicKey = yield* Hpke.publicKeyOf(Redacted.make(hex(secret)))
        assert.strictEqual(Buffer.from(publicKey).toString("hex"), expected)
      }
    })
  )

  /** Points of small order (RFC 7748 6.1: the shared secret would be zero), and the same beyond the field's prime. */
  const smallOrder = [
    "00".repeat(32),
    `01${"00".repeat(31)}`,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    `ec${"ff".repeat(30)}7f`,
    `ed${"ff".repeat(30)}7f`,
    `ee${"ff".repeat(30)}7f`,
    // The highest bit is not looked at.
    `${"00".repeat(31)}80`,
    `ed${"ff".repeat(31)}`
  ]

  it.effect("is given no point of small order: neither sealed to, nor opened from", () =>
    Effect.gen(function* () {
      const pair = yield* Hpke.deriveKeyPair(Redacted.make(randomBytes(32)))
      const key = yield* Hpke.importOpeningKey(pair)
      const sealed = yield* Hpke.seal(
        yield* Hpke.importPublicKey(pair.publicKey),
        Buffer.from("info"),
        Buffer.from("aad"),
        Buffer.from("value")
      )
      for (const point of smallOrder.map(hex)) {
        const sealing = Effect.flatMap(Hpke.importPublicKey(point), (to) =>
          Hpke.seal(to, Buffer.from("info"), Buffer.from("aad"), Buffer.from("value"))
        )
        assert.strictEqual((yield* Effect.flip(sealing))._tag, "SealingKeyInvalid", point.toString("hex"))
        const forged = Buffer.concat([point, sealed.subarray(Hpke.encLength)])
        const opening = Hpke.open(key, Buffer.from("info"), Buffer.from("aad"), forged)
        assert.strictEqual((yield* Effect.flip(opening))._tag, "OpenRefused", point.toString("hex"))
      }
    })
  )
})

describe("Ed25519", () => {
  /** RFC 8032 7.1: seed, public key, message, signature. */
  const answers = [
    [
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
      "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
      "",
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155" +
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    ],
    [
      "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
      "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
      "72",
      "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    ],
    [
      "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
      "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
      "af82",
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac" +
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    ]
  ]

  it("gives the answers of RFC 8032 7.1", () => {
    for (const [seed, publicKey, message, signature] of answers) {
      const key = RootKey.signingKeyFrom(hex(seed))
      assert.strictEqual(sign(null, hex(message), key).toString("hex"), signature)
      const raw = createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32)
      assert.strictEqual(raw.toString("hex"), publicKey)
    }
  })

  it("overwrites the seed that it was given", () => {
    const seed = randomBytes(32)
    RootKey.signingKeyFrom(seed)
    assert.isTrue(seed.equals(Buffer.alloc(32)))
  })

  const order = 2n ** 252n + 27742317777372353535851937790883648493n
  const littleEndian = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`)

  it("in a signed note: no second signature comes out of a first (S plus the group's order), nor any changed bit", () => {
    const root = RootKey.rootKey(createSecretKey(randomBytes(32)))
    const key = SignedNote.noteKey("ampoule-test", RootKey.checkpointPublicKey(root))
    const text = "one line\n"
    const signature = RootKey.signCheckpoint(root, Buffer.from(text))
    const opens = (signature: Uint8Array) =>
      Either.isRight(SignedNote.open(SignedNote.print(text, key, signature), [key]))
    assert.isTrue(opens(signature))
    const s = littleEndian(signature.subarray(32))
    for (const other of [s + order, s + 2n * order, order - s, 0n].filter((one) => one < 2n ** 256n)) {
      const changed = Buffer.from(signature)
      Buffer.from(other.toString(16).padStart(64, "0"), "hex").reverse().copy(changed, 32)
      assert.isFalse(opens(changed))
    }
    for (let bit = 0; bit < 512; bit++) {
      const changed = Buffer.from(signature)
      changed[bit >> 3] ^= 1 << (bit & 7)
      assert.isFalse(opens(changed), `bit ${bit}`)
    }
    assert.isFalse(opens(Buffer.alloc(64)))
    assert.isFalse(opens(signature.subarray(0, 63)))
    assert.isFalse(opens(Buffer.concat([signature, Buffer.of(0)])))
  })
})
