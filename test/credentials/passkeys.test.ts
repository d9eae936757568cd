/** Passkeys, and who tries to sign in with another's, an old one, or less than one. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { parsed } from "#test/support/Json.ts"
import * as Authenticator from "#test/support/Authenticator.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const origin = "https://secrets.example"
const here: Authenticator.Ceremony = { origin, rpId: "secrets.example" }
const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ baseUrl: origin, trustedProxies: ["127.0.0.1"] }))),
  Layer.provideMerge(MovableClock.layer)
)

const factors = "/app/account/second-factor"
const passkeys = `${factors}/passkeys` as const
const Options = Schema.Struct({
  challenge: Schema.String,
  rp: Schema.optional(Schema.Struct({ id: Schema.String })),
  rpId: Schema.optional(Schema.String),
  userVerification: Schema.optional(Schema.String),
  user: Schema.optional(Schema.Struct({ id: Schema.String })),
  allowCredentials: Schema.optional(Schema.Array(Schema.Struct({ id: Schema.String })))
})

const begin = <const Path extends string>(path: Path, jar: SignIn.Jar) =>
  Effect.gen(function* () {
    const answer = yield* SignIn.submit(`${path}/begin`, jar, {}, { accept: "application/json" })
    assert.strictEqual(answer.status, 200, answer.text)
    return { options: parsed(Options)(answer.text), jar: SignIn.kept(answer, jar) }
  })

const addTo = (jar: SignIn.Jar, name = "laptop", ceremony = here) =>
  Effect.gen(function* () {
    const begun = yield* begin(passkeys, jar)
    const user = begun.options.user ?? { id: "" }
    const creation = Authenticator.create({ challenge: begun.options.challenge, user }, ceremony)
    const answer = yield* SignIn.submit(passkeys, begun.jar, { passkey: creation.answer, name })
    return { ...creation, answer, jar: SignIn.kept(answer, begun.jar), before: begun.jar, sent: creation.answer }
  })

/** A person whose browser has a passkey. */
const enrolled = Effect.gen(function* () {
  const signedIn = yield* SignIn.signedIn
  const added = yield* addTo(signedIn.jar)
  assert.strictEqual(added.answer.status, 200, added.answer.text)
  return { ...signedIn, ...added, stale: signedIn.jar }
})

const signInWith = (
  passkey: Authenticator.Passkey,
  {
    ceremony = here,
    jar = new Map(),
    next = ""
  }: { jar?: SignIn.Jar; ceremony?: Authenticator.Ceremony; next?: string } = {}
) =>
  Effect.gen(function* () {
    const begun = yield* begin("/app/sign-in/passkey", jar)
    passkey.counter++
    const sent = Authenticator.get(passkey, begun.options, ceremony)
    const answer = yield* SignIn.submit("/app/sign-in/passkey", begun.jar, { passkey: sent, next })
    return { answer, begun, sent, jar: SignIn.kept(answer, begun.jar) }
  })

const whoIs = (jar: SignIn.Jar) => Effect.map(SignIn.see("/me", jar), ({ status }) => status)
const firstStep = (email: string) =>
  Effect.map(SignIn.submit("/app/sign-in", new Map(), { email, password: SignIn.password }), (answer) =>
    SignIn.kept(answer)
  )
