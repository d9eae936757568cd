/** The second factor, and who tries to do without it. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { execFileSync } from "node:child_process"
import { randomBytes, randomInt } from "node:crypto"
import * as Totp from "#src/credentials/Totp.ts"
import { auditEntry } from "#test/support/Json.ts"
import { missing } from "#test/support/Programs.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

// As `oathtool` of Debian prints them for the times and secrets of RFC 6238, appendix B.
const vectors: ReadonlyArray<readonly [seconds: number, sha1: string, sha256: string, sha512: string, six: string]> = [
  [59, "94287082", "46119246", "90693936", "287082"],
  [1_111_111_109, "07081804", "68084774", "25091201", "081804"],
  [1_111_111_111, "14050471", "67062674", "99943326", "050471"],
  [1_234_567_890, "89005924", "91819424", "93441116", "005924"],
  [2_000_000_000, "69279037", "90698825", "38618901", "279037"],
  [20_000_000_000, "65353130", "77737706", "47863826", "353130"]
]
const secretOf = (length: number) => Buffer.from("1234567890".repeat(7).slice(0, length))

describe("a code of an app", () => {
  it("is the one of RFC 6238", () => {
    for (const [seconds, sha1, sha256, sha512, six] of vectors) {
      const step = Totp.stepAt(seconds * 1_000)
      assert.strictEqual(Totp.codeAt(secretOf(20), step, 8), sha1)
      assert.strictEqual(Totp.codeAt(secretOf(32), step, 8, "sha256"), sha256)
      assert.strictEqual(Totp.codeAt(secretOf(64), step, 8, "sha512"), sha512)
      assert.strictEqual(Totp.codeAt(secretOf(20), step), six)
    }
    assert.strictEqual(Totp.base32Of(secretOf(20)), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
    assert.strictEqual(Totp.base32Of(Buffer.from("f")), "MY")
  })

  it("is good in its step and the two beside it, once, and never one before a step that was used", () => {
    const secret = secretOf(20)
    const millis = 1_234_567_890_000
    const now = Totp.stepAt(millis)
    const match = (step: number, usedStep = 0) =>
      Totp.matchingStep(secret, Totp.codeAt(secret, step), { millis, usedStep })
    assert.deepStrictEqual(
      [-2, -1, 0, 1, 2].map((by) => match(now + by)),
      [undefined, now - 1, now, now + 1, undefined]
    )
    assert.isUndefined(match(now, now))
    assert.isUndefined(match(now - 1, now))
    assert.strictEqual(match(now + 1, now), now + 1)
    assert.strictEqual(Totp.matchingStep(secret, "005 924", { millis, usedStep: 0 }), now)
    for (const typed of ["", "00592", "0059244", "００５９２４"]) {
      assert.isUndefined(Totp.matchingStep(secret, typed, { millis, usedStep: 0 }), typed)
    }
    assert.isFalse(Totp.isCode("00592a"))
  })
})

describe.skipIf(missing("oathtool"))("the codes of `oathtool`", () => {
  const oathtool = (...args: ReadonlyArray<string>) => execFileSync("oathtool", args, { encoding: "utf8" }).trim()

  it("are ours, for any secret at any time", () => {
    for (let n = 0; n < 40; n++) {
      const secret = randomBytes(20)
      const seconds = randomInt(0, 4_000_000_000)
      const [step, time] = [Totp.stepAt(seconds * 1_000), `--now=@${seconds}`]
      const options = ["--totp", time, "--base32", Totp.base32Of(secret)]
      assert.strictEqual(Totp.codeAt(secret, step), oathtool(...options), `${secret.toString("hex")} ${seconds}`)
      const [earlier = "", now = "", later = ""] = oathtool(
        "--totp",
        `--now=@${seconds + 30}`,
        "--window=2",
        "--base32",
        Totp.base32Of(secret)
      ).split("\n")
      assert.strictEqual(Totp.matchingStep(secret, earlier, { millis: seconds * 1_000, usedStep: 0 }), step + 1)
      assert.isUndefined(Totp.matchingStep(secret, now, { millis: seconds * 1_000, usedStep: 0 }))
      assert.isUndefined(Totp.matchingStep(secret, later, { millis: seconds * 1_000, usedStep: 0 }))
    }
  })
})

const { codeOf } = TestApp
const whoIs = (jar: SignIn.Jar) => Effect.map(SignIn.see("/me", jar), ({ status }) => status)
const overRest = (email: string, code?: string, headers: Record<string, string> = {}) =>
  TestApp.post("/auth/session", {
    json: { email, password: SignIn.password, ...(code === undefined ? {} : { code }) },
    headers: { "x-forwarded-for": "192.0.2.7", ...headers }
  })
const factorEntries = (teamId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} ORDER BY id`
    return rows
      .map(auditEntry)
      .map(({ action, outcome, reason }) => [action, outcome, ...(reason === undefined ? [] : [reason])].join(" "))
  })
const nextStep = MovableClock.advance("30 seconds")
const later = MovableClock.advance("16 minutes")
const factors = "/app/account/second-factor"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] }))),
  Layer.provideMerge(MovableClock.layer)
)

layer(app, { excludeTestServices: true })("a second factor", (it) => {
  it.effect(
    "is set up with its first code: other sessions end, recovery codes are shown once, nothing is readable",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const { jar, person, team } = yield* SignIn.signedIn
        const other = yield* World.session(person)
        assert.include((yield* SignIn.see(factors, jar)).text, "You have no second factor")
        // A secret that waits for its first code asks for none.
        yield* SignIn.submit(`${factors}/app`, jar)
        const wrong = yield* SignIn.submit(`${factors}/app/confirm`, jar, { code: "000000" })
        assert.strictEqual(wrong.status, 401)
        assert.strictEqual((yield* overRest(person.email)).status, 200)

        const enrolled = yield* SignIn.enrol(jar)
        assert.strictEqual(enrolled.answer.status, 200, enrolled.answer.text)
        assert.lengthOf(enrolled.codes, 10)
        assert.match(enrolled.secret.replace(/\s/g, ""), /^[A-Z2-7]{32}$/)
        assert.strictEqual(yield* whoIs(enrolled.jar), 200)
        // The text that the browser had before is another's now, if somebody else has it.
        assert.strictEqual(yield* whoIs(jar), 401)
        assert.strictEqual((yield* TestApp.get("/me", { session: other.text })).error.code, "CREDENTIAL_REVOKED")
        const page = yield* SignIn.see(factors, enrolled.jar)
        assert.include(page.text, "10 of 10 are unused")
        for (const shown of [enrolled.secret, ...enrolled.codes]) assert.notInclude(page.text, shown)
        // Nobody who sits at the browser later sees the secret again.
        assert.strictEqual((yield* SignIn.see(`${factors}/app`, enrolled.jar)).status, 303)

        const rows = yield* sql<{ readonly row: string }>`
        SELECT row_to_json(t)::text AS row FROM totp_factors t WHERE user_id = ${person.id}
        UNION ALL SELECT row_to_json(r)::text FROM recovery_codes r WHERE user_id = ${person.id}`
        assert.lengthOf(rows, 11)
        const stored = rows.map(({ row }) => row).join("\n")
        for (const code of enrolled.codes) {
          assert.notInclude(stored, Buffer.from(code.replaceAll("-", "")).toString("hex"))
        }
        assert.include(yield* factorEntries(team.id), "factor.add allowed")
      })
  )

  it.effect("is asked for with the password, over REST in one request; its code is good once", () =>
    Effect.gen(function* () {
      const { jar, person, team } = yield* SignIn.signedIn
      const { secret } = yield* SignIn.enrol(jar)
      const without = yield* overRest(person.email)
      assert.deepStrictEqual(codeOf(without), [401, "SECOND_FACTOR_REQUIRED"])
      assert.lengthOf(without.headers.getSetCookie(), 0)
      const device = { cookie: `ampoule_device=${jar.get("ampoule_device")}` }
      const withCode = (code: string) => overRest(person.email, code, device)
      // The code that set it up was used by that.
      const used = yield* withCode(yield* SignIn.codeOf(secret))
      assert.deepStrictEqual(codeOf(used), [401, "SECOND_FACTOR_FAILED"])
      assert.lengthOf(used.headers.getSetCookie(), 0)
      const next = yield* SignIn.codeOf(secret, 1)
      assert.strictEqual((yield* withCode(next)).status, 200)
      assert.deepStrictEqual(codeOf(yield* withCode(next)), [401, "SECOND_FACTOR_FAILED"])
      assert.deepStrictEqual(codeOf(yield* withCode(yield* SignIn.codeOf(secret, 2))), [401, "SECOND_FACTOR_FAILED"])
      // A wrong password says nothing of the factor.
      const wrong = yield* TestApp.post("/auth/session", {
        json: { email: person.email, password: "not the password", code: next },
        headers: { "x-forwarded-for": "192.0.2.8" }
      })
      assert.deepStrictEqual(codeOf(wrong), [401, "SIGN_IN_FAILED"])
      assert.include(yield* factorEntries(team.id), "session.create denied SECOND_FACTOR_FAILED")
      // Of two with one code at the same time, one signs in.
      yield* nextStep
      yield* nextStep
      const code = yield* SignIn.codeOf(secret)
      const both = yield* Effect.all([withCode(code), withCode(code)], { concurrency: "unbounded" })
      assert.deepStrictEqual(both.map(({ status }) => status).toSorted(), [200, 401])
    })
  )

  it.effect("is the second step of the sign-in page; the first one opens nothing", () =>
    Effect.gen(function* () {
      const { jar, person } = yield* SignIn.signedIn
      const { secret } = yield* SignIn.enrol(jar)
      const first = yield* SignIn.submit("/app/sign-in", new Map(), {
        email: person.email,
        password: SignIn.password,
        next: "/app/grants"
      })
      assert.deepStrictEqual(
        [first.status, first.headers.get("location")],
        [303, "/app/sign-in/code?next=%2Fapp%2Fgrants"]
      )
      const begun = SignIn.kept(first)
      assert.deepStrictEqual([...begun.keys()], ["ampoule_step"])
      const step = begun.get("ampoule_step") ?? ""
      for (const asked of [{ session: step }, { bearer: step }]) {
        assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", asked)), [401, "CREDENTIAL_INVALID"])
      }
      assert.strictEqual((yield* SignIn.see("/app", begun)).headers.get("location"), "/app/sign-in")
      assert.include((yield* SignIn.see("/app/sign-in/code", begun)).text, "Enter your code")
      assert.strictEqual((yield* SignIn.see("/app/sign-in/code", new Map())).headers.get("location"), "/app/sign-in")

      // Another person's code, with this person's step.
      const stranger = yield* SignIn.signedIn
      const theirs = yield* SignIn.enrol(stranger.jar)
      yield* nextStep
      const foreign = yield* SignIn.submit("/app/sign-in/code", begun, { code: yield* SignIn.codeOf(theirs.secret) })
      assert.strictEqual(foreign.status, 401)
      assert.lengthOf(foreign.headers.getSetCookie(), 0)
      const code = yield* SignIn.codeOf(secret)
      const crossSite = yield* SignIn.submit("/app/sign-in/code", begun, { code }, { "sec-fetch-site": "cross-site" })
      assert.strictEqual(crossSite.status, 403)

      const done = yield* SignIn.submit("/app/sign-in/code", begun, { code, next: "/app/grants" })
      assert.deepStrictEqual([done.status, done.headers.get("location")], [303, "/app/grants"])
      assert.strictEqual(yield* whoIs(SignIn.kept(done)), 200)
      // The step was good once.
      yield* nextStep
      const again = yield* SignIn.submit("/app/sign-in/code", begun, { code: yield* SignIn.codeOf(secret) })
      assert.strictEqual(again.status, 401)
      assert.lengthOf(again.headers.getSetCookie(), 0)

      for (const next of [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/app/../../evil",
        "javascript:alert(1)"
      ]) {
        yield* nextStep
        const { answer } = yield* SignIn.signInWith(person.email, yield* SignIn.codeOf(secret), begun, next)
        assert.strictEqual(answer.status, 303, answer.text)
        assert.strictEqual(new URL(answer.headers.get("location") ?? "", TestApp.baseUrl).origin, TestApp.baseUrl, next)
      }
      // A step ends after ten minutes.
      const slow = SignIn.kept(
        yield* SignIn.submit("/app/sign-in", new Map(), { email: person.email, password: SignIn.password })
      )
      yield* MovableClock.advance("10 minutes")
      assert.strictEqual(
        (yield* SignIn.submit("/app/sign-in/code", slow, { code: yield* SignIn.codeOf(secret) })).status,
        401
      )
    })
  )

  it.effect.skipIf(missing("oathtool"))(
    "is set up and proved with the codes of `oathtool`, by the text that the page shows",
    () =>
      Effect.gen(function* () {
        const app = `${factors}/app` as const
        const { jar, person } = yield* SignIn.signedIn
        yield* SignIn.submit(app, jar)
        const secretText = /id="once"[^>]*value="([^"]+)"/.exec((yield* SignIn.see(app, jar)).text)?.[1] ?? ""
        const codeNow = Effect.map(Clock.currentTimeMillis, (now) =>
          execFileSync(
            "oathtool",
            ["--totp", `--now=@${Math.floor(now / 1_000)}`, "--base32", secretText.replace(/\s/g, "")],
            {
              encoding: "utf8"
            }
          ).trim()
        )
        const confirmed = yield* SignIn.submit(`${app}/confirm`, jar, { code: yield* codeNow })
        assert.strictEqual(confirmed.status, 200, confirmed.text)
        yield* nextStep
        const { answer, jar: inside } = yield* SignIn.signInWith(person.email, yield* codeNow)
        assert.strictEqual(answer.status, 303, answer.text)
        assert.strictEqual(yield* whoIs(inside), 200)
      })
  )

  it.effect("has ten recovery codes, each good once, for their person alone", () =>
    Effect.gen(function* () {
      const { jar, person } = yield* SignIn.signedIn
      const enrolled = yield* SignIn.enrol(jar)
      const stranger = yield* SignIn.signedIn
      const theirs = yield* SignIn.enrol(stranger.jar)
      const [first = "", second = "", third = ""] = enrolled.codes
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, theirs.codes[0])), [401, "SECOND_FACTOR_FAILED"])
      assert.strictEqual((yield* overRest(person.email, first)).status, 200)
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, first)), [401, "SECOND_FACTOR_FAILED"])
      assert.strictEqual((yield* overRest(person.email, second.toUpperCase().replaceAll("-", " "))).status, 200)
      assert.include((yield* SignIn.see(factors, enrolled.jar)).text, "8 of 10 are unused")
      const renewed = yield* SignIn.submit(`${factors}/recovery-codes`, enrolled.jar)
      assert.strictEqual(renewed.status, 200)
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, third)), [401, "SECOND_FACTOR_FAILED"])
      assert.include((yield* SignIn.see(factors, enrolled.jar)).text, "10 of 10 are unused")
    })
  )

  it.effect(
    "is not guessed: strangers share few attempts, and keep out neither a known browser nor a recovery code",
    () =>
      Effect.gen(function* () {
        const { jar, person } = yield* SignIn.signedIn
        const enrolled = yield* SignIn.enrol(jar)
        yield* nextStep
        const wrong = String((Number(yield* SignIn.codeOf(enrolled.secret)) + 1) % 1_000_000).padStart(6, "0")
        // From five addresses, each with the right password.
        for (let n = 0; n < 5; n++) {
          const guess = yield* overRest(person.email, wrong, { "x-forwarded-for": `203.0.113.${n + 1}` })
          assert.deepStrictEqual(codeOf(guess), [401, "SECOND_FACTOR_FAILED"])
        }
        const right = yield* SignIn.codeOf(enrolled.secret)
        const sixth = yield* overRest(person.email, right, { "x-forwarded-for": "203.0.113.9" })
        assert.deepStrictEqual(codeOf(sixth), [429, "RATE_LIMITED"])
        const deviceCookie = { cookie: `ampoule_device=${jar.get("ampoule_device")}` }
        assert.strictEqual((yield* overRest(person.email, right, deviceCookie)).status, 200)
        assert.strictEqual(
          (yield* overRest(person.email, enrolled.codes[0], { "x-forwarded-for": "203.0.113.10" })).status,
          200
        )
        // A day's worth: 20, whatever the pace.
        for (let round = 0; round < 3; round++) {
          yield* MovableClock.advance("11 minutes")
          for (let n = 0; n < 5; n++)
            yield* overRest(person.email, "000000", { "x-forwarded-for": `203.0.113.${20 + 5 * round + n}` })
        }
        yield* MovableClock.advance("11 minutes")
        const late = yield* overRest(person.email, yield* SignIn.codeOf(enrolled.secret), {
          "x-forwarded-for": "203.0.113.99"
        })
        assert.deepStrictEqual(codeOf(late), [429, "RATE_LIMITED"])
      })
  )

  it.effect(
    "is not skipped by a reset link or an invitation, and a password that changed ends a sign-in that waits",
    () =>
      Effect.gen(function* () {
        const { jar, person, team } = yield* SignIn.signedIn
        const enrolled = yield* SignIn.enrol(jar)
        const begun = SignIn.kept(
          yield* SignIn.submit("/app/sign-in", new Map(), { email: person.email, password: SignIn.password })
        )
        const admin = yield* World.member(team, "owner")
        const resetLink = yield* TestApp.post(`/teams/${team.id}/members/${person.id}/password-reset`, {
          session: (yield* World.session(admin)).text
        })
        const code = new URL(resetLink.json.resetUrl).searchParams.get("code")
        const reset = yield* TestApp.post("/password-reset", { json: { code, newPassword: SignIn.password } })
        assert.strictEqual(reset.status, 200)
        assert.lengthOf(reset.headers.getSetCookie(), 0)
        assert.deepStrictEqual(codeOf(yield* overRest(person.email)), [401, "SECOND_FACTOR_REQUIRED"])
        // An invitation opens no existing account, with its password either.
        const elsewhere = yield* World.team()
        const invited = yield* TestApp.post(`/teams/${elsewhere.id}/invitations`, {
          session: (yield* World.session(elsewhere.owner)).text,
          json: { email: person.email, role: "member" }
        })
        const accepted = yield* TestApp.post("/invitations/accept", {
          json: {
            code: new URL(invited.json.inviteUrl).searchParams.get("code"),
            name: "Ada",
            password: SignIn.password
          }
        })
        assert.strictEqual(accepted.status, 401)
        assert.lengthOf(accepted.headers.getSetCookie(), 0)
        yield* nextStep
        const waited = yield* SignIn.submit("/app/sign-in/code", begun, { code: yield* SignIn.codeOf(enrolled.secret) })
        assert.strictEqual(waited.status, 401)
        // The app is out of use until its person confirms it.
        assert.deepStrictEqual(codeOf(yield* overRest(person.email, yield* SignIn.codeOf(enrolled.secret))), [
          401,
          "SECOND_FACTOR_REQUIRED"
        ])
      })
  )

  it.effect("comes and goes only with a recent proof; the proof gives the browser a new session", () =>
    Effect.gen(function* () {
      const { jar, person, team } = yield* SignIn.signedIn
      yield* later
      // A stolen session cannot lock its person out with a factor of its own.
      const stale = yield* SignIn.submit(`${factors}/app`, jar, {}, { referer: `${TestApp.baseUrl}${factors}` })
      const confirmAt = `/app/confirm?next=${encodeURIComponent(factors)}`
      assert.deepStrictEqual([stale.status, stale.headers.get("location")], [303, confirmAt])
      const wrong = yield* SignIn.submit("/app/confirm", jar, { password: "not the password" })
      assert.strictEqual(wrong.status, 401)
      // No code proves a person who has no factor.
      assert.strictEqual((yield* SignIn.submit("/app/confirm", jar, { code: "123456" })).status, 401)
      const proved = yield* SignIn.submit("/app/confirm", jar, { password: SignIn.password, next: factors })
      assert.deepStrictEqual([proved.status, proved.headers.get("location")], [303, factors])
      assert.strictEqual(yield* whoIs(jar), 401)
      const enrolled = yield* SignIn.enrol(SignIn.kept(proved, jar))
      assert.lengthOf(enrolled.codes, 10)
      yield* SignIn.agedFactors(person)

      yield* later
      const removal = yield* SignIn.submit(
        `${factors}/app/remove`,
        enrolled.jar,
        {},
        { referer: `${TestApp.baseUrl}${factors}` }
      )
      assert.strictEqual(removal.headers.get("location"), confirmAt)
      // The password is not the second factor.
      const byPassword = yield* SignIn.submit("/app/confirm", enrolled.jar, { password: SignIn.password })
      assert.strictEqual(byPassword.status, 401)
      const code = yield* SignIn.codeOf(enrolled.secret)
      for (const next of ["https://evil.example/", "//evil.example"]) {
        const page = yield* SignIn.see(`/app/confirm?next=${encodeURIComponent(next)}`, enrolled.jar)
        assert.notInclude(page.text, "evil.example")
      }
      const confirmed = yield* SignIn.submit("/app/confirm", enrolled.jar, { code, next: "//evil.example" })
      assert.deepStrictEqual([confirmed.status, confirmed.headers.get("location")], [303, "/app"])
      // Session fixation across the step-up: the text from before is worth nothing.
      assert.strictEqual(yield* whoIs(enrolled.jar), 401)
      const fresh = SignIn.kept(confirmed, enrolled.jar)
      assert.notStrictEqual(fresh.get("ampoule_session"), enrolled.jar.get("ampoule_session"))
      assert.strictEqual(yield* whoIs(fresh), 200)
      assert.strictEqual((yield* SignIn.submit("/app/confirm", fresh, { code })).status, 401)

      const removed = yield* SignIn.submit(`${factors}/app/remove`, fresh)
      assert.strictEqual(removed.status, 303, removed.text)
      assert.strictEqual(yield* whoIs(fresh), 401)
      assert.strictEqual(yield* whoIs(SignIn.kept(removed, fresh)), 200)
      assert.strictEqual((yield* overRest(person.email)).status, 200)
      const entries = yield* factorEntries(team.id)
      for (const entry of [
        "factor.confirm denied SIGN_IN_FAILED",
        "factor.confirm denied SECOND_FACTOR_FAILED",
        "factor.confirm allowed",
        "factor.add allowed",
        "factor.remove allowed"
      ]) {
        assert.include(entries, entry)
      }
    })
  )

  it.effect("is not taken away by a writer of the database, nor is another's put in its place", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { jar, person } = yield* SignIn.signedIn
      const { codes, secret } = yield* SignIn.enrol(jar)
      const attacker = yield* SignIn.signedIn
      const own = yield* SignIn.enrol(attacker.jar)
      yield* nextStep
      // Without its rows the account is shut, not open.
      yield* sql`UPDATE recovery_codes SET user_id = ${person.id} WHERE user_id = ${attacker.person.id}`
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, own.codes[0])), [401, "SECOND_FACTOR_FAILED"])
      const [kept] = yield* sql<{
        readonly usedStep: number
      }>`SELECT used_step FROM totp_factors WHERE user_id = ${person.id}`
      yield* sql`UPDATE totp_factors SET used_step = 0 WHERE user_id = ${person.id}`
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, yield* SignIn.codeOf(secret))), [
        401,
        "SECOND_FACTOR_FAILED"
      ])
      yield* sql`UPDATE totp_factors SET used_step = ${kept.usedStep} WHERE user_id = ${person.id}`
      yield* sql`DELETE FROM recovery_codes WHERE user_id = ${person.id}`
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, codes[0])), [401, "SECOND_FACTOR_FAILED"])
      yield* sql`DELETE FROM totp_factors WHERE user_id = ${person.id}`
      assert.deepStrictEqual(codeOf(yield* overRest(person.email)), [401, "SECOND_FACTOR_FAILED"])
      yield* sql`UPDATE totp_factors SET user_id = ${person.id} WHERE user_id = ${attacker.person.id}`
      assert.deepStrictEqual(codeOf(yield* overRest(person.email, yield* SignIn.codeOf(own.secret))), [
        401,
        "SECOND_FACTOR_FAILED"
      ])
      yield* sql`UPDATE users SET second_factor = false WHERE id = ${person.id}`
      assert.deepStrictEqual(codeOf(yield* overRest(person.email)), [401, "SIGN_IN_FAILED"])
    })
  )
})
