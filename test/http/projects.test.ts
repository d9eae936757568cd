import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const codeOf = TestApp.refusalOf
const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
interface List<A> {
  readonly items: ReadonlyArray<A>
}
const ids = ({ json }: TestApp.Answer<List<{ readonly id: string }>>) => json.items.map(({ id }) => id)
const slugs = ({ json }: TestApp.Answer<List<{ readonly slug: string }>>) => json.items.map(({ slug }) => slug)

const setUp = Effect.gen(function* () {
  const team = yield* World.team()
  const session = yield* sessionOf(team.owner)
  return {
    team,
    session,
    create: (json: unknown) => TestApp.post(`/teams/${team.id}/projects`, { session, json }),
    projects: TestApp.get("/projects", { session }),
    environments: (projectId: string) => TestApp.get(`/projects/${projectId}/environments`, { session })
  }
})

layer(TestApp.shared, { excludeTestServices: true })("what is listed", (it) => {
  it.effect("to a session: the projects of all the person's teams", () =>
    Effect.gen(function* () {
      const one = yield* World.project()
      const two = yield* World.project()
      yield* World.join(two.team, one.team.owner, "viewer")
      yield* World.project()
      const session = yield* sessionOf(one.team.owner)
      const answer = yield* TestApp.get("/projects", { session })
      assert.deepStrictEqual(answer.json.items[0], {
        id: one.id,
        teamId: one.team.id,
        name: "Demo",
        slug: one.slug,
        visibility: "team",
        createdAt: answer.json.items[0].createdAt,
        updatedAt: answer.json.items[0].updatedAt
      })
      assert.deepStrictEqual(ids(answer), [one.id, two.id])
      const { json } = yield* TestApp.get(`/projects/${two.id}/environments`, { session })
      assert.deepStrictEqual(json, {
        projectId: two.id,
        items: [two.development, two.staging, two.production].map((e, i) => ({
          id: e.id,
          slug: e.slug,
          name: e.slug,
          protected: e.protected,
          readers: "team",
          approvers: [],
          changes: "direct",
          approvals: 1,
          createdAt: json.items[i].createdAt
        }))
      })
    })
  )

  it.effect("to an API token: what it is narrowed to, and nothing of another team", () =>
    Effect.gen(function* () {
      const one = yield* World.project()
      const { team } = one
      const two = yield* World.project({ team })
      const list = (bearer: string) => TestApp.get("/projects", { bearer })
      const environments = (bearer: string, projectId: string) =>
        TestApp.get(`/projects/${projectId}/environments`, { bearer })

      const all = yield* World.token({ team })
      assert.sameMembers([...ids(yield* list(all.text))], [one.id, two.id])
      const narrow = yield* World.token({ team, projects: [two] })
      assert.deepStrictEqual(ids(yield* list(narrow.text)), [two.id])
      assert.deepStrictEqual(codeOf(yield* environments(narrow.text, one.id)), [404, "PROJECT_NOT_FOUND", undefined])
      const single = yield* World.token({ team, environments: [one.staging] })
      assert.deepStrictEqual(
        ids(yield* list(single.text)),
        [one.id],
        "projects without a reached environment are hidden"
      )
      assert.deepStrictEqual(slugs(yield* environments(single.text, one.id)), ["staging"])
      assert.deepStrictEqual(codeOf(yield* environments(single.text, two.id)), [404, "PROJECT_NOT_FOUND", undefined])
      const both = yield* World.token({ team, projects: [two], environments: [one.staging] })
      assert.deepStrictEqual(ids(yield* list(both.text)), [])
      const foreign = yield* World.token({ team: yield* World.team() })
      const absent = yield* environments(foreign.text, "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e")
      const hidden = yield* environments(foreign.text, one.id)
      assert.strictEqual(hidden.text, absent.text, "not visible is the same answer as not there")
    })
  )

  it.effect("to a CLI grant: the teams that hold projects:read; refused when none does", () =>
    Effect.gen(function* () {
      const one = yield* World.project()
      const two = yield* World.project()
      const person = one.team.owner
      yield* World.join(two.team, person, "viewer")
      const grant = (scopesTwo: ReadonlyArray<"projects:read" | "identity:read">) =>
        World.grant({
          person,
          teams: [
            { team: one.team, scopes: ["identity:read"] },
            { team: two.team, scopes: scopesTwo }
          ]
        })
      const some = yield* grant(["projects:read"])
      assert.deepStrictEqual(ids(yield* TestApp.get("/projects", { bearer: some.text })), [two.id])
      const lacking = yield* TestApp.get(`/projects/${one.id}/environments`, { bearer: some.text })
      assert.deepStrictEqual(codeOf(lacking), [403, "SCOPE_MISSING", undefined])
      const without = yield* grant(["identity:read"])
      const refused = yield* TestApp.get("/projects", { bearer: without.text })
      assert.deepStrictEqual(
        [...codeOf(refused), refused.error.requiredScope],
        [403, "SCOPE_MISSING", undefined, "projects:read"]
      )

      const restricted = yield* World.grant({
        person,
        teams: [{ team: two.team, scopes: ["projects:read"] }],
        environments: [two.production]
      })
      assert.deepStrictEqual(
        slugs(yield* TestApp.get(`/projects/${two.id}/environments`, { bearer: restricted.text })),
        ["production"]
      )
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("projects", (it) => {
  it.effect("are made with a slug from the name and three environments, production protected", () =>
    Effect.gen(function* () {
      const { create, environments, projects, team } = yield* setUp
      const { json, status } = yield* create({ name: "My Shop" })
      assert.strictEqual(status, 201)
      assert.deepInclude(json, { teamId: team.id, name: "My Shop", slug: "my-shop" })
      assert.deepStrictEqual((yield* projects).json.items, [json])
      const { items } = (yield* environments(json.id)).json
      assert.deepStrictEqual(
        items.map((e: { slug: string; name: string; protected: boolean }) => [e.slug, e.name, e.protected]),
        [
          ["development", "Development", false],
          ["staging", "Staging", false],
          ["production", "Production", true]
        ]
      )
    })
  )

  it.effect("are made with the slug and the environments that are asked for", () =>
    Effect.gen(function* () {
      const { create, environments } = yield* setUp
      const { json } = yield* create({
        name: "日本語",
        slug: "jp",
        environments: [{ slug: "dev" }, { slug: "live", name: "Live", protected: true }]
      })
      assert.strictEqual(json.slug, "jp")
      const { items } = (yield* environments(json.id)).json
      assert.deepStrictEqual(
        items.map((e: { slug: string; name: string; protected: boolean }) => [e.slug, e.name, e.protected]),
        [
          ["dev", "dev", false],
          ["live", "Live", true]
        ]
      )
      const empty = yield* create({ name: "Empty", environments: [] })
      assert.deepStrictEqual(slugs(yield* environments(empty.json.id)), [])
      assert.match((yield* create({ name: "日本語" })).json.slug, /^project-[0-9a-f]{6}$/)
    })
  )

  it.effect("have slugs of their own among the living of a team", () =>
    Effect.gen(function* () {
      const { create, session } = yield* setUp
      const other = yield* setUp
      const { json } = yield* create({ name: "Shop" })
      assert.deepStrictEqual(codeOf(yield* create({ name: "SHOP!" })), [409, "NAME_TAKEN", "name"])
      assert.deepStrictEqual(codeOf(yield* create({ name: "Other", slug: "shop" })), [409, "NAME_TAKEN", "slug"])
      assert.strictEqual((yield* other.create({ name: "Shop" })).status, 201)
      const second = (yield* create({ name: "Second" })).json
      const change = (id: string, body: unknown) => TestApp.patch(`/projects/${id}`, { session, json: body })
      assert.deepStrictEqual(codeOf(yield* change(second.id, { slug: "shop" })), [409, "NAME_TAKEN", "slug"])
      assert.deepInclude((yield* change(second.id, { name: "Shop", slug: "second" })).json, {
        name: "Shop",
        slug: "second"
      })
      assert.deepStrictEqual((yield* TestApp.del(`/projects/${json.id}`, { session })).json, { deleted: true })
      assert.strictEqual((yield* change(second.id, { slug: "shop" })).json.slug, "shop")

      const answers = yield* Effect.all(
        Array.from({ length: 5 }, () => create({ name: "Race" })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(answers.map((a) => a.status).sort(), [201, 409, 409, 409, 409])
    })
  )

  it.effect("are not made of a body with a mistake in it", () =>
    Effect.gen(function* () {
      const { create } = yield* setUp
      for (const [json, field] of [
        [{}, "name"],
        [{ name: "x".repeat(101) }, "name"],
        [{ name: "x", slug: "Bad Slug" }, "slug"],
        [{ name: "x", environments: [{ slug: "a" }, { slug: "b" }, { slug: "a" }] }, "environments.2.slug"],
        [{ name: "x", environments: [{ slug: "a", colour: "red" }] }, "environments.0.colour"],
        [{ name: "x", teamId: "y" }, "teamId"]
      ] as const) {
        assert.deepStrictEqual(codeOf(yield* create(json)), [400, "VALIDATION_FAILED", field], JSON.stringify(json))
      }
    })
  )

  it.effect("deleted take everything in them out of reach, for every credential", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const session = yield* sessionOf(team.owner)
      const token = yield* World.token({ team, projects: [project] })
      const where = `projectId=${project.id}&environment=development`
      assert.strictEqual((yield* TestApp.get(`/secrets?${where}`, { bearer: token.text })).status, 200)
      yield* TestApp.del(`/projects/${project.id}`, { session })
      for (const credential of [{ bearer: token.text }, { session }]) {
        assert.deepStrictEqual((yield* TestApp.get("/projects", credential)).json, { items: [] })
        for (const path of [`/secrets?${where}`, `/projects/${project.id}/environments`]) {
          assert.deepStrictEqual(codeOf(yield* TestApp.get(path, credential)), [404, "PROJECT_NOT_FOUND", undefined])
        }
      }
      const environment = yield* TestApp.patch(`/environments/${project.development.id}`, {
        session,
        json: { name: "x" }
      })
      assert.deepStrictEqual(codeOf(environment), [404, "ENVIRONMENT_NOT_FOUND", undefined])
      assert.deepStrictEqual(codeOf(yield* TestApp.del(`/projects/${project.id}`, { session })), [
        404,
        "PROJECT_NOT_FOUND",
        undefined
      ])
      const trail = yield* TestApp.get(`/teams/${team.id}/audit?projectId=${project.id}`, { session })
      assert.sameMembers(
        trail.json.items.map(
          (entry: { action: string; environment?: string }) => `${entry.action} ${entry.environment ?? ""}`
        ),
        [
          "project.delete ",
          "environment.delete development",
          "environment.delete staging",
          "environment.delete production"
        ]
      )
    })
  )

  it.effect("and environments are managed by owners and admins, of their own teams", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const attempts = (credential: TestApp.Asked) => [
        TestApp.post(`/teams/${team.id}/projects`, { ...credential, json: { name: "New" } }),
        TestApp.patch(`/projects/${project.id}`, { ...credential, json: { name: "New" } }),
        TestApp.post(`/projects/${project.id}/environments`, { ...credential, json: { slug: "new" } }),
        TestApp.patch(`/environments/${project.development.id}`, { ...credential, json: { protected: true } }),
        TestApp.del(`/environments/${project.development.id}`, credential),
        TestApp.del(`/projects/${project.id}`, credential)
      ]
      for (const role of ["member", "viewer"] as const) {
        const session = yield* sessionOf(yield* World.member(team, role))
        for (const attempt of attempts({ session }))
          assert.deepStrictEqual(codeOf(yield* attempt), [403, "FORBIDDEN", undefined])
      }
      const stranger = yield* sessionOf((yield* World.team()).owner)
      const notFound = ["TEAM", "PROJECT", "PROJECT", "ENVIRONMENT", "ENVIRONMENT", "PROJECT"]
      for (const [i, attempt] of attempts({ session: stranger }).entries()) {
        assert.deepStrictEqual(codeOf(yield* attempt), [404, `${notFound[i]}_NOT_FOUND`, undefined])
      }
      const token = yield* World.token({ team })
      for (const attempt of attempts({ bearer: token.text })) {
        assert.deepStrictEqual(codeOf(yield* attempt), [403, "CREDENTIAL_KIND_NOT_ACCEPTED", undefined])
      }
      const admin = yield* sessionOf(yield* World.member(team, "admin"))
      assert.deepStrictEqual(
        (yield* Effect.all(attempts({ session: admin }))).map((answer) => answer.status),
        [201, 200, 201, 200, 200, 200]
      )
    })
  )
})

layer(TestApp.shared, { excludeTestServices: true })("environments", (it) => {
  it.effect("are added, changed and deleted; a slug is free again after that", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const session = yield* sessionOf(project.team.owner)
      const create = (json: unknown) => TestApp.post(`/projects/${project.id}/environments`, { session, json })
      const { json, status } = yield* create({ slug: "preview" })
      assert.deepStrictEqual([status, json.slug, json.name, json.protected], [201, "preview", "preview", false])
      assert.deepStrictEqual(codeOf(yield* create({ slug: "preview" })), [409, "NAME_TAKEN", "slug"])
      const change = (body: unknown) => TestApp.patch(`/environments/${json.id}`, { session, json: body })
      assert.deepStrictEqual((yield* change({ name: "Preview" })).json, { ...json, name: "Preview" })
      assert.deepStrictEqual((yield* change({ protected: true })).json, { ...json, name: "Preview", protected: true })
      assert.deepStrictEqual(codeOf(yield* change({})), [400, "VALIDATION_FAILED", "name"])
      assert.deepStrictEqual(codeOf(yield* change({ slug: "other" })), [400, "VALIDATION_FAILED", "slug"])
      assert.deepStrictEqual((yield* TestApp.del(`/environments/${json.id}`, { session })).json, { deleted: true })
      assert.deepStrictEqual(codeOf(yield* change({ name: "x" })), [404, "ENVIRONMENT_NOT_FOUND", undefined])
      const again = yield* create({ slug: "preview" })
      assert.strictEqual(again.status, 201)
      assert.notStrictEqual(again.json.id, json.id)
    })
  )

  it.effect("are at most 100 of a project, and projects 1,000 of a team, also when requests come at once", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { team } = project
      const session = yield* sessionOf(team.owner)
      yield* World.fillerEnvironments(project, 95)
      yield* World.fillerProjects(team, 997)
      for (const [path, left] of [
        [`/projects/${project.id}/environments`, 2],
        [`/teams/${team.id}/projects`, 2]
      ] as const) {
        const answers = yield* Effect.all(
          Array.from({ length: 5 }, (_, i) =>
            TestApp.post(path, {
              session,
              json: path.startsWith("/teams") ? { name: `New ${i}` } : { slug: `new-${i}` }
            })
          ),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(
          answers.filter((answer) => answer.status === 201),
          left,
          path
        )
        for (const { error } of answers.filter((answer) => answer.status !== 201))
          assert.strictEqual(error.code, "PLAN_LIMIT_REACHED")
      }
    })
  )
})
