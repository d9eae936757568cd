import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { uuidPattern } from "#schema/Ids.ts"
import { base62, Crypto, Randomness, safeEqual, sha256 } from "#src/crypto/Crypto.ts"
import { SnapshotCipher } from "#src/crypto/SnapshotCipher.ts"

describe("ids", () => {
  it.effect("are UUIDv7 of the contract's pattern and carry the clock's milliseconds", () =>
    Effect.gen(function* () {
      const crypto = yield* Crypto
      yield* TestClock.setTime(1_763_712_345_678)
      const id = yield* crypto.uuid
      assert.match(id, uuidPattern)
      assert.strictEqual(id[14], "7")
      assert.strictEqual(Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16), 1_763_712_345_678)
    }).pipe(Effect.provide(Crypto.Default))
  )

  it.effect("of one process ascend and never repeat, while the clock stops, steps back and goes on", () =>
    Effect.gen(function* () {
      const crypto = yield* Crypto
      yield* TestClock.setTime(1_763_712_345_678)
      const ids: Array<string> = [...(yield* crypto.uuids(10_000))]
      yield* TestClock.setTime(1_763_712_000_000)
      ids.push(...(yield* crypto.uuids(10)))
      yield* TestClock.setTime(1_763_712_345_700)
      ids.push(yield* crypto.uuid)
      assert.deepStrictEqual([...ids].sort(), ids)
      assert.strictEqual(new Set(ids).size, ids.length)
      for (const id of ids) assert.match(id, uuidPattern)
    }).pipe(Effect.provide(Crypto.Default))
  )
})

describe("credential text", () => {
  it.effect("has the lengths and the alphabet of the contract", () =>
    Effect.gen(function* () {
      const crypto = yield* Crypto
      assert.match(yield* crypto.lookupId, /^[0-9A-Za-z]{16}$/)
      assert.match(Redacted.value(yield* crypto.credentialSecret), /^[0-9A-Za-z]{43}$/)
    }).pipe(Effect.provide(Crypto.Default))
  )

  it.effect("uses every character about equally often", () =>
    Effect.gen(function* () {
      const crypto = yield* Crypto
      const counts = new Map<string, number>()
      for (const character of yield* crypto.randomText(base62, 62_000)) {
        counts.set(character, (counts.get(character) ?? 0) + 1)
      }
      assert.strictEqual(counts.size, 62)
      // 1000 expected, standard deviation 31: a plain modulo would give its first 8 characters 1210 each.
      for (const [character, count] of counts) assert.closeTo(count, 1_000, 190, character)
    }).pipe(Effect.provide(Crypto.Default))
  )

  it.effect("comes from the randomness service and throws away bytes that would favour some characters", () => {
    const sequence = [255, 248, 0, 61, 62, 247]
    const bytes = (length: number) => Buffer.from(Array.from({ length }, (_, i) => sequence[i % sequence.length]))
    return Effect.gen(function* () {
      const crypto = yield* Crypto
      assert.strictEqual(yield* crypto.randomText(base62, 4), "0z0z")
    }).pipe(Effect.provide(Layer.provide(Crypto.Default, Layer.succeed(Randomness, { bytes }))))
  })
})

describe("digests", () => {
  it("are SHA-256 of the parts joined", () => {
    assert.strictEqual(
      sha256("a", Buffer.from("bc")).toString("hex"),
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
  })

  it("are equal only when every byte is, and different lengths do not throw", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.uint8Array({ maxLength: 6 }), FastCheck.uint8Array({ maxLength: 6 }), (a, b) => {
        assert.strictEqual(safeEqual(a, b), Buffer.from(a).equals(b))
        assert.isTrue(safeEqual(a, Uint8Array.from(a)))
      })
    )
  })
})

describe("snapshots in memory", () => {
  const aad = Buffer.from("environment 1, revision 4")

  it.effect("open to what was sealed, and only under their own name", () =>
    Effect.gen(function* () {
      const cipher = yield* SnapshotCipher
      FastCheck.assert(
        FastCheck.property(FastCheck.uint8Array({ maxLength: 300 }), (bytes) => {
          const sealed = cipher.seal(bytes, aad)
          assert.deepStrictEqual(
            Option.map(cipher.open(sealed, aad), (opened) => Uint8Array.from(opened)),
            Option.some(bytes)
          )
          assert.isTrue(Option.isNone(cipher.open(sealed, Buffer.from("environment 1, revision 5"))))
        })
      )
    }).pipe(Effect.provide(SnapshotCipher.Default))
  )

  it.effect("never seal twice with the same nonce, and are refused with any bit flipped or cut short", () =>
    Effect.gen(function* () {
      const cipher = yield* SnapshotCipher
      const boxes = Array.from({ length: 1_000 }, () => cipher.seal(Buffer.from("same"), aad))
      assert.strictEqual(new Set(boxes.map((box) => box.toString("hex", 0, 12))).size, 1_000)
      const [box] = boxes
      for (let bit = 0; bit < box.length * 8; bit++) {
        const changed = Buffer.from(box)
        changed[bit >> 3] ^= 1 << (bit & 7)
        assert.isTrue(Option.isNone(cipher.open(changed, aad)), `bit ${bit}`)
      }
      for (let length = 0; length < box.length; length++) {
        assert.isTrue(Option.isNone(cipher.open(box.subarray(0, length), aad)), `${length} bytes`)
      }
    }).pipe(Effect.provide(SnapshotCipher.Default))
  )

  it.effect("of another process do not open: each has its own key", () =>
    Effect.gen(function* () {
      const one = yield* Effect.provide(SnapshotCipher, SnapshotCipher.Default)
      const two = yield* Effect.provide(SnapshotCipher, Layer.fresh(SnapshotCipher.Default))
      assert.isTrue(Option.isNone(two.open(one.seal(Buffer.from("x"), aad), aad)))
    })
  )
})
