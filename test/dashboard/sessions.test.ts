/** The page on which a person sees where they are signed in. */
import { assert, describe, it, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as vm from "node:vm"
import { browserOf } from "#src/dashboard/account/SessionPages.tsx"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

describe("a browser", () => {
  it("is called by what it says of itself, in words of ours", () => {
    const mozilla = "Mozilla/5.0"
    for (const [says, called] of [
      [
        `${mozilla} (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36`,
        "Chrome on Linux"
      ],
      [
        `${mozilla} (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0`,
        "Edge on Windows"
      ],
      [
        `${mozilla} (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15`,
        "Safari on macOS"
      ],
      [`${mozilla} (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1`, "Safari on iOS"],
      [`${mozilla} (Android 15; Mobile; rv:143.0) Gecko/143.0 Firefox/143.0`, "Firefox on Android"],
      ["<script>alert(1)</script>", "Unknown browser"],
      [null, "Unknown browser"]
    ] as const) {
      assert.strictEqual(browserOf(says), called)
    }
  })
})

layer(TestApp.shared, { excludeTestServices: true })("the page of sessions", (it) => {
  it.effect("lists one's own, ends one and all others, and nobody else's", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const team = yield* World.team()
      const { owner } = team
      const [here, there, elsewhere] = yield* Effect.all([
        World.session(owner),
        World.session(owner),
        World.session(owner)
      ])
      const stranger = yield* World.session(yield* World.member(team, "owner"))
      const path = "/app/account/sessions"
      const page = yield* TestApp.get(path, { session: here.text })
      assert.strictEqual(page.status, 200, page.text)
      assert.lengthOf(page.text.match(/Sign out there/g) ?? [], 2)
      assert.lengthOf(page.text.match(/this browser/g) ?? [], 1)
      for (const { id } of [there, elsewhere]) assert.include(page.text, id)
      for (const { text } of [here, there, elsewhere]) assert.notInclude(page.text, text)
      assert.notInclude(page.text, stranger.id)

      const send = (to: string) => TestApp.post(`${path}/${to}`, { session: here.text })
      assert.strictEqual((yield* send(`${there.id}/end`)).status, 303)
      assert.strictEqual((yield* TestApp.get("/me", { session: there.text })).error.code, "CREDENTIAL_REVOKED")
      const [foreign, unknown] = [yield* send(`${stranger.id}/end`), yield* send(`${there.id}/end`)]
      assert.deepStrictEqual([foreign.status, unknown.status], [404, 404])
      assert.strictEqual(foreign.text, unknown.text)
      const crossSite = yield* TestApp.post(`${path}/end-others`, {
        session: here.text,
        headers: { origin: "https://evil.example" }
      })
      assert.strictEqual(crossSite.status, 403)
      assert.strictEqual((yield* TestApp.get("/me", { session: elsewhere.text })).status, 200)
      assert.strictEqual((yield* send("end-others")).status, 303)
      assert.strictEqual((yield* TestApp.get("/me", { session: elsewhere.text })).error.code, "CREDENTIAL_REVOKED")
      for (const { text } of [here, stranger]) {
        assert.strictEqual((yield* TestApp.get("/me", { session: text })).status, 200)
      }
      const entries = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${team.id} AND action = 'session.end' ORDER BY id`
      assert.deepStrictEqual(
        entries.map(auditEntry).map(({ target }) => target?.id),
        [there.id, elsewhere.id]
      )
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("the scripts of a page", (it) => {
  it.effect("are one program that compiles: its parts share their names", () =>
    Effect.gen(function* () {
      const { text } = yield* TestApp.get("/app/sign-in")
      const sources = Array.from(text.matchAll(/<script[^>]* src="([^"]+)"/g), ([, source]) => source)
      assert.isNotEmpty(sources)
      for (const source of sources) {
        const script = yield* TestApp.get(source)
        assert.strictEqual(script.status, 200)
        assert.doesNotThrow(() => new vm.Script(script.text), undefined, source)
      }
    })
  )
})
