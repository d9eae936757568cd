import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import * as OfflineCache from "#src/cli/values/OfflineCache.ts"

const location: OfflineCache.Location = {
  url: "https://ampoule.example.com",
  credential: Redacted.make("amp_at_0123456789abcdef_secret"),
  projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
  environment: "development",
  only: []
}
const sealed = (kept: OfflineCache.OfflineCopy) => OfflineCache.seal(location, kept, randomBytes(16), randomBytes(12))

describe("the offline cache", () => {
  it.prop(
    "opens what it sealed",
    [FastCheck.integer(), FastCheck.dictionary(FastCheck.stringMatching(/^[A-Z]{1,9}$/), FastCheck.string())],
    ([savedAt, values]) => {
      const opened = Option.getOrThrow(OfflineCache.unseal(location, sealed({ savedAt, values })))
      assert.deepStrictEqual({ ...opened.values }, { ...values })
      assert.strictEqual(opened.savedAt, savedAt)
    }
  )

  it("opens for no other server, credential, project or environment", () => {
    const bytes = sealed({ savedAt: 1, values: { A: "1" } })
    assert.isTrue(Option.isSome(OfflineCache.unseal(location, bytes)))
    const others: ReadonlyArray<OfflineCache.Location> = [
      { ...location, url: "https://other.example.com" },
      { ...location, credential: Redacted.make("amp_at_0123456789abcdef_secreT") },
      { ...location, projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7f" },
      { ...location, environment: "developmen" },
      // The same bytes side by side, cut elsewhere.
      { ...location, url: `${location.url}${location.projectId.slice(0, 1)}`, projectId: location.projectId.slice(1) }
    ]
    for (const other of others) assert.isTrue(Option.isNone(OfflineCache.unseal(other, bytes)))
  })

  it("refuses every flipped bit and every cut", () => {
    const bytes = sealed({ savedAt: 1, values: { KEY: "value" } })
    for (let i = 0; i < bytes.length * 8; i++) {
      const flipped = Buffer.from(bytes)
      flipped.writeUInt8(flipped.readUInt8(i >> 3) ^ (1 << (i & 7)), i >> 3)
      assert.isTrue(Option.isNone(OfflineCache.unseal(location, flipped)), `bit ${i}`)
    }
    for (let length = 0; length < bytes.length; length++) {
      assert.isTrue(Option.isNone(OfflineCache.unseal(location, bytes.subarray(0, length))), `length ${length}`)
    }
  })
})
