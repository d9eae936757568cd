import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Operator from "#src/credentials/Operator.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"

const password = "vial of thirty drops"
const nextPassword = "vial of forty drops!"

const needs = Effect.gen(function* () {
  const services: Operator.Needs = {
    sql: yield* SqlClient.SqlClient,
    crypto: yield* Crypto,
    audit: yield* Audit,
    revocation: yield* Revocation,
    rowSeal: yield* RowSeal,
    baseUrl: TestApp.baseUrl
  }
  return services
})

const somebody = Effect.gen(function* () {
  const passwords = yield* Passwords
  return yield* World.person({ passwordHash: yield* passwords.hash(Redacted.make(password), "password") })
})

const signIn = (email: string, text: string) => TestApp.post("/auth/session", { json: { email, password: text } })
const { codeOf } = TestApp

const lastOf = (teamId: string, action: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} AND action = ${action} ORDER BY id DESC LIMIT 1`
    return auditEntry(row)
  })

layer(TestApp.layer, { excludeTestServices: true })("the operator of the server", (it) => {
  it.effect("gives an owner who forgot the password a link that works once", () =>
    Effect.gen(function* () {
      const owner = yield* somebody
      const team = yield* World.team({ owner })
      const session = yield* World.session(owner)
      const grant = yield* World.grant({ person: owner, teams: [{ team, scopes: ["identity:read"] }] })
      const { url } = yield* Operator.resetLink(yield* needs, owner.email)
      const code = new URL(Redacted.value(url)).searchParams.get("code")
      assert.isTrue(Redacted.value(url).startsWith(`${TestApp.baseUrl}/reset?code=amp_pr_`))
      assert.deepInclude(yield* lastOf(team.id, "password.reset_link"), {
        actor: { id: "system", name: "system", type: "system" },
        outcome: "allowed",
        target: { type: "user", id: owner.id, name: owner.email }
      })

      const reset = TestApp.post("/password-reset", { json: { code, newPassword: nextPassword } })
      assert.strictEqual((yield* reset).status, 200)
      assert.deepStrictEqual(codeOf(yield* reset), [401, "CREDENTIAL_REVOKED"])
      assert.strictEqual((yield* signIn(owner.email, nextPassword)).status, 200)
      for (const dead of [{ session: session.text }, { bearer: grant.text }]) {
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me/verify", dead)), [401, "CREDENTIAL_REVOKED"])
      }
    })
  )

  it.effect("gives an account another address, which no account has: its sessions end, its password stays", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const owner = yield* somebody
      const team = yield* World.team({ owner })
      const session = yield* World.session(owner)
      const other = yield* World.person()
      const refused = yield* Effect.flip(Operator.changeEmail(yield* needs, owner.email, other.email))
      assert.strictEqual(refused._tag, "NAME_TAKEN")
      assert.strictEqual((yield* TestApp.get("/me", { session: session.text })).status, 200)

      const email = `moved-${owner.email}`
      const account = yield* Operator.changeEmail(yield* needs, owner.email, email)
      assert.strictEqual(account.email, email)
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { session: session.text })), [401, "CREDENTIAL_REVOKED"])
      assert.strictEqual((yield* signIn(owner.email, password)).status, 401)
      assert.strictEqual((yield* signIn(email, password)).status, 200)
      assert.deepInclude(yield* lastOf(team.id, "email.change"), {
        actor: { id: "system", name: "system", type: "system" },
        outcome: "allowed",
        target: { type: "user", id: owner.id, name: email }
      })
      const notices = yield* sql<{ readonly about: string }>`
        SELECT about FROM account_notices WHERE user_id = ${owner.id} AND kind = 'email_changed'`
      assert.deepStrictEqual(
        notices.map(({ about }) => about),
        [owner.email]
      )
    })
  )

  it.effect("frees an address that another person took: who owns it can be invited and joins", () =>
    Effect.gen(function* () {
      const squatter = yield* somebody
      const attacker = yield* World.team()
      yield* World.join(attacker, squatter, "member")
      const token = yield* World.token({ team: attacker, creator: squatter })
      const session = yield* World.session(squatter)
      yield* Operator.removeUser(yield* needs, squatter.email, { evenLastOwner: false })
      assert.deepInclude(yield* lastOf(attacker.id, "member.remove"), {
        actor: { id: "system", name: "system", type: "system" },
        target: { type: "user", id: squatter.id, name: squatter.email }
      })
      assert.deepStrictEqual(codeOf(yield* signIn(squatter.email, password)), [401, "SIGN_IN_FAILED"])
      for (const dead of [{ session: session.text }, { bearer: token.text }]) {
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me/verify", dead)), [401, "CREDENTIAL_REVOKED"])
      }

      const team = yield* World.team()
      const invited = yield* TestApp.post(`/teams/${team.id}/invitations`, {
        session: (yield* World.session(team.owner)).text,
        json: { email: squatter.email, role: "member" }
      })
      assert.strictEqual(invited.status, 201, invited.text)
      const code = new URL(invited.json.inviteUrl).searchParams.get("code")
      const joined = yield* TestApp.post("/invitations/accept", {
        json: { code, name: "Real", password: nextPassword }
      })
      assert.strictEqual(joined.status, 200, joined.text)
      assert.strictEqual((yield* signIn(squatter.email, nextPassword)).status, 200)
    })
  )

  it.effect("is refused the removal of the last active owner of a team, unless told", () =>
    Effect.gen(function* () {
      const owner = yield* somebody
      const team = yield* World.team({ owner, name: "Platform" })
      yield* World.member(team, "owner").pipe(
        Effect.flatMap((other) =>
          Effect.flatMap(SqlClient.SqlClient, (sql) =>
            Seals.after("memberships", sql`UPDATE memberships SET active = false WHERE user_id = ${other.id}`)
          )
        )
      )
      const services = yield* needs
      const refused = yield* Effect.flip(Operator.removeUser(services, owner.email, { evenLastOwner: false }))
      assert.deepStrictEqual([refused._tag, "teams" in refused ? refused.teams : []], ["LastOwner", ["Platform"]])
      assert.strictEqual((yield* signIn(owner.email, password)).status, 200)
      yield* Operator.removeUser(services, owner.email, { evenLastOwner: true })
      assert.strictEqual((yield* signIn(owner.email, password)).status, 401)
      const again = yield* Effect.flip(Operator.removeUser(services, owner.email, { evenLastOwner: true }))
      assert.strictEqual(again._tag, "AccountNotFound")
    })
  )

  it.effect("sees a bounded list of accounts, without those that were removed", () =>
    Effect.gen(function* () {
      const services = yield* needs
      const [one, two, gone] = [
        yield* World.person({ email: "a@list.example.com" }),
        yield* World.person({ email: "b@list.example.com" }),
        yield* World.person({ email: "c@list.example.com" })
      ]
      const team = yield* World.team({ owner: one })
      yield* Operator.removeUser(services, gone.email, { evenLastOwner: false })
      const listed = yield* Operator.list(services, { search: "LIST.example", limit: 10, unvouched: false })
      assert.deepStrictEqual(
        listed.map(({ email, memberships }) => [email, memberships]),
        [
          [one.email, [{ teamId: team.id, teamName: "Team", role: "owner", active: true }]],
          [two.email, []]
        ]
      )
      assert.lengthOf(yield* Operator.list(services, { search: "list.example", limit: 1, unvouched: false }), 1)
      assert.lengthOf(yield* Operator.list(services, { search: "l%t.example", limit: 10, unvouched: false }), 0)
      assert.lengthOf(yield* Operator.list(services, { search: "@removed.invalid", limit: 10, unvouched: false }), 0)
    })
  )
})
