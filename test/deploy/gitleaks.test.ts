/** The rule of deploy/gitleaks.toml finds every credential that this server makes, at any place, and no look-alike. */
import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { readFileSync } from "node:fs"
import * as TokenText from "#src/credentials/TokenText.ts"

const rules = readFileSync("deploy/gitleaks.toml", "utf8")
// Written in what Go's regular expressions and ours have in common.
const rule = new RegExp(/^regex = '''(.+)'''$/m.exec(rules)?.[1] ?? "$^")
const keywords = /^keywords = \["(.+)"\]$/m.exec(rules)?.[1] ?? "none"

const bytes = (length: number) => FastCheck.uint8Array({ minLength: length, maxLength: length })
const credential = FastCheck.tuple(FastCheck.constantFrom(...TokenText.kinds), bytes(12), bytes(32)).map(
  ([kind, id, secret]) => TokenText.print(TokenText.make(kind, id, secret))
)
const places: ReadonlyArray<(text: string) => string> = [
  (text) => text,
  (text) => `AMPOULE_TOKEN=${text}\n`,
  (text) => `authorization: Bearer ${text}\r\n`,
  (text) => `https://ampoule.example.com/invite/${text}?a=b`,
  (text) => `{"token":"first\\n${text}","b":1}`,
  (text) => `prefix_${text}_suffix`
]

describe("the rule for gitleaks", () => {
  it.prop("finds each kind of credential, at any place", [credential], ([text]) => {
    for (const place of places) assert.strictEqual(rule.exec(place(text))?.[1], text)
    assert.include(text, keywords)
  })

  it("knows every kind that there is", () => {
    for (const kind of TokenText.kinds) {
      const text = TokenText.print(TokenText.make(kind, new Uint8Array(12), new Uint8Array(32)))
      assert.match(text, rule)
    }
  })

  it.prop("finds nothing that is a character short or long, or of no kind", [credential], ([text]) => {
    for (const other of [
      text.slice(0, -1),
      `${text}0`,
      text.replace(/^amp_.._/, "amp_zz_"),
      text.replace("amp_", "amq_"),
      text.replace(/_(?=[^_]+$)/, "-"),
      text.toUpperCase()
    ])
      assert.notMatch(other, rule)
  })
})
