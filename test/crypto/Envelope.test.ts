import { assert, describe, it } from "@effect/vitest"
import { gcm } from "@noble/ciphers/aes.js"
import { xchacha20poly1305 } from "@noble/ciphers/chacha.js"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Schema from "effect/Schema"
import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto"
import { readFileSync } from "node:fs"
import type { ValueContext } from "#src/crypto/Envelope.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { parsed } from "#test/support/Json.ts"

const keyOf = (bytes: Uint8Array) => createSecretKey(bytes)
const bytes = (length: number) => FastCheck.uint8Array({ minLength: length, maxLength: length })
const uuid = FastCheck.uuid()
const salts = bytes(Envelope.saltLength)
const text = FastCheck.fullUnicodeString({ maxLength: 200 })
const contexts: FastCheck.Arbitrary<ValueContext> = FastCheck.record({
  teamId: uuid,
  projectId: uuid,
  environmentId: uuid,
  secretId: uuid,
  key: FastCheck.stringMatching(/^[A-Z][A-Z0-9_]{0,40}$/),
  kind: FastCheck.constantFrom("literal", "template"),
  version: FastCheck.integer({ min: 1, max: 2 ** 31 - 1 }),
  dataKeyId: uuid,
  instance: FastCheck.option(FastCheck.tuple(FastCheck.constantFrom("", "bound-"), uuid), { nil: undefined }).map(
    (parts) => parts?.join("")
  )
})

/** Differs in the last digit only. */
const another = (id: string) => id.slice(0, -1) + (id.endsWith("0") ? "1" : "0")

const sample: ValueContext = {
  teamId: "0190a000-0000-7000-8000-000000000001",
  projectId: "0190a000-0000-7000-8000-000000000002",
  environmentId: "0190a000-0000-7000-8000-000000000003",
  secretId: "0190a000-0000-7000-8000-000000000004",
  key: "DATABASE_URL",
  kind: "literal",
  version: 1,
  dataKeyId: "0190a000-0000-7000-8000-000000000005",
  instance: undefined
}

const refuses = (result: Either.Either<unknown, { readonly _tag: string }>) =>
  Either.isLeft(result) && result.left._tag === "INTEGRITY_FAILURE"

const { vectors } = parsed(
  Schema.Struct({
    vectors: Schema.Array(
      Schema.Struct({
        cipher: Schema.Literal("xchacha20-poly1305", "aes-256-gcm"),
        key: Schema.String,
        context: Schema.Struct({
          teamId: Schema.String,
          projectId: Schema.String,
          environmentId: Schema.String,
          secretId: Schema.String,
          key: Schema.String,
          kind: Schema.String,
          version: Schema.Number,
          dataKeyId: Schema.String,
          instance: Schema.optional(Schema.String)
        }),
        salt: Schema.String,
        plaintext: Schema.String,
        box: Schema.String
      })
    )
  })
)(readFileSync("test/vectors/box-v1.json", "utf8"))

const algorithms = {
  "xchacha20-poly1305": { byte: 1, nonceLength: 24, noble: xchacha20poly1305 },
  "aes-256-gcm": { byte: 2, nonceLength: 12, noble: gcm }
} as const

