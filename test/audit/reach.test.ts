/** Entries of the trail, as a narrowed credential reads them. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { allScopes } from "#schema/Scopes.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

layer(TestApp.layer)("the entry of a comparison", (it) => {
  it.effect("names to a narrowed credential no environment beyond its reach", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: session } = yield* World.session(project.team.owner)
      for (const environment of ["development", "staging"]) {
        const json = { projectId: project.id, environment, key: "ONE", value: environment }
        assert.strictEqual((yield* TestApp.post("/secrets", { session, json })).status, 201)
      }
      const diff = yield* TestApp.get(`/secrets/diff?projectId=${project.id}&sourceEnv=development&targetEnv=staging`, {
        session
      })
      assert.strictEqual(diff.status, 200, diff.text)
      const activity = (asked: TestApp.Asked) =>
        Effect.map(TestApp.get(`/projects/${project.id}/activity`, asked), ({ json }) =>
          json.items.find(({ action }) => action === "secret.diff")
        )
      const staging = { environmentId: project.staging.id, environment: "staging", revision: 1 }
      assert.deepStrictEqual((yield* activity({ session }))?.compared, [staging])
      const narrow = yield* World.token({
        team: project.team,
        mcpScopes: allScopes,
        environments: [project.development]
      })
      const entry = yield* activity({ bearer: narrow.text })
      assert.deepStrictEqual(entry?.keys, ["ONE"])
      assert.notInclude(JSON.stringify(entry), "staging")
      assert.notInclude(JSON.stringify(entry), project.staging.id)
    })
  )
})
