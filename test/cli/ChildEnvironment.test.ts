import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as ChildEnvironment from "#src/cli/ChildEnvironment.ts"

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

  it("counts names that choose which code runs as dangerous, and ordinary ones not", () => {
    const dangerous = [
      "PATH",
      "LD_PRELOAD",
      "LD_LIBRARY_PATH",
      "LD_AUDIT",
      "DYLD_INSERT_LIBRARIES",
      "NODE_OPTIONS",
      "BASH_ENV",
      "ENV",
      "PYTHONSTARTUP",
      "PYTHONPATH",
      "PERL5OPT",
      "RUBYOPT",
      "JAVA_TOOL_OPTIONS",
      "GIT_SSH_COMMAND",
      "GIT_CONFIG_COUNT",
      "GIT_EXTERNAL_DIFF",
      "PAGER",
      "EDITOR",
      "IFS",
      "PROMPT_COMMAND",
      "GCONV_PATH",
      "HOME"
    ]
    for (const name of dangerous) assert.isTrue(ChildEnvironment.isDangerous(name), name)
    for (const name of [
      "DATABASE_URL",
      "NODE_ENV",
      "PORT",
      "PATHS",
      "GIT_TOKEN",
      "GITHUB_TOKEN",
      "APP_ENV",
      "LDAP_URL"
    ]) {
      assert.isFalse(ChildEnvironment.isDangerous(name), name)
    }
    assert.deepStrictEqual(ChildEnvironment.dangerousNames({ PATH: "x", ENV: "y", A: "z" }, ["ENV"]), ["PATH"])
  })

  it("knows what a Linux kernel carries: 128 KiB a string, a quarter of the stack together", () => {
    const limits = ChildEnvironment.systemLimits("linux", 8 * 1024 * 1024)
    const fits = "x".repeat(128 * 1024 - "KEY=".length - 1)
    const check = (values: Record<string, string>) => ChildEnvironment.uncarried(values, values, ["true"], limits)
    assert.isUndefined(check({ KEY: fits }))
    assert.deepStrictEqual(check({ KEY: `${fits}x` }), { _tag: "TooLong", keys: ["KEY"], limit: 128 * 1024 })
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`KEY${i}`, "x".repeat(120_000)]))
    assert.strictEqual(check(many)?._tag, "TooMuch")
    assert.deepStrictEqual(check({ KEY: "a\0b" }), { _tag: "Nul", keys: ["KEY"] })
    assert.isAbove(ChildEnvironment.systemLimits("linux", 64 * 1024 * 1024).total, limits.total)
  })
})