for (const cipher of ["xchacha20-poly1305", "aes-256-gcm"] as const)
  describe(`the box of a value, ${cipher}`, () => {
    const algorithm = algorithms[cipher]
    const sealValue = (key: KeyObject, at: ValueContext, plaintext: string, salt: Uint8Array) =>
      Envelope.sealValue(key, at, plaintext, salt, cipher)

    it("matches the published vectors", () => {
      const ours = vectors.filter((vector) => vector.cipher === cipher)
      assert.isAtLeast(ours.length, 5)
      assert.isNotEmpty(ours.filter(({ context }) => context.instance !== undefined))
      for (const { box, context: place, key, plaintext, salt } of ours) {
        const context = { ...place, instance: place.instance }
        const dataKey = keyOf(Buffer.from(key, "hex"))
        const sealed = sealValue(dataKey, context, plaintext, Buffer.from(salt, "hex"))
        assert.strictEqual(sealed.toString("hex"), box)
        const opened = Envelope.openValue(dataKey, context, Buffer.from(box, "hex"))
        assert.strictEqual(Either.getOrThrow(opened), plaintext)
      }
    })

    it("is what the description of the format says, rebuilt from HMAC and noble's cipher", () => {
      FastCheck.assert(
        FastCheck.property(bytes(32), salts, contexts, text, (key, salt, at, plaintext) => {
          const fields = [
            ...(at.instance === undefined ? ["ampoule secret v1"] : ["ampoule secret v2", at.instance]),
            at.teamId,
            at.projectId,
            at.environmentId,
            at.secretId,
            at.key,
            at.kind,
            String(at.version),
            at.dataKeyId
          ]
          const info = Buffer.concat([
            Buffer.from([1, algorithm.byte]),
            ...fields.map((field) => Buffer.concat([Buffer.from([0, 0, 0, field.length]), Buffer.from(field)]))
          ])
          const hmac = (key: Uint8Array, ...parts: ReadonlyArray<Uint8Array>) =>
            createHmac("sha256", key).update(Buffer.concat(parts)).digest()
          const prk = hmac(salt, key)
          const t1 = hmac(prk, info, Buffer.of(1))
          const t2 = hmac(prk, t1, info, Buffer.of(2))
          const t3 = hmac(prk, t2, info, Buffer.of(3))
          const material = Buffer.concat([t1, t2, t3])
          const nonceEnd = 32 + algorithm.nonceLength
          const sealed = algorithm
            .noble(material.subarray(0, 32), material.subarray(32, nonceEnd), info)
            .encrypt(Buffer.from(plaintext))
          const commitment = material.subarray(nonceEnd, nonceEnd + 32)
          const expected = Buffer.concat([Buffer.from([1, algorithm.byte]), salt, commitment, sealed])
          const box = sealValue(keyOf(key), at, plaintext, salt)
          assert.strictEqual(box.toString("hex"), expected.toString("hex"))
        })
      )
    })

    it("opens to what was sealed, and is overhead bytes longer", () => {
      FastCheck.assert(
        FastCheck.property(bytes(32), salts, contexts, text, (key, salt, at, plaintext) => {
          const box = sealValue(keyOf(key), at, plaintext, salt)
          assert.strictEqual(box.length, Buffer.byteLength(plaintext) + Envelope.overhead)
          assert.strictEqual(Either.getOrThrow(Envelope.openValue(keyOf(key), at, box)), plaintext)
        })
      )
    })

    it("keeps a byte order mark, a NUL, an empty text and 65536 astral characters", () => {
      const key = keyOf(Buffer.alloc(32, 1))
      for (const plaintext of ["\ufeffx", "a\u0000b", "", "\u{1f512}".repeat(65_536)]) {
        const box = sealValue(key, sample, plaintext, Buffer.alloc(32, 2))
        assert.strictEqual(Either.getOrThrow(Envelope.openValue(key, sample, box)), plaintext)
      }
    })

    it("is refused with any single bit flipped", () => {
      const key = keyOf(Buffer.alloc(32, 1))
      const box = sealValue(key, sample, "postgres://localhost", Buffer.alloc(32, 2))
      for (let bit = 0; bit < box.length * 8; bit++) {
        const changed = Buffer.from(box)
        changed[bit >> 3] ^= 1 << (bit & 7)
        assert.isTrue(refuses(Envelope.openValue(key, sample, changed)), `bit ${bit}`)
      }
    })

    it("is refused when cut short or made longer", () => {
      const key = keyOf(Buffer.alloc(32, 1))
      const box = sealValue(key, sample, "value", Buffer.alloc(32, 2))
      for (let length = 0; length < box.length; length++) {
        assert.isTrue(refuses(Envelope.openValue(key, sample, box.subarray(0, length))), `${length} bytes`)
      }
      assert.isTrue(refuses(Envelope.openValue(key, sample, Buffer.concat([box, Buffer.of(0)]))))
    })

    it("is refused with any field of its context changed", () => {
      FastCheck.assert(
        FastCheck.property(bytes(32), salts, contexts, text, (key, salt, at, plaintext) => {
          const box = sealValue(keyOf(key), at, plaintext, salt)
          const changes: ReadonlyArray<Partial<ValueContext>> = [
            { teamId: another(at.teamId) },
            { projectId: another(at.projectId) },
            { environmentId: another(at.environmentId) },
            { secretId: another(at.secretId) },
            { key: `${at.key}_` },
            { kind: at.kind === "literal" ? "template" : "literal" },
            { version: at.version + 1 },
            { dataKeyId: another(at.dataKeyId) }
          ]
          for (const change of changes) {
            assert.isTrue(refuses(Envelope.openValue(keyOf(key), { ...at, ...change }, box)), Object.keys(change)[0])
          }
        })
      )
    })

    it("is refused in another row, whichever two rows of an environment are swapped", () => {
      FastCheck.assert(
        FastCheck.property(
          bytes(32),
          FastCheck.array(FastCheck.tuple(FastCheck.uuid(), FastCheck.nat(3), salts), { minLength: 2, maxLength: 8 }),
          (key, rows) => {
            const at = (secretId: string, n: number): ValueContext => ({ ...sample, secretId, key: `KEY_${n}` })
            const boxes = rows.map(([id, n, salt]) => sealValue(keyOf(key), at(id, n), "the same text", salt))
            for (const [i, box] of boxes.entries()) {
              for (const [j, [id, n]] of rows.entries()) {
                const same = rows[i][0] === id && rows[i][1] === n
                assert.strictEqual(Either.isRight(Envelope.openValue(keyOf(key), at(id, n), box)), same, `${i} in ${j}`)
              }
            }
          }
        )
      )
    })

    it("is refused under any other data key", () => {
      FastCheck.assert(
        FastCheck.property(bytes(32), bytes(32), salts, (key, other, salt) => {
          FastCheck.pre(!Buffer.from(key).equals(other))
          const box = sealValue(keyOf(key), sample, "value", salt)
          assert.isTrue(refuses(Envelope.openValue(keyOf(other), sample, box)))
        })
      )
    })

    it("commits to its key: with the right ciphertext and another key's commitment it is refused, and the other way round", () => {
      const [key, other] = [keyOf(Buffer.alloc(32, 1)), keyOf(Buffer.alloc(32, 2))]
      const salt = Buffer.alloc(32, 3)
      const mine = sealValue(key, sample, "value", salt)
      const theirs = sealValue(other, sample, "value", salt)
      const commitments = { from: 34, to: 66 }
      const crossed = Buffer.from(mine)
      theirs.copy(crossed, commitments.from, commitments.from, commitments.to)
      assert.isFalse(
        mine.subarray(commitments.from, commitments.to).equals(theirs.subarray(commitments.from, commitments.to))
      )
      assert.isTrue(refuses(Envelope.openValue(key, sample, crossed)))
      assert.isTrue(refuses(Envelope.openValue(other, sample, crossed)))
    })

    it("is refused, not crashed on, when a tampered row makes the context longer than HKDF takes", () => {
      const key = keyOf(Buffer.alloc(32, 1))
      const box = sealValue(key, sample, "value", Buffer.alloc(32, 2))
      assert.isTrue(refuses(Envelope.openValue(key, { ...sample, key: "A".repeat(5_000) }, box)))
    })

    it("takes the longest key name of the contract", () => {
      const key = keyOf(Buffer.alloc(32, 1))
      const at = { ...sample, key: "A".repeat(255), version: Number.MAX_SAFE_INTEGER }
      const box = sealValue(key, at, "value", Buffer.alloc(32, 2))
      assert.strictEqual(Either.getOrThrow(Envelope.openValue(key, at, box)), "value")
    })

    it("holds neither the plaintext nor the key", () => {
      const secret = Buffer.alloc(32, "key!")
      const box = sealValue(keyOf(secret), sample, "marker-7d1f", Buffer.alloc(32, 2))
      assert.isFalse(box.includes("marker-7d1f"))
      assert.isFalse(box.includes(secret.subarray(0, 8)))
    })
  })

