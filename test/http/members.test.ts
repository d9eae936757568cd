import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Role } from "#schema/Scopes.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer))
const roles: ReadonlyArray<Role> = ["owner", "admin", "member", "viewer"]
const { codeOf } = TestApp
const forbidden = [403, "FORBIDDEN"]

const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
const cookieOf = (answer: TestApp.Answer) => /^[^=]+=([^;]*)/.exec(answer.headers.get("set-cookie") ?? "")?.[1] ?? ""

const as = (team: World.Team, session: string) => {
  const path = `/teams/${team.id}` as const
  const at = (person: { readonly id: string }) => `${path}/members/${person.id}` as const
  return {
    list: TestApp.get(`${path}/members`, { session }),
    invite: (email: string, role: string) => TestApp.post(`${path}/invitations`, { session, json: { email, role } }),
    change: (person: World.Person, json: unknown) => TestApp.patch(at(person), { session, json }),
    remove: (person: World.Person) => TestApp.del(at(person), { session }),
    leave: TestApp.post(`${path}/leave`, { session })
  }
}
const asPerson = (team: World.Team, person: World.Person) =>
  Effect.map(sessionOf(person), (session) => as(team, session))

/** A team with one person of each role, and each one's hand. */
const staffed = Effect.gen(function* () {
  const team = yield* World.team()
  const admin = yield* World.member(team, "admin")
  const member = yield* World.member(team, "member")
  const viewer = yield* World.member(team, "viewer")
  const people: Record<Role, World.Person> = { owner: team.owner, admin, member, viewer }
  return { team, people, by: (role: Role) => asPerson(team, people[role]) }
})

const codeIn = ({ json }: TestApp.Answer<{ readonly inviteUrl: string }>) =>
  new URL(json.inviteUrl).searchParams.get("code") ?? ""
const accept = (json: unknown, session?: string) =>
  TestApp.post("/invitations/accept", { json, ...(session === undefined ? {} : { session }) })
const password = "vial of thirty drops"

interface EndedMembership {
  readonly deleted: boolean
  readonly waysIn: ReadonlyArray<{ readonly way: string; readonly ending: string; readonly count: number }>
}
/** The ways in that an end of the membership did not keep. */
const endedBy = ({ deleted, waysIn }: EndedMembership) => [
  deleted,
  ...waysIn.flatMap(({ count, ending, way }) => (ending === "kept" ? [] : [`${way} ${ending} ${count}`])).toSorted()
]
const alwaysEnded = ["agents ended 0", "links ended 0", "logins ended 0"]

