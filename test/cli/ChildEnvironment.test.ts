import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Config from "#layers/Config.ts"
import * as ChildEnvironment from "#src/cli/terminal/ChildEnvironment.ts"
import { secretSettings } from "#src/cli/terminal/Environment.ts"

const all = { only: [], except: [], prefix: undefined }
const key = FastCheck.stringMatching(/^[A-Z][A-Z0-9_]{0,8}$/)
const values = FastCheck.dictionary(key, FastCheck.string())

describe("the environment of a child", () => {
  it.prop(
    "selects what a pattern means, and nothing else",
    [values, FastCheck.array(FastCheck.stringMatching(/^[A-Z_*]{1,5}$/), { maxLength: 3 })],
    ([values, only]) => {
      const meant = only.map((pattern) => new RegExp(`^${pattern.replaceAll("*", "[^]*")}$`))
      const expected = Object.keys(values).filter(
        (name) => only.length === 0 || meant.some((regexp) => regexp.test(name))
      )
      assert.deepStrictEqual(Object.keys(ChildEnvironment.select(values, { ...all, only })), expected)
      const rest = Object.keys(values).filter((name) => !meant.some((regexp) => regexp.test(name)))
      assert.deepStrictEqual(Object.keys(ChildEnvironment.select(values, { ...all, except: only })), rest)
    }
  )

  it("names what can change which code runs, unless a pattern allows it", () => {
    assert.deepStrictEqual(ChildEnvironment.dangerousNames(["PATH", "ENV", "A"], ["ENV"]), ["PATH"])
    assert.deepStrictEqual(ChildEnvironment.dangerousNames(["PATH", "HTTP_PROXY", "HTTPS_PROXY", "A"], ["*_PROXY"]), [
      "PATH"
    ])
  })

  it("loses every setting that is secret, as a value and as a file", () => {
    const secret = Config.table.filter((setting) => setting.secret).map(({ name }) => name)
    assert.deepStrictEqual([...secretSettings].sort(), [...secret].sort())
    const credentials = [...secret, "AMPOULE_API_TOKEN", "AMPOULE_TOKEN", "AMPOULE_PROXY"]
    const inherited = Object.fromEntries(
      [...credentials, "AMPOULE_URL", "DATABASE_URL"].flatMap((name) => [
        [name, "x"],
        [`${name}_FILE`, "/x"]
      ])
    )
    const names = (passCredentials: boolean) =>
      Object.keys(ChildEnvironment.compose({ inherited, values: {}, keepsExisting: () => false, passCredentials }))
    // The last says which credentials the child did not get, by name.
    const others = ["AMPOULE_URL", "AMPOULE_URL_FILE", "DATABASE_URL", "DATABASE_URL_FILE", "AMPOULE_WITHHELD"]
    assert.deepStrictEqual(names(false), others)
    assert.deepStrictEqual(names(true), Object.keys(inherited))
  })

  it("carries variables that are called like members of objects, and no others", () => {
    const composed = ChildEnvironment.compose({
      inherited: Object.fromEntries([
        ["__proto__", "inherited"],
        ["PATH", "/bin"]
      ]),
      values: Object.fromEntries([
        ["constructor", "value"],
        ["toString", "value"]
      ]),
      keepsExisting: () => true,
      passCredentials: false
    })
    assert.deepStrictEqual(Object.entries(composed), [
      ["__proto__", "inherited"],
      ["PATH", "/bin"],
      ["constructor", "value"],
      ["toString", "value"]
    ])
    assert.isUndefined(composed.valueOf)
  })

  it("knows what a Linux kernel carries: 128 KiB a string, a quarter of the stack together", () => {
    const limits = ChildEnvironment.systemLimits("linux", 8 * 1024 * 1024)
    const fits = "x".repeat(128 * 1024 - "KEY=".length - 1)
    const check = (values: Record<string, string>) => ChildEnvironment.excessOf(values, values, ["true"], limits)
    assert.isUndefined(check({ KEY: fits }))
    assert.deepStrictEqual(check({ KEY: `${fits}x` }), { _tag: "TooLong", keys: ["KEY"], limit: 128 * 1024 })
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`KEY${i}`, "x".repeat(120_000)]))
    assert.strictEqual(check(many)?._tag, "TooMuch")
    assert.deepStrictEqual(check({ KEY: "a\0b" }), { _tag: "Nul", keys: ["KEY"] })
    assert.isAbove(ChildEnvironment.systemLimits("linux", 64 * 1024 * 1024).total, limits.total)
  })
})
