/** Statements of a read of values: one that authenticates and finds, one that records, then it answers. */
import { during } from "#test/support/Statements.ts"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

/** Background work of a server, which may run meanwhile. */
const behind =
  /audit_seals|audit_streams SET|exposure_|webhook_deliveries|r\.webhook_id|last_used_at =|pg_try_advisory|SELECT 1|LISTEN|NOTIFY/

layer(TestApp.layer, { excludeTestServices: true })("a read of values", (it) => {
  it.effect("costs two statements, with any grants and any caller", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const { text: session } = yield* World.session(team.owner)
      const bob = yield* World.member(team, "member")
      const theirs = (yield* World.session(bob)).text
      const login = (yield* World.grant({
        person: bob,
        teams: [{ team, scopes: ["secrets:read", "secrets:read_values", "secrets:run"] }]
      })).text
      const token = (yield* World.token({ team })).text
      const at = { projectId: project.id, environment: "development" }
      const query = `${new URLSearchParams(at)}` as const
      yield* TestApp.post("/secrets", { session, json: { ...at, key: "BASE", value: "one" } })
      yield* TestApp.post("/secrets", { session, json: { ...at, key: "URL", value: "x${BASE}" } })
      yield* TestApp.patch(`/environments/${project.development.id}`, { session, json: { readers: "granted" } })
      const grant = yield* TestApp.post(`/environments/${project.development.id}/grants`, {
        session,
        json: { userId: bob.id, level: "values" }
      })
      assert.strictEqual(grant.status, 201, grant.text)
      const paths = [
        `/secrets/inject?${query}`,
        `/secrets/with-values?${query}`,
        `/secrets/value?${query}&key=URL`
      ] as const
      for (const as of [{ session }, { session: theirs }, { bearer: login }, { bearer: token }]) {
        for (const path of paths) {
          const warm = yield* TestApp.get(path, as)
          assert.strictEqual(warm.status, 200, warm.text)
          const recorded = yield* during(TestApp.get(path, as))
          const statements = recorded.map(({ text }) => text.trim().replaceAll(/\s+/g, " ").slice(0, 120))
          const own = statements.filter((text) => !behind.test(text))
          assert.lengthOf(own, 2, `${path} ${own.join("\n")}`)
        }
      }
    })
  )
})
