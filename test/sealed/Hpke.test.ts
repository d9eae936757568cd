import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { createHash, generateKeyPairSync, randomBytes } from "node:crypto"
import * as Hpke from "#src/sealed/Hpke.ts"
import * as Rfc9180 from "./Rfc9180.ts"

const hex = (text: string) => Buffer.from(text, "hex")

/** RFC 9180 A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, sequence number 0. */
const vector = {
  info: hex("4f6465206f6e2061204772656369616e2055726e"),
  recipient: hex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8"),
  enc: hex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"),
  plaintext: hex("4265617574792069732074727574682c20747275746820626561757479"),
  aad: hex("436f756e742d30"),
  ciphertext: hex("f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a")
}

const keyPair = Effect.suspend(() => Hpke.deriveKeyPair(Redacted.make(randomBytes(32))))

describe("RFC 9180 A.1.1", () => {
  it("is met by the second implementation that these tests compare with", () => {
    const sealed = Buffer.concat([vector.enc, vector.ciphertext])
    const opened = Rfc9180.open(Rfc9180.aes128, vector.recipient, vector.info, vector.aad, sealed)
    assert.strictEqual(opened.toString("hex"), vector.plaintext.toString("hex"))
  })

  it.effect("is met by @hpke/core", () =>
    Effect.gen(function* () {
      const suite = new CipherSuite({ kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm() })
      const own = (bytes: Buffer) => Uint8Array.from(bytes).buffer
      const opened = yield* Effect.promise(async () => {
        const recipientKey = await suite.kem.importKey("raw", own(vector.recipient), false)
        return suite.open(
          { recipientKey, enc: own(vector.enc), info: own(vector.info) },
          own(vector.ciphertext),
          own(vector.aad)
        )
      })
      assert.strictEqual(Buffer.from(opened).toString("hex"), vector.plaintext.toString("hex"))
    })
  )
})

describe("HPKE with AES-256-GCM", () => {
  const info = Buffer.from("info")
  const aad = Buffer.from("aad")

  it.effect("agrees with a second implementation on node:crypto, in both directions and at every length", () =>
    Effect.gen(function* () {
      const pair = yield* keyPair
      const publicKey = yield* Hpke.importPublicKey(pair.publicKey)
      const openingKey = yield* Hpke.importOpeningKey(pair)
      for (const length of [0, 1, 15, 16, 17, 1_000, 65_536]) {
        const plaintext = randomBytes(length)
        const ours = yield* Hpke.seal(publicKey, info, aad, plaintext)
        const theirs = Rfc9180.seal(Rfc9180.aes256, pair.publicKey, randomBytes(32), info, aad, plaintext)
        assert.strictEqual(ours.length, Hpke.encLength + length + Hpke.tagLength)
        assert.isTrue(plaintext.equals(Rfc9180.open(Rfc9180.aes256, Redacted.value(pair.privateKey), info, aad, ours)))
        assert.isTrue(plaintext.equals(yield* Hpke.open(openingKey, info, aad, theirs)))
      }
    })
  )

  it.effect("never seals twice alike", () =>
    Effect.gen(function* () {
      const publicKey = yield* Hpke.importPublicKey((yield* keyPair).publicKey)
      const sealed = yield* Effect.replicateEffect(Hpke.seal(publicKey, info, aad, Buffer.from("same")), 50)
      assert.strictEqual(new Set(sealed.map((bytes) => createHash("sha256").update(bytes).digest("hex"))).size, 50)
    })
  )

  it.effect("refuses another info, AAD or key, and every flipped bit", () =>
    Effect.gen(function* () {
      const pair = yield* keyPair
      const openingKey = yield* Hpke.importOpeningKey(pair)
      const other = yield* Hpke.importOpeningKey(yield* keyPair)
      const sealed = yield* Hpke.seal(yield* Hpke.importPublicKey(pair.publicKey), info, aad, Buffer.from("value"))
      const refused = (effect: Effect.Effect<Uint8Array, Hpke.OpenRefused>) =>
        Effect.map(Effect.flip(effect), ({ _tag }) => assert.strictEqual(_tag, "OpenRefused"))
      yield* refused(Hpke.open(openingKey, Buffer.from("inf0"), aad, sealed))
      yield* refused(Hpke.open(openingKey, info, Buffer.from("aae"), sealed))
      yield* refused(Hpke.open(other, info, aad, sealed))
      yield* refused(Hpke.open(openingKey, info, aad, sealed.subarray(0, 20)))
      for (let bit = 0; bit < sealed.length * 8; bit++) {
        const changed = Buffer.from(sealed)
        changed[bit >> 3] ^= 1 << (bit & 7)
        yield* refused(Hpke.open(openingKey, info, aad, changed))
      }
    })
  )

  it.effect("refuses public keys that are of small order or no key at all", () =>
    Effect.gen(function* () {
      const refused = (effect: Effect.Effect<unknown, Hpke.SealingKeyInvalid>) =>
        Effect.map(Effect.flip(effect), ({ _tag }) => assert.strictEqual(_tag, "SealingKeyInvalid"))
      const sealTo = (bytes: Uint8Array) =>
        Effect.flatMap(Hpke.importPublicKey(bytes), (key) => Hpke.seal(key, info, aad, Buffer.from("value")))
      yield* refused(sealTo(Buffer.alloc(31)))
      yield* refused(sealTo(Buffer.alloc(32)))
      yield* refused(sealTo(Buffer.concat([Buffer.of(1), Buffer.alloc(31)])))
    })
  )

  it.effect("derives one key pair from one seed, and its public half is that of X25519", () =>
    Effect.gen(function* () {
      const seed = randomBytes(32)
      const one = yield* Hpke.deriveKeyPair(Redacted.make(seed))
      const two = yield* Hpke.deriveKeyPair(Redacted.make(seed))
      assert.deepStrictEqual(one.publicKey, two.publicKey)
      assert.isTrue(Rfc9180.publicKeyOf(Redacted.value(one.privateKey)).equals(one.publicKey))
      assert.isFalse(Buffer.from(Redacted.value(one.privateKey)).equals(seed))
    })
  )

  it.effect("holds private keys so that they cannot be exported", () =>
    Effect.gen(function* () {
      const { privateKey } = yield* Hpke.importOpeningKey(yield* keyPair)
      assert.isFalse(privateKey.extractable)
    })
  )

  it.effect("takes keys made elsewhere", () =>
    Effect.gen(function* () {
      const { publicKey } = generateKeyPairSync("x25519")
      const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32)
      const key = yield* Hpke.importPublicKey(raw)
      assert.strictEqual((yield* Hpke.seal(key, info, aad, Buffer.from("value"))).length, 32 + 5 + 16)
    })
  )
})
