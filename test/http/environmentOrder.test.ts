/** The order of a project's environments: one for lists, pages and menus, which who manages the project chooses. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const slugs = (items: ReadonlyArray<{ readonly slug: string }>) => items.map(({ slug }) => slug)
/** Those that a page names, in its order: each once. */
const headings = (text: string, names: ReadonlyArray<string>) =>
  [...names].sort((a, b) => text.indexOf(`<bdi>${a}</bdi>`) - text.indexOf(`<bdi>${b}</bdi>`))

layer(TestApp.shared, { excludeTestServices: true })("the order of environments", (it) => {
  it.effect("is that of their making, until somebody moves one; later ones come last", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const session = (yield* World.session(team.owner)).text
      const project = yield* TestApp.post(`/teams/${team.id}/projects`, { session, json: { name: "Shop" } })
      const projectId = project.json.id
      const path = `/projects/${projectId}/environments` as const
      const list = Effect.map(TestApp.get(path, { session }), ({ json }) => slugs(json.items))
      assert.deepStrictEqual(yield* list, ["development", "staging", "production"])
      const items = (yield* TestApp.get(path, { session })).json.items
      const idOf = (slug: string) => items.find((item) => item.slug === slug)?.id ?? ""
      const move = (slug: string, position: number) =>
        TestApp.request("PATCH", `/environments/${idOf(slug)}`, { session, json: { position } })

      assert.strictEqual((yield* move("production", 1)).status, 200)
      assert.deepStrictEqual(yield* list, ["production", "development", "staging"])
      assert.strictEqual((yield* move("production", 2)).status, 200)
      assert.deepStrictEqual(yield* list, ["development", "production", "staging"])
      assert.strictEqual((yield* move("development", 100)).status, 200)
      yield* TestApp.post(path, { session, json: { slug: "preview" } })
      yield* TestApp.post(path, { session, json: { slug: "another" } })
      const order = ["production", "staging", "development", "preview", "another"]
      assert.deepStrictEqual(yield* list, order)
      for (const position of [0, 101, 1.5]) {
        assert.deepStrictEqual(TestApp.refusalOf(yield* move("staging", position)), [
          400,
          "VALIDATION_FAILED",
          "position"
        ])
      }

      // The same for a token, on the page of the project and in its settings.
      const token = yield* World.token({ team })
      assert.deepStrictEqual(slugs((yield* TestApp.get(path, { bearer: token.text })).json.items), order)
      const names = ["Development", "Staging", "Production", "preview", "another"]
      const page = (yield* TestApp.get(`/app/projects/${projectId}`, { session })).text
      const sorted = ["Production", "Staging", "Development", "preview", "another"]
      assert.deepStrictEqual(headings(page, names), sorted)

      // Without script: a form for each of two directions.
      const settings = `/app/projects/${projectId}/settings` as const
      const form = (session: string, slug: string, position: string) =>
        TestApp.post(`${settings}/environments/${idOf(slug)}/move`, {
          session,
          headers: { "content-type": "application/x-www-form-urlencoded" },
          body: new URLSearchParams({ position }).toString()
        })
      assert.include((yield* TestApp.get(settings, { session })).text, "Move Staging up")
      const moved = yield* form(session, "staging", "1")
      assert.deepStrictEqual([moved.status, moved.headers.get("location")], [303, `${settings}?done=environment-moved`])
      assert.deepStrictEqual((yield* list).slice(0, 2), ["staging", "production"])

      const viewer = yield* World.person()
      yield* World.join(team, viewer, "viewer")
      const theirs = (yield* World.session(viewer)).text
      assert.strictEqual((yield* form(theirs, "production", "1")).status, 403)
      assert.notInclude((yield* TestApp.get(settings, { session: theirs })).text, "Move Staging")
      const audit = yield* TestApp.get(`/teams/${team.id}/audit?action=environment.update&environment=staging`, {
        session
      })
      assert.strictEqual(audit.json.items.length, 1)
    })
  )

  it.effect("is whole after moves at once", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const session = (yield* World.session(team.owner)).text
      const project = yield* TestApp.post(`/teams/${team.id}/projects`, { session, json: { name: "Shop" } })
      const path = `/projects/${project.json.id}/environments` as const
      const { items } = (yield* TestApp.get(path, { session })).json
      const moves = items.flatMap(({ id }) => [1, 2, 3].map((position) => ({ id, position })))
      const answers = yield* Effect.forEach(
        moves,
        ({ id, position }) => TestApp.request("PATCH", `/environments/${id}`, { session, json: { position } }),
        { concurrency: 9 }
      )
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [200])
      const after = slugs((yield* TestApp.get(path, { session })).json.items)
      assert.sameMembers([...after], ["development", "staging", "production"])
    })
  )
})
