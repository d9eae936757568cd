import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHash, randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import * as Hpke from "#src/sealed/Hpke.ts"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import { parsed } from "#test/support/Json.ts"
import * as Rfc9180 from "./Rfc9180.ts"

const Vectors = Schema.Struct({
  environmentId: Schema.String,
  privateKey: Schema.String,
  publicKey: Schema.String,
  keyId: Schema.String,
  info: Schema.String,
  entries: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      plaintext: Schema.String,
      ephemeralPrivateKey: Schema.String,
      aad: Schema.String,
      entry: Schema.String
    })
  )
})
const vectors = parsed(Vectors)(readFileSync("test/vectors/sealed-v1.json", "utf8"))

const environmentId = "0190a000-0000-7000-8000-000000000003"

const party = (environment: string) =>
  Effect.gen(function* () {
    const pair = yield* Hpke.deriveKeyPair(Redacted.make(randomBytes(32)))
    return {
      to: yield* SealedEnv.recipient(environment, pair.publicKey),
      by: yield* SealedEnv.opener(environment, pair)
    }
  })

const sealAll = (to: SealedEnv.Recipient, values: Readonly<Record<string, string>>) =>
  Effect.map(
    Effect.forEach(Object.entries(values), ([name, value]) =>
      Effect.map(SealedEnv.sealEntry(to, name, Redacted.make(value)), (entry) => [name, entry] as const)
    ),
    (entries) => new Map(entries)
  )

const withManifest = (to: SealedEnv.Recipient, entries: ReadonlyMap<string, string>) =>
  Effect.map(
    SealedEnv.sealManifest(to, entries),
    (manifest) => new Map([...entries, [SealedEnv.manifestName, manifest]])
  )

const reveal = (values: ReadonlyMap<string, Redacted.Redacted<string>>) =>
  Object.fromEntries([...values].map(([name, value]) => [name, Redacted.value(value)]))

const refusedAt = (by: SealedEnv.Opener, entries: ReadonlyMap<string, string>) =>
  Effect.map(Effect.flip(SealedEnv.openAll(by, entries)), (error) =>
    error._tag === "SealedEntryRefused" ? error.name : error
  )

describe("published vectors", () => {
  const pair: Hpke.KeyPair = {
    publicKey: Buffer.from(vectors.publicKey, "base64url"),
    privateKey: Redacted.make(Buffer.from(vectors.privateKey, "base64url"))
  }

  it.effect("open to their plaintexts", () =>
    Effect.gen(function* () {
      const by = yield* SealedEnv.opener(vectors.environmentId, pair)
      assert.strictEqual(by.keyId, vectors.keyId)
      const opened = yield* SealedEnv.openAll(by, new Map(vectors.entries.map(({ entry, name }) => [name, entry])))
      const expected = vectors.entries.filter(({ name }) => name !== "_manifest")
      assert.isAtLeast(expected.length, 4)
      assert.deepStrictEqual(
        reveal(opened),
        Object.fromEntries(expected.map(({ name, plaintext }) => [name, plaintext]))
      )
    })
  )

  it("are what RFC 9180 and the contract say, rebuilt without our code", () => {
    assert.strictEqual(Buffer.from(vectors.info, "hex").toString(), "ampoule sealed-env v1")
    const digest = createHash("sha256").update(pair.publicKey).digest("hex")
    assert.strictEqual(vectors.keyId, `ek_${digest.slice(0, 8)}`)
    for (const { aad, entry, ephemeralPrivateKey, name, plaintext } of vectors.entries) {
      const fields = ["ampoule sealed-env v1", vectors.environmentId, vectors.keyId, name]
      const expectedAad = Buffer.concat(
        fields.map((field) => Buffer.concat([Buffer.of(0, 0, 0, Buffer.byteLength(field)), Buffer.from(field)]))
      )
      assert.strictEqual(aad, expectedAad.toString("hex"))
      const ephemeral = Buffer.from(ephemeralPrivateKey, "base64url")
      const info = Buffer.from(vectors.info, "hex")
      const sealed = Rfc9180.seal(Rfc9180.aes256, pair.publicKey, ephemeral, info, expectedAad, Buffer.from(plaintext))
      assert.strictEqual(entry, `sealed:v1:${vectors.keyId}:${sealed.toString("base64url")}`)
    }
  })
})

