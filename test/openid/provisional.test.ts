/**
 * Provisional accounts (docs/sign-in.md): an address that a stranger took by an invitation or by an own issuer is open
 * to its owner, and the two accounts have nothing of each other.
 */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { randomUUID } from "node:crypto"
import { Audit } from "#src/trail/Audit.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import * as ProvisionalAccounts from "#src/credentials/ProvisionalAccounts.ts"
import * as Rows from "#src/database/Rows.ts"
import * as Operator from "#src/credentials/Operator.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { freshAddress } from "#test/support/FreshAddress.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as OpenId from "./OpenIdWorld.ts"

const theirs = "vial of thirty drops"
const own = "seven green lamps over a harbour"

const newAddress = () => `${randomUUID()}@example.com`
const teamNamed = (name: string) => World.team({ name: `${name} ${randomUUID().slice(0, 8)}` })

const invite = (team: World.Team, email: string, role = "member") =>
  Effect.gen(function* () {
    const { text: session } = yield* World.session(team.owner)
    const answer = yield* TestApp.post(`/teams/${team.id}/invitations`, { session, json: { email, role } })
    assert.strictEqual(answer.status, 201, answer.text)
    return new URL(answer.json.inviteUrl).searchParams.get("code") ?? ""
  })
const fresh = () => ({ "x-forwarded-for": freshAddress() })
const accept = (code: string, password: string) =>
  TestApp.post("/invitations/accept", { headers: fresh(), json: { code, name: "Ada", password } })
/** An account of the address that the team's owner made by accepting the own invitation. */
const squat = (team: World.Team, email: string, password = theirs) =>
  Effect.gen(function* () {
    const answer = yield* accept(yield* invite(team, email), password)
    assert.strictEqual(answer.status, 200, answer.text)
    return { id: answer.json.user.id, session: SignIn.kept(answer) }
  })
const signIn = (email: string, password: string, headers: Record<string, string> = {}) =>
  TestApp.post("/auth/session", { headers: { ...fresh(), ...headers }, json: { email, password } })
const namesIn = (team: World.Team) =>
  Effect.gen(function* () {
    const { text: session } = yield* World.session(team.owner)
    const { json } = yield* TestApp.get(`/teams/${team.id}/members`, { session })
    const members: ReadonlyArray<{ readonly email: string; readonly userId: string }> = json.items
    return members.filter(({ userId }) => userId !== team.owner.id).map(({ email, userId }) => [userId, email])
  })
const accountsOf = (email: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ readonly id: string; readonly email: string; readonly vouchedBy: string | null }>`
      SELECT id, email, vouched_by FROM users WHERE split_part(email, ' ', 1) = ${email} ORDER BY id`
  )
const corpSignIn = (email: string, group: string) =>
  Effect.gen(function* () {
    const corp = yield* OpenId.Corp
    corp.signs(OpenId.personOf([group], { email }))
    return yield* OpenId.signIn(corp, "corp")
  })
