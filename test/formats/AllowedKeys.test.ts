import { assert, describe, it } from "@effect/vitest"
import { allows, isWider } from "#src/formats/AllowedKeys.ts"

describe("a list of allowed keys", () => {
  it("has whole keys and prefixes, and a prefix covers no name that runs code", () => {
    const list = ["DATABASE_URL", "STRIPE_*", "GIT_*"]
    for (const key of ["DATABASE_URL", "STRIPE_", "STRIPE_SECRET_KEY", "GIT_TOKEN"]) {
      assert.isTrue(allows(list, key), key)
    }
    for (const key of ["DATABASE_URL2", "DATABASE", "XSTRIPE_KEY", "GIT_SSH_COMMAND", "NODE_OPTIONS"]) {
      assert.isFalse(allows(list, key), key)
    }
    assert.isTrue(allows(["*"], "ANYTHING"))
    assert.isFalse(allows(["*"], "NODE_OPTIONS"))
    assert.isTrue(allows(["*", "NODE_OPTIONS"], "NODE_OPTIONS"))
    assert.isFalse(allows(["STRIPE_*"], "constructor"))
  })

  it("is wider where it allows one key more", () => {
    const before = ["DATABASE_URL", "STRIPE_*", "GIT_*"]
    const narrower: ReadonlyArray<ReadonlyArray<string>> = [
      before,
      ["DATABASE_URL"],
      ["STRIPE_KEY", "STRIPE_LIVE_*"],
      ["GIT_TOKEN"]
    ]
    for (const after of narrower) assert.isFalse(isWider(before, after), after.join())
    const wider = [null, ["*"], ["STRIPE*"], ["DATABASE_*"], ["OTHER"], ["GIT_SSH_COMMAND"]]
    for (const after of wider) assert.isTrue(isWider(before, after), String(after))
    // Without a list every key is allowed already.
    assert.isFalse(isWider(null, ["*"]))
  })
})