describe("sealed entries", () => {
  it.effect.prop(
    "open to what was sealed, whatever the text, with and without a manifest",
    [
      FastCheck.dictionary(
        FastCheck.stringMatching(/^[A-Z][A-Z0-9_]{0,8}$/),
        FastCheck.fullUnicodeString({ maxLength: 60 }),
        { maxKeys: 6 }
      )
    ],
    ([values]) =>
      Effect.gen(function* () {
        const { by, to } = yield* party(environmentId)
        const entries = yield* sealAll(to, values)
        assert.deepStrictEqual(reveal(yield* SealedEnv.openAll(by, entries)), values)
        assert.deepStrictEqual(reveal(yield* SealedEnv.openAll(by, yield* withManifest(to, entries))), values)
      }),
    { fastCheck: { numRuns: 30 } }
  )

  it.effect("keep a byte order mark and a NUL", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const values = { BOM: "\ufeffx", NUL: "a\u0000b", EMPTY: "" }
      assert.deepStrictEqual(reveal(yield* SealedEnv.openAll(by, yield* sealAll(to, values))), values)
    })
  )

  it.effect("take an environment id in capitals for the same environment", () =>
    Effect.gen(function* () {
      const pair = yield* Hpke.deriveKeyPair(Redacted.make(randomBytes(32)))
      const entries = yield* sealAll(yield* SealedEnv.recipient(environmentId.toUpperCase(), pair.publicKey), {
        A: "x"
      })
      assert.strictEqual((yield* SealedEnv.openAll(yield* SealedEnv.opener(environmentId, pair), entries)).size, 1)
    })
  )

  it.effect("are refused with any character changed, in every position", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const entry = yield* SealedEnv.sealEntry(to, "KEY", Redacted.make("va"))
      for (let at = 0; at < entry.length; at++) {
        for (const replacement of entry[at] === "A" ? ["B", "="] : ["A", "="]) {
          const changed = entry.slice(0, at) + replacement + entry.slice(at + 1)
          assert.strictEqual(yield* refusedAt(by, new Map([["KEY", changed]])), "KEY", `character ${at}`)
        }
      }
      // 50 bytes leave two unused bits in the last character: only one spelling may open.
      const last = entry.slice(-1)
      const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
      for (const character of alphabet) {
        if (character === last) continue
        assert.strictEqual(yield* refusedAt(by, new Map([["KEY", entry.slice(0, -1) + character]])), "KEY", character)
      }
    })
  )

  it.effect("are refused renamed, swapped, in another environment and by another key, and the file with them", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const entries = yield* sealAll(to, { A: "one", B: "two", C: "three" })
      const [a, b, c] = [...entries.values()]
      assert.strictEqual(
        yield* refusedAt(
          by,
          new Map([
            ["A", a],
            ["B", b],
            ["D", c]
          ])
        ),
        "D"
      )
      assert.strictEqual(
        yield* refusedAt(
          by,
          new Map([
            ["A", b],
            ["B", a],
            ["C", c]
          ])
        ),
        "A"
      )
      const elsewhere = { ...by, environmentId: "0190a000-0000-7000-8000-000000000009" }
      assert.strictEqual(yield* refusedAt(elsewhere, entries), "A")
      const other = yield* party(environmentId)
      assert.strictEqual(yield* refusedAt(other.by, entries), "A")
      // Relabelled to the other key: its id then fits, the ciphertext does not.
      const relabelled = a.replace(by.keyId, other.by.keyId)
      assert.strictEqual(yield* refusedAt(other.by, new Map([["A", relabelled]])), "A")
    })
  )

  it.effect("are refused next to plaintext, padding, other versions and truncated entries", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const good = yield* SealedEnv.sealEntry(to, "GOOD", Redacted.make("x"))
      const bad = [
        "",
        "plaintext",
        `sealed:v1:${by.keyId}:`,
        good.replace("v1", "v2"),
        `${good}=`,
        `${good}\n`,
        ` ${good}`,
        good.slice(0, -1),
        good.slice(0, 60),
        good.replace("ek_", "EK_")
      ]
      for (const text of bad) {
        assert.strictEqual(
          yield* refusedAt(
            by,
            new Map([
              ["GOOD", good],
              ["BAD", text]
            ])
          ),
          "BAD",
          text.slice(0, 20)
        )
      }
    })
  )

  it.effect("are refused when the bytes inside are not UTF-8", () =>
    Effect.gen(function* () {
      const pair = yield* Hpke.deriveKeyPair(Redacted.make(randomBytes(32)))
      const by = yield* SealedEnv.opener(environmentId, pair)
      const sealed = Rfc9180.seal(
        Rfc9180.aes256,
        pair.publicKey,
        randomBytes(32),
        Buffer.from("ampoule sealed-env v1"),
        SealedEnv.aadOf(environmentId, by.keyId, "KEY"),
        Buffer.of(0xff, 0xfe)
      )
      const entry = `sealed:v1:${by.keyId}:${sealed.toString("base64url")}`
      assert.strictEqual(yield* refusedAt(by, new Map([["KEY", entry]])), "KEY")
    })
  )
})