describe("boxes of two algorithms", () => {
  const key = keyOf(Buffer.alloc(32, 1))
  const salt = Buffer.alloc(32, 2)
  const box = (cipher: Envelope.CipherName) => Envelope.sealValue(key, sample, "value", salt, cipher)

  it("open side by side, and a new value is sealed by XChaCha20-Poly1305 unless something else is asked for", () => {
    for (const cipher of ["xchacha20-poly1305", "aes-256-gcm"] as const) {
      assert.strictEqual(Either.getOrThrow(Envelope.openValue(key, sample, box(cipher))), "value")
    }
    const byDefault = Envelope.sealValue(key, sample, "value", salt)
    assert.isTrue(byDefault.equals(box("xchacha20-poly1305")))
  })

  it("share nothing: key, context and salt alike, commitment and ciphertext still differ", () => {
    const [one, two] = [box("xchacha20-poly1305"), box("aes-256-gcm")]
    assert.isFalse(one.subarray(34, 66).equals(two.subarray(34, 66)))
    assert.isFalse(one.subarray(66).equals(two.subarray(66)))
  })

  it("are refused when they say to be of the other algorithm, or of one that is not registered", () => {
    for (const [cipher, own] of [["xchacha20-poly1305", 1] as const, ["aes-256-gcm", 2] as const]) {
      for (let byte = 0; byte < 256; byte++) {
        const changed = Buffer.from(box(cipher))
        changed[1] = byte
        assert.strictEqual(refuses(Envelope.openValue(key, sample, changed)), byte !== own, `${cipher} as ${byte}`)
      }
    }
  })

  it("are refused with the commitment and ciphertext of the other", () => {
    const mixed = Buffer.concat([box("xchacha20-poly1305").subarray(0, 34), box("aes-256-gcm").subarray(34)])
    assert.isTrue(refuses(Envelope.openValue(key, sample, mixed)))
  })
})

