/** From which addresses a team's people and a token are let in. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

describe("a list of addresses", () => {
  it("holds those of its blocks, IPv4 and IPv6, however they are written, and no other", () => {
    const list = ["192.0.2.0/24", "198.51.100.7", "2001:db8:1::/48", "::1"]
    for (const [address, held] of [
      ["192.0.2.0", true],
      ["192.0.2.255", true],
      ["192.0.3.0", false],
      ["198.51.100.7", true],
      ["198.51.100.8", false],
      ["::ffff:192.0.2.9", true],
      ["::FFFF:192.0.2.9", true],
      ["0:0:0:0:0:ffff:192.0.2.9", true],
      ["::ffff:c000:0209", true],
      ["::ffff:192.0.3.9", false],
      ["2001:db8:1:ffff::1", true],
      ["2001:DB8:1::1", true],
      ["2001:db8:2::1", false],
      ["::1", true],
      ["::2", false],
      ["", false],
      ["unknown", false],
      ["192.0.2.9, 192.0.2.10", false],
      ["fe80::1%eth0", false]
    ] as const) {
      assert.strictEqual(AddressRanges.includes(list, address), held, address)
    }
    assert.isTrue(AddressRanges.includes(["0.0.0.0/0"], "203.0.113.1"))
    // All of IPv4 is no IPv6 address, and the other way round.
    assert.isFalse(AddressRanges.includes(["0.0.0.0/0"], "2001:db8::1"))
    assert.isFalse(AddressRanges.includes(["::/0"], "203.0.113.1"))
    assert.isFalse(AddressRanges.includes(["::/0"], "::ffff:203.0.113.1"))
  })

  it("is made of valid addresses and blocks alone", () => {
    for (const good of ["192.0.2.1", "192.0.2.0/0", "192.0.2.0/32", "::/0", "2001:db8::/128"]) {
      assert.isTrue(AddressRanges.isRange(good), good)
    }
    for (const bad of [
      "",
      "192.0.2",
      "192.0.2.0/33",
      "192.0.2.0/",
      "192.0.2.0/08",
      "192.0.2.0/8/8",
      "2001:db8::/129",
      "::ffff:192.0.2.0/120",
      "::FFFF:c000:0200/120",
      "fe80::1%eth0",
      "fe80::1%eth0/64",
      "example.com",
      " 192.0.2.1"
    ]) {
      assert.isFalse(AddressRanges.isRange(bad), bad)
    }
  })
})

const app = TestApp.server.pipe(
  Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config({ trustedProxies: ["127.0.0.1"] })))
)
const office = "192.0.2.17"
const cafe = "203.0.113.5"
const from = (address: string, asked: TestApp.Asked = {}): TestApp.Asked => ({
  ...asked,
  headers: { "x-forwarded-for": address }
})

/** A token of the team that is bound to addresses. */
const boundToken = (team: World.Team, addresses: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const session = (yield* World.session(team.owner)).text
    const json = { name: "ci", accessLevel: "read", addresses }
    const created = yield* TestApp.post(`/teams/${team.id}/api-tokens`, { session, json })
    assert.strictEqual(created.status, 201, created.text)
    return created.json.value
  })

layer(app, { excludeTestServices: true })("an address that a proxy reports", (it) => {
  it.effect(
    "is read with a port, in brackets, and from the header Forwarded; a list of a token's addresses holds",
    () =>
      Effect.gen(function* () {
        const project = yield* World.project()
        const bearer = yield* boundToken(project.team, ["192.0.2.0/24", "2001:db8::/32"])
        const names = `/secrets?projectId=${project.id}&environment=development` as const
        const status = (headers: Readonly<Record<string, string>>) =>
          Effect.map(TestApp.get(names, { bearer, headers }), (answer) => answer.status)
        for (const node of ["192.0.2.17:50112", "[2001:db8::7]", "[2001:db8::7]:50112"]) {
          assert.strictEqual(yield* status({ "x-forwarded-for": node }), 200, node)
          assert.strictEqual(yield* status({ forwarded: `for="${node}";proto=https` }), 200, node)
        }
        for (const node of ["203.0.113.5:50112", "[2001:db9::7]:50112"]) {
          assert.notStrictEqual(yield* status({ "x-forwarded-for": node }), 200, node)
          assert.notStrictEqual(yield* status({ forwarded: `for="${node}"` }), 200, node)
        }
        // A header that the proxy wrote counts before one that it may have passed on.
        assert.notStrictEqual(yield* status({ "x-forwarded-for": "203.0.113.5", forwarded: "for=192.0.2.17" }), 200)
      })
  )

  it.effect("that cannot be read is in no list, not even in one with the proxy's own address", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const bearer = yield* boundToken(project.team, ["127.0.0.0/8"])
      const anywhere = yield* World.token({ team: project.team })
      const names = `/secrets?projectId=${project.id}&environment=development` as const
      const ask = (headers: Readonly<Record<string, string>>) => TestApp.get(names, { bearer, headers })
      assert.strictEqual((yield* ask({})).status, 200)
      assert.notStrictEqual((yield* ask({ "x-forwarded-for": "gateway" })).status, 200)
      assert.notStrictEqual((yield* ask({ forwarded: "for=_hidden" })).status, 200)
      const read = (headers: Readonly<Record<string, string>>) =>
        Effect.map(TestApp.get("/capabilities", { bearer: anywhere.text, headers }), ({ json }) => json.clientAddress)
      assert.strictEqual(yield* read({ "x-forwarded-for": "192.0.2.17:50112" }), undefined)
      assert.strictEqual(yield* read({ "x-forwarded-for": "unknown" }), "unreadable")
      assert.strictEqual(yield* read({ forwarded: "proto=https" }), "unreadable")
    })
  )
})

