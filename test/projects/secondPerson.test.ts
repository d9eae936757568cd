/** Actions that wait for a second owner or admin, where the team requires one. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as WaitingSentence from "#src/access/WaitingSentence.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({}))),
  Layer.provideMerge(MovableClock.layer)
)
const { codeOf } = TestApp
const Waits = Schema.Struct({ requestId: Schema.String })

/** A team that requires a second person, two days after its owner and admins joined. */
const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const people = {
    ada: yield* World.member(team, "admin"),
    bea: yield* World.member(team, "admin"),
    cid: yield* World.member(team, "member")
  }
  yield* MovableClock.advance("2 days")
  const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
  const [owner, ada, bea] = [yield* sessionOf(team.owner), yield* sessionOf(people.ada), yield* sessionOf(people.bea)]
  const set = yield* TestApp.patch(`/teams/${team.id}`, {
    session: owner,
    json: { secondPerson: true, adminsNeedGrants: true }
  })
  assert.isTrue(set.json.secondPerson)
  const at = `/environments/${project.production.id}`
  assert.strictEqual((yield* TestApp.patch(at, { session: owner, json: { readers: "granted" } })).status, 200)
  const written = yield* TestApp.post("/secrets", {
    session: owner,
    json: { projectId: project.id, environment: "production", key: "K", value: "v" }
  })
  assert.oneOf(written.status, [201, 403])
  const readsAs = (session: string) =>
    Effect.map(
      TestApp.get(`/secrets/with-values?projectId=${project.id}&environment=production`, { session }),
      ({ status }) => status
    )
  const grant = (session: string, person: World.Person) =>
    TestApp.post(`${at}/grants`, { session, json: { userId: person.id, level: "values" } })
  const approve = (id: string, session: string) => TestApp.post(`/second-person/${id}/approve`, { session })
  const deny = (id: string, session: string) => TestApp.post(`/second-person/${id}/deny`, { session })
  const link = (id: string, session: string) => TestApp.post(`/second-person/${id}/link`, { session })
  const list = (session: string) => TestApp.get(`/teams/${team.id}/second-person`, { session })
  const actions = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{
      readonly body: string
    }>`SELECT body FROM audit_entries WHERE team_id = ${team.id} ORDER BY id`
    return rows.map(auditEntry)
  })
  return { actions, ada, approve, at, bea, deny, grant, link, list, owner, people, project, readsAs, sessionOf, team }
})

const waitsOf = (answer: TestApp.Answer): string => {
  assert.strictEqual(answer.status, 202, answer.text)
  return answer.as(Waits).requestId
}