describe("the manifest", () => {
  it.effect("finds a dropped entry, an added one, and one replaced by an older one of the same name", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const entries = yield* sealAll(to, { A: "one", B: "two" })
      const older = yield* SealedEnv.sealEntry(to, "A", Redacted.make("one"))
      const sealed = yield* withManifest(to, entries)
      const dropped = new Map(sealed)
      dropped.delete("B")
      const added = new Map([...sealed, ["C", yield* SealedEnv.sealEntry(to, "C", Redacted.make("three"))]])
      const replayed = new Map([...sealed, ["A", older]])
      for (const changed of [dropped, added, replayed]) {
        assert.strictEqual(yield* refusedAt(by, changed), SealedEnv.manifestName)
      }
      // Limits of the check, said openly: without a manifest the same changes pass.
      replayed.delete(SealedEnv.manifestName)
      assert.strictEqual((yield* SealedEnv.openAll(by, replayed)).size, 2)
    })
  )

  it.effect("is refused when it is no list, out of order, or lists a name twice", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const entries = yield* sealAll(to, { A: "one", B: "two" })
      const list = parsed(Schema.Array(Schema.Unknown))(SealedEnv.manifestOf(entries))
      const texts = [
        "",
        "[",
        "null",
        "{}",
        "[]",
        JSON.stringify([...list].reverse()),
        JSON.stringify([...list, list[0]])
      ]
      for (const text of texts) {
        const manifest = yield* SealedEnv.sealEntry(to, SealedEnv.manifestName, Redacted.make(text))
        const changed = new Map([...entries, [SealedEnv.manifestName, manifest]])
        assert.strictEqual(yield* refusedAt(by, changed), SealedEnv.manifestName, text)
      }
      const spaced = yield* SealedEnv.sealEntry(
        to,
        SealedEnv.manifestName,
        Redacted.make(JSON.stringify(list, null, 2))
      )
      assert.strictEqual(
        (yield* SealedEnv.openAll(by, new Map([...entries, [SealedEnv.manifestName, spaced]]))).size,
        2
      )
    })
  )

  it.effect("cannot be passed off as a value, nor a value as the manifest", () =>
    Effect.gen(function* () {
      const { by, to } = yield* party(environmentId)
      const sealed = yield* withManifest(to, yield* sealAll(to, { A: "one" }))
      const manifest = sealed.get(SealedEnv.manifestName) ?? ""
      assert.strictEqual(yield* refusedAt(by, new Map([["A", manifest]])), "A")
      assert.strictEqual(
        yield* refusedAt(by, new Map([...sealed, [SealedEnv.manifestName, sealed.get("A") ?? ""]])),
        SealedEnv.manifestName
      )
    })
  )
})

describe("public keys as text", () => {
  it("parse back, and only from their one spelling", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const text = SealedEnv.printPublicKey(bytes)
        const parsed = SealedEnv.parsePublicKey(text)
        assert.isTrue(Option.isSome(parsed) && Buffer.from(parsed.value).equals(bytes))
        for (const other of [`${text}=`, text.slice(1), `${text}A`, ` ${text}`]) {
          assert.isTrue(Option.isNone(SealedEnv.parsePublicKey(other)))
        }
        assert.match(SealedEnv.keyIdOf(bytes), /^ek_[0-9a-f]{8}$/)
      })
    )
  })
})