/** A team whose members corp names. */
const corpTeam = Effect.gen(function* () {
  const team = yield* teamNamed("Corp")
  const group = randomUUID()
  yield* OpenId.rule(team, (yield* World.session(team.owner)).text, ["corp", group, "member"])
  return { team, group }
})
const operator = Effect.gen(function* () {
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
const entriesOf = (team: World.Team, action: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = ${action} ORDER BY id`,
      (rows) => rows.map(auditEntry)
    )
  )

layer(OpenId.layer, { excludeTestServices: true })("an address that a stranger took by an invitation", (it) => {
  it.effect("is open to its owner by the installation's issuer, in a new account with nothing of the old one", () =>
    Effect.gen(function* () {
      const evil = yield* teamNamed("Evil")
      const { group, team } = yield* corpTeam
      for (let i = 0; i < 5; i++) {
        const email = newAddress()
        const squatter = yield* squat(evil, email)
        const { answer, jar } = yield* corpSignIn(email, group)
        assert.strictEqual(answer.status, 303, answer.text)
        const me = (yield* OpenId.meOf(jar)).json
        assert.strictEqual(me.user.email, email)
        assert.deepStrictEqual(
          me.teams.map(({ id }: { readonly id: string }) => id),
          [team.id]
        )
        assert.notStrictEqual(me.user.id, squatter.id)
        assert.deepInclude(yield* namesIn(evil), [squatter.id, `${email} (by ${evil.name})`])
        assert.deepInclude(yield* namesIn(team), [me.user.id, email])

        // The stranger keeps their own account, and gains nothing.
        const stranger = yield* signIn(email, theirs)
        assert.strictEqual(stranger.json.user.id, squatter.id)
        assert.strictEqual(stranger.json.user.email, `${email} (by ${evil.name})`)
        assert.deepStrictEqual(
          stranger.json.teams.map(({ id }: { readonly id: string }) => id),
          [evil.id]
        )
        const session = OpenId.sessionOf(squatter.session)
        assert.strictEqual((yield* TestApp.get(`/teams/${team.id}/members`, { session })).status, 404)
        // From now on an invitation leads the owner to sign in.
        const third = yield* teamNamed("Third")
        assert.deepStrictEqual(TestApp.codeOf(yield* accept(yield* invite(third, email), own)), [
          401,
          "UNAUTHENTICATED"
        ])
      }
    })
  )

  it.effect("is open to its owner by another team's invitation that is accepted signed out", () =>
    Effect.gen(function* () {
      const [evil, ours] = [yield* teamNamed("Evil"), yield* teamNamed("Ours")]
      const email = newAddress()
      const squatter = yield* squat(evil, email)
      const joined = yield* accept(yield* invite(ours, email), own)
      assert.strictEqual(joined.status, 200, joined.text)
      assert.strictEqual(joined.json.user.email, email)
      assert.notStrictEqual(joined.json.user.id, squatter.id)
      assert.deepStrictEqual(yield* namesIn(ours), [[joined.json.user.id, email]])
      assert.deepStrictEqual(yield* namesIn(evil), [[squatter.id, `${email} (by ${evil.name})`]])
      const [entry] = yield* entriesOf(evil, "email.change")
      assert.deepInclude(entry, {
        reason: "PROVISIONAL",
        target: { type: "user", id: squatter.id, name: `${email} (by ${evil.name})` }
      })
      // A password opens the account that it belongs to.
      assert.strictEqual((yield* signIn(email, theirs)).json.user.id, squatter.id)
      assert.strictEqual((yield* signIn(email, own)).json.user.id, joined.json.user.id)
      assert.deepStrictEqual(TestApp.codeOf(yield* signIn(email, "no password of theirs")), [401, "SIGN_IN_FAILED"])
      // The same team invites each person once.
      const { text: session } = yield* World.session(ours.owner)
      const again = yield* TestApp.post(`/teams/${ours.id}/invitations`, { session, json: { email, role: "member" } })
      assert.deepStrictEqual(TestApp.codeOf(again), [409, "NAME_TAKEN"])
    })
  )

  it.effect("refuses a new account the password of another account of the address, and says no more", () =>
    Effect.gen(function* () {
      const [evil, ours] = [yield* teamNamed("Evil"), yield* teamNamed("Ours")]
      const email = newAddress()
      yield* squat(evil, email)
      const code = yield* invite(ours, email)
      const refused = yield* accept(code, theirs)
      assert.deepStrictEqual(TestApp.codeOf(refused), [400, "VALIDATION_FAILED"])
      assert.deepInclude(refused.error, {
        field: "password",
        message: "This password cannot be used. Choose another one."
      })
      assert.lengthOf(yield* accountsOf(email), 1)
      const joined = yield* accept(code, own)
      assert.strictEqual(joined.status, 200, joined.text)
      // Neither account takes the other one's password later.
      const session = OpenId.sessionOf(SignIn.kept(joined))
      const changed = yield* TestApp.post("/me/password", {
        session,
        json: { currentPassword: own, newPassword: theirs }
      })
      assert.deepStrictEqual(TestApp.codeOf(changed), [400, "VALIDATION_FAILED"])
      assert.deepInclude(changed.error, {
        field: "newPassword",
        message: "This password cannot be used. Choose another one."
      })
      const { url } = yield* Operator.resetLink(yield* operator, joined.json.user.id)
      const reset = yield* TestApp.post("/password-reset", {
        json: { code: new URL(Redacted.value(url)).searchParams.get("code"), newPassword: theirs }
      })
      assert.deepStrictEqual(TestApp.codeOf(reset), [400, "VALIDATION_FAILED"])
      assert.strictEqual((yield* signIn(email, own)).json.user.id, joined.json.user.id)
    })
  )

  it.effect("does not learn the password of the vouched account of its address by a change of its own", () =>
    Effect.gen(function* () {
      const email = newAddress()
      const squatter = yield* squat(yield* teamNamed("Evil"), email)
      const joined = yield* accept(yield* invite(yield* teamNamed("Ours"), email), own)
      assert.strictEqual(joined.status, 200, joined.text)
      const { id } = joined.json.user
      const needs = yield* operator
      yield* Rows.transaction(needs.sql, function* () {
        return yield* ProvisionalAccounts.vouch(needs, { id, address: email }, "operator", "system")
      })
      // A right guess and a wrong one have the same answer.
      for (const [currentPassword, newPassword] of [
        [theirs, "nine copper kettles in a row"],
        ["nine copper kettles in a row", own]
      ] as const) {
        const session = OpenId.sessionOf(SignIn.kept(yield* signIn(email, currentPassword)))
        const changed = yield* TestApp.post("/me/password", { session, json: { currentPassword, newPassword } })
        assert.strictEqual(changed.status, 200, changed.text)
      }
      // The vouched account comes first at the sign-in.
      assert.strictEqual((yield* signIn(email, own)).json.user.id, id)
      // A reset link of the provisional account says nothing either.
      const { url } = yield* Operator.resetLink(needs, squatter.id)
      const reset = yield* TestApp.post("/password-reset", {
        json: { code: new URL(Redacted.value(url)).searchParams.get("code"), newPassword: own }
      })
      assert.isBelow(reset.status, 300, reset.text)
      assert.strictEqual((yield* signIn(email, own)).json.user.id, id)
    })
  )

  it.effect("is joined by who accepts an invitation while signed in to it, whatever the account is called", () =>
    Effect.gen(function* () {
      const [first, second, third] = [yield* teamNamed("One"), yield* teamNamed("Two"), yield* teamNamed("Three")]
      const email = newAddress()
      const account = yield* squat(first, email)
      const joinBy = (team: World.Team, jar: SignIn.Jar) =>
        Effect.flatMap(invite(team, email), (code) =>
          TestApp.post("/invitations/accept", { session: OpenId.sessionOf(jar), json: { code } })
        )
      const joined = yield* joinBy(second, account.session)
      assert.deepStrictEqual([joined.status, joined.json.user.id], [200, account.id])
      // Displaced, it still belongs to the address.
      yield* squat(yield* teamNamed("Later"), email, own)
      const displaced = yield* joinBy(third, account.session)
      assert.deepStrictEqual([displaced.status, displaced.json.user.id], [200, account.id])
      assert.deepStrictEqual(yield* namesIn(third), [[account.id, `${email} (by ${first.name})`]])
      const page = yield* SignIn.see(`/invite?code=${yield* invite(yield* teamNamed("Four"), email)}`, account.session)
      assert.include(page.text, "Join the team")
      // Another person's session is refused.
      const stranger = yield* SignIn.signedIn
      const refused = yield* joinBy(yield* teamNamed("Five"), stranger.jar)
      assert.deepStrictEqual(TestApp.codeOf(refused), [403, "FORBIDDEN"])
    })
  )

  it.effect("cannot be guessed past the limits by the browser of the other account", () =>
    Effect.gen(function* () {
      const [evil, ours] = [yield* teamNamed("Evil"), yield* teamNamed("Ours")]
      const email = newAddress()
      const squatter = yield* squat(evil, email)
      yield* accept(yield* invite(ours, email), own)
      const second = SignIn.kept(yield* signIn(email, theirs))
      const devices = [squatter.session, second].map((jar) => jar.get("ampoule_device") ?? "")
      assert.notStrictEqual(devices[0], devices[1])
      const statuses: Array<number> = []
      for (let i = 0; i < 14; i++) {
        const cookie = `ampoule_device=${devices[i % 2]}`
        statuses.push((yield* signIn(email, `guess number ${i} of many`, { cookie })).status)
      }
      // Each device alone would take ten.
      assert.isAtMost(statuses.filter((status) => status === 401).length, 10)
      assert.deepStrictEqual(statuses.slice(-2), [429, 429])
    })
  )
})

layer(OpenId.layer, { excludeTestServices: true })("an address that a team's own issuer took", (it) => {
  it.scoped("is open to its owner by the installation's issuer, and to the owner's own team", () =>
    Effect.gen(function* () {
      const evil = yield* teamNamed("Evil")
      const { text: session } = yield* World.session(evil.owner)
      const { issuer, key } = yield* OpenId.ownIssuer(evil, session)
      const group = randomUUID()
      yield* OpenId.rule(evil, session, [key, group, "viewer"])
      const { group: corpGroup, team } = yield* corpTeam
      const email = newAddress()
      const at = `/app/sign-in/with/${key}`
      const stranger = OpenId.personOf([group], { email })
      issuer.signs(stranger)
      const first = yield* OpenId.signIn(issuer, key, new Map(), "", at)
      assert.strictEqual(first.answer.status, 303, first.answer.text)
      const squatter = (yield* OpenId.meOf(first.jar)).json.user
      assert.strictEqual((yield* accountsOf(email))[0]?.vouchedBy, "none")

      const { jar } = yield* corpSignIn(email, corpGroup)
      const me = (yield* OpenId.meOf(jar)).json
      assert.deepStrictEqual([me.user.email, me.teams.length, me.teams[0].id], [email, 1, team.id])
      assert.deepStrictEqual(yield* namesIn(evil), [[squatter.id, `${email} (by ${evil.name})`]])
      // It signs in to its own account as before, and makes none where a witness vouches for another.
      const back = yield* OpenId.signIn(issuer, key, new Map(), "", at)
      assert.strictEqual((yield* OpenId.meOf(back.jar)).json.user.id, squatter.id)
      issuer.signs({ ...stranger, sub: randomUUID() })
      assert.strictEqual((yield* OpenId.signIn(issuer, key, new Map(), "", at)).answer.status, 401)
    })
  )
})

layer(OpenId.layer, { excludeTestServices: true })("a provisional account", (it) => {
  it.effect("is vouched for by the installation's issuer, once its person links it or signs in by it", () =>
    Effect.gen(function* () {
      const corp = yield* OpenId.Corp
      const team = yield* teamNamed("One")
      const email = newAddress()
      const account = yield* squat(team, email)
      const link = (person: object) => {
        corp.signs(OpenId.personOf([], person))
        return OpenId.signIn(corp, "corp", account.session, "", "/app/account/sign-ins/with/corp")
      }
      // Neither another address nor one that the issuer does not vouch for is a witness.
      yield* link({ email: newAddress() })
      yield* link({ email, email_verified: false })
      assert.strictEqual((yield* accountsOf(email))[0]?.vouchedBy, "none")
      yield* squat(yield* teamNamed("Evil"), email, own)
      assert.strictEqual((yield* link({ email })).answer.status, 303)
      const names = new Map((yield* accountsOf(email)).map((one) => [one.id, one.vouchedBy] as const))
      assert.deepStrictEqual([...names.values()].toSorted(), ["issuer", "none"])
      assert.strictEqual(names.get(account.id), "issuer")
      assert.deepStrictEqual(yield* namesIn(team), [[account.id, email]])
      assert.deepInclude((yield* entriesOf(team, "email.confirm"))[0], { reason: "ISSUER" })
      assert.deepStrictEqual(TestApp.codeOf(yield* accept(yield* invite(yield* teamNamed("Two"), email), own)), [
        401,
        "UNAUTHENTICATED"
      ])
    })
  )

  it.effect("is listed and vouched for by the operator, by its id where several have the address", () =>
    Effect.gen(function* () {
      const services = yield* operator
      const [evil, ours] = [yield* teamNamed("Evil"), yield* teamNamed("Ours")]
      const email = newAddress()
      const squatter = yield* squat(evil, email)
      const real = yield* squat(ours, email, own)
      const listed = yield* Operator.list(services, { search: email, limit: 10, unvouched: true })
      assert.deepStrictEqual(
        listed.map((one) => [one.id, one.email, one.vouchedBy, one.madeBy]),
        [
          [real.id, email, "none", ours.name],
          [squatter.id, `${email} (by ${evil.name})`, "none", evil.name]
        ]
      )
      assert.strictEqual((yield* Effect.flip(Operator.vouch(services, email)))._tag, "AccountAmbiguous")
      assert.strictEqual((yield* Effect.flip(Operator.resetLink(services, email)))._tag, "AccountAmbiguous")
      yield* Operator.vouch(services, real.id)
      assert.lengthOf(yield* Operator.list(services, { search: real.id, limit: 10, unvouched: true }), 0)
      const refusal = yield* Effect.flip(Operator.vouch(services, `${email} (by ${evil.name})`))
      assert.strictEqual(refusal._tag, "AddressHeld")
      // The address alone names the account that holds it.
      assert.strictEqual((yield* Operator.vouch(services, email)).id, real.id)
      // Members are found by the address, whatever they are called.
      const { text: session } = yield* World.session(evil.owner)
      const report = yield* TestApp.get(`/teams/${evil.id}/incident-report?person=${encodeURIComponent(email)}`, {
        session
      })
      assert.deepStrictEqual([report.status, report.text.includes(squatter.id)], [200, true], report.text)
      // When the holder is gone, the address goes back to the only account that has it.
      yield* Operator.removeUser(services, email, { evenLastOwner: false })
      assert.deepStrictEqual(yield* namesIn(evil), [[squatter.id, email]])
    })
  )

  it.effect("of before the upgrade counts as vouched, and is listed until the issuer vouches for it", () =>
    Effect.gen(function* () {
      const services = yield* operator
      const before = yield* SignIn.signedIn
      const { email } = before.person
      const answer = yield* accept(yield* invite(yield* teamNamed("Evil"), email), own)
      assert.deepStrictEqual(TestApp.codeOf(answer), [401, "UNAUTHENTICATED"])
      const list = Operator.list(services, { search: email, limit: 10, unvouched: true })
      assert.deepStrictEqual(
        (yield* list).map((one) => one.vouchedBy),
        [null]
      )
      const corp = yield* OpenId.Corp
      corp.signs(OpenId.personOf([], { email }))
      yield* OpenId.signIn(corp, "corp", before.jar, "", "/app/account/sign-ins/with/corp")
      assert.lengthOf(yield* list, 0)
    })
  )

  it.effect("is what an account becomes whose person states another address, and displaces no other one", () =>
    Effect.gen(function* () {
      const team = yield* teamNamed("One")
      const email = newAddress()
      yield* squat(team, email)
      const mover = yield* SignIn.signedIn
      const change = (to: string) =>
        TestApp.post("/me/email", {
          session: OpenId.sessionOf(mover.jar),
          json: { email: to, currentPassword: SignIn.password }
        })
      assert.deepStrictEqual(TestApp.codeOf(yield* change(email)), [409, "NAME_TAKEN"])
      const other = newAddress()
      assert.strictEqual((yield* change(other)).status, 200)
      const { group } = yield* corpTeam
      assert.strictEqual((yield* corpSignIn(other, group)).answer.status, 303)
      const names = (yield* accountsOf(other)).map((one) => one.email)
      assert.deepStrictEqual(names.toSorted(), [other, `${other} (unconfirmed)`])
    })
  )

  it.effect("that looks like an address blocks neither it nor the issuer's word", () =>
    Effect.gen(function* () {
      const evil = yield* teamNamed("Evil")
      const digits = Date.now()
      const [latin, cyrillic] = [`coco@${digits}.example`, `сосо@${digits}.example`]
      yield* squat(evil, cyrillic)
      const joined = yield* accept(yield* invite(yield* teamNamed("Ours"), latin), own)
      assert.strictEqual(joined.status, 200, joined.text)
    })
  )
})

layer(OpenId.layer, { excludeTestServices: true })("accounts that are made for one address at once", (it) => {
  it.effect("by two invitations are two, of which one is named by the address", () =>
    Effect.gen(function* () {
      for (let i = 0; i < 5; i++) {
        const email = newAddress()
        const teams = [yield* teamNamed("A"), yield* teamNamed("B")] as const
        const codes = [yield* invite(teams[0], email), yield* invite(teams[1], email)] as const
        const answers = yield* Effect.all([accept(codes[0], theirs), accept(codes[1], own)], { concurrency: 2 })
        assert.deepStrictEqual(
          answers.map(({ status }) => status),
          [200, 200],
          answers.map(({ text }) => text).join()
        )
        const names = (yield* accountsOf(email)).map((one) => one.email)
        const [label] = names.filter((name) => name !== email)
        assert.strictEqual(names.length, 2)
        assert.include(names, email)
        assert.include(
          teams.map(({ name }) => `${email} (by ${name})`),
          label
        )
        assert.strictEqual((yield* signIn(email, theirs)).json.user.id, answers[0].json.user.id)
        assert.strictEqual((yield* signIn(email, own)).json.user.id, answers[1].json.user.id)
      }
    })
  )

  it.effect("by two invitations never have the same password", () =>
    Effect.gen(function* () {
      for (let i = 0; i < 5; i++) {
        const email = newAddress()
        const codes = [yield* invite(yield* teamNamed("A"), email), yield* invite(yield* teamNamed("B"), email)]
        const answers = yield* Effect.all(
          codes.map((code) => accept(code, own)),
          { concurrency: 2 }
        )
        assert.deepStrictEqual(answers.map(({ status }) => status).toSorted(), [200, 400])
      }
    })
  )

  it.effect("by an invitation and the issuer leave the issuer's account with the address", () =>
    Effect.gen(function* () {
      const { group } = yield* corpTeam
      for (let i = 0; i < 5; i++) {
        const email = newAddress()
        const evil = yield* teamNamed("Evil")
        const code = yield* invite(evil, email)
        const [byIssuer, accepted] = yield* Effect.all([corpSignIn(email, group), accept(code, theirs)], {
          concurrency: 2
        })
        assert.strictEqual(byIssuer.answer.status, 303, byIssuer.answer.text)
        assert.include([200, 401], accepted.status)
        const accounts = yield* accountsOf(email)
        assert.deepStrictEqual(
          accounts.filter((one) => one.email === email).map((one) => one.vouchedBy),
          ["issuer"]
        )
        assert.strictEqual(accounts.length, accepted.status === 200 ? 2 : 1)
      }
    })
  )
})

/** Rows of `users` that no other transaction has locked, while `flow` waits for the team's row. */
const freeWhileWaiting = Effect.fnUntraced(function* <A, E, R>(
  team: World.Team,
  flow: Effect.Effect<A, E, R>,
  ids: ReadonlyArray<string>
) {
  const sql = yield* SqlClient.SqlClient
  const started = yield* Deferred.make<Fiber.RuntimeFiber<A, E>>()
  const free = yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT id FROM teams WHERE id = ${team.id} FOR NO KEY UPDATE`
      yield* Deferred.succeed(started, yield* Effect.forkDaemon(withoutTransaction(flow)))
      const [{ pid }] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
      yield* Effect.repeat(sql`SELECT pid FROM pg_stat_activity WHERE ${pid}::int = ANY(pg_blocking_pids(pid))`, {
        until: (rows) => rows.length > 0
      })
      return yield* sql<{ readonly id: string }>`
        SELECT id FROM users WHERE id = ANY(${ids}::uuid[]) FOR UPDATE SKIP LOCKED`
    })
  )
  return { free: free.map(({ id }) => id), answer: yield* Fiber.join(yield* Deferred.await(started)) }
})
const withoutTransaction = <A, E, R>(flow: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.mapInputContext(flow, (context: Context.Context<R>) =>
    Context.unsafeMake(new Map([...context.unsafeMap].filter(([key]) => key !== SqlClient.TransactionConnection.key)))
  )

// A removal, an incident and the operator lock teams before accounts: the opposite order would be a deadlock.
layer(OpenId.layer, { excludeTestServices: true })("an account that makes way", (it) => {
  it.effect.skipIf(!TestDatabase.onPostgres)("to an issuer's account is renamed after the teams are locked", () =>
    Effect.gen(function* () {
      const { group, team } = yield* corpTeam
      const email = newAddress()
      const squatter = yield* squat(team, email)
      const { answer, free } = yield* freeWhileWaiting(team, corpSignIn(email, group), [squatter.id])
      assert.deepStrictEqual(free, [squatter.id])
      assert.strictEqual(answer.answer.status, 303, answer.answer.text)
    })
  )

  it.effect.skipIf(!TestDatabase.onPostgres)("to an invited person's account is renamed after the team is locked", () =>
    Effect.gen(function* () {
      const [evil, ours] = [yield* teamNamed("Evil"), yield* teamNamed("Ours")]
      const email = newAddress()
      const squatter = yield* squat(evil, email)
      const code = yield* invite(ours, email)
      const { answer, free } = yield* freeWhileWaiting(ours, accept(code, own), [squatter.id])
      assert.deepStrictEqual(free, [squatter.id])
      assert.strictEqual(answer.status, 200, answer.text)
    })
  )

  it.effect.skipIf(!TestDatabase.onPostgres)(
    "to one that the operator vouches for is renamed after teams are locked",
    () =>
      Effect.gen(function* () {
        const [evil, ours] = [yield* teamNamed("Evil"), yield* teamNamed("Ours")]
        const email = newAddress()
        const squatter = yield* squat(evil, email)
        const joined = yield* accept(yield* invite(ours, email), own)
        const flow = Effect.flatMap(operator, (needs) => Operator.vouch(needs, squatter.id))
        const { answer, free } = yield* freeWhileWaiting(evil, flow, [squatter.id, joined.json.user.id])
        assert.sameMembers(free, [squatter.id, joined.json.user.id])
        assert.strictEqual(answer.email, email)
      })
  )

  it.effect("leaves one account by the address, whatever joins, moves and ends at the same time", () =>
    Effect.gen(function* () {
      for (let i = 0; i < 4; i++) {
        const { group, team } = yield* corpTeam
        const ours = yield* teamNamed("Ours")
        const email = newAddress()
        const squatter = yield* squat(team, email)
        const code = yield* invite(ours, email)
        const { text: session } = yield* World.session(team.owner)
        const needs = yield* operator
        const answers = yield* Effect.all(
          [
            Effect.map(corpSignIn(email, group), ({ answer }) => answer.status),
            Effect.map(accept(code, own), ({ status }) => status),
            Effect.map(TestApp.del(`/teams/${team.id}/members/${squatter.id}`, { session }), ({ status }) => status),
            Effect.as(Effect.either(Operator.changeEmail(needs, squatter.id, newAddress())), 200)
          ],
          { concurrency: "unbounded" }
        )
        assert.isTrue(
          answers.every((status) => status < 500),
          answers.join()
        )
        assert.strictEqual(answers[0], 303)
        const named = (yield* accountsOf(email)).filter((one) => one.email === email)
        assert.deepStrictEqual(
          named.map(({ vouchedBy }) => vouchedBy),
          ["issuer"]
        )
      }
    })
  )
})