describe("contexts", () => {
  it("encode injectively: different lists of fields never give equal bytes", () => {
    const fields = FastCheck.array(FastCheck.fullUnicodeString({ maxLength: 6 }), { maxLength: 5 })
    FastCheck.assert(
      FastCheck.property(fields, fields, (a, b) => {
        const equal = Buffer.from(Envelope.boxContext("ampoule test v1", ...a)).equals(
          Envelope.boxContext("ampoule test v1", ...b)
        )
        assert.strictEqual(equal, JSON.stringify(a) === JSON.stringify(b))
      }),
      { numRuns: 2_000 }
    )
  })

  it("cannot be shifted: moving characters from one field to the next changes the bytes", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.string({ minLength: 1, maxLength: 20 }),
        FastCheck.nat(),
        FastCheck.nat(),
        (s, i, j) => {
          const [a, b] = [i % (s.length + 1), j % (s.length + 1)]
          FastCheck.pre(a !== b)
          const at = (n: number) => Buffer.from(Envelope.boxContext("ampoule test v1", s.slice(0, n), s.slice(n)))
          assert.isFalse(at(a).equals(at(b)))
        }
      )
    )
  })

  it("count bytes, not characters", () => {
    const encoded = Buffer.from(Envelope.boxContext("ampoule test v1", "é"))
    assert.strictEqual(encoded.subarray(-6).toString("hex"), "00000002c3a9")
  })
})

describe("a fingerprint", () => {
  it("differs by key, by purpose and by content, and is none of the derived keys", () => {
    const [a, b] = [keyOf(Buffer.alloc(32, 1)), keyOf(Buffer.alloc(32, 2))]
    const all = [
      Envelope.mac(a, "idempotency", Buffer.from("x")),
      Envelope.mac(b, "idempotency", Buffer.from("x")),
      Envelope.mac(a, "other", Buffer.from("x")),
      Envelope.mac(a, "idempotency", Buffer.from("y"))
    ].map((mac) => mac.toString("hex"))
    assert.strictEqual(new Set(all).size, 4)
    assert.strictEqual(Envelope.mac(a, "idempotency", Buffer.from("x")).toString("hex"), all[0])
  })
})

describe("the borders of a box", () => {
  const key = keyOf(Buffer.alloc(32, 1))
  const salt = Buffer.alloc(Envelope.saltLength, 2)

  it("are a whole salt, and a context that the derivation takes", () => {
    const at = Envelope.boxContext("ampoule test v1")
    for (const length of [0, 31, 33]) {
      const seal = () => Envelope.sealBytes(key, at, Buffer.from("x"), Buffer.alloc(length))
      assert.throws(seal, RangeError, "a salt has 32 bytes")
    }
    // 1,024 bytes with the two of the head.
    const longest = Envelope.boxContext("ampoule test v1", "x".repeat(1_022 - 4 - 15 - 4))
    const box = Envelope.sealBytes(key, longest, Buffer.from("text"), salt)
    assert.deepStrictEqual(Envelope.openBytes(key, longest, box), Either.right(Buffer.from("text")))
  })

  it.effect("are those of XChaCha20-Poly1305 when nobody chose", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Envelope.ValueCipher, "xchacha20-poly1305")
    })
  )

  it("of a fingerprint are those of its published derivation", () => {
    const field = (text: string) => Buffer.concat([Buffer.from([0, 0, 0, text.length]), Buffer.from(text)])
    const info = Buffer.concat([field("ampoule mac v1"), field("idempotency")])
    const derived = Buffer.from(hkdfSync("sha256", Buffer.alloc(32, 1), new Uint8Array(0), info, 32))
    const expected = createHmac("sha256", derived).update("x").digest()
    assert.deepStrictEqual(Envelope.mac(key, "idempotency", Buffer.from("x")), expected)
  })
})
