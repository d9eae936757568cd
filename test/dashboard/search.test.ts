/** Results of a search over HTTP: names, of what its person may see, and nothing else. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Rooms from "./Rooms.ts"

const Answer = Schema.Struct({
  items: Schema.Array(
    Schema.Struct({ kind: Schema.String, title: Schema.String, about: Schema.String, href: Schema.String })
  )
})
const answerOf = parsed(Answer)

const search = (session: { readonly text: string }, words: string) =>
  Effect.map(
    TestApp.get(`/app/search?q=${encodeURIComponent(words)}`, {
      session: session.text,
      headers: { accept: "application/json" }
    }),
    ({ status, text }) => {
      assert.strictEqual(status, 200, text)
      return answerOf(text).items
    }
  )
const titles = (items: typeof Answer.Type.items, kind: string) =>
  items.filter((one) => one.kind === kind).map(({ title }) => title)

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("a search", (it) => {
  it.effect("finds keys, projects, environments, people, tokens and pages; exact names before parts", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const project = yield* World.project({ team, slug: "storefront" })
      const owner = yield* World.session(team.owner)
      const caller = yield* Rooms.callerOf(owner)
      yield* Rooms.write(caller, project, "development", {
        STRIPE: "canary-1",
        MY_STRIPE_KEY: "canary-2",
        XSTRIPE: "x"
      })
      yield* Rooms.write(caller, project, "production", { STRIPE: "canary-3", STRIPE_KEY: "canary-4" })
      yield* World.token({ team, name: "stripe exporter" })
      yield* World.join(team, yield* World.person({ name: "Grace Stripe", email: "grace.s@example.com" }), "viewer")

      const results = yield* search(owner, "stripe")
      assert.deepStrictEqual(titles(results, "key"), ["STRIPE", "STRIPE_KEY", "MY_STRIPE_KEY", "XSTRIPE"])
      assert.deepStrictEqual(titles(results, "person"), ["Grace Stripe"])
      assert.deepStrictEqual(titles(results, "token"), ["stripe exporter"])
      assert.include(results[0]?.about, "development, production")
      assert.notInclude(JSON.stringify(results), "canary")
      // Each leads to a page.
      for (const { href, title } of results) {
        assert.oneOf((yield* TestApp.get(href, { session: owner.text })).status, [200, 303], title)
      }
      // Words of the place narrow where the key is looked for.
      const inProduction = yield* search(owner, "stri prod store")
      assert.deepStrictEqual(titles(inProduction, "key"), ["STRIPE", "STRIPE_KEY"])
      assert.match(inProduction[0]?.href ?? "", /\/env\/production\/key\/STRIPE$/)
      assert.deepStrictEqual(titles(yield* search(owner, "storefront"), "project"), ["Demo"])
      assert.deepStrictEqual(titles(yield* search(owner, "store stag"), "environment"), ["Demo / staging"])
      assert.deepStrictEqual(titles(yield* search(owner, "invite"), "page"), ["Invite a person"])
      assert.deepStrictEqual(titles(yield* search(owner, ""), "key"), [])

      const page = yield* TestApp.get("/app/search?q=stripe", { session: owner.text })
      assert.include(page.text, "XSTRIPE")
      assert.notInclude(page.text, "canary")
    })
  )

  it.effect("finds nothing that its person does not see: of other teams, hidden projects, deleted or in vain", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const open = yield* World.project({ team, slug: "open" })
      const hidden = yield* World.project({ team, slug: "hidden" })
      const owner = yield* World.session(team.owner)
      const caller = yield* Rooms.callerOf(owner)
      yield* Rooms.write(caller, open, "development", { FOUND_KEY: "x" })
      yield* Rooms.write(caller, hidden, "development", { FOUND_HIDDEN_KEY: "x" })
      yield* World.token({ team, name: "found token" })
      const restricted = yield* TestApp.patch(`/projects/${hidden.id}`, {
        session: owner.text,
        json: { visibility: "granted" }
      })
      assert.strictEqual(restricted.status, 200, restricted.text)
      const member = yield* World.session(yield* World.member(team, "member"))
      const stranger = yield* World.session((yield* World.team()).owner)

      assert.deepStrictEqual(titles(yield* search(owner, "found"), "key"), ["FOUND_KEY", "FOUND_HIDDEN_KEY"])
      const seen = yield* search(member, "found")
      assert.deepStrictEqual(titles(seen, "key"), ["FOUND_KEY"])
      assert.deepStrictEqual(titles(seen, "token"), [])
      assert.deepStrictEqual(titles(yield* search(member, "new api"), "page"), [])
      assert.deepStrictEqual(titles(yield* search(member, "hidden"), "project"), [])
      assert.deepStrictEqual(yield* search(stranger, "found"), [])
      assert.deepStrictEqual(titles(yield* search(stranger, team.owner.email), "person"), [])

      const sql = yield* SqlClient.SqlClient
      const entries =
        yield* sql`SELECT 1 FROM audit_entries WHERE team_id = ${team.id} AND body LIKE '%"outcome":"denied"%'`
      assert.lengthOf(entries, 0)
      for (const odd of ["%", "_", "\u0000", "'", "a".repeat(5_000), "a ".repeat(500), "\\", "🗝", "("]) {
        yield* search(owner, odd)
      }
      assert.deepStrictEqual(titles(yield* search(owner, "found%key"), "key"), [])
    })
  )
})
