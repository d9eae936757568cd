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
  })

  it("of the other issuers that sign for all their customers name the customer", () => {
    const cases = [
      ["https://agent.buildkite.com", { pipeline_slug: "deploy" }, { organization_slug: "acme" }],
      ["https://agent.buildkite.com", { sub: "organization:*" }, { sub: "organization:acme:pipeline:deploy:*" }],
      ["https://app.terraform.io", { terraform_run_phase: "apply" }, { terraform_organization_name: "acme" }],
      ["https://app.terraform.io", { terraform_workspace_name: "web" }, { sub: "organization:acme:project:*" }],
      ["https://oidc.vercel.com", { environment: "production" }, { owner_id: "team_123" }],
      ["https://oidc.vercel.com/acme", { project: "web" }, { sub: "owner:acme:project:web:*" }],
      ["https://accounts.google.com", { hd: "example.com" }, { sub: "104189391874323890123" }],
      ["https://accounts.google.com", { sub: "1041/*" }, { sub: "1041" }],
      ["https://ACCOUNTS.google.com.", { email_verified: "true" }, { sub: "1041" }]
    ] as const
    for (const [issuer, weak, fine] of cases) {
      assert.strictEqual(weaknessOf(issuer, weak)?.problem, "anybody", `${issuer} ${JSON.stringify(weak)}`)
      assert.isUndefined(weaknessOf(issuer, fine), `${issuer} ${JSON.stringify(fine)}`)
    }
    const open = weaknessOf("https://agent.buildkite.com", { organization_slug: "acme*" })
    assert.deepStrictEqual(open, { problem: "open-name", claim: "organization_slug" })
  })

  it("of an issuer that we do not know name somebody", () => {
    for (const claims of [
      { ref: "main" },
      { environment: "production", ref_protected: "true" },
      { paid: "true" },
      // The beginning of an id, of a subject or of nothing is many people's.
      { user_id: "1*" },
      { projectId: "42/*" },
      { oid: "*" },
      { sub: "job/*" },
      { sub: "*" },
      { repository: "*" },
      { repository: "/*" }
    ] as ReadonlyArray<Record<string, string>>) {
      assert.strictEqual(weaknessOf("https://ci.example.com", claims)?.problem, "nobody-named", JSON.stringify(claims))
    }
    for (const claims of [
      { sub: "job/1" },
      { repository: "acme/shop" },
      { repository: "acme/*" },
      { sub: "repo:acme/*", repository_id: "42" },
      { user_id: "1" },
      { project_id: "42" },
      { repositoryUuid: "{1}" },
      { oid: "1" },
      { "oidc.circleci.com/project-id": "1" }
    ] as ReadonlyArray<Record<string, string>>) {
      assert.isUndefined(weaknessOf("https://ci.example.com", claims), JSON.stringify(claims))
    }
  })

  it.prop(
    "look nothing up on an object, whatever the issuer and the claims are called",
    [FastCheck.constantFrom(...Object.getOwnPropertyNames(Object.prototype), "__proto__", "prototype")],
    ([name]) => {
      const claims = Object.fromEntries([[name, "x"]])
      assert.strictEqual(weaknessOf(`https://${name}`, { ref: "main" })?.problem, "nobody-named")
      assert.strictEqual(weaknessOf(github, claims)?.problem, "anybody")
      assert.strictEqual(firstMismatch(claims, {}), name)
      assert.isUndefined(firstMismatch(claims, claims))
    }
  )

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
