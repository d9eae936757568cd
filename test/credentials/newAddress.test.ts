/** Addresses of new accounts: a look-alike is none, and an account of before keeps its own. */
import { assert, describe, it as plain, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as NewAddress from "#src/credentials/NewAddress.ts"
import * as OpenId from "#test/openid/OpenIdWorld.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

describe("an address", () => {
  plain("has one spelling, and one script in each label", () => {
    for (const address of [
      "ada@example.com",
      "ада@пример.рф",
      "山田たろう@example.jp",
      "ada+1@ex-ample.com",
      "ελένη@example.gr"
    ]) {
      assert.isTrue(NewAddress.isPlain(address), address)
    }
    for (const address of [
      "\uff41da@example.com",
      "\u0430da@example.com",
      "ada@ex\u0430mple.com",
      "a\ufb01@example.com",
      "adа@example.com"
    ]) {
      assert.isFalse(NewAddress.isPlain(address), address)
    }
    assert.strictEqual(NewAddress.skeletonOf("\u0430\u0440\u0435@example.com"), "ape@example.com")
    assert.strictEqual(NewAddress.lookAlikes.letters.length, NewAddress.lookAlikes.latin.length)
  })
})

layer(OpenId.layer, { excludeTestServices: true })("a look-alike of an address", (it) => {
  /** An invitation of a new team's owner to the address. */
  const invite = (email: string) =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const session = (yield* World.session(team.owner)).text
      return yield* TestApp.post(`/teams/${team.id}/invitations`, { session, json: { email, role: "member" } })
    })

  it.effect("has no new account, by invitation, by issuer or by a change of the address", () =>
    Effect.gen(function* () {
      const host = `${randomUUID()}.example`
      const real = yield* World.person({ email: `ape@${host}` })
      const twin = `\u0430\u0440\u0435@${host}`
      const mixed = `\u0430pe@${host}`
      for (const email of [twin, mixed, `\uff41pe@${host}`]) {
        assert.deepStrictEqual(TestApp.refusalOf(yield* invite(email)), [400, "VALIDATION_FAILED", "email"], email)
      }
      const corp = yield* OpenId.Corp
      const team = yield* World.team()
      const group = randomUUID()
      yield* OpenId.rule(team, (yield* World.session(team.owner)).text, ["corp", group, "member"])
      corp.signs(OpenId.personOf([group], { email: twin }))
      assert.strictEqual((yield* OpenId.signIn(corp, "corp")).answer.status, 401)
      const { jar } = yield* SignIn.signedIn
      const moved = yield* TestApp.post("/me/email", {
        session: OpenId.sessionOf(jar),
        json: { email: twin, currentPassword: SignIn.password }
      })
      assert.deepStrictEqual(TestApp.refusalOf(moved), [400, "VALIDATION_FAILED", "email"])
      // The real person, an address of one script, and an account of before are as they were.
      assert.strictEqual((yield* invite(real.email)).status, 201)
      assert.strictEqual((yield* invite(`\u0438\u0440\u0430@${host}`)).status, 201)
      const old = yield* World.person({ email: `\u0430da@${host}` })
      assert.strictEqual((yield* invite(old.email)).status, 201)
    })
  )
})
