import { assert, layer } from "@effect/vitest"
import * as argon2 from "@node-rs/argon2"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { Caller } from "#schema/Caller.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { LastUse } from "#src/credentials/LastUse.ts"
import { Passwords } from "#src/credentials/Passwords.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { auditEntry } from "#test/support/Json.ts"
import { freshAddress } from "#test/support/FreshAddress.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"

const secureBase = "https://ampoule.example.com"
const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] }))),
  Layer.provideMerge(MovableClock.layer)
)

const password = "vial of thirty drops"
const nextPassword = "vial of forty drops!"

/** An owner who can sign in. */
const owner = Effect.gen(function* () {
  const passwords = yield* Passwords
  const person = yield* World.person({ passwordHash: yield* passwords.hash(Redacted.make(password), "password") })
  const team = yield* World.team({ owner: person })
  return { person, team }
})

/** Sign-in is limited per address; every call comes from another one unless it says. */
const signIn = (
  email: string,
  more: { readonly password?: string; readonly ip?: string; readonly headers?: Record<string, string> } = {}
) =>
  TestApp.post("/auth/session", {
    json: { email, password: more.password ?? password },
    headers: { "x-forwarded-for": more.ip ?? freshAddress(), ...more.headers }
  })
const cookieOf = (answer: TestApp.Answer) => /^[^=]+=([^;]*)/.exec(answer.headers.get("set-cookie") ?? "")?.[1] ?? ""
/** `name=value` of the cookie by which a browser is known the next time. */
const deviceOf = (answer: TestApp.Answer) =>
  answer.headers
    .getSetCookie()
    .find((cookie) => /^(?:__Host-)?ampoule_device=/.test(cookie))
    ?.split(";")[0] ?? ""
const { codeOf } = TestApp

/** Credential of a client of `/mcp`. */
const oauthGrant = (person: World.Person) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const now = new Date().toISOString()
    yield* sql`
      INSERT INTO oauth_grants (id, user_id, client_id, client_name, redirect_host, scopes, payload, created_at, expires_at)
      VALUES (${yield* crypto.uuid}, ${person.id}, 'client', 'Agent', 'localhost', ${["secrets:read"]}::text[],
        '{}'::jsonb, ${now}, ${now})`
  })

