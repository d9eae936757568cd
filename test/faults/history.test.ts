/** Losses in the eyes of the run of kills (`npm run test:kills`): each kind is found, and nothing else is. */
import { assert, describe, it } from "@effect/vitest"
import * as History from "./History.ts"

const seen = (entries: Record<string, [number, string]>) =>
  new Map(Object.entries(entries).map(([key, [version, value]]) => [key, { version, value }]))

const written = (changes: Record<string, string | null>) => {
  const history = History.make()
  history.sent(new Map(Object.entries({ A: "a1", B: "b1" })))
  history.acknowledged()
  history.sent(new Map(Object.entries(changes)))
  return history
}

describe("a history", () => {
  it("allows an unanswered write as a whole, or none of it", () => {
    assert.deepStrictEqual(written({ A: "a2", C: "c1" }).check(seen({ A: [1, "a1"], B: [1, "b1"] })), [])
    assert.deepStrictEqual(written({ A: "a2", C: "c1" }).check(seen({ A: [2, "a2"], B: [1, "b1"], C: [1, "c1"] })), [])
    assert.deepStrictEqual(written({ A: null }).check(seen({ B: [1, "b1"] })), [])
  })

  it("finds a write that is there in part", () => {
    assert.lengthOf(written({ A: "a2", C: "c1" }).check(seen({ A: [2, "a2"], B: [1, "b1"] })), 1)
    assert.lengthOf(written({ A: null, B: null }).check(seen({ B: [1, "b1"] })), 1)
  })

  it("finds an acknowledged write that is lost, another value, and a version that is not the next", () => {
    for (const B of [undefined, [1, "b0"], [2, "b1"]] as const) {
      const there = seen({ A: [1, "a1"], ...(B === undefined ? {} : { B: [B[0], B[1]] }) })
      assert.deepStrictEqual(written({}).check(there), ["B is not as it was acknowledged"])
    }
  })

  it("finds a refused write that exists, and continues from the stored state", () => {
    const refused = written({ A: "a2" })
    refused.refused()
    assert.lengthOf(refused.check(seen({ A: [2, "a2"], B: [1, "b1"] })), 1)
    const history = written({ A: "a2" })
    assert.deepStrictEqual(history.check(seen({ A: [2, "a2"], B: [1, "b1"] })), [])
    assert.deepStrictEqual(history.stateOf("A"), { version: 2, value: "a2" })
    assert.deepStrictEqual(history.check(seen({ A: [2, "a2"], B: [1, "b1"] })), [])
  })

  it("counts the versions of a deleted key on", () => {
    const history = written({ A: null })
    history.acknowledged()
    history.sent(new Map([["A", "a2"]]))
    history.acknowledged()
    assert.deepStrictEqual(history.check(seen({ A: [2, "a2"], B: [1, "b1"] })), [])
  })
})
