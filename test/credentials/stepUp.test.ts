/**
 * Actions that widen or destroy need a recent proof of the second factor; names and ordinary writes do not. Each row is
 * refused with an old proof and does its work with a fresh one.
 */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as SignIn from "#test/support/SignIn.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] }))),
  Layer.provideMerge(MovableClock.layer)
)
const { codeOf } = TestApp
const sessionOf = (jar: SignIn.Jar) => ({ session: jar.get("ampoule_session") ?? "" })

/** An owner whose proof is 16 minutes old, in a team that asks again after 15, and a way to prove it again. */
const staleOwner = Effect.gen(function* () {
  const owner = yield* SignIn.signedIn
  const { jar, secret } = yield* SignIn.enrol(owner.jar)
  yield* SignIn.agedFactors(owner.person)
  const project = yield* World.project({ team: owner.team })
  yield* MovableClock.advance("16 minutes")
  const prove = Effect.gen(function* () {
    const confirmed = yield* SignIn.submit("/app/confirm", jar, { code: yield* SignIn.codeOf(secret) })
    assert.strictEqual(confirmed.status, 303)
    return SignIn.kept(confirmed, jar)
  })
  return { ...owner, jar, project, prove, secret }
})

layer(app, { excludeTestServices: true })("with an old proof of the second factor", (it) => {
  it.effect("nothing is widened or destroyed, and a fresh proof does it", () =>
    Effect.gen(function* () {
      const { jar, project, prove, team } = yield* staleOwner
      const member = yield* World.member(team, "member")
      const viewer = yield* World.member(team, "viewer")
      const away = yield* World.member(team, "member")
      const spare = yield* World.project({ team })
      const { id } = project.production
      const fresh = { ...sessionOf(jar) }
      const before = { protected: true, readers: "granted", approvals: 2, changes: "proposed" } as const
      // Raising a protection, lowering a role and ending a membership are plain.
      assert.strictEqual((yield* TestApp.patch(`/environments/${id}`, { ...fresh, json: before })).status, 200)
      const hidden = yield* TestApp.patch(`/projects/${spare.id}`, { ...fresh, json: { visibility: "granted" } })
      assert.strictEqual(hidden.status, 200, hidden.text)
      const off = yield* TestApp.patch(`/teams/${team.id}/members/${away.id}`, { ...fresh, json: { active: false } })
      assert.strictEqual(off.status, 200, off.text)

      type Ask = (
        asked: TestApp.Asked
      ) => Effect.Effect<TestApp.Answer, unknown, Effect.Effect.Context<ReturnType<typeof SignIn.see>>>
      const lower =
        (json: object): Ask =>
        (asked) =>
          TestApp.patch(`/environments/${id}`, { ...asked, json })
      const ofMember =
        (userId: string, json: object): Ask =>
        (asked) =>
          TestApp.patch(`/teams/${team.id}/members/${userId}`, { ...asked, json })
      const url = "https://hooks.example.com/x"
      const rows: Readonly<Record<string, Ask>> = {
        "readers: team": lower({ readers: "team" }),
        "changes: direct": lower({ changes: "direct" }),
        "approvals: 1": lower({ approvals: 1 }),
        "a new approver": lower({ approvers: [viewer.id] }),
        "protected: false": lower({ protected: false }),
        "a name with it": lower({ name: "Live", changes: "direct", protected: false, approvers: [member.id] }),
        "visibility: team": (asked) =>
          TestApp.patch(`/projects/${spare.id}`, { ...asked, json: { visibility: "team" } }),
        "a grant": (asked) =>
          TestApp.post(`/environments/${id}/grants`, { ...asked, json: { userId: member.id, level: "values" } }),
        "a promotion to admin": ofMember(member.id, { role: "admin" }),
        "a promotion to member": ofMember(viewer.id, { role: "member" }),
        "a person let back in": ofMember(away.id, { active: true }),
        "an invitation of an admin": (asked) =>
          TestApp.post(`/teams/${team.id}/invitations`, {
            ...asked,
            json: { email: `${id}@example.com`, role: "admin" }
          }),
        "a reset link": (asked) => TestApp.post(`/teams/${team.id}/members/${viewer.id}/password-reset`, asked),
        "a webhook": (asked) => TestApp.post(`/teams/${team.id}/webhooks`, { ...asked, json: { name: "a", url } }),
        "the deletion of an environment": (asked) => TestApp.del(`/environments/${project.development.id}`, asked),
        "the deletion of a project": (asked) => TestApp.del(`/projects/${spare.id}`, asked)
      }
      for (const [name, ask] of Object.entries(rows)) {
        const answer = yield* ask(sessionOf(jar))
        assert.deepStrictEqual(codeOf(answer), [403, "STEP_UP_REQUIRED"], name)
      }
      const sealing = `/app/projects/${project.id}/env/production/sealing/rotate`
      const refused = yield* SignIn.submit(sealing, jar)
      assert.deepStrictEqual([refused.status, refused.headers.get("location")], [303, "/app/confirm?next=%2Fapp"])
      const proved = yield* prove
      const rotated = yield* SignIn.submit(sealing, proved)
      assert.notInclude(rotated.headers.get("location") ?? "/app/confirm", "/app/confirm", rotated.text.slice(0, 300))
      for (const [name, ask] of Object.entries(rows)) {
        const answer = yield* ask(sessionOf(proved))
        assert.isBelow(answer.status, 300, `${name}: ${answer.text}`)
      }
    })
  )

  it.effect("names and ordinary writes go on", () =>
    Effect.gen(function* () {
      const { jar, project, team } = yield* staleOwner
      const session = sessionOf(jar)
      const member = yield* World.member(team, "member")
      const at = { projectId: project.id, environment: "development" }
      const answers = {
        "a new project": TestApp.post(`/teams/${team.id}/projects`, { ...session, json: { name: "N", slug: "n" } }),
        "a name": TestApp.patch(`/environments/${project.production.id}`, { ...session, json: { name: "Live" } }),
        "a secret": TestApp.post("/secrets", { ...session, json: { ...at, key: "K", value: "v" } }),
        "an invitation of a member": TestApp.post(`/teams/${team.id}/invitations`, {
          ...session,
          json: { email: `m${team.id}@example.com`, role: "member" }
        }),
        "a demotion": TestApp.patch(`/teams/${team.id}/members/${member.id}`, { ...session, json: { role: "viewer" } }),
        "the end of access": TestApp.post(`/teams/${team.id}/members/${member.id}/end-access`, {
          ...session,
          json: {}
        }),
        "the list of tokens": TestApp.get(`/teams/${team.id}/api-tokens`, session)
      }
      for (const [name, answer] of Object.entries(answers)) {
        const { status, text } = yield* answer
        assert.isBelow(status, 300, `${name}: ${text}`)
      }
    })
  )

  it.effect("a form that was filled in goes on after the confirmation as it was typed", () =>
    Effect.gen(function* () {
      const { jar, secret, team } = yield* staleOwner
      const page = `/app/teams/${team.id}/tokens/new`
      const typed = {
        name: 'ci <"quoted">',
        accessLevel: "read",
        lifetime: "30d",
        allProjects: "on",
        allEnvironments: "on"
      }
      const refused = yield* SignIn.submit(page, jar, typed, { referer: `${TestApp.baseUrl}${page}` })
      const before = refused.headers.get("location") ?? ""
      assert.strictEqual(refused.status, 307)
      // The browser sends the same form to that page.
      const review = yield* SignIn.submit(`/${before.slice(1)}`, jar, typed)
      assert.strictEqual(review.status, 200)
      const fieldsOf = (html: string, name: string) =>
        (new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1] ?? "")
          .replaceAll("&quot;", '"')
          .replaceAll("&lt;", "<")
          .replaceAll("&amp;", "&")
      const carried = fieldsOf(review.text, "carried")
      assert.include(carried, "quoted")
      const wrong = yield* SignIn.submit("/app/confirm", jar, { code: "000000", carried, next: page })
      assert.strictEqual(fieldsOf(wrong.text, "carried"), carried, "a wrong code loses nothing")
      const code = yield* SignIn.codeOf(secret)
      const confirmed = yield* SignIn.submit("/app/confirm", jar, { code, carried, next: page })
      assert.strictEqual(confirmed.status, 200)
      assert.include(confirmed.text, `action="${page}" data-continue`)
      for (const [name, value] of Object.entries(typed)) assert.strictEqual(fieldsOf(confirmed.text, name), value)
      const created = yield* SignIn.submit(page, SignIn.kept(confirmed, jar), typed)
      assert.include(created.text, "amp_", created.text.slice(0, 200))
      // Another site cannot be named as the place to continue at, and no proof is carried.
      const elsewhere = yield* SignIn.submit("/app/confirm/before?to=https://evil.example/&next=/app", jar, typed)
      assert.notInclude(elsewhere.text, "evil.example")
      const withPassword = yield* SignIn.submit(`/app/confirm/before?to=${page}&next=/app`, jar, { password: "p4ss" })
      assert.notInclude(withPassword.text, "p4ss")
    })
  )
})
