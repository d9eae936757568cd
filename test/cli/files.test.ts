import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { inOrderOfReference, inRequests } from "#src/cli/secrets/BulkWrites.ts"
import { refusal } from "#src/formats/ImportPlan.ts"
import { type Meaning, meaningOf } from "#src/formats/Meaning.ts"
import { keyOf } from "#src/cli/terminal/KeyNames.ts"

const meaning = (key: string, value: string, line = 1): Meaning => meaningOf({ key, value, line }, { format: "dotenv" })
const key = FastCheck.constantFrom("A", "B", "C", "D", "E", "F")
const value = FastCheck.array(
  FastCheck.oneof(
    FastCheck.string(),
    key.map((k) => `\${${k}}`)
  ),
  { maxLength: 4 }
)
const entries = FastCheck.uniqueArray(FastCheck.tuple(key, value), { selector: ([k]) => k }).map((pairs) =>
  pairs.map(([k, parts], i) => meaning(k, parts.join(""), i + 1))
)

describe("what an import sends", () => {
  it.prop("everything once, what is referred to first unless there is a cycle", [entries], ([given]) => {
    const ordered = inOrderOfReference(given)
    assert.deepStrictEqual(
      [...ordered].sort((a, b) => a.line - b.line),
      [...given]
    )
    const uses = new Map(given.map(({ key, references }) => [key, references]))
    const reaches = (from: string, to: string, seen = new Set<string>()): boolean => {
      if (seen.has(from)) return false
      seen.add(from)
      const below = uses.get(from) ?? []
      return below.includes(to) || below.some((next) => reaches(next, to, seen))
    }
    ordered.forEach(({ key, references }, i) => {
      for (const used of references.filter((one) => uses.has(one))) {
        const at = ordered.findIndex((other) => other.key === used)
        assert.isTrue(at < i || reaches(used, key), `${key} uses ${used}`)
      }
    })
  })

  it("requests of at most 1000 entries, and of a size that the server takes", () => {
    const small = Array.from({ length: 2_500 }, (_, i) => meaning(`K${i}`, "v"))
    assert.deepStrictEqual(
      inRequests(small).map((request) => request.length),
      [1_000, 1_000, 500]
    )
    const large = Array.from({ length: 100 }, (_, i) => meaning(`K${i}`, "\u0001".repeat(65_536)))
    for (const request of inRequests(large)) assert.isBelow(JSON.stringify(request).length, 32 * 1024 * 1024)
    assert.deepStrictEqual(inRequests(large).flat(), large)
  })
})

describe("what an import refuses before it writes", () => {
  const of = (...pairs: ReadonlyArray<readonly [string, string]>) => pairs.map(([k, v], i) => meaning(k, v, i + 1))
  const message = (meanings: ReadonlyArray<Meaning>, existing: Parameters<typeof refusal>[1] = []) =>
    refusal(meanings, existing, "development")?.message

  it("a reference to what neither the file nor the environment has, by line and key", () => {
    assert.match(message(of(["A", "1"], ["B", "${NOPE}x${A}"])) ?? "", /line 2: B refers to NOPE/)
    assert.isUndefined(message(of(["B", "${NOPE}"]), [{ key: "NOPE", references: [] }]))
    assert.isUndefined(
      message([meaningOf({ key: "B", value: "${NOPE}", line: 1, plainDollars: "all" }, { format: "dotenv" })])
    )
  })

  it("a circle, also one through what the environment has", () => {
    assert.match(message(of(["A", "${B}"], ["B", "${A}"])) ?? "", /A → B → A is a circle/)
    assert.match(message(of(["A", "${B}"]), [{ key: "B", references: ["A"] }]) ?? "", /circle/)
    assert.match(message(of(["A", "${A}"])) ?? "", /A → A is a circle/)
  })

  it("more than ten references on a path, also of a template above it", () => {
    const chain = (length: number) =>
      of(["K0", "v"], ...Array.from({ length }, (_, i) => [`K${i + 1}`, `\${K${i}}`] as const))
    assert.isUndefined(message(chain(10)))
    assert.match(message(chain(11)) ?? "", /line 12: K11 would have more than 10 references/)
    assert.match(message(chain(10), [{ key: "TOP", references: ["K10"] }]) ?? "", /^TOP would have more than 10/)
    // As deep as an environment can be, without the call stack.
    assert.match(message(chain(5_000)) ?? "", /more than 10/)
  })

  it("a value that would be too long with its references expanded", () => {
    const base = ["Z", "x".repeat(60_000)] as const
    assert.match(message(of(base, ["A", "${Z}${Z}"])) ?? "", /line 2: the value of A would have more than 65536/)
    assert.isUndefined(message(of(base, ["A", "${Z}"])))
  })

  it("a ${ that is no reference beside one that is, and a reference behind a $, and says what to write", () => {
    assert.match(message(of(["B", "1"], ["A", "${B}${X:-d}"])) ?? "", /line 2: A: .*single quotes/)
    const behind = meaningOf({ key: "A", value: "$${B}", line: 2, plainDollars: [0] }, { format: "dotenv" })
    assert.match(message([...of(["B", "1"]), behind]) ?? "", /right behind a \$/)
  })
})

describe("names of other programs", () => {
  it("become keys, and two underscores stay", () => {
    for (const [name, expected] of [
      ["db-url", "DB_URL"],
      ["db.url", "DB_URL"],
      ["dbUrl", "DB_URL"],
      ["ConnectionStrings__Default", "CONNECTION_STRINGS__DEFAULT"],
      ["TF_VAR_region", "TF_VAR_REGION"],
      ["nextPublicApiUrl", "NEXT_PUBLIC_API_URL"],
      ["__x__", "X"]
    ] as const) {
      assert.strictEqual(keyOf(name), expected)
    }
  })
})
