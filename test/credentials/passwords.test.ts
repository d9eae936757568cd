import { assert, describe, it, layer } from "@effect/vitest"
import { vi } from "vitest"
import * as argon2 from "@node-rs/argon2"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import { createSecretKey } from "node:crypto"
import * as VaultLocal from "#layers/VaultLocal.ts"
import * as KeyRing from "#src/crypto/KeyRing.ts"
import * as RowMac from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { fingerprintLength, fingerprints, holds, isCommon, isPattern } from "#src/credentials/CommonPasswords.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const good = "vial of thirty drops"

// The real computations, observed. Files share modules: one that has loaded the library already would not be observed.
vi.hoisted(() => vi.resetModules())
vi.mock("@node-rs/argon2", { spy: true })

/** As a release before 1.1 stored it. */
const formerHash = (password: string) =>
  Effect.promise(() => argon2.hash(password, { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 }))

/** Parameters of each computation that compares a wrong password with these hashes, sorted. */
const computationsOf = Effect.fnUntraced(function* (passwords: Passwords, stored: ReadonlyArray<string>) {
  const [verify, hash] = [vi.mocked(argon2.verify), vi.mocked(argon2.hash)]
  verify.mockClear()
  hash.mockClear()
  yield* passwords.find(stored, Redacted.make("a password of no account"))
  const hashed = hash.mock.calls.map(([, used]) => `m=${used?.memoryCost},t=${used?.timeCost},p=${used?.parallelism}`)
  return [...verify.mock.calls.map(([phc]) => String(phc).split("$")[3]), ...hashed].sort()
})

const onDatabase = Passwords.Default.pipe(
  Layer.provideMerge(RowSeal.Default),
  Layer.provide(ServiceKeys.Default),
  Layer.provide(VaultLocal.layerMemory),
  Layer.provide(Layer.merge(Crypto.Default, TestDatabase.layer))
)