layer(app, { excludeTestServices: true })("members", (it) => {
  it.effect("are listed to everyone in the team, and to no one else", () =>
    Effect.gen(function* () {
      const { by, people, team } = yield* staffed
      for (const role of roles) {
        const { json } = yield* (yield* by(role)).list
        assert.sameDeepMembers(
          [...json.items],
          roles.map((r) => ({
            userId: people[r].id,
            email: people[r].email,
            name: "Ada",
            role: r,
            active: true,
            // For who manages members alone.
            ...(role === "owner" || role === "admin" ? { secondFactor: false } : {})
          }))
        )
      }
      const stranger = yield* asPerson(team, yield* World.person())
      assert.deepStrictEqual(codeOf(yield* stranger.list), [404, "TEAM_NOT_FOUND"])
      const token = yield* World.token({ team })
      const bearer = yield* TestApp.get(`/teams/${team.id}/members`, { bearer: token.text })
      assert.deepStrictEqual(codeOf(bearer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
    })
  )

  it.effect("are managed by owners and admins; owners by owners only", () =>
    Effect.gen(function* () {
      for (const actor of roles) {
        for (const target of roles) {
          for (const to of roles) {
            const { by, people } = yield* staffed
            const person = actor === target ? people[actor] : people[target]
            if (actor === target || target === to) continue
            const answer = yield* (yield* by(actor)).change(person, { role: to })
            const allowed = actor === "owner" || (actor === "admin" && target !== "owner" && to !== "owner")
            if (allowed)
              assert.deepInclude(answer.json, { userId: person.id, role: to }, `${actor}: ${target} to ${to}`)
            else assert.deepStrictEqual(codeOf(answer), forbidden, `${actor}: ${target} to ${to}`)
          }
        }
      }
    })
  )

  it.effect("lose what their old role allowed from the next request on", () =>
    Effect.gen(function* () {
      const { by, people, team } = yield* staffed
      const session = yield* sessionOf(people.admin)
      assert.strictEqual((yield* as(team, session).invite("one@example.com", "viewer")).status, 201)
      yield* (yield* by("owner")).change(people.admin, { role: "viewer" })
      assert.deepStrictEqual(codeOf(yield* as(team, session).invite("two@example.com", "viewer")), forbidden)
      assert.deepStrictEqual((yield* TestApp.get("/me", { session })).json.teams, [
        { id: team.id, name: "Team", role: "viewer", plan: "team" }
      ])
    })
  )

  it.effect("deactivated lose the team at once, in sessions and grants, but not their other teams", () =>
    Effect.gen(function* () {
      const { by, people, team } = yield* staffed
      const other = yield* World.team({ owner: people.member })
      const scopes = ["identity:read", "projects:read"] as const
      const both = yield* World.grant({
        person: people.member,
        teams: [
          { team, scopes },
          { team: other, scopes }
        ]
      })
      const one = yield* World.grant({ person: people.member, teams: [{ team, scopes }] })
      const session = yield* sessionOf(people.member)
      const owner = yield* by("owner")

      assert.isFalse((yield* owner.change(people.member, { active: false })).json.active)
      for (const credential of [{ session }, { bearer: both.text }]) {
        const { json } = yield* TestApp.get("/me", credential)
        assert.deepStrictEqual(
          json.teams.map((t) => t.id),
          [other.id]
        )
      }
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { bearer: one.text })), [401, "CREDENTIAL_REVOKED"])
      assert.deepStrictEqual(codeOf(yield* as(team, session).list), [404, "TEAM_NOT_FOUND"])
      assert.deepInclude(
        (yield* owner.list).json.items.find((m: { userId: string }) => m.userId === people.member.id),
        { active: false, role: "member" }
      )

      yield* owner.change(people.member, { active: true })
      assert.lengthOf((yield* TestApp.get("/me", { session })).json.teams, 2)
      // A grant does not get its lost rights back: the person approves a new one.
      assert.lengthOf((yield* TestApp.get("/me", { bearer: both.text })).json.teams, 1)
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { bearer: one.text })), [401, "CREDENTIAL_REVOKED"])
    })
  )

  it.effect("deactivated in their last team are signed out", () =>
    Effect.gen(function* () {
      const { by, people } = yield* staffed
      const session = yield* sessionOf(people.viewer)
      yield* (yield* by("admin")).change(people.viewer, { active: false })
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { session })), [401, "CREDENTIAL_REVOKED"])
    })
  )

  it.effect("removed are gone; who leaves stays signed in", () =>
    Effect.gen(function* () {
      const { by, people, team } = yield* staffed
      const gone = yield* sessionOf(people.viewer)
      const leaver = yield* sessionOf(people.member)
      const admin = yield* by("admin")
      assert.deepStrictEqual(endedBy((yield* admin.remove(people.viewer)).json), [
        true,
        ...alwaysEnded,
        "sessions ended 1",
        "tokens ended 0"
      ])
      assert.deepStrictEqual(codeOf(yield* TestApp.get("/me", { session: gone })), [401, "CREDENTIAL_REVOKED"])
      assert.deepStrictEqual(codeOf(yield* admin.remove(people.viewer)), [404, "MEMBER_NOT_FOUND"])
      assert.deepStrictEqual(codeOf(yield* admin.change(people.viewer, { role: "admin" })), [404, "MEMBER_NOT_FOUND"])

      assert.deepStrictEqual(endedBy((yield* as(team, leaver).leave).json), [true, ...alwaysEnded, "tokens ended 0"])
      assert.deepStrictEqual((yield* TestApp.get("/me", { session: leaver })).json.teams, [])
      assert.deepStrictEqual((yield* TestApp.get("/projects", { session: leaver })).json, { items: [] })
      assert.strictEqual((yield* TestApp.post("/teams", { session: leaver, json: { name: "Own" } })).status, 201)
    })
  )

  it.effect("keep at least one active owner, whatever is tried", () =>
    Effect.gen(function* () {
      const { by, people, team } = yield* staffed
      const owner = yield* by("owner")
      const attempts = [
        owner.change(people.owner, { role: "admin" }),
        owner.change(people.owner, { active: false }),
        owner.remove(people.owner),
        owner.leave
      ]
      for (const attempt of attempts) assert.deepStrictEqual(codeOf(yield* attempt), forbidden)
      // An owner who is not active does not count.
      yield* owner.change(people.admin, { role: "owner" })
      yield* owner.change(people.admin, { active: false })
      for (const attempt of attempts) assert.deepStrictEqual(codeOf(yield* attempt), forbidden)
      yield* owner.change(people.admin, { active: true })
      assert.strictEqual((yield* owner.leave).status, 200)
      const sql = yield* SqlClient.SqlClient
      assert.lengthOf(yield* sql`SELECT 1 FROM memberships WHERE team_id = ${team.id} AND role = 'owner' AND active`, 1)
    })
  )

  it.effect("keep an owner when the owners take leave of one another at the same time", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (let round = 0; round < 6; round++) {
        const team = yield* World.team()
        const second = yield* World.member(team, "owner")
        const [a, b] = [yield* asPerson(team, team.owner), yield* asPerson(team, second)]
        const attempts = [
          [a.leave, b.leave],
          [a.change(second, { role: "viewer" }), b.change(team.owner, { role: "viewer" })],
          [a.remove(second), b.remove(team.owner)]
        ][round % 3]
        const answers = yield* Effect.all(attempts, { concurrency: "unbounded" })
        assert.strictEqual(answers.filter((answer) => answer.status === 200).length, 1)
        assert.lengthOf(
          yield* sql`SELECT 1 FROM memberships WHERE team_id = ${team.id} AND role = 'owner' AND active`,
          1
        )
      }
    })
  )

  it.effect("are not changed by a body that says nothing, or something else", () =>
    Effect.gen(function* () {
      const { by, people } = yield* staffed
      const owner = yield* by("owner")
      for (const [json, field] of [
        [{}, "role"],
        [{ role: "root" }, "role"],
        [{ active: "no" }, "active"],
        [{ name: "x" }, "name"]
      ] as const) {
        const answer = yield* owner.change(people.member, json)
        assert.deepStrictEqual([...codeOf(answer), answer.error.field], [400, "VALIDATION_FAILED", field])
      }
    })
  )
})

