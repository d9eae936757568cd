import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { inOrderOfReference, inRequests, literally } from "#src/cli/secrets/Files.ts"
import * as TemplateScan from "#src/secrets/TemplateScan.ts"

const entry = (key: string, value: string, line = 1) => ({ key, value, line })
const key = FastCheck.constantFrom("A", "B", "C", "D", "E", "F")
const value = FastCheck.array(
  FastCheck.oneof(
    FastCheck.string(),
    key.map((k) => `\${${k}}`)
  ),
  { maxLength: 4 }
)
const entries = FastCheck.uniqueArray(FastCheck.tuple(key, value), { selector: ([k]) => k }).map((pairs) =>
  pairs.map(([k, parts], i) => entry(k, parts.join(""), i + 1))
)

describe("what an import sends", () => {
  it.prop("everything once, what is referred to first unless there is a cycle", [entries], ([given]) => {
    const ordered = inOrderOfReference(given)
    assert.deepStrictEqual(
      [...ordered].sort((a, b) => a.line - b.line),
      given
    )
    const uses = (of: string) => given.filter(({ key }) => of.includes(`\${${key}}`)).map(({ key }) => key)
    const reaches = (from: string, to: string, seen = new Set<string>()): boolean => {
      if (seen.has(from)) return false
      seen.add(from)
      const below = uses(given.find(({ key }) => key === from)?.value ?? "")
      return below.includes(to) || below.some((next) => reaches(next, to, seen))
    }
    ordered.forEach(({ key, value }, i) => {
      for (const used of uses(value)) {
        const at = ordered.findIndex((other) => other.key === used)
        assert.isTrue(at < i || reaches(used, key), `${key} uses ${used}`)
      }
    })
  })

  it.prop(
    "text taken literally means itself to the server",
    [
      FastCheck.array(FastCheck.constantFrom("$", "{", "}", "A", "B", "a", "$${", "${", "${A}", " "), { maxLength: 12 })
    ],
    ([parts]) => {
      const text = parts.join("")
      const written = literally(text)
      const { kind, parts: meaning } = TemplateScan.scan(written)
      if (kind === "literal") return assert.strictEqual(written, text)
      assert.deepStrictEqual(meaning, text === "" ? [] : [text])
    }
  )

  it("requests of at most 100 entries, and of a size that the server takes", () => {
    const small = Array.from({ length: 250 }, (_, i) => entry(`K${i}`, "v"))
    assert.deepStrictEqual(
      inRequests(small).map((request) => request.length),
      [100, 100, 50]
    )
    const large = Array.from({ length: 100 }, (_, i) => entry(`K${i}`, "\u0001".repeat(65_536)))
    for (const request of inRequests(large)) assert.isBelow(JSON.stringify(request).length, 32 * 1024 * 1024)
    assert.deepStrictEqual(inRequests(large).flat(), large)
  })
})