layer(onDatabase)("passwords", (it) => {
  it.effect("are kept as argon2id with 64 MiB, three passes, one lane, and a salt of their own", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const one = yield* passwords.hash(Redacted.make(good), "password")
      const two = yield* passwords.hash(Redacted.make(good), "password")
      const macs = yield* (yield* RowSeal).ready
      assert.match(
        yield* macs.openPassword(one),
        /^\$argon2id\$v=19\$m=65536,t=3,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/
      )
      assert.notStrictEqual(one, two)
      assert.deepStrictEqual(yield* passwords.verify(one, Redacted.make(good)), { matches: true, stale: false })
      assert.isFalse((yield* passwords.verify(one, Redacted.make(`${good} `))).matches)
    })
  )

  it.effect("of several accounts of one address share a salt, and one comparison finds the account", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const texts = [good, "vial of forty drops!", "seven green lamps over a harbour"].map((text) =>
        Redacted.make(text)
      )
      const first = yield* passwords.hash(texts[0], "password")
      const stored = [first, yield* passwords.hash(texts[1], "password", first), "", "locked"]
      stored.push(yield* passwords.hash(texts[2], "password", first))
      const macs = yield* (yield* RowSeal).ready
      const opened = yield* Effect.forEach([stored[0], stored[1], stored[4]], macs.openPassword)
      assert.strictEqual(new Set(opened.map((phc) => phc.split("$")[4])).size, 1)
      assert.strictEqual(new Set(opened).size, 3)
      const indexes = yield* Effect.forEach(texts, (text) => passwords.find(stored, text))
      assert.deepStrictEqual(
        indexes.map(({ index, stale }) => [index, stale]),
        [
          [0, false],
          [1, false],
          [4, false]
        ]
      )
      assert.isUndefined((yield* passwords.find(stored, Redacted.make("a password of no account"))).index)
      // A salt of its own, as an account has that came from another address.
      const foreign = yield* passwords.hash(Redacted.make("nine red boats on a lake"), "password")
      assert.strictEqual(
        (yield* passwords.find([...stored, foreign], Redacted.make("nine red boats on a lake"))).index,
        5
      )
    })
  )

  it.effect(
    "cannot even be guessed without the vault: a hash is sealed, and one of a release before is sealed at sign-in",
    () =>
      Effect.gen(function* () {
        const passwords = yield* Passwords
        const macs = yield* (yield* RowSeal).ready
        const sealed = yield* passwords.hash(Redacted.make(good), "password")
        const [, generation, text = ""] = /^sealed\$(\d+)\$([A-Za-z0-9+/=]+)$/.exec(sealed) ?? []
        assert.strictEqual(generation, "1")
        const plain = yield* macs.openPassword(sealed)
        assert.notInclude(Buffer.from(text, "base64").toString("latin1"), "argon2")
        assert.deepStrictEqual(yield* passwords.verify(plain, Redacted.make(good)), { matches: true, stale: true })
        const key = KeyRing.unbound(createSecretKey(Buffer.alloc(32)))
        const others = RowMac.make({ rows: key, credentials: key, passwords: key }, () => {})
        assert.isTrue(Either.isLeft(others.openPassword(sealed)), "another installation's key")
        const box = Buffer.from(text, "base64")
        for (let at = 0; at < box.length; at += 7) {
          const flipped = Buffer.from(box)
          flipped[at] ^= 1
          assert.isTrue(Either.isLeft(macs.openPassword(`sealed$1$${flipped.toString("base64")}`)), `byte ${at}`)
        }
      })
  )

  it.effect("are the same in every way of composing their characters", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const phc = yield* passwords.hash(Redacted.make("Zoë's caf\u00e9 noir"), "password")
      assert.isTrue((yield* passwords.verify(phc, Redacted.make("Zoe\u0308's cafe\u0301 noir"))).matches)
    })
  )

  it.effect("are hashed whole: a difference at the 256th character counts", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const long = Array.from({ length: 255 }, (_, i) => "vialsof drops"[(i * 7) % 13]).join("")
      const phc = yield* passwords.hash(Redacted.make(`${long}a`), "password")
      assert.isFalse((yield* passwords.verify(phc, Redacted.make(`${long}b`))).matches)
    })
  )

  it.effect("match nobody when there is no such person, at the computations of a renewed and of a former hash", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const former = yield* formerHash(good)
      const today = yield* passwords.hash(Redacted.make(good), "password")
      const sibling = yield* passwords.hash(Redacted.make("seven green lamps over a harbour"), "password", today)
      for (const none of [undefined, "", "locked"]) {
        assert.isFalse((yield* passwords.verify(none, Redacted.make(good))).matches)
      }
      const groups = yield* Effect.forEach(
        [[], ["", "locked"], [former], [today], [today, former], [today, sibling]],
        (stored) => computationsOf(passwords, stored)
      )
      for (const group of groups) assert.deepStrictEqual(group, ["m=19456,t=2,p=1", "m=65536,t=3,p=1"])
    })
  )

  it.effect("are hashed two at a time, so that sign-ins take at most 128 MiB", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const { verify } = yield* Effect.promise(() => vi.importActual<typeof argon2>("@node-rs/argon2"))
      let [running, most] = [0, 0]
      vi.mocked(argon2.verify).mockImplementation(async (...args) => {
        most = Math.max(most, ++running)
        const result = await verify(...args)
        running--
        return result
      })
      const origin = yield* RequestInfo
      const attempts = Array.from({ length: 6 }, (_, i) =>
        Effect.provideService(passwords.verify(undefined, Redacted.make(good)), RequestInfo, {
          ...origin,
          ip: `192.0.2.${i}`
        })
      )
      yield* Effect.all(attempts, { concurrency: "unbounded" })
      vi.mocked(argon2.verify).mockReset()
      assert.strictEqual(most, 2)
    })
  )

  it.effect("hashed with other parameters still open, and are marked for a new hash", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      for (const options of [
        { memoryCost: 8_192, timeCost: 2, parallelism: 1 },
        { memoryCost: 19_456, timeCost: 3, parallelism: 1 },
        { memoryCost: 19_456, timeCost: 2, parallelism: 2 }
      ]) {
        const old = yield* Effect.promise(() => argon2.hash(good, { ...options, algorithm: 2 }))
        assert.deepStrictEqual(yield* passwords.verify(old, Redacted.make(good)), { matches: true, stale: true })
      }
      const renewed = yield* passwords.rehash(Redacted.make(good))
      assert.deepStrictEqual(yield* passwords.verify(renewed, Redacted.make(good)), { matches: true, stale: false })
    })
  )

  it.effect("that are the most common ones are refused by a sentence that does not repeat them", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const refusal = yield* Effect.flip(passwords.hash(Redacted.make("Password1234"), "newPassword"))
      assert.strictEqual(refusal._tag, "VALIDATION_FAILED")
      assert.strictEqual(refusal.field, "newPassword")
      assert.notInclude(JSON.stringify(refusal), "Password1234")
    })
  )
})