layer(app, { excludeTestServices: true })("invitations", (it) => {
  it.effect("let a new person in with name and password, and sign them in", () =>
    Effect.gen(function* () {
      const { by, team } = yield* staffed
      const invited = yield* (yield* by("admin")).invite("Grace.1@Example.com", "member")
      assert.strictEqual(invited.status, 201, invited.text)
      assert.deepStrictEqual(Object.keys(invited.json), ["id", "inviteUrl", "expiresAt"])
      assert.match(
        invited.json.inviteUrl,
        /^http:\/\/127\.0\.0\.1:4400\/invite\?code=amp_iv_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/
      )

      const code = codeIn(invited)
      for (const [body, field] of [
        [{ code }, "name"],
        [{ code, name: "Grace" }, "password"],
        [{ code, name: "Grace", password: "too short" }, "password"],
        [{ code, name: "Grace", password: "123456789012" }, "password"]
      ] as const) {
        const answer = yield* accept(body)
        assert.deepStrictEqual([...codeOf(answer), answer.error.field], [400, "VALIDATION_FAILED", field])
        if (!(field in body)) assert.strictEqual(answer.error.message, "This member is required.")
      }
      const joined = yield* accept({ code, name: "Grace", password })
      assert.strictEqual(joined.status, 200, joined.text)
      assert.deepInclude(joined.json.user, { email: "grace.1@example.com", name: "Grace" })
      assert.deepStrictEqual(joined.json.teams, [{ id: team.id, name: "Team", role: "member", plan: "team" }])
      const me = yield* TestApp.get("/me", { session: cookieOf(joined) })
      assert.strictEqual(me.json.activeTeam, team.id)
      assert.deepStrictEqual(codeOf(yield* accept({ code, name: "Grace", password })), [401, "CREDENTIAL_REVOKED"])
      const signIn = yield* TestApp.post("/auth/session", { json: { email: "grace.1@example.com", password } })
      assert.strictEqual(signIn.status, 200)
    })
  )

  it.effect("let a person who exists in when they are signed in as themselves", () =>
    Effect.gen(function* () {
      const { by, team } = yield* staffed
      const person = (yield* World.team()).owner
      const code = codeIn(yield* (yield* by("owner")).invite(person.email, "viewer"))
      assert.deepStrictEqual(codeOf(yield* accept({ code, name: "Eve", password })), [401, "UNAUTHENTICATED"])
      const other = yield* sessionOf(yield* World.person())
      assert.deepStrictEqual(codeOf(yield* accept({ code }, other)), forbidden)
      const session = yield* sessionOf(person)
      const joined = yield* accept({ code }, session)
      assert.strictEqual(joined.status, 200, joined.text)
      assert.deepStrictEqual(joined.json.user, person)
      assert.lengthOf(joined.json.teams, 2)
      assert.isNull(joined.headers.get("set-cookie"))
      assert.lengthOf((yield* TestApp.get("/me", { session })).json.teams, 2)
      assert.strictEqual((yield* as(team, session).list).status, 200)
    })
  )

  it.effect("do not tell who holds the link whether the address has an account", () =>
    Effect.gen(function* () {
      const { by } = yield* staffed
      const owner = yield* by("owner")
      const person = (yield* World.team()).owner
      const stranger = yield* sessionOf(yield* World.person())
      const seen = (email: string) =>
        Effect.gen(function* () {
          const code = codeIn(yield* owner.invite(email, "viewer"))
          const answers = [
            yield* TestApp.get(`/invite?code=${code}`),
            yield* TestApp.get(`/invite?code=${code}`, { session: stranger }),
            yield* accept({ code }),
            yield* accept({ code, name: "Eve" }),
            yield* accept({ code, name: "Eve", password: "123456789012" }),
            yield* accept({ code }, stranger),
            yield* accept({ code, name: "Eve", password }, stranger)
          ]
          return answers.map(({ status, text }) => [status, text.replaceAll(code, "CODE").replaceAll(email, "EMAIL")])
        })
      const [known, unknown] = [yield* seen(person.email), yield* seen(`new.${person.id}@example.com`)]
      assert.deepStrictEqual(known, unknown)
      assert.deepStrictEqual(
        known.map(([status]) => status),
        [200, 200, 400, 400, 400, 403, 403]
      )
    })
  )

  it.effect("work once, however many accept at the same time", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { by, team } = yield* staffed
      const email = `once.${team.id}@example.com`
      const code = codeIn(yield* (yield* by("owner")).invite(email, "admin"))
      const answers = yield* Effect.all(
        Array.from({ length: 6 }, (_, i) => accept({ code, name: `Grace ${i}`, password })),
        { concurrency: "unbounded" }
      )
      const won = answers.filter((answer) => answer.status === 200)
      assert.lengthOf(won, 1, answers.map((answer) => answer.text).join("\n"))
      for (const lost of answers) if (lost !== won[0]) assert.strictEqual(lost.status, 401)
      assert.lengthOf(yield* sql`SELECT 1 FROM users WHERE email = ${email}`, 1)
      assert.lengthOf(yield* sql`SELECT 1 FROM memberships WHERE team_id = ${team.id}`, 5)
    })
  )

  it.effect("to two teams accepted at the same time with one password make one person", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [one, two] = [yield* staffed, yield* staffed]
      const email = `two.${one.team.id}@example.com`
      const codes = [
        codeIn(yield* (yield* one.by("owner")).invite(email, "viewer")),
        codeIn(yield* (yield* two.by("owner")).invite(email, "viewer"))
      ]
      const answers = yield* Effect.all(
        codes.map((code) => accept({ code, name: "Grace", password })),
        {
          concurrency: "unbounded"
        }
      )
      assert.lengthOf(yield* sql`SELECT 1 FROM users WHERE email = ${email}`, 1)
      const lost = answers.findIndex((answer) => answer.status !== 200)
      if (lost < 0) return assert.fail("both accepted, though a password opens one account")
      assert.deepStrictEqual(codeOf(answers[lost]), [400, "VALIDATION_FAILED"])
      const session = cookieOf(answers[1 - lost])
      assert.strictEqual((yield* accept({ code: codes[lost] }, session)).status, 200, "the other link still works")
    })
  )

  it.effect("stop after 7 days, when replaced, and when their maker is shut out", () =>
    Effect.gen(function* () {
      const { by, people } = yield* staffed
      const admin = yield* by("admin")
      const first = codeIn(yield* admin.invite("late@example.com", "viewer"))
      const second = codeIn(yield* admin.invite("late@example.com", "member"))
      assert.deepStrictEqual(codeOf(yield* accept({ code: first, name: "L", password })), [401, "CREDENTIAL_REVOKED"])
      const third = codeIn(yield* admin.invite("backdoor@example.com", "admin"))
      yield* (yield* by("owner")).change(people.admin, { active: false })
      assert.deepStrictEqual(codeOf(yield* accept({ code: third, name: "B", password })), [401, "CREDENTIAL_REVOKED"])
      assert.deepStrictEqual(codeOf(yield* accept({ code: second, name: "L", password })), [401, "CREDENTIAL_REVOKED"])
      const fourth = codeIn(yield* (yield* by("owner")).invite("later@example.com", "viewer"))
      yield* MovableClock.advance("7 days")
      assert.deepStrictEqual(codeOf(yield* accept({ code: fourth, name: "L", password })), [401, "CREDENTIAL_EXPIRED"])
      const altered = fourth.slice(0, -1) + (fourth.endsWith("0") ? "1" : "0")
      assert.deepStrictEqual(codeOf(yield* accept({ code: altered, name: "L", password })), [401, "CREDENTIAL_INVALID"])
    })
  )

  it.effect("are made by owners and admins, for owners by owners, and not for members", () =>
    Effect.gen(function* () {
      const { by, people } = yield* staffed
      for (const actor of roles) {
        for (const role of roles) {
          const answer = yield* (yield* by(actor)).invite(`${actor}.${role}.${people.owner.id}@example.com`, role)
          if (actor === "owner" || (actor === "admin" && role !== "owner")) assert.strictEqual(answer.status, 201)
          else assert.deepStrictEqual(codeOf(answer), forbidden, `${actor} invites ${role}`)
        }
      }
      const existing = yield* (yield* by("owner")).invite(people.viewer.email, "admin")
      assert.deepStrictEqual([...codeOf(existing), existing.error.field], [409, "NAME_TAKEN", "email"])
    })
  )

  it.effect("do not bring back who was removed or deactivated since", () =>
    Effect.gen(function* () {
      const { by, team } = yield* staffed
      const owner = yield* by("owner")
      const person = (yield* World.team()).owner
      const session = yield* sessionOf(person)
      const code = codeIn(yield* owner.invite(person.email, "member"))
      yield* World.join(team, person, "viewer")
      yield* owner.remove(person)
      assert.deepStrictEqual(codeOf(yield* accept({ code }, session)), [401, "CREDENTIAL_REVOKED"])

      const again = codeIn(yield* owner.invite(person.email, "member"))
      yield* World.join(team, person, "viewer")
      yield* owner.change(person, { active: false })
      assert.deepStrictEqual(codeOf(yield* accept({ code: again }, session)), forbidden)
    })
  )
})