const entriesOf = (teamId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE team_id = ${teamId} ORDER BY id`
    return rows
      .map(auditEntry)
      .map(({ action, outcome, reason, target }) =>
        [
          action,
          outcome,
          ...(reason === undefined ? [] : [reason]),
          ...(target === undefined ? [] : [target.name])
        ].join(" ")
      )
  })
const refusedSignIn = ({ answer }: { readonly answer: TestApp.Answer }) => {
  assert.strictEqual(answer.status, 401, answer.text)
  assert.isFalse(answer.headers.getSetCookie().some((line) => line.includes("ampoule_session")))
}

layer(app, { excludeTestServices: true })("a passkey", (it) => {
  it.effect("is added with a recent sign-in, ends other sessions, and gives recovery codes the first time", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { jar, person, team } = yield* SignIn.signedIn
      const other = yield* World.session(person)
      const begun = yield* begin(passkeys, jar)
      assert.deepStrictEqual(begun.options.rp?.id, "secrets.example")
      const added = yield* addTo(jar)
      assert.strictEqual(added.answer.status, 200, added.answer.text)
      const codes = new Set(added.answer.text.match(/\b(?:[a-z0-9]{5}-){3}[a-z0-9]{5}\b/g) ?? [])
      assert.strictEqual(codes.size, 10)
      assert.strictEqual(yield* whoIs(added.jar), 200)
      assert.strictEqual(yield* whoIs(jar), 401)
      const ended = yield* sql<{ readonly n: number }>`
        SELECT count(*)::int AS n FROM sessions WHERE id = ${other.id} AND revoked_at IS NOT NULL`
      assert.strictEqual(ended[0].n, 1)
      const second = yield* addTo(added.jar, "key ring")
      assert.strictEqual(second.answer.status, 303, second.answer.text)
      const page = yield* SignIn.see(factors, second.jar)
      for (const name of ["laptop", "key ring", "10 of 10 are unused"]) assert.include(page.text, name)
      const [{ id }] = yield* sql<{ readonly id: string }>`
        SELECT id FROM passkeys WHERE user_id = ${person.id} AND name = 'laptop'`
      const renamed = yield* SignIn.submit(`${passkeys}/${id}`, second.jar, { name: "old laptop" })
      assert.strictEqual(renamed.status, 303)
      assert.include((yield* SignIn.see(factors, second.jar)).text, "old laptop")

      // Sixteen minutes later, it takes a confirmation.
      yield* SignIn.agedFactors(person)
      yield* MovableClock.advance("16 minutes")
      const late = yield* SignIn.submit(`${passkeys}/begin`, second.jar, {}, { accept: "application/json" })
      assert.deepStrictEqual(TestApp.codeOf(late), [403, "STEP_UP_REQUIRED"])
      const removal = yield* SignIn.submit(`${passkeys}/${id}/remove`, second.jar)
      assert.match(removal.headers.get("location") ?? "", /^\/app\/confirm/)
      const challenge = yield* begin("/app/confirm/passkey", second.jar)
      assert.lengthOf(challenge.options.allowCredentials ?? [], 2)
      second.passkey.counter++
      const confirmed = yield* SignIn.submit("/app/confirm/passkey", challenge.jar, {
        passkey: Authenticator.get(second.passkey, challenge.options, here),
        next: factors
      })
      assert.deepStrictEqual([confirmed.status, confirmed.headers.get("location")], [303, factors])
      const fresh = SignIn.kept(confirmed, challenge.jar)
      // Session fixation: the text from before the confirmation is nobody's.
      assert.strictEqual(yield* whoIs(second.jar), 401)
      const removed = yield* SignIn.submit(`${passkeys}/${id}/remove`, fresh)
      assert.strictEqual(removed.status, 303)
      const after = SignIn.kept(removed, fresh)
      assert.strictEqual(yield* whoIs(fresh), 401)
      refusedSignIn(yield* signInWith(added.passkey))
      const signed = yield* signInWith(second.passkey)
      assert.strictEqual(signed.answer.status, 303, signed.answer.text)
      assert.strictEqual(yield* whoIs(after), 200)
      const entries = yield* entriesOf(team.id)
      for (const told of ["factor.add allowed passkey laptop", "factor.remove allowed passkey old laptop"]) {
        assert.include(entries, told)
      }
    })
  )

  it.effect("is the whole sign-in, and fulfils the second step; it leads to pages of ours alone", () =>
    Effect.gen(function* () {
      const { passkey, person } = yield* enrolled
      const signed = yield* signInWith(passkey, { next: "/app/grants" })
      assert.deepStrictEqual([signed.answer.status, signed.answer.headers.get("location")], [303, "/app/grants"])
      assert.strictEqual(yield* whoIs(signed.jar), 200)
      const sql = yield* SqlClient.SqlClient
      const [{ n }] = yield* sql<{ readonly n: number }>`
        SELECT count(*)::int AS n FROM sessions WHERE user_id = ${person.id} AND revoked_at IS NULL AND factor_at IS NOT NULL`
      assert.strictEqual(n, 2)
      for (const next of ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]) {
        const { answer } = yield* signInWith(passkey, { next })
        assert.deepStrictEqual([answer.status, answer.headers.get("location")], [303, "/app"], next)
      }
      // The password alone asks for the second step, which a passkey finishes too.
      const step = yield* firstStep(person.email)
      assert.deepStrictEqual([...step.keys()], ["__Host-ampoule_step"])
      const begun = yield* begin("/app/sign-in/code/passkey", step)
      assert.deepStrictEqual(
        begun.options.allowCredentials?.map(({ id }) => id),
        [passkey.id]
      )
      passkey.counter++
      const sent = Authenticator.get(passkey, begun.options, here)
      const done = yield* SignIn.submit("/app/sign-in/code/passkey", begun.jar, { passkey: sent, next: "/app/grants" })
      assert.deepStrictEqual([done.status, done.headers.get("location")], [303, "/app/grants"])
      assert.strictEqual(yield* whoIs(SignIn.kept(done, begun.jar)), 200)
      // Over REST there is no passkey: the password alone is refused, a recovery code is the way.
      const rest = yield* TestApp.post("/auth/session", { json: { email: person.email, password: SignIn.password } })
      assert.deepStrictEqual(TestApp.codeOf(rest), [401, "SECOND_FACTOR_REQUIRED"])
    })
  )

  it.effect("is refused when the answer was sent before, or is for a challenge of another browser or purpose", () =>
    Effect.gen(function* () {
      const { before, jar, passkey, person, sent: attestation } = yield* enrolled
      const signed = yield* signInWith(passkey)
      assert.strictEqual(signed.answer.status, 303)
      // Replayed, by the same browser, which still has its cookie.
      const replayed = yield* SignIn.submit("/app/sign-in/passkey", signed.begun.jar, { passkey: signed.sent })
      refusedSignIn({ answer: replayed })
      assert.isAtLeast((yield* SignIn.submit(passkeys, before, { passkey: attestation, name: "x" })).status, 300)

      // A challenge that another browser asked for, in the hands of this one.
      const [mine, theirs] = [
        yield* begin("/app/sign-in/passkey", new Map()),
        yield* begin("/app/sign-in/passkey", new Map())
      ]
      passkey.counter++
      const foreign = Authenticator.get(passkey, theirs.options, here)
      refusedSignIn({ answer: yield* SignIn.submit("/app/sign-in/passkey", mine.jar, { passkey: foreign }) })
      refusedSignIn({ answer: yield* SignIn.submit("/app/sign-in/passkey", new Map(), { passkey: foreign }) })
      // It is gone for its own browser, too.
      refusedSignIn({ answer: yield* SignIn.submit("/app/sign-in/passkey", theirs.jar, { passkey: foreign }) })

      // Asked for by one ceremony, sent to another.
      const step = yield* firstStep(person.email)
      const ofSignIn = yield* begin("/app/sign-in/passkey", step)
      passkey.counter++
      const crossed = yield* SignIn.submit("/app/sign-in/code/passkey", ofSignIn.jar, {
        passkey: Authenticator.get(passkey, ofSignIn.options, here)
      })
      refusedSignIn({ answer: crossed })
      const ofConfirm = yield* begin("/app/confirm/passkey", jar)
      passkey.counter++
      const asSignIn = yield* SignIn.submit("/app/sign-in/passkey", ofConfirm.jar, {
        passkey: Authenticator.get(passkey, ofConfirm.options, here)
      })
      refusedSignIn({ answer: asSignIn })

      // One that nobody asked for, and one that is too old.
      const invented = { challenge: Buffer.alloc(32, 7).toString("base64url") }
      refusedSignIn({
        answer: yield* SignIn.submit("/app/sign-in/passkey", ofSignIn.jar, {
          passkey: Authenticator.get(passkey, invented, here)
        })
      })
      const slow = yield* begin("/app/sign-in/passkey", new Map())
      yield* MovableClock.advance("5 minutes")
      passkey.counter++
      refusedSignIn({
        answer: yield* SignIn.submit("/app/sign-in/passkey", slow.jar, {
          passkey: Authenticator.get(passkey, slow.options, here)
        })
      })
      assert.strictEqual((yield* signInWith(passkey)).answer.status, 303)
    })
  )

  it.effect(
    "is refused for another origin, another RP id, another type, and without user verification or presence",
    () =>
      Effect.gen(function* () {
        const downgrades: ReadonlyArray<Authenticator.Ceremony> = [
          { ...here, origin: "https://secrets.example.evil.example" },
          { ...here, origin: "http://secrets.example" },
          { ...here, origin: "https://secrets.example:8443" },
          { ...here, origin: "https://sub.secrets.example" },
          { ...here, rpId: "example" },
          { ...here, rpId: "evil.example" },
          { ...here, type: "webauthn.create" },
          { ...here, type: "payment.get" },
          { ...here, isUserVerified: false },
          { ...here, isUserPresent: false },
          { ...here, crossOrigin: true }
        ]
        const { passkey: honestPasskey, person: honestPerson } = yield* enrolled
        yield* SignIn.agedFactors(honestPerson)
        for (const ceremony of downgrades) {
          // Failures count per credential.
          const { passkey, person, team } = yield* enrolled
          refusedSignIn(yield* signInWith(passkey, { ceremony }))
          const step = yield* begin("/app/sign-in/code/passkey", yield* firstStep(person.email))
          passkey.counter++
          const assertion = { passkey: Authenticator.get(passkey, step.options, ceremony) }
          refusedSignIn({ answer: yield* SignIn.submit("/app/sign-in/code/passkey", step.jar, assertion) })
          const entries = yield* entriesOf(team.id)
          assert.include(entries, "session.create denied SIGN_IN_FAILED")
          assert.include(entries, "session.create denied SECOND_FACTOR_FAILED")
        }
        const honest = yield* signInWith(honestPasskey)
        assert.strictEqual(honest.answer.status, 303)
        for (const ceremony of downgrades) {
          if (ceremony.type === "webauthn.create") continue
          const bent = yield* addTo(honest.jar, "bent", ceremony)
          assert.strictEqual(bent.answer.status, 400, JSON.stringify(ceremony))
        }
      })
  )

  it.effect("is good for its person alone", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const victim = yield* enrolled
      const attacker = yield* enrolled
      // The attacker's passkey in the victim's second step, as it is and under the victim's handle.
      for (const userHandle of [attacker.passkey.userHandle, victim.passkey.userHandle]) {
        const step = yield* begin("/app/sign-in/code/passkey", yield* firstStep(victim.person.email))
        attacker.passkey.counter++
        const bent = { ...attacker.passkey, userHandle }
        const sent = Authenticator.get(bent, step.options, here)
        refusedSignIn({ answer: yield* SignIn.submit("/app/sign-in/code/passkey", step.jar, { passkey: sent }) })
      }
      // Under the victim's handle or id, alone.
      attacker.passkey.counter++
      refusedSignIn(yield* signInWith({ ...attacker.passkey, userHandle: victim.passkey.userHandle }))
      refusedSignIn(
        yield* signInWith({ ...attacker.passkey, id: victim.passkey.id, userHandle: victim.passkey.userHandle })
      )
      // A step-up in the victim's session with the attacker's passkey.
      const challenge = yield* begin("/app/confirm/passkey", victim.jar)
      attacker.passkey.counter++
      const confirmed = yield* SignIn.submit("/app/confirm/passkey", challenge.jar, {
        passkey: Authenticator.get(attacker.passkey, challenge.options, here)
      })
      assert.strictEqual(confirmed.status, 401)
      assert.include(yield* entriesOf(victim.team.id), "factor.confirm denied SECOND_FACTOR_FAILED")
      // Registering the victim's passkey as one's own, renaming and removing it.
      const [{ id }] = yield* sql<{ readonly id: string }>`SELECT id FROM passkeys WHERE user_id = ${victim.person.id}`
      for (const path of [`${passkeys}/${id}`, `${passkeys}/${id}/remove`] as const) {
        assert.strictEqual((yield* SignIn.submit(path, attacker.jar, { name: "mine" })).status, 404, path)
      }
      assert.notInclude((yield* SignIn.see(factors, attacker.jar)).text, id)
      // A writer of the database gives the victim the attacker's passkey, and takes a counter back.
      yield* sql`UPDATE passkeys SET user_id = ${victim.person.id} WHERE user_id = ${attacker.person.id}`
      refusedSignIn(yield* signInWith(attacker.passkey))
      refusedSignIn(yield* signInWith({ ...attacker.passkey, userHandle: victim.passkey.userHandle }))
      assert.strictEqual((yield* signInWith(victim.passkey)).answer.status, 303)
      yield* sql`UPDATE passkeys SET counter = 0 WHERE id = ${id}`
      refusedSignIn(yield* signInWith(victim.passkey))
    })
  )

  it.effect("whose counter does not grow is refused as a copy, and the original goes on", () =>
    Effect.gen(function* () {
      const { passkey, team } = yield* enrolled
      assert.strictEqual((yield* signInWith(passkey)).answer.status, 303)
      const copy = { ...passkey, counter: passkey.counter - 1 }
      const copied = yield* signInWith(copy)
      refusedSignIn(copied)
      assert.include(copied.answer.text, "may be a copy")
      assert.include(yield* entriesOf(team.id), "session.create denied PASSKEY_COPIED")
      assert.strictEqual((yield* signInWith(passkey)).answer.status, 303)
      // A device that does not count is no copy.
      const still = yield* enrolled
      for (const _ of [1, 2]) {
        const signed = yield* signInWith({ ...still.passkey, counter: -1 })
        assert.strictEqual(signed.answer.status, 303, signed.answer.text)
      }
    })
  )

  it.effect("of somebody who is shut out, or another site's form, opens nothing", () =>
    Effect.gen(function* () {
      const { jar, passkey, person, team } = yield* enrolled
      const begun = yield* begin("/app/sign-in/passkey", new Map())
      passkey.counter++
      const sent = { passkey: Authenticator.get(passkey, begun.options, here) }
      for (const path of ["/app/sign-in/passkey", "/app/sign-in/passkey/begin"] as const) {
        const crossSite = yield* SignIn.submit(path, begun.jar, sent, { "sec-fetch-site": "cross-site" })
        assert.strictEqual(crossSite.status, 403, path)
      }
      const forged = yield* SignIn.submit(`${passkeys}/begin`, jar, {}, { "sec-fetch-site": "cross-site" })
      assert.strictEqual(forged.status, 403)
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE memberships SET active = false WHERE team_id = ${team.id} AND user_id = ${person.id}`
      refusedSignIn(yield* signInWith(passkey))
    })
  )

  it.effect("is proposed once, to who has no factor, and never again after a no", () =>
    Effect.gen(function* () {
      const { jar } = yield* SignIn.signedIn
      const words = "Sign in without a password?"
      assert.include((yield* SignIn.see("/app", jar)).text, words)
      assert.strictEqual((yield* SignIn.submit(`${passkeys}/decline`, jar)).status, 303)
      assert.notInclude((yield* SignIn.see("/app", jar)).text, words)
      const has = yield* enrolled
      assert.notInclude((yield* SignIn.see("/app", has.jar)).text, words)
    })
  )
})