describe("common passwords", () => {
  for (const common of [
    "123456789012",
    "qwertyuiopas",
    "QwertyUiop[]",
    "passwordpassword",
    "Password2026!",
    "P@ssw0rd1234",
    "aaaaaaaaaaaa",
    "abcabcabcabc",
    "correct horse battery staple",
    "iloveyouforever",
    "1qaz2wsx3edc",
    "lkjhgfdsapoiuytrewq"
  ]) {
    it(`hold ${common}`, () => assert.isTrue(isPattern(common)))
  }
  for (const fine of [
    good,
    "another horse with batteries",
    "Tr0ub4dor&3-extended",
    "насос включён давно",
    "x7Kq!pa9zR2m"
  ]) {
    it.effect(`do not hold ${fine}`, () => Effect.map(isCommon(fine), (common) => assert.isFalse(common)))
  }
  // By rank among those of 12 characters and more: the first ones, some around 3,000 and the last of 10,000.
  for (const leaked of [
    "123qweasdzxc",
    "mailcreated5240",
    "Mailcreated5240",
    "polniypizdec0211",
    "leavemealone",
    "sonyericsson",
    "unbelievable",
    "needforspeed",
    "justinbieber",
    "counterstrike",
    "feuerwehr112",
    "fairanger71rus",
    "everybodylies",
    "fw34klm79rte",
    "dthfdkflbvbhjdyf"
  ]) {
    it.effect(`hold ${leaked}, which is no pattern`, () =>
      Effect.gen(function* () {
        assert.isFalse(isPattern(leaked))
        assert.isTrue(yield* isCommon(leaked))
        assert.isFalse(yield* isCommon(`${leaked}, not`))
      })
    )
  }

  it.effect("are listed as sorted fingerprints, 10,000 of them, each once", () =>
    Effect.gen(function* () {
      const list = yield* fingerprints
      const entries = Array.from({ length: list.length / fingerprintLength }, (_, i) =>
        list.subarray(i * fingerprintLength, (i + 1) * fingerprintLength).toString("hex")
      )
      assert.lengthOf(entries, 10_000)
      assert.deepStrictEqual(entries, [...new Set(entries)].sort())
    })
  )

  it.effect("are all found that are listed, and nothing beside them", () =>
    Effect.gen(function* () {
      const list = yield* fingerprints
      for (let i = 0; i < list.length; i += fingerprintLength) {
        const entry = Buffer.from(list.subarray(i, i + fingerprintLength))
        assert.isTrue(holds(list, fingerprintLength, entry))
        entry[fingerprintLength - 1] ^= 1
        const at = list.indexOf(entry)
        if (at === -1) assert.isFalse(holds(list, fingerprintLength, entry))
      }
      assert.isFalse(holds(Buffer.alloc(0), fingerprintLength, Buffer.alloc(fingerprintLength)))
    })
  )

  it.prop(
    "hold hardly any text drawn at random",
    [
      FastCheck.string({
        unit: FastCheck.constantFrom(..."abcdefghijklmnopqrstuvwxyz0123456789-"),
        minLength: 14,
        maxLength: 40
      })
    ],
    ([text]) => assert.isFalse(new Set(text).size > 6 && isPattern(text))
  )
})