layer(app, { excludeTestServices: true })("where a second person decides", (it) => {
  it.effect("a grant to oneself happens once another one approves", () =>
    Effect.gen(function* () {
      const { actions, ada, approve, bea, grant, list, people, readsAs } = yield* setUp
      const id = waitsOf(yield* grant(ada, people.ada))
      assert.strictEqual(yield* readsAs(ada), 403)
      const items = (yield* list(bea)).json.items
      assert.deepStrictEqual(
        items.map((one) => [one.id, one.user.email, one.mayDecide]),
        [[id, people.ada.email, true]]
      )
      assert.deepStrictEqual(
        (yield* list(ada)).json.items.map((one) => one.mayDecide),
        [false]
      )
      assert.deepStrictEqual(codeOf(yield* approve(id, ada)), [403, "FORBIDDEN"])
      assert.deepStrictEqual((yield* approve(id, bea)).json, { status: "approved" })
      assert.strictEqual(yield* readsAs(ada), 200)
      assert.deepStrictEqual(codeOf(yield* approve(id, bea)), [409, "GRANT_ALREADY_DECIDED"])
      // The trail names both: who began it, and who approved.
      const entries = (yield* actions).filter(
        ({ action, outcome }) => outcome === "allowed" && /second|grant/.test(action)
      )
      assert.deepStrictEqual(
        entries.map(({ action, actor }) => [action, actor.name]),
        [
          ["second_person.request", people.ada.email],
          ["second_person.approve", people.bea.email],
          ["access.grant", people.ada.email]
        ]
      )
    })
  )

  it.effect("an approval of one's own request waits, and is refused where no second person is required", () =>
    Effect.gen(function* () {
      const { ada, approve, bea, owner, project, readsAs, team } = yield* setUp
      const ask = Effect.map(
        TestApp.post(`/environments/${project.production.id}/access-requests`, {
          session: ada,
          json: { level: "values", hours: 2, reason: "Incident 42" }
        }),
        (asked) => asked.json.id
      )
      const approveOwn = (id: string) => TestApp.post(`/access-requests/${id}/approve`, { session: ada })
      const id = waitsOf(yield* approveOwn(yield* ask))
      assert.strictEqual(yield* readsAs(ada), 403)
      assert.strictEqual((yield* approve(id, bea)).status, 200)
      assert.strictEqual(yield* readsAs(ada), 200)
      const off = waitsOf(yield* TestApp.patch(`/teams/${team.id}`, { session: owner, json: { secondPerson: false } }))
      assert.strictEqual((yield* approve(off, ada)).status, 200)
      const request = yield* TestApp.post(`/environments/${project.production.id}/access-requests`, {
        session: bea,
        json: { level: "values", hours: 2, reason: "Incident 42" }
      })
      const refused = yield* TestApp.post(`/access-requests/${request.json.id}/approve`, { session: bea })
      assert.deepStrictEqual(codeOf(refused), [403, "FORBIDDEN"])
    })
  )

  it.effect("everything that binds owners and admins waits, and the rest does not", () =>
    Effect.gen(function* () {
      const { ada, approve, at, bea, grant, owner, people, project, team } = yield* setUp
      const ofTeam = `/teams/${team.id}`
      const raise = (json: object, session = ada) =>
        TestApp.patch(`${ofTeam}/members/${people.cid.id}`, { session, json })
      const invite = (role: string) =>
        TestApp.post(`${ofTeam}/invitations`, { session: ada, json: { email: `${role}-${team.id}@example.com`, role } })
      const reset = (person: World.Person) =>
        TestApp.post(`${ofTeam}/members/${person.id}/password-reset`, { session: ada })
      const waiting = {
        protection: yield* TestApp.patch(at, { session: ada, json: { protected: false } }),
        readers: yield* TestApp.patch(at, { session: ada, json: { readers: "team" } }),
        promotion: yield* raise({ role: "admin" }),
        ownership: yield* raise({ role: "owner" }, owner),
        invitation: yield* invite("admin"),
        reset: yield* reset(people.bea),
        grants: yield* TestApp.patch(ofTeam, { session: owner, json: { adminsNeedGrants: false } }),
        off: yield* TestApp.patch(ofTeam, { session: owner, json: { secondPerson: false } })
      }
      const ids = Object.entries(waiting).map(([name, answer]) => {
        assert.strictEqual(answer.status, 202, name)
        return [name, waitsOf(answer)] as const
      })
      // Actions for others, which bind no owner or admin, go on.
      for (const answer of [
        yield* grant(ada, people.cid),
        yield* invite("member"),
        yield* reset(people.cid),
        yield* TestApp.patch(at, { session: ada, json: { name: "Live" } })
      ]) {
        assert.isBelow(answer.status, 202, answer.text)
      }
      // An admin neither takes the setting away nor makes it wait.
      const away = yield* TestApp.patch(ofTeam, { session: ada, json: { secondPerson: false } })
      assert.deepStrictEqual(codeOf(away), [403, "FORBIDDEN"])
      for (const [name, id] of ids) {
        const decided = yield* approve(id, bea)
        // Once a member is owner, an admin's earlier wish to make them admin is not possible any more.
        assert.strictEqual(decided.status, 200, `${name}: ${decided.text}`)
        assert.deepStrictEqual(Object.keys(decided.json), ["status"], name)
      }
      const after = yield* TestApp.patch(ofTeam, { session: owner, json: { name: "Later" } })
      assert.deepInclude(after.json, { secondPerson: false, adminsNeedGrants: false })
      const environments = yield* TestApp.get(`/projects/${project.id}/environments`, { session: owner })
      assert.deepInclude(
        environments.json.items.find(({ slug }) => slug === "production"),
        { protected: false, readers: "team" }
      )
      // Without the setting a grant to oneself happens at once.
      assert.strictEqual((yield* grant(ada, people.ada)).status, 201)
    })
  )

  it.effect("an approved invitation or reset gives its link to the person who asked, once and within a day", () =>
    Effect.gen(function* () {
      const { actions, ada, approve, bea, deny, link, list, owner, people, sessionOf, team } = yield* setUp
      const invite = (email: string) =>
        TestApp.post(`/teams/${team.id}/invitations`, { session: ada, json: { email, role: "admin" } })
      const reset = TestApp.post(`/teams/${team.id}/members/${people.bea.id}/password-reset`, { session: ada })
      const ids = [waitsOf(yield* invite(`one-${team.id}@example.com`)), waitsOf(yield* reset)]
      for (const [i, id] of ids.entries()) {
        assert.deepStrictEqual(codeOf(yield* link(id, ada)), [403, "FORBIDDEN"])
        assert.strictEqual((yield* approve(id, bea)).status, 200)
        const item = (yield* list(ada)).json.items.find((one) => one.id === id)
        assert.deepInclude(item, { status: "approved", hasLink: true, mayDecide: false })
        const others = (yield* list(bea)).json.items.find((one) => one.id === id)
        assert.deepInclude(others, { status: "approved", hasLink: false, mayDecide: false })
        for (const session of [bea, owner]) {
          assert.deepStrictEqual(codeOf(yield* link(id, session)), [404, "GRANT_NOT_FOUND"])
        }
        const answer = yield* link(id, ada)
        assert.strictEqual(answer.status, 200, answer.text)
        assert.match(answer.json.url, i === 0 ? /\/invite\?code=amp_iv_/ : /code=amp_pr_/)
        assert.deepStrictEqual(codeOf(yield* link(id, ada)), [409, "GRANT_ALREADY_DECIDED"])
        assert.notInclude(
          (yield* list(ada)).json.items.map((one) => one.id),
          id
        )
      }
      // The trail has the approval by one, and the link by the other.
      const entries = (yield* actions).filter(({ action }) =>
        ["second_person.approve", "member.invite", "password.reset_link"].includes(action)
      )
      assert.deepStrictEqual(
        entries.map(({ action, actor, outcome }) => [action, actor.name, outcome]),
        [
          ["second_person.approve", people.bea.email, "allowed"],
          ["member.invite", people.ada.email, "allowed"],
          ["second_person.approve", people.bea.email, "allowed"],
          ["password.reset_link", people.ada.email, "allowed"]
        ]
      )
      // Taken back before the link is made.
      const back = waitsOf(yield* invite(`two-${team.id}@example.com`))
      yield* approve(back, bea)
      assert.strictEqual((yield* deny(back, ada)).status, 200)
      assert.deepStrictEqual(codeOf(yield* link(back, ada)), [409, "GRANT_ALREADY_DECIDED"])
      // A writer of the database approves nothing, and brings nothing back.
      const sql = yield* SqlClient.SqlClient
      const forged = waitsOf(yield* invite(`three-${team.id}@example.com`))
      yield* sql`UPDATE second_person_requests SET status = 'approved' WHERE id = ${forged}`
      yield* sql`UPDATE second_person_requests SET status = 'approved' WHERE id = ${back}`
      assert.deepStrictEqual(codeOf(yield* link(forged, ada)), [404, "GRANT_NOT_FOUND"])
      assert.strictEqual((yield* link(back, ada)).status, 409)
      const late = waitsOf(yield* invite(`four-${team.id}@example.com`))
      yield* approve(late, bea)
      yield* MovableClock.advance("25 hours")
      assert.deepStrictEqual(codeOf(yield* link(late, yield* sessionOf(people.ada))), [404, "GRANT_NOT_FOUND"])
    })
  )

  it.effect("an action that fails takes its approval with it: the request waits, and nothing is in the trail", () =>
    Effect.gen(function* () {
      const { actions, ada, approve, at, bea, grant, list, people, readsAs } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const id = waitsOf(yield* grant(ada, people.ada))
      // As a crash in the middle of the transaction: the last statement of the action fails.
      yield* sql`
        CREATE OR REPLACE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'the server stops here'; END $$`
      yield* sql`CREATE TRIGGER crash AFTER INSERT ON access_grants FOR EACH ROW EXECUTE FUNCTION crash()`
      const crashed = yield* approve(id, bea)
      yield* sql`DROP TRIGGER crash ON access_grants`
      assert.strictEqual(crashed.status, 500)
      assert.deepStrictEqual(
        (yield* list(bea)).json.items.map((one) => [one.id, one.status, one.mayDecide]),
        [[id, "pending", true]]
      )
      const approvals = Effect.map(actions, (all) => all.filter(({ action }) => action === "second_person.approve"))
      assert.deepStrictEqual(yield* approvals, [])
      assert.strictEqual(yield* readsAs(ada), 403)
      assert.strictEqual((yield* approve(id, bea)).status, 200)
      assert.strictEqual(yield* readsAs(ada), 200)
      assert.lengthOf(yield* approvals, 1)
      // Two approvals at the same time: one happens, once.
      const twice = waitsOf(yield* TestApp.patch(at, { session: ada, json: { protected: false } }))
      const both = yield* Effect.all([approve(twice, bea), approve(twice, bea)], { concurrency: "unbounded" })
      assert.sameMembers(
        both.map(({ status }) => status),
        [200, 409]
      )
      assert.lengthOf(yield* approvals, 2)
    })
  )

  it.effect("a transaction that runs again after a race takes the approval again", () =>
    Effect.gen(function* () {
      const { actions, ada, approve, bea, grant, list, people, readsAs } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const id = waitsOf(yield* grant(ada, people.ada))
      // The first attempt ends in a deadlock. A sequence counts on, although the transaction is undone.
      yield* sql`CREATE SEQUENCE attempts`
      yield* sql`
        CREATE OR REPLACE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('attempts') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40P01'; END IF;
          RETURN NEW;
        END $$`
      yield* sql`CREATE TRIGGER deadlock AFTER INSERT ON access_grants FOR EACH ROW EXECUTE FUNCTION deadlock()`
      const answer = yield* approve(id, bea)
      yield* sql`DROP TRIGGER deadlock ON access_grants`
      const [{ n }] = yield* sql<{ readonly n: number }>`SELECT last_value::int AS n FROM attempts`
      yield* sql`DROP SEQUENCE attempts`
      assert.deepStrictEqual([answer.status, n], [200, 2])
      assert.strictEqual(yield* readsAs(ada), 200)
      assert.deepStrictEqual((yield* list(bea)).json.items, [])
      assert.lengthOf(
        (yield* actions).filter(({ action }) => action === "second_person.approve"),
        1
      )
    })
  )

  it.effect.skipIf(!TestDatabase.onPostgres)("a row that is put back while it is locked runs no other action", () =>
    Effect.gen(function* () {
      const { ada, approve, bea, grant, people, readsAs } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const id = waitsOf(yield* grant(ada, people.ada))
      const forged = sql`
        UPDATE second_person_requests SET payload = jsonb_set(payload, '{input,level}', '"write"') WHERE id = ${id}`
      const genuine = sql`
        UPDATE second_person_requests SET payload = jsonb_set(payload, '{input,level}', '"values"') WHERE id = ${id}`
      yield* forged
      const [isPutBack, mayEnd] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const holder = yield* Effect.fork(
        sql.withTransaction(
          Effect.zipRight(genuine, Effect.zipRight(Deferred.succeed(isPutBack, undefined), Deferred.await(mayEnd)))
        )
      )
      yield* Deferred.await(isPutBack)
      // The approval sees the forged row, and locks the genuine one.
      const approval = yield* Effect.fork(approve(id, bea))
      yield* Effect.sleep("300 millis")
      yield* Deferred.succeed(mayEnd, undefined)
      yield* Fiber.join(holder)
      assert.deepStrictEqual(codeOf(yield* Fiber.join(approval)), [404, "GRANT_NOT_FOUND"])
      assert.strictEqual(yield* readsAs(ada), 403)
      assert.strictEqual((yield* approve(id, bea)).status, 200)
      assert.strictEqual(yield* readsAs(ada), 200)
    })
  )

  it.effect.skipIf(!TestDatabase.onPostgres)(
    "a connection that dies between the approval and the action leaves both undone",
    () =>
      Effect.gen(function* () {
        const { ada, approve, bea, grant, list, people, readsAs } = yield* setUp
        const sql = yield* SqlClient.SqlClient
        const id = waitsOf(yield* grant(ada, people.ada))
        const [isLocked, mayEnd] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        // Another transaction holds up the grant, after the approval in the same transaction.
        const holder = yield* Effect.fork(
          sql.withTransaction(
            Effect.gen(function* () {
              yield* sql`LOCK TABLE access_grants IN EXCLUSIVE MODE`
              yield* Deferred.succeed(isLocked, undefined)
              yield* Deferred.await(mayEnd)
            })
          )
        )
        yield* Deferred.await(isLocked)
        const approval = yield* Effect.fork(approve(id, bea))
        const blocked = sql<{ readonly pid: number }>`
          SELECT l.pid FROM pg_locks l
          WHERE NOT l.granted AND l.relation = 'access_grants'::regclass
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
        const [victim] = yield* Effect.repeat(blocked, { until: (rows) => rows.length > 0 })
        const free = yield* sql`SELECT id FROM second_person_requests WHERE id = ${id} FOR UPDATE SKIP LOCKED`
        assert.deepStrictEqual(free, [], "the approval is part of the transaction that dies")
        yield* sql`SELECT pg_terminate_backend(${victim?.pid ?? 0})`
        const answer = yield* Fiber.join(approval)
        assert.isAtLeast(answer.status, 500, answer.text)
        yield* Deferred.succeed(mayEnd, undefined)
        yield* Fiber.join(holder)
        assert.deepStrictEqual(
          (yield* list(bea)).json.items.map((one) => [one.id, one.status]),
          [[id, "pending"]]
        )
        assert.strictEqual(yield* readsAs(ada), 403)
        assert.strictEqual((yield* approve(id, bea)).status, 200)
        assert.strictEqual(yield* readsAs(ada), 200)
      })
  )

  it.effect("an owner's or admin's own change waits for another one, and is written as theirs", () =>
    Effect.gen(function* () {
      const { actions, approve, at, bea, list, owner, people, project, sessionOf, team } = yield* setUp
      const set = yield* TestApp.patch(at, { session: owner, json: { changes: "proposed" } })
      assert.strictEqual(set.status, 200, set.text)
      const opened = waitsOf(yield* TestApp.patch(at, { session: owner, json: { readers: "team" } }))
      assert.strictEqual((yield* approve(opened, bea)).status, 200)
      const cid = yield* sessionOf(people.cid)
      const value = { projectId: project.id, environment: "production", key: "OWN", value: "v" }
      const proposed = yield* TestApp.post("/secrets", { session: cid, json: value })
      assert.strictEqual(proposed.status, 202, proposed.text)
      const [change] = (yield* TestApp.get("/change-requests", { session: cid })).json.items
      const approveChange = TestApp.post(`/change-requests/${change?.id ?? ""}/approve`, { session: cid })
      // A member's own change is refused, as before.
      assert.deepStrictEqual(codeOf(yield* approveChange), [403, "FORBIDDEN"])
      const raise = { session: owner, json: { role: "admin" } }
      const raised = waitsOf(yield* TestApp.patch(`/teams/${team.id}/members/${people.cid.id}`, raise))
      assert.strictEqual((yield* approve(raised, bea)).status, 200)
      const id = waitsOf(yield* approveChange)
      const [waiting] = (yield* list(bea)).json.items
      assert.strictEqual(waiting?.id, id)
      assert.deepInclude(waiting, {
        kind: "change_request",
        about: `approving one's own change of 1 key in ${project.slug}/production (create OWN)`
      })
      const read = TestApp.get(`/secrets/value?projectId=${project.id}&environment=production&key=OWN`, {
        session: owner
      })
      assert.strictEqual((yield* read).status, 404)
      const denied = yield* TestApp.post(`/change-requests/${change?.id ?? ""}/deny`, { session: cid })
      assert.deepStrictEqual(codeOf(denied), [403, "FORBIDDEN"])
      const approved = yield* approve(id, bea)
      assert.strictEqual(approved.status, 200, approved.text)
      assert.strictEqual((yield* read).json.value, "v")
      const entries = (yield* actions).filter(
        ({ action, outcome }) => outcome === "allowed" && /change.approve|secret.create/.test(action)
      )
      assert.includeDeepMembers(
        entries.map(({ action, actor }) => [action, actor.name]),
        [
          ["change.approve", people.cid.email],
          ["secret.create", people.cid.email]
        ]
      )
      // Another admin decides about a change directly, as before.
      assert.deepStrictEqual((yield* list(bea)).json.items, [])
    })
  )

  it.effect("a person who rose or was reset within a day decides nothing", () =>
    Effect.gen(function* () {
      const { ada, approve, bea, deny, grant, owner, people, sessionOf, team } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const id = waitsOf(yield* grant(ada, people.ada))
      const raised = waitsOf(
        yield* TestApp.patch(`/teams/${team.id}/members/${people.cid.id}`, { session: owner, json: { role: "admin" } })
      )
      assert.strictEqual((yield* approve(raised, bea)).status, 200)
      const cid = yield* sessionOf(people.cid)
      assert.deepStrictEqual(codeOf(yield* approve(id, cid)), [403, "FORBIDDEN"])
      assert.deepStrictEqual(codeOf(yield* deny(id, cid)), [403, "FORBIDDEN"])
      const now = new Date(
        (yield* sql<{ readonly at: Date }>`
        SELECT max(updated_at) AS at FROM memberships WHERE user_id = ${people.cid.id}`)[0]?.at ?? 0
      )
      yield* sql`
        INSERT INTO account_notices (id, user_id, kind, about, created_at)
        VALUES (gen_random_uuid(), ${people.bea.id}, 'password_reset', '', ${now})`
      assert.deepStrictEqual(codeOf(yield* approve(id, bea)), [403, "FORBIDDEN"])
      yield* MovableClock.advance("25 hours")
      assert.strictEqual((yield* approve(id, yield* sessionOf(people.cid))).status, 200)
    })
  )

  it.effect("a request is nothing to others, ends when it is denied, and no row of the database makes one", () =>
    Effect.gen(function* () {
      const { ada, approve, bea, deny, grant, list, owner, people, readsAs, sessionOf } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const id = waitsOf(yield* grant(ada, people.ada))
      const stranger = yield* sessionOf((yield* World.team()).owner)
      const gone = [404, "GRANT_NOT_FOUND"]
      for (const session of [stranger, yield* sessionOf(people.cid)]) {
        assert.deepStrictEqual(codeOf(yield* approve(id, session)), gone)
        assert.deepStrictEqual(codeOf(yield* deny(id, session)), gone)
      }
      assert.deepStrictEqual((yield* deny(id, bea)).json, { status: "denied" })
      yield* sql`UPDATE second_person_requests SET status = 'pending' WHERE id = ${id}`
      assert.deepStrictEqual(codeOf(yield* approve(id, bea)), gone)
      const forged = waitsOf(yield* grant(ada, people.ada))
      yield* sql`
        UPDATE second_person_requests SET payload = jsonb_set(payload, '{input,level}', '"write"') WHERE id = ${forged}`
      assert.deepStrictEqual((yield* list(owner)).json.items, [])
      assert.deepStrictEqual(codeOf(yield* approve(forged, bea)), gone)
      // The author takes a request back.
      const mine = waitsOf(yield* grant(ada, people.ada))
      assert.strictEqual((yield* deny(mine, ada)).status, 200)
      assert.strictEqual(yield* readsAs(ada), 403)
    })
  )

  it.effect("the author's rights are judged again, and a late approval does nothing", () =>
    Effect.gen(function* () {
      const { ada, approve, bea, grant, owner, people, team } = yield* setUp
      const id = waitsOf(yield* grant(ada, people.ada))
      yield* TestApp.patch(`/teams/${team.id}/members/${people.ada.id}`, { session: owner, json: { role: "member" } })
      assert.deepStrictEqual(codeOf(yield* approve(id, bea)), [403, "FORBIDDEN"])
      const late = waitsOf(yield* grant(bea, people.bea))
      yield* MovableClock.advance("8 days")
      const again = yield* World.session(team.owner)
      assert.deepStrictEqual(codeOf(yield* approve(late, again.text)), [404, "GRANT_NOT_FOUND"])
    })
  )

  it.effect("the sentence names the place and every changed field with its new value", () =>
    Effect.gen(function* () {
      const { ada, at, bea, list, owner, people, project, team } = yield* setUp
      const place = `${project.slug}/production`
      const ofTeam = { secondPerson: false, plan: "developer", sessionAddresses: null }
      waitsOf(yield* TestApp.patch(`/teams/${team.id}`, { session: owner, json: ofTeam }))
      const protection = { protected: false, readers: "team", approvers: [people.cid.id], name: "Live, now" }
      waitsOf(yield* TestApp.patch(at, { session: ada, json: protection }))
      const until = "2030-01-01T00:00:00.000Z"
      const grant = { userId: people.ada.id, level: "values", until, reason: "Incident 42" }
      waitsOf(yield* TestApp.post(`${at}/grants`, { session: ada, json: grant }))
      assert.sameMembers(
        (yield* list(bea)).json.items.map(({ about }) => about),
        [
          "weaker rules of the team (plan: developer, sessionAddresses: none, secondPerson: off)",
          `a lower protection in ${place} (name: "Live, now", protected: off, readers: team, approvers: ${people.cid.email})`,
          `a grant of values to oneself in ${place} (reason: "Incident 42", until: ${until})`
        ]
      )
    })
  )

  it("the sentence of a change has ten keys, those that run code first, and the number of the others", () => {
    const one = (key: string, warnings: ReadonlyArray<string> = []) => ({
      key,
      change: "update",
      conflict: false,
      warnings
    })
    const keys = Array.from({ length: 12 }, (_, i) => one(`KEY_${i}`))
    const facts = WaitingSentence.keyFacts([...keys, one("LD_PRELOAD", ["LD_PRELOAD decides which libraries load"])])
    assert.lengthOf(facts, 11)
    assert.strictEqual(facts[0], "update LD_PRELOAD [LD_PRELOAD decides which libraries load]")
    assert.strictEqual(facts.at(-1), "and 3 more")
  })

  it.effect("an admin by a sign-in rule is no second person, and no new rule makes admins", () =>
    Effect.gen(function* () {
      const { ada, approve, bea, grant, list, owner, people, team } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const rowSeal = yield* RowSeal
      const issuer = "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"
      yield* rowSeal.update("memberships", sql`team_id = ${team.id} AND user_id = ${people.bea.id}`, () => ({
        ruledBy: issuer
      }))
      const id = waitsOf(yield* grant(ada, people.ada))
      assert.deepStrictEqual(
        (yield* list(bea)).json.items.map(({ mayDecide }) => mayDecide),
        [false]
      )
      assert.deepStrictEqual(codeOf(yield* approve(id, bea)), [403, "FORBIDDEN"])
      assert.strictEqual((yield* approve(id, owner)).status, 200)
      const rule = (role: string) =>
        TestApp.post(`/teams/${team.id}/sign-in/rules`, {
          session: owner,
          json: { issuer, claim: "groups", value: "ops", role }
        })
      // A lower role passes on to the check of the issuer, which does not exist here.
      assert.deepStrictEqual(codeOf(yield* rule("member")), [400, "VALIDATION_FAILED"])
      const refused = yield* rule("admin")
      assert.deepStrictEqual(codeOf(refused), [403, "FORBIDDEN"])
      assert.include(refused.text, "second person")
    })
  )

  for (const [way, end] of [
    ["removed", ({ id }, at, session) => TestApp.del(`${at}/${id}`, { session })],
    ["demoted", ({ id }, at, session) => TestApp.patch(`${at}/${id}`, { session, json: { role: "member" } })],
    ["deactivated", ({ id }, at, session) => TestApp.patch(`${at}/${id}`, { session, json: { active: false } })],
    [
      "shut out",
      ({ id }, at, session) => TestApp.post(`${at}/${id}/end-access`, { session, json: { deactivate: true } })
    ]
  ] satisfies ReadonlyArray<
    readonly [string, (person: World.Person, at: string, session: string) => ReturnType<typeof TestApp.del>]
  >) {
    it.effect(`an alarm is raised when the last other admin is ${way}, and not before`, () =>
      Effect.gen(function* () {
        const { actions, owner, people, team } = yield* setUp
        const at = `/teams/${team.id}/members`
        const alarms = Effect.map(actions, (all) => all.filter(({ action }) => action === "access.break_glass"))
        for (const person of [people.cid, people.ada]) {
          assert.isBelow((yield* end(person, at, owner)).status, 300)
          assert.deepStrictEqual(yield* alarms, [])
        }
        const last = yield* end(people.bea, at, owner)
        assert.isBelow(last.status, 300, last.text)
        assert.deepStrictEqual(
          (yield* alarms).map(({ actor, target }) => [actor.id, target?.id, target?.name]),
          [
            [
              team.owner.id,
              people.bea.id,
              `${people.bea.email}, the last other admin who could decide, has this role no more`
            ]
          ]
        )
      })
    )
  }

  it.effect("one person alone goes on, with an alarm", () =>
    Effect.gen(function* () {
      const { actions, grant, owner, people, project, readsAs, team } = yield* setUp
      for (const person of [people.ada, people.bea]) {
        const off = yield* TestApp.patch(`/teams/${team.id}/members/${person.id}`, {
          session: owner,
          json: { active: false }
        })
        assert.strictEqual(off.status, 200, off.text)
      }
      assert.strictEqual((yield* grant(owner, team.owner)).status, 201)
      assert.strictEqual(yield* readsAs(owner), 200)
      const broken = (yield* actions).filter(({ action }) => action === "access.break_glass")
      assert.deepStrictEqual(
        broken.map(({ actor, target }) => [actor.id, target?.name]),
        [
          [team.owner.id, `${people.bea.email}, the last other admin who could decide, has this role no more`],
          [team.owner.id, `a grant of values to oneself in ${project.slug}/production (until: none)`]
        ]
      )
    })
  )
})
