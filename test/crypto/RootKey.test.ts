import { assert, describe, it } from "@effect/vitest"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { createHash } from "node:crypto"
import type { KeyContext } from "#schema/Vault.ts"
import * as RootKey from "#src/crypto/RootKey.ts"

const root = (fill: number) => RootKey.rootKey(RootKey.secretKeyFrom(Buffer.alloc(32, fill)))
const keys = RootKey.rootKeys(root(1))
const salt = Buffer.alloc(32, 9)
const context: KeyContext = {
  purpose: "data-key",
  teamId: "team",
  projectId: "project",
  environmentId: "environment",
  keyId: "key"
}

describe("wrapping", () => {
  it("unwraps to what was wrapped", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.uint8Array({ maxLength: 100 }), (bytes) => {
        const { rootKeyId, wrapped } = RootKey.wrap(keys, context, bytes, salt)
        const opened = Either.getOrThrow(RootKey.unwrap(keys, context, wrapped, rootKeyId))
        assert.isTrue(opened.equals(bytes))
      })
    )
  })

  it("is bound to each field of its context", () => {
    const { rootKeyId, wrapped } = RootKey.wrap(keys, context, Buffer.alloc(32, 5), salt)
    const changes: ReadonlyArray<Partial<KeyContext>> = [
      { purpose: "sealing-key" },
      { teamId: "other" },
      { projectId: "other" },
      { environmentId: "other" },
      { keyId: "other" },
      { teamId: "teamp", projectId: "roject" }
    ]
    for (const change of changes) {
      assert.isTrue(
        Either.isLeft(RootKey.unwrap(keys, { ...context, ...change }, wrapped, rootKeyId)),
        JSON.stringify(change)
      )
    }
  })

  it("is refused with any single bit flipped", () => {
    const { rootKeyId, wrapped } = RootKey.wrap(keys, context, Buffer.alloc(32, 5), salt)
    for (let bit = 0; bit < wrapped.length * 8; bit++) {
      const changed = Buffer.from(wrapped)
      changed[bit >> 3] ^= 1 << (bit & 7)
      assert.isTrue(Either.isLeft(RootKey.unwrap(keys, context, changed, rootKeyId)), `bit ${bit}`)
    }
  })

  it("is refused under another root key, also when the row is relabelled to name it", () => {
    const both = RootKey.rootKeys(root(2), [root(1)])
    const { wrapped } = RootKey.wrap(keys, context, Buffer.alloc(32, 5), salt)
    assert.isTrue(Either.isLeft(RootKey.unwrap(both, context, wrapped, root(2).id)))
    assert.isTrue(Either.isLeft(RootKey.unwrap(both, context, wrapped, "rk_00000000")))
    assert.isTrue(Either.isLeft(RootKey.unwrap(RootKey.rootKeys(root(2)), context, wrapped, root(1).id)))
  })

  it("after a rotation wraps with the new key and still unwraps with the old", () => {
    const both = RootKey.rootKeys(root(2), [root(1)])
    const before = RootKey.wrap(keys, context, Buffer.from("data key"), salt)
    const after = RootKey.wrap(both, context, Buffer.from("data key"), salt)
    assert.strictEqual(before.rootKeyId, root(1).id)
    assert.strictEqual(after.rootKeyId, root(2).id)
    for (const { rootKeyId, wrapped } of [before, after]) {
      const opened = Either.getOrThrow(RootKey.unwrap(both, context, wrapped, rootKeyId))
      assert.strictEqual(opened.toString(), "data key")
    }
  })
})

describe("root keys", () => {
  it("are named by a derived value, not by a digest of the key", () => {
    const bytes = Buffer.alloc(32, 1)
    assert.match(root(1).id, /^rk_[0-9a-f]{8}$/)
    assert.notStrictEqual(root(1).id, root(2).id)
    assert.notStrictEqual(root(1).id.slice(3), createHash("sha256").update(bytes).digest("hex").slice(0, 8))
  })

  it("are read from hex, base64 and base64url, and mean the same", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const id = RootKey.rootKey(RootKey.secretKeyFrom(Uint8Array.from(bytes))).id
        const text = Buffer.from(bytes)
        const forms = [
          text.toString("hex"),
          text.toString("base64"),
          text.toString("base64url"),
          `${text.toString("hex")}\n`
        ]
        for (const form of forms) {
          assert.strictEqual(Option.getOrThrow(RootKey.parseRootKey(Redacted.make(form))).id, id)
        }
      })
    )
  })

  it("of any other length or alphabet are refused", () => {
    const hex = "ab".repeat(32)
    for (const text of [
      "",
      "x",
      hex.slice(1),
      hex.slice(2),
      `${hex}00`,
      `${hex.slice(1)}g`,
      "password".repeat(5),
      `${"A".repeat(42)}!`
    ]) {
      assert.isTrue(Option.isNone(RootKey.parseRootKey(Redacted.make(text))), `${text.length} characters`)
    }
  })

  it("overwrite the bytes they are made from", () => {
    const bytes = Buffer.alloc(32, 7)
    RootKey.secretKeyFrom(bytes)
    assert.isTrue(bytes.equals(Buffer.alloc(32)))
  })
})

describe("the MAC of an audit head", () => {
  it("is checked against head and key", () => {
    const head = Buffer.from("head")
    const mac = RootKey.macAuditHead(root(1), head)
    assert.isTrue(RootKey.auditHeadMatches(root(1), head, mac))
    assert.isFalse(RootKey.auditHeadMatches(root(2), head, mac))
    assert.isFalse(RootKey.auditHeadMatches(root(1), Buffer.from("heaD"), mac))
    assert.isFalse(RootKey.auditHeadMatches(root(1), head, mac.subarray(1)))
  })
})
