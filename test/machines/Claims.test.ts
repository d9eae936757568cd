import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { firstMismatch, matchesPattern, weaknessOf } from "#src/machines/Claims.ts"
import { tokenName } from "#src/machines/Exchange.ts"
import { isPlainName } from "#schema/Values.ts"

const github = "https://token.actions.githubusercontent.com"

describe("claims of a trust rule", () => {
  it("match to the letter, or up to an asterisk at the end", () => {
    assert.isTrue(matchesPattern("acme/shop", "acme/shop"))
    for (const other of ["acme/shop2", "Acme/shop", "acme/sho", "xacme/shop", " acme/shop", "acme/shop ", ""]) {
      assert.isFalse(matchesPattern("acme/shop", other), other)
    }
    assert.isTrue(matchesPattern("refs/tags/*", "refs/tags/v1"))
    assert.isFalse(matchesPattern("refs/tags/*", "refs/heads/refs/tags/v1"))
    assert.isFalse(matchesPattern("a.c", "abc"))
  })

  it.prop(
    "a pattern is no regular expression, whatever it holds",
    [FastCheck.string(), FastCheck.string()],
    ([a, b]) => {
      const literal = a.replaceAll("*", "")
      assert.strictEqual(matchesPattern(literal, b), literal === b)
      assert.isTrue(matchesPattern(`${literal}*`, literal + b))
    }
  )

  it("all must be there as plain values of the JWT's own", () => {
    const rule = { repository: "acme/shop", ref_protected: "true", repository_id: "42" }
    const jwt = { repository: "acme/shop", ref_protected: "true", repository_id: 42 }
    assert.isUndefined(firstMismatch(rule, jwt))
    assert.isUndefined(firstMismatch(rule, { ...jwt, ref_protected: true }))
    assert.strictEqual(firstMismatch(rule, { ...jwt, repository: ["acme/shop"] }), "repository")
    assert.strictEqual(firstMismatch(rule, { repository: "acme/shop" }), "ref_protected")
    assert.strictEqual(firstMismatch({ toString: "*" }, {}), "toString")
  })

  it("of an issuer that signs for everybody name an owner", () => {
    const refused: ReadonlyArray<Record<string, string>> = [
      { ref: "refs/heads/main" },
      { environment: "production" },
      { sub: "repo:*" },
      { sub: "environment:production" },
      { repository_id: "4*" },
      { job_workflow_ref: "acme/shared/.github/workflows/deploy.yml@refs/heads/main" }
    ]
    for (const claims of refused)
      assert.strictEqual(weaknessOf(github, claims)?.problem, "anybody", JSON.stringify(claims))
    for (const claims of [{ repository: "acme*" }, { repository_owner: "acme-*" }, { sub: "repo:acme/sh*" }]) {
      assert.strictEqual(weaknessOf(github, claims)?.problem, "open-name", JSON.stringify(claims))
    }
    const fine: ReadonlyArray<Record<string, string>> = [
      { repository: "acme/shop" },
      { repository: "acme/*" },
      { repository_owner: "acme" },
      { repository_id: "42" },
      { sub: "repo:acme/shop:environment:production" },
      { sub: "repo:acme/*", ref: "refs/tags/v*" }
    ]
    for (const claims of fine) assert.isUndefined(weaknessOf(github, claims), JSON.stringify(claims))
    assert.strictEqual(weaknessOf("https://gitlab.com", { ref: "main" })?.problem, "anybody")
    assert.isUndefined(weaknessOf("https://gitlab.com", { project_path: "acme/shop" }))
    assert.isUndefined(weaknessOf("https://ci.example.com", { ref: "main" }))
  })

  it.prop(
    "the name of a token is a name, whatever the subject says",
    [FastCheck.string({ unit: "binary" })],
    ([sub]) => {
      const name = tokenName("rule", sub)
      assert.isTrue(isPlainName(name))
      assert.isAtMost([...name].length, 100)
    }
  )
})