const trail = (teamId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} ORDER BY id`
    return rows.map(auditEntry)
  })

layer(app, { excludeTestServices: true })("sessions", (it) => {
  it.effect("open with e-mail and password, whatever the e-mail's case, and set the cookie", () =>
    Effect.gen(function* () {
      const { person, team } = yield* owner
      const answer = yield* signIn(person.email.toUpperCase())
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepStrictEqual(answer.json, {
        user: person,
        teams: [{ id: team.id, name: "Team", role: "owner", plan: "team" }]
      })
      const [session, device, ...more] = answer.headers.getSetCookie()
      assert.match(
        session ?? "",
        /^ampoule_session=amp_ss_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}; Max-Age=604800; Path=\/; HttpOnly; SameSite=Lax$/
      )
      assert.match(
        device ?? "",
        /^ampoule_device=[0-9A-Za-z]{16}\.[0-9A-Za-z]{43}; Max-Age=7776000; Path=\/; HttpOnly; SameSite=Lax$/
      )
      assert.lengthOf(more, 0)
      const me = yield* TestApp.get("/me", { session: cookieOf(answer) })
      assert.deepStrictEqual(me.json, { ...answer.json, activeTeam: team.id })
      assert.deepInclude((yield* trail(team.id)).at(-1), { action: "session.create", outcome: "allowed" })
    })
  )

  it.effect("are refused alike for a wrong password, an unknown person and one who is active nowhere", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { person, team } = yield* owner
      const wrong = yield* signIn(person.email, { password: `${password}.` })
      const unknown = yield* signIn("nobody@example.com")
      yield* Seals.after("memberships", sql`UPDATE memberships SET active = false WHERE user_id = ${person.id}`)
      const shutOut = yield* signIn(person.email)
      for (const answer of [wrong, unknown, shutOut]) {
        assert.deepStrictEqual(codeOf(answer), [401, "SIGN_IN_FAILED"])
        assert.strictEqual(answer.text, wrong.text)
        assert.isNull(answer.headers.get("set-cookie"))
      }
      const entries = yield* trail(team.id)
      assert.lengthOf(entries, 2)
      for (const entry of entries) {
        assert.deepInclude(entry, { action: "session.create", outcome: "denied", reason: "SIGN_IN_FAILED" })
        assert.strictEqual(entry.actor.id, person.id)
      }
    })
  )

  it.effect("are limited to 10 tries in 10 minutes per e-mail, from wherever they come", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      for (let i = 0; i < 10; i++) {
        assert.strictEqual((yield* signIn(person.email, { password: "not the password" })).status, 401)
      }
      const late = yield* signIn(person.email)
      assert.deepStrictEqual(codeOf(late), [429, "RATE_LIMITED"])
      assert.strictEqual(late.headers.get("retry-after"), String(late.error.retryAfterSeconds))
      yield* MovableClock.advance((late.error.retryAfterSeconds ?? 0) * 1_000)
      assert.strictEqual((yield* signIn(person.email)).status, 200)
    })
  )

  it.effect("are limited to 10 tries in 10 minutes per address, for all accounts together", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const ip = "203.0.113.9"
      for (let i = 0; i < 10; i++) yield* signIn(`nobody${i}@example.com`, { ip })
      assert.deepStrictEqual(codeOf(yield* signIn(person.email, { ip })), [429, "RATE_LIMITED"])
      assert.strictEqual((yield* signIn(person.email)).status, 200)
    })
  )

  it.effect("are not counted for a person when the address they come from is out of tries", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const ip = "203.0.113.10"
      for (let i = 0; i < 10; i++) yield* signIn(`nobody${i}@example.com`, { ip })
      for (let i = 0; i < 15; i++) assert.strictEqual((yield* signIn(person.email, { ip })).status, 429)
      assert.strictEqual((yield* signIn(person.email)).status, 200)
    })
  )

  it.effect("are not limited when they succeed, neither per e-mail nor per address", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const ip = "203.0.113.11"
      for (let i = 0; i < 12; i++) assert.strictEqual((yield* signIn(person.email, { ip })).status, 200)
    })
  )

  it.effect("have separate attempts on a device that signed in before, when others use up the person's", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const ip = "203.0.113.12"
      const headers = { cookie: deviceOf(yield* signIn(person.email)) }
      const lockOut = Effect.gen(function* () {
        for (let i = 0; i < 10; i++) yield* signIn(person.email, { password: "not the password" })
        for (let i = 0; i < 10; i++) yield* signIn(`nobody${i}@example.com`, { ip })
      })
      yield* lockOut
      assert.strictEqual((yield* signIn(person.email)).status, 429)
      const back = yield* signIn(person.email, { ip, headers })
      assert.strictEqual(back.status, 200, back.text)
      assert.strictEqual(deviceOf(back), headers.cookie, "the device keeps its cookie")

      for (let i = 0; i < 10; i++) {
        assert.strictEqual((yield* signIn(person.email, { password: "not the password", headers })).status, 401)
      }
      assert.strictEqual((yield* signIn(person.email, { headers })).status, 429)
    })
  )

  it.effect("know a device for one account only, for 90 days after its last sign-in", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { person } = yield* owner
      const { person: other } = yield* owner
      const device = deviceOf(yield* signIn(person.email))
      for (let i = 0; i < 10; i++) {
        yield* signIn(person.email, { password: "not the password" })
        yield* signIn(other.email, { password: "not the password" })
      }
      const altered = device.endsWith("a") ? `${device.slice(0, -1)}b` : `${device.slice(0, -1)}a`
      assert.strictEqual((yield* signIn(other.email, { headers: { cookie: device } })).status, 429)
      assert.strictEqual((yield* signIn(person.email, { headers: { cookie: altered } })).status, 429)
      assert.strictEqual((yield* signIn(person.email, { headers: { cookie: device } })).status, 200)
      const stored = yield* sql<{ readonly row: string }>`
        SELECT row_to_json(d)::text AS row FROM known_devices d WHERE user_id = ${person.id}`
      assert.lengthOf(stored, 1)
      assert.notInclude(stored[0]?.row, device.split(".")[1])

      yield* MovableClock.advance(91 * 86_400_000)
      for (let i = 0; i < 10; i++) yield* signIn(person.email, { password: "not the password" })
      assert.strictEqual((yield* signIn(person.email, { headers: { cookie: device } })).status, 429)
    })
  )

  it.effect("remember a bounded number of devices of one person", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { person } = yield* owner
      for (let i = 0; i < 34; i++) yield* signIn(person.email)
      assert.lengthOf(yield* sql`SELECT 1 FROM known_devices WHERE user_id = ${person.id}`, 32)
    })
  )

  it.effect("are refused alike, without a hash and without counting, when too many wait for one", () =>
    Effect.gen(function* () {
      const { turns } = yield* Passwords
      const { person } = yield* owner
      const free = yield* Deferred.make<void>()
      // Each from an address of its own: no one has more of the queue than another.
      const crowd = yield* Effect.forEach(Array.from({ length: 66 }), (_, i) =>
        Effect.forkDaemon(turns.take(`crowd ${i}`, Deferred.await(free)))
      )
      yield* Effect.yieldNow()
      const existing = yield* Effect.forEach(Array.from({ length: 12 }), () => signIn(person.email))
      const wrong = yield* signIn(person.email, { password: "not the password" })
      const unknown = yield* signIn("nobody-at-all@example.com")
      for (const answer of [...existing, wrong, unknown]) {
        assert.deepStrictEqual(codeOf(answer), [429, "RATE_LIMITED"])
        assert.strictEqual(answer.text, existing[0].text)
        assert.strictEqual(answer.headers.get("retry-after"), String(answer.error.retryAfterSeconds))
      }
      yield* Deferred.succeed(free, undefined)
      yield* Effect.forEach(crowd, Fiber.join)
      assert.strictEqual((yield* signIn(person.email)).status, 200)
    })
  )

  it.effect("get through when one address fills the queue", () =>
    Effect.gen(function* () {
      const { turns } = yield* Passwords
      const { person } = yield* owner
      const free = yield* Deferred.make<void>()
      const crowd = yield* Effect.forEach(Array.from({ length: 66 }), () =>
        Effect.forkDaemon(turns.take("address:192.0.2.66", Deferred.await(free)))
      )
      yield* Effect.yieldNow()
      const answer = yield* Effect.fork(signIn(person.email))
      const [shut] = yield* Effect.raceAll(crowd.map((fiber) => Effect.map(Fiber.await(fiber), (exit) => [exit])))
      assert.isTrue(Exit.isFailure(shut))
      yield* Deferred.succeed(free, undefined)
      assert.strictEqual((yield* Fiber.join(answer)).status, 200)
    })
  )

  it.effect("get a new id at every sign-in; the one that the browser still presents ends", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const first = cookieOf(yield* signIn(person.email))
      const second = cookieOf(yield* signIn(person.email, { headers: { cookie: `ampoule_session=${first}` } }))
      assert.notStrictEqual(first, second)
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { session: first })), [401, "CREDENTIAL_REVOKED"])
      assert.strictEqual((yield* TestApp.get("/me", { session: second })).status, 200)
    })
  )

  it.effect("end at sign-out, from the next request on, and the answer clears the browser's cookie", () =>
    Effect.gen(function* () {
      const { person, team } = yield* owner
      for (const path of ["/auth/session", "/me/token"]) {
        const session = cookieOf(yield* signIn(person.email))
        const out = yield* TestApp.del(path, { session })
        assert.deepStrictEqual(out.json, path === "/me/token" ? { revoked: true } : { deleted: true })
        assert.match(
          out.headers.get("set-cookie") ?? "",
          /^ampoule_session=; Max-Age=0; Path=\/; HttpOnly; SameSite=Lax$/
        )
        assert.strictEqual(out.headers.get("clear-site-data"), '"cache", "storage"')
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { session })), [401, "CREDENTIAL_REVOKED"])
      }
      assert.lengthOf(
        (yield* trail(team.id)).filter((entry) => entry.action === "session.end"),
        2
      )
    })
  )

  it.effect("end after 12 hours unused, and after 7 days however much they are used", () =>
    Effect.gen(function* () {
      const lastUse = yield* LastUse
      const { person } = yield* owner
      const idle = cookieOf(yield* signIn(person.email))
      const used = cookieOf(yield* signIn(person.email))
      const look = (session: string) => Effect.tap(TestApp.get("/me", { session }), lastUse.flush)
      yield* MovableClock.advance("11 hours")
      assert.strictEqual((yield* look(used)).status, 200)
      yield* MovableClock.advance("1 hours")
      assert.deepStrictEqual(codeOf(yield* look(idle)), [401, "CREDENTIAL_EXPIRED"])
      for (let hours = 12; hours < 168; hours += 11) {
        assert.strictEqual((yield* look(used)).status, 200, `after ${hours} hours`)
        yield* MovableClock.advance(hours + 11 < 168 ? "11 hours" : `${168 - hours} hours`)
      }
      assert.deepStrictEqual(codeOf(yield* look(used)), [401, "CREDENTIAL_EXPIRED"])
    })
  )

  it.effect("are not opened, changed or ended by another site's page", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const session = cookieOf(yield* signIn(person.email))
      for (const headers of [
        { origin: "https://evil.example" },
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-site" }
      ]) {
        assert.deepStrictEqual(codeOf(yield* signIn(person.email, { headers })), [403, "CROSS_SITE_REQUEST"])
        assert.deepStrictEqual(codeOf(yield* TestApp.del("/auth/session", { session, headers })), [
          403,
          "CROSS_SITE_REQUEST"
        ])
        const reset = yield* TestApp.post("/password-reset", {
          json: { code: "x", newPassword: nextPassword },
          headers
        })
        assert.deepStrictEqual(codeOf(reset), [403, "CROSS_SITE_REQUEST"])
      }
      const own = { origin: TestApp.baseUrl, "sec-fetch-site": "same-origin" }
      assert.strictEqual((yield* TestApp.del("/auth/session", { session, headers: own })).status, 200)
    })
  )

  it.effect("hash a password anew at sign-in when it was hashed with other parameters", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const weak = yield* Effect.promise(() =>
        argon2.hash(password, { algorithm: 2, memoryCost: 8_192, timeCost: 1, parallelism: 1 })
      )
      const person = yield* World.person({ passwordHash: weak })
      yield* World.team({ owner: person })
      assert.strictEqual((yield* signIn(person.email)).status, 200)
      const [row] = yield* sql<{
        readonly passwordHash: string
      }>`SELECT password_hash FROM users WHERE id = ${person.id}`
      const macs = yield* (yield* RowSeal).ready
      const opened = yield* Effect.orDie(macs.openPassword(row.passwordHash))
      assert.match(opened, /^\$argon2id\$v=19\$m=65536,t=3,p=1\$/)
      assert.notStrictEqual(row.passwordHash, opened, "sealed")
      assert.strictEqual((yield* signIn(person.email)).status, 200)
    })
  )

  it.effect("are not opened by a password that was changed while it was being checked", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const passwords = yield* Passwords
      const { person } = yield* owner
      const next = yield* passwords.hash(Redacted.make(nextPassword), "password")
      const context = yield* Effect.context<SqlClient.SqlClient>()
      let changes = 0
      const interleaved = Layer.succeed(
        Passwords,
        Passwords.make({
          ...passwords,
          find: (stored, given) =>
            Effect.tap(passwords.find(stored, given), () =>
              changes++ === 0
                ? Effect.orDie(
                    Seals.after("users", sql`UPDATE users SET password_hash = ${next} WHERE id = ${person.id}`).pipe(
                      Effect.provide(context)
                    )
                  )
                : Effect.void
            )
        })
      )
      const refused = yield* Effect.flatMap(Sessions, (sessions) =>
        Effect.flip(
          sessions.signIn(
            { email: person.email, password: Redacted.make(password) },
            { session: null, device: null, step: null, passkey: null }
          )
        )
      ).pipe(Effect.provide(Sessions.Default.pipe(Layer.provide(interleaved))))
      assert.strictEqual(refused._tag, "SIGN_IN_FAILED")
      assert.lengthOf(yield* sql`SELECT 1 FROM sessions WHERE user_id = ${person.id}`, 0)
    })
  )

  it.effect("work in one team at a time, of those the person is in", () =>
    Effect.gen(function* () {
      const sessions = yield* Sessions
      const authenticate = yield* Authenticate
      const { person, team } = yield* owner
      const other = yield* World.team({ name: "Other" })
      yield* World.join(other, person, "viewer")
      const session = cookieOf(yield* signIn(person.email))
      const active = Effect.map(TestApp.get("/me", { session }), (me) => me.json.activeTeam)
      const caller: Effect.Effect<Caller> = Effect.map(
        Effect.orDie(authenticate.authenticate(session)),
        (v) => v.caller
      )

      assert.strictEqual(yield* active, team.id)
      yield* sessions.chooseTeam(yield* caller, other.id)
      assert.strictEqual(yield* active, other.id)
      const foreign = yield* World.team()
      yield* sessions.chooseTeam(yield* caller, foreign.id)
      assert.strictEqual(yield* active, other.id)
      const later = yield* signIn(person.email)
      assert.strictEqual((yield* TestApp.get("/me", { session: cookieOf(later) })).json.activeTeam, other.id)

      const sql = yield* SqlClient.SqlClient
      yield* sql`DELETE FROM memberships WHERE team_id = ${other.id} AND user_id = ${person.id}`
      assert.strictEqual(yield* active, team.id)
      yield* sql`DELETE FROM memberships WHERE user_id = ${person.id}`
      assert.isNull(yield* active)
    })
  )
})

layer(app, { excludeTestServices: true })("passwords over HTTP", (it) => {
  const change = (session: string, json: unknown) => TestApp.post("/me/password", { session, json })

  it.effect("end with a change: sessions, tokens, CLI grants, OAuth grants; this session gets a new cookie", () =>
    Effect.gen(function* () {
      const { person, team } = yield* owner
      const elsewhere = yield* World.team()
      yield* World.join(elsewhere, person, "admin")
      const tokens = [yield* World.token({ team }), yield* World.token({ team: elsewhere, creator: person })]
      const colleague = yield* World.token({ team: elsewhere })
      const grant = yield* World.grant({ person, teams: [{ team, scopes: ["identity:read"] }] })
      const here = cookieOf(yield* signIn(person.email))
      const there = cookieOf(yield* signIn(person.email))
      yield* oauthGrant(person)

      const answer = yield* change(here, { currentPassword: password, newPassword: nextPassword })
      assert.deepStrictEqual([answer.status, answer.json.changed], [200, true])
      const renewed = cookieOf(answer)
      assert.notStrictEqual(renewed, here)
      assert.strictEqual((yield* TestApp.get("/me", { session: renewed })).status, 200)
      for (const session of [here, there]) {
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { session })), [401, "CREDENTIAL_REVOKED"])
      }
      for (const { text } of [...tokens, grant]) {
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me/verify", { bearer: text })), [401, "CREDENTIAL_REVOKED"])
      }
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: colleague.text })).status, 200)
      const sql = yield* SqlClient.SqlClient
      assert.lengthOf(yield* sql`SELECT 1 FROM oauth_grants WHERE user_id = ${person.id} AND revoked_at IS NULL`, 0)
      assert.deepStrictEqual(codeOf(yield* signIn(person.email)), [401, "SIGN_IN_FAILED"])
      assert.strictEqual((yield* signIn(person.email, { password: nextPassword })).status, 200)

      const entries = yield* trail(elsewhere.id)
      assert.isTrue(entries.some((entry) => entry.action === "password.change" && entry.outcome === "allowed"))
      assert.isTrue(entries.some((entry) => entry.action === "token.revoke" && entry.target?.name === "ci"))
    })
  )

  it.effect("end, when they change, an approved login that no device fetched yet", () =>
    Effect.gen(function* () {
      const { person, team } = yield* owner
      const session = cookieOf(yield* signIn(person.email))
      const started = yield* TestApp.post("/auth/cli/device", { json: {} })
      const approved = yield* TestApp.post(`/auth/cli/device/requests/${started.json.userCode}/approve`, {
        session,
        json: { teams: [{ teamId: team.id, scopes: ["identity:read"] }] }
      })
      assert.strictEqual(approved.status, 200, approved.text)
      assert.strictEqual((yield* change(session, { currentPassword: password, newPassword: nextPassword })).status, 200)
      const fetched = yield* TestApp.post("/auth/cli/device/token", { json: { deviceCode: started.json.deviceCode } })
      assert.deepStrictEqual(fetched.json, { status: "failed", reason: "denied" })
    })
  )

  it.effect("end, when they change, the devices that were known", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const before = deviceOf(yield* signIn(person.email))
      const changed = yield* change(cookieOf(yield* signIn(person.email)), {
        currentPassword: password,
        newPassword: nextPassword
      })
      for (let i = 0; i < 10; i++) yield* signIn(person.email)
      const next = { password: nextPassword }
      assert.strictEqual((yield* signIn(person.email, { ...next, headers: { cookie: before } })).status, 429)
      assert.strictEqual((yield* signIn(person.email, { ...next, headers: { cookie: deviceOf(changed) } })).status, 200)
    })
  )

  it.effect("change while wrong passwords from elsewhere lock the person out, 10 wrong ones in 10 minutes", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const session = cookieOf(yield* signIn(person.email))
      for (let i = 0; i < 10; i++) yield* signIn(person.email, { password: "not the password" })
      assert.strictEqual((yield* signIn(person.email)).status, 429)
      const changed = yield* change(session, { currentPassword: password, newPassword: nextPassword })
      assert.strictEqual(changed.status, 200, changed.text)

      const renewed = cookieOf(changed)
      const guess = change(renewed, { currentPassword: "not the password", newPassword: password })
      for (let i = 0; i < 10; i++) assert.strictEqual((yield* guess).status, 401)
      assert.deepStrictEqual(codeOf(yield* guess), [429, "RATE_LIMITED"])
    })
  )

  it.effect("change while somebody with a stolen session guesses: wrong ones count where they are sent", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const from = (session: string, ip: string, currentPassword: string) =>
        TestApp.post("/me/password", {
          session,
          json: { currentPassword, newPassword: nextPassword },
          headers: { "x-forwarded-for": ip }
        })
      const wrong = "not the password"
      const stolen = cookieOf(yield* signIn(person.email))
      const own = cookieOf(yield* signIn(person.email))
      for (let i = 0; i < 10; i++) assert.strictEqual((yield* from(stolen, "192.0.2.71", wrong)).status, 401)
      // The session has no attempts left at any address, and the address none with any session.
      assert.strictEqual((yield* from(stolen, "192.0.2.72", wrong)).status, 429)
      assert.strictEqual((yield* from(cookieOf(yield* signIn(person.email)), "192.0.2.71", wrong)).status, 429)
      const changed = yield* from(own, "192.0.2.73", password)
      assert.strictEqual(changed.status, 200, changed.text)
    })
  )

  it.effect("do not change with a wrong current one, nor to a common one", () =>
    Effect.gen(function* () {
      const { person, team } = yield* owner
      const token = yield* World.token({ team })
      const session = cookieOf(yield* signIn(person.email))
      const wrong = yield* change(session, { currentPassword: "not the password", newPassword: nextPassword })
      assert.deepStrictEqual([...codeOf(wrong), wrong.error.field], [401, "SIGN_IN_FAILED", "currentPassword"])
      const common = yield* change(session, { currentPassword: password, newPassword: "123456789012" })
      assert.deepStrictEqual([...codeOf(common), common.error.field], [400, "VALIDATION_FAILED", "newPassword"])
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token.text })).status, 200)
      assert.strictEqual((yield* signIn(person.email)).status, 200)
      assert.deepInclude(
        (yield* trail(team.id)).find((entry) => entry.action === "password.change"),
        {
          outcome: "denied",
          reason: "SIGN_IN_FAILED"
        }
      )
    })
  )

  const resetLink = (by: { readonly id: World.Person["id"] }, team: World.Team, of: World.Person) =>
    Effect.gen(function* () {
      const session = yield* World.session(by)
      const answer = yield* TestApp.post(`/teams/${team.id}/members/${of.id}/password-reset`, { session: session.text })
      const { searchParams } = new URL(answer.status === 201 ? answer.json.resetUrl : "http://none")
      return { answer, code: searchParams.get("code") ?? "" }
    })
  const reset = (code: string, newPassword = nextPassword) =>
    TestApp.post("/password-reset", { json: { code, newPassword } })

  it.effect("are reset by a link, once: sessions, grants and tokens of the person end", () =>
    Effect.gen(function* () {
      const { person: admin, team } = yield* owner
      const passwords = yield* Passwords
      const person = yield* World.person({ passwordHash: yield* passwords.hash(Redacted.make(password), "password") })
      yield* World.join(team, person, "admin")
      const token = yield* World.token({ team, creator: person })
      const grant = yield* World.grant({ person, teams: [{ team, scopes: ["identity:read"] }] })
      const session = cookieOf(yield* signIn(person.email))

      const { answer, code } = yield* resetLink(admin, team, person)
      assert.strictEqual(answer.status, 201, answer.text)
      assert.match(
        answer.json.resetUrl,
        /^http:\/\/127\.0\.0\.1:4400\/reset\?code=amp_pr_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/
      )
      assert.strictEqual((yield* TestApp.get("/me", { session })).status, 200, "a link alone changes nothing")
      assert.deepStrictEqual(codeOf(yield* reset(code, "123456789012")), [400, "VALIDATION_FAILED"])

      const done = yield* Effect.all([reset(code), reset(code), reset(code)], { concurrency: "unbounded" })
      assert.deepStrictEqual(done.map((d) => d.status).sort(), [200, 401, 401])
      assert.deepStrictEqual(codeOf(yield* reset(code)), [401, "CREDENTIAL_REVOKED"])
      for (const dead of [{ session }, { bearer: token.text }, { bearer: grant.text }]) {
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me/verify", dead)), [401, "CREDENTIAL_REVOKED"])
      }
      assert.strictEqual((yield* signIn(person.email, { password: nextPassword })).status, 200)
      assert.deepStrictEqual(codeOf(yield* signIn(person.email)), [401, "SIGN_IN_FAILED"])
    })
  )

  it.effect("are not reset by a link that is old, replaced, altered or of another kind", () =>
    Effect.gen(function* () {
      const { person: admin, team } = yield* owner
      const person = yield* World.member(team, "member")
      const first = yield* resetLink(admin, team, person)
      const second = yield* resetLink(admin, team, person)
      assert.deepStrictEqual(codeOf(yield* reset(first.code)), [401, "CREDENTIAL_REVOKED"])
      assert.deepStrictEqual(codeOf(yield* reset(`${second.code}x`)), [401, "CREDENTIAL_INVALID"])
      const token = yield* World.token({ team })
      assert.deepStrictEqual(codeOf(yield* reset(token.text)), [401, "CREDENTIAL_INVALID"])
      yield* MovableClock.advance("24 hours")
      assert.deepStrictEqual(codeOf(yield* reset(second.code)), [401, "CREDENTIAL_EXPIRED"])
    })
  )

  it.effect("are not reset by a link whose maker was shut out since", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { person: first, team } = yield* owner
      const admin = yield* World.member(team, "admin")
      const person = yield* World.member(team, "member")
      const { code } = yield* resetLink(admin, team, person)
      const session = yield* World.session(first)
      const out = yield* TestApp.patch(`/teams/${team.id}/members/${admin.id}`, {
        session: session.text,
        json: { active: false }
      })
      assert.strictEqual(out.status, 200, out.text)
      assert.deepStrictEqual(codeOf(yield* reset(code)), [401, "CREDENTIAL_REVOKED"])
      assert.lengthOf(yield* sql`SELECT 1 FROM users WHERE id = ${person.id} AND password_hash = ''`, 1)
    })
  )

  it.effect(
    "are not reset by a link whose maker does not manage the person any more, who rose or joined elsewhere",
    () =>
      Effect.gen(function* () {
        const { person: first, team } = yield* owner
        const admin = yield* World.member(team, "admin")
        const session = yield* World.session(first)
        const promoted = yield* World.member(team, "member")
        const link = yield* resetLink(admin, team, promoted)
        const up = yield* TestApp.patch(`/teams/${team.id}/members/${promoted.id}`, {
          session: session.text,
          json: { role: "owner" }
        })
        assert.strictEqual(up.status, 200, up.text)
        assert.deepStrictEqual(codeOf(yield* reset(link.code)), [401, "CREDENTIAL_REVOKED"])

        const busy = yield* World.member(team, "member")
        const other = yield* resetLink(admin, team, busy)
        yield* World.join(yield* World.team(), busy, "viewer")
        assert.deepStrictEqual(codeOf(yield* reset(other.code)), [401, "CREDENTIAL_REVOKED"])
      })
  )

  it.effect("end, when they change, the links that were handed out in the person's name", () =>
    Effect.gen(function* () {
      const { person, team } = yield* owner
      const colleague = yield* World.member(team, "member")
      const session = cookieOf(yield* signIn(person.email))
      const { code } = yield* resetLink(person, team, colleague)
      const invited = yield* TestApp.post(`/teams/${team.id}/invitations`, {
        session,
        json: { email: "intruder@example.com", role: "owner" }
      })
      assert.strictEqual(invited.status, 201, invited.text)
      const changed = yield* change(session, { currentPassword: password, newPassword: nextPassword })
      assert.strictEqual(changed.status, 200, changed.text)
      assert.deepStrictEqual(codeOf(yield* reset(code)), [401, "CREDENTIAL_REVOKED"])
      const joined = yield* TestApp.post("/invitations/accept", {
        json: { code: new URL(invited.json.inviteUrl).searchParams.get("code"), name: "Eve", password: nextPassword }
      })
      assert.deepStrictEqual(codeOf(joined), [401, "CREDENTIAL_REVOKED"])
    })
  )

  it.effect(
    "of an owner are reset by owners only, and of a person in other teams by a manager of these teams too",
    () =>
      Effect.gen(function* () {
        const { person: first, team } = yield* owner
        const admin = yield* World.member(team, "admin")
        const viewer = yield* World.member(team, "viewer")
        assert.deepStrictEqual(codeOf((yield* resetLink(admin, team, first)).answer), [403, "FORBIDDEN"])
        assert.deepStrictEqual(codeOf((yield* resetLink(viewer, team, viewer)).answer), [403, "FORBIDDEN"])
        assert.strictEqual((yield* resetLink(admin, team, viewer)).answer.status, 201)

        const elsewhere = yield* World.team()
        yield* World.join(elsewhere, viewer, "viewer")
        assert.deepStrictEqual(codeOf((yield* resetLink(admin, team, viewer)).answer), [403, "FORBIDDEN"])
        yield* World.join(elsewhere, admin, "admin")
        assert.strictEqual((yield* resetLink(admin, team, viewer)).answer.status, 201)

        const stranger = yield* World.person()
        assert.deepStrictEqual(codeOf((yield* resetLink(first, team, stranger)).answer), [404, "MEMBER_NOT_FOUND"])
      })
  )
})

layer(TestApp.server.pipe(Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ baseUrl: secureBase })))), {
  excludeTestServices: true
})("sessions behind https", (it) => {
  it.effect("use the __Host- cookie with Secure", () =>
    Effect.gen(function* () {
      const { person } = yield* owner
      const answer = yield* signIn(person.email, { headers: { origin: secureBase } })
      const [session, device] = answer.headers.getSetCookie()
      assert.match(
        session ?? "",
        /^__Host-ampoule_session=amp_ss_[0-9A-Za-z_]+; Max-Age=604800; Path=\/; HttpOnly; Secure; SameSite=Lax$/
      )
      assert.match(
        device ?? "",
        /^__Host-ampoule_device=[0-9A-Za-z.]+; Max-Age=7776000; Path=\/; HttpOnly; Secure; SameSite=Lax$/
      )
      const cookie = (name: string) => ({ headers: { cookie: `${name}=${cookieOf(answer)}` } })
      assert.strictEqual((yield* TestApp.get("/me", cookie("__Host-ampoule_session"))).status, 200)
      assert.strictEqual((yield* TestApp.get("/me", cookie("ampoule_session"))).status, 401)
    })
  )
})