layer(app, { excludeTestServices: true })("a team", (it) => {
  it.effect("lets its people in from the addresses of its list alone: signed in and at the command line", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const project = yield* World.project()
      const { team } = project
      const owner = { session: (yield* World.session(team.owner)).text }
      const member = yield* World.member(team, "member")
      const elsewhere = yield* World.project()
      yield* World.join(elsewhere.team, member, "member")
      const session = { session: (yield* World.session(member)).text }
      const login = yield* World.grant({ person: member, teams: [{ team, scopes: ["projects:read", "secrets:read"] }] })
      const token = yield* World.token({ team })
      const names = `/secrets?projectId=${project.id}&environment=development` as const
      const set = (sessionAddresses: ReadonlyArray<string> | null, address = office) =>
        TestApp.patch(`/teams/${team.id}`, from(address, { ...owner, json: { sessionAddresses } }))

      // Nobody locks themself out, and what is no address is refused.
      assert.deepStrictEqual(TestApp.refusalOf(yield* set([`${cafe}/32`])), [
        400,
        "VALIDATION_FAILED",
        "sessionAddresses"
      ])
      for (const wrong of [["192.0.2.0/33"], [], ["example.com"], ["::ffff:192.0.2.0/120"]]) {
        assert.strictEqual((yield* set(wrong)).status, 400, wrong.join())
      }
      assert.strictEqual((yield* TestApp.get(names, from(cafe, session))).status, 200)
      const done = yield* set(["192.0.2.0/24", "2001:db8::/32"])
      assert.strictEqual(done.status, 200, done.text)
      assert.deepStrictEqual(done.json.sessionAddresses, ["192.0.2.0/24", "2001:db8::/32"])

      for (const asked of [session, { bearer: login.text }]) {
        for (const address of [office, "2001:db8::7", "::ffff:192.0.2.80"]) {
          assert.strictEqual((yield* TestApp.get(names, from(address, asked))).status, 200, address)
        }
        for (const address of [cafe, "2001:db9::7", "::ffff:203.0.113.5"]) {
          assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get(names, from(address, asked))), [
            404,
            "PROJECT_NOT_FOUND"
          ])
        }
      }
      // A header beside the trusted proxy's does not count: it names its client last.
      assert.strictEqual((yield* TestApp.get(names, from(`${office}, ${cafe}`, session))).status, 404)
      // Another team of the person, and tokens of this one, are not bound.
      const other = `/secrets?projectId=${elsewhere.id}&environment=development` as const
      assert.strictEqual((yield* TestApp.get(other, from(cafe, session))).status, 200)
      assert.strictEqual((yield* TestApp.get(names, from(cafe, { bearer: token.text }))).status, 200)
      const teams = yield* TestApp.get("/me", from(cafe, session))
      assert.notInclude(teams.text, team.id)
      // A page says why to whom nothing is left: it leads nowhere else.
      const alone = { session: (yield* World.session(yield* World.member(team, "member"))).text }
      assert.strictEqual((yield* TestApp.get("/app", from(office, alone))).status, 200)
      const led = yield* TestApp.get("/app", from(cafe, alone))
      assert.deepStrictEqual([led.status, led.headers.get("location")], [303, "/app/teams/new"])
      const page = yield* TestApp.get("/app/teams/new", from(cafe, alone))
      assert.strictEqual(page.status, 200)
      assert.include(page.text, "accept only certain IP addresses")
      assert.notInclude(page.text, team.id)
      // Its settings are out of reach as well, so nobody opens it from there.
      assert.strictEqual((yield* set(null, cafe)).status, 404)
      // A writer of the database does not open it either.
      yield* sql`UPDATE teams SET session_addresses = NULL WHERE id = ${team.id}`
      assert.strictEqual((yield* TestApp.get(names, from(cafe, session))).status, 404)
      yield* sql`UPDATE teams SET session_addresses = ARRAY['192.0.2.0/24', '2001:db8::/32'] WHERE id = ${team.id}`
      assert.strictEqual((yield* set(null)).status, 200)
      assert.strictEqual((yield* TestApp.get(names, from(cafe, session))).status, 200)
    })
  )

  it.effect("has tokens that are taken from their addresses alone, also after they were rotated", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const owner = { session: (yield* World.session(team.owner)).text }
      const create = (addresses: ReadonlyArray<string>) =>
        TestApp.post(`/teams/${team.id}/api-tokens`, { ...owner, json: { name: "ci", addresses } })
      assert.deepStrictEqual(TestApp.refusalOf(yield* create(["10.0.0.0/40"])), [400, "VALIDATION_FAILED", "addresses"])
      const created = yield* create(["198.51.100.0/24"])
      assert.strictEqual(created.status, 201, created.text)
      assert.deepStrictEqual(created.json.addresses, ["198.51.100.0/24"])
      const names = `/secrets?projectId=${project.id}&environment=development` as const
      const answers = (bearer: string) =>
        Effect.forEach(["198.51.100.9", cafe], (address) =>
          Effect.map(TestApp.get(names, from(address, { bearer })), ({ status }) => status)
        )
      assert.deepStrictEqual(yield* answers(created.json.value), [200, 401])
      const refused = yield* TestApp.get(names, from(cafe, { bearer: created.json.value }))
      assert.deepStrictEqual(TestApp.codeOf(refused), [401, "CREDENTIAL_INVALID"])
      const rotated = yield* TestApp.post(`/teams/${team.id}/api-tokens/${created.json.id}/rotate`, owner)
      assert.strictEqual(rotated.status, 200, rotated.text)
      assert.deepStrictEqual(yield* answers(rotated.json.value), [200, 401])

      // A manager of tokens moves it, from the next request on, and no one else. It keeps its text and reach.
      const at = `/teams/${team.id}/api-tokens/${rotated.json.id}` as const
      const set = (addresses: ReadonlyArray<string> | null, as: TestApp.Asked = owner) =>
        TestApp.patch(at, { ...as, json: { addresses } })
      const member = { session: (yield* World.session(yield* World.member(team, "member"))).text }
      for (const as of [member, { bearer: rotated.json.value }]) {
        assert.include([401, 403], (yield* set([cafe], as)).status)
      }
      for (const wrong of [["10.0.0.0/40"], [], ["example.com"]]) assert.strictEqual((yield* set(wrong)).status, 400)
      assert.deepStrictEqual(yield* answers(rotated.json.value), [200, 401])
      const admin = { session: (yield* World.session(yield* World.member(team, "admin"))).text }
      const moved = yield* set([`${cafe}/32`], admin)
      assert.deepStrictEqual(moved.json.addresses, [`${cafe}/32`], moved.text)
      assert.deepStrictEqual(yield* answers(rotated.json.value), [401, 200])
      assert.strictEqual((yield* set(null)).status, 200)
      assert.deepStrictEqual(yield* answers(rotated.json.value), [200, 200])
      const page = `/app/teams/${team.id}/tokens/${rotated.json.id}` as const
      const form = { "content-type": "application/x-www-form-urlencoded" }
      const save = (fields: Record<string, string>) =>
        TestApp.post(page, { ...owner, headers: form, body: new URLSearchParams({ name: "ci", ...fields }).toString() })
      assert.strictEqual((yield* save({ addresses: "198.51.100.0/24, 2001:db8::/32" })).status, 303)
      assert.deepStrictEqual(yield* answers(rotated.json.value), [200, 401])
      const refused2 = yield* save({ addresses: "no address" })
      assert.strictEqual(refused2.status, 400)
      assert.include(refused2.text, "no address")
      // A name alone leaves them, and so does a form of the release before.
      assert.strictEqual((yield* save({})).status, 303)
      assert.deepStrictEqual(yield* answers(rotated.json.value), [200, 401])
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE api_tokens SET addresses = NULL WHERE id = ${rotated.json.id}`
      assert.deepStrictEqual(yield* answers(rotated.json.value), [401, 401])
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = 'token.set_addresses' ORDER BY at, seq`
      assert.deepStrictEqual(
        entries.map(auditEntry).map(({ outcome }) => outcome),
        ["allowed", "allowed", "allowed"]
      )
    })
  )
})
