/** Rules that pages keep, asked over HTTP: what a role may, how far a list goes, when to come back. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Rooms from "./Rooms.ts"

const send = (path: string, session: { readonly text: string }, fields: Readonly<Record<string, string>>) =>
  TestApp.post(path, {
    session: session.text,
    headers: { "content-type": "application/x-www-form-urlencoded", origin: TestApp.baseUrl },
    body: new URLSearchParams(fields).toString()
  })

const place = (project: World.Project, slug: string) => `/app/projects/${project.id}/env/${slug}` as const
const rows = (page: string) => page.match(/<tr data-secret/g)?.length ?? 0

layer(TestApp.layer, { excludeTestServices: true, timeout: "60 seconds" })("pages", (it) => {
  it.effect("keep the rules of the API for members, viewers and protected environments", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const member = yield* World.session(yield* World.member(project.team, "member"))
      const viewer = yield* World.session(yield* World.member(project.team, "viewer"))
      yield* Rooms.write(yield* Rooms.callerOf(owner), project, "production", { TOKEN: "hidden text" })
      const production = place(project, "production")
      const secret = { key: "ADDED", value: "x" }

      const refused = yield* send(`${production}/add`, member, secret)
      assert.strictEqual(refused.status, 403)
      assert.include(refused.text, "Your role does not allow this")
      assert.strictEqual((yield* send(`${place(project, "development")}/add`, member, secret)).status, 303)
      assert.strictEqual((yield* send(`${place(project, "development")}/add`, viewer, secret)).status, 403)
      const read = yield* send(`${production}/reveal`, member, { key: "TOKEN" })
      assert.include(read.text, "hidden text")
      const notRead = yield* send(`${production}/reveal`, viewer, { key: "TOKEN" })
      assert.strictEqual(notRead.status, 403)
      assert.notInclude(notRead.text, "hidden text")

      for (const path of ["tokens", "tokens/new", "audit", "audit.csv"]) {
        const page = yield* TestApp.get(`/app/teams/${project.team.id}/${path}`, { session: member.text })
        assert.strictEqual(page.status, 403, path)
      }
      for (const path of [`/app/projects/${project.id}/settings/delete`, `${production}/sealing/rotate`]) {
        assert.strictEqual((yield* send(path, member, {})).status, 403, path)
      }
    })
  )

  it.effect("show a large environment page by page, and find what stands on any of them", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const caller = yield* Rooms.callerOf(owner)
      for (let from = 0; from < 300; from += 100) {
        const entries = Array.from({ length: 100 }, (_, i) => [`KEY_${String(from + i).padStart(4, "0")}`, "x"])
        yield* Rooms.write(caller, project, "development", Object.fromEntries(entries))
      }
      const development = place(project, "development")
      const page = (search: string) => TestApp.get(`${development}${search}`, { session: owner.text })
      assert.strictEqual(rows((yield* page("")).text), 250)
      const second = (yield* page("?page=2")).text
      assert.strictEqual(rows(second), 50)
      assert.include(second, "251–300 of 300")
      const found = (yield* page("?q=key_0299")).text
      assert.strictEqual(rows(found), 1)
      assert.include(found, "KEY_0299")
      assert.include((yield* page("?q=nothing")).text, "No key matches")
      assert.strictEqual((yield* page("?page=99")).status, 200)
    })
  )

  it.effect("tell how far an approved login got: to whoever approved it, and to nobody else", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const owner = yield* World.session(team.owner)
      const other = yield* World.session(yield* World.member(team, "admin"))
      const { json: device } = yield* TestApp.post("/auth/cli/device", {})
      const code = { code: String(device.userCode) }
      const progress = (session: { readonly text: string }) =>
        Effect.map(
          TestApp.post("/app/device/progress", {
            session: session.text,
            headers: {
              accept: "application/json",
              "content-type": "application/x-www-form-urlencoded",
              origin: TestApp.baseUrl
            },
            body: new URLSearchParams(code).toString()
          }),
          (answer) => [
            answer.status,
            answer.status < 400 ? answer.as(Schema.Struct({ value: Schema.String })).value : answer.error.code
          ]
        )
      const nothing = [404, "GRANT_NOT_FOUND"]
      assert.deepStrictEqual(yield* progress(owner), nothing)
      const approved = yield* send("/app/device/approve", owner, {
        ...code,
        team: team.id,
        [`scope.${team.id}`]: "identity:read"
      })
      assert.include(approved.text, "Waiting for your terminal")
      assert.deepStrictEqual(yield* progress(owner), [200, "approved"])
      assert.deepStrictEqual(yield* progress(other), nothing)
      assert.notInclude(
        (yield* TestApp.get(`/device?code=${code.code}`, { session: other.text })).text,
        "Waiting for your terminal"
      )
      yield* TestApp.post("/auth/cli/device/token", { json: { deviceCode: device.deviceCode } })
      assert.deepStrictEqual(yield* progress(owner), [200, "consumed"])
      const page = yield* TestApp.get(`/device?code=${code.code}`, { session: owner.text })
      assert.include(page.text, "The command line is logged in")
    })
  )

  it.effect("say when to come back to whoever tries too often", () =>
    Effect.gen(function* () {
      const attempt = TestApp.post("/app/sign-in", {
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams({ email: "often@example.com", password: "wrong, and wrong again" }).toString()
      })
      let answer = yield* attempt
      for (let i = 0; i < 10; i++) answer = yield* attempt
      assert.strictEqual(answer.status, 429)
      assert.isAbove(Number(answer.headers.get("retry-after")), 0)
      assert.match(answer.text, /Try again in \d+ (?:seconds|minutes)/)
      assert.notInclude(answer.text, "wrong, and wrong again")
    })
  )

  it.effect("never send back what was typed as a value, a password or a pasted file", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const development = place(project, "development")
      const typed = "typed-and-not-repeated"
      const refused = [
        yield* send(`${development}/add`, owner, { key: "lower", value: typed }),
        yield* send(`${development}/add`, owner, { key: "OK", value: `\${${"MISSING"}}${typed}` }),
        yield* send(`${development}/add`, owner, { key: "OK", kind: typed, value: typed }),
        yield* send(`${development}/paste`, owner, { text: `A='${typed}`, step: "preview" }),
        yield* send(`${development}/paste`, owner, { text: `A=${typed}\nb-c=${typed}`, step: "preview" }),
        yield* send(`${development}/paste`, owner, { text: `A=${typed}\nA=${typed}`, step: "apply" }),
        yield* send("/app/account", owner, { currentPassword: typed, newPassword: `${typed}-2` })
      ]
      for (const answer of refused) assert.notInclude(answer.text, typed)
      for (const answer of refused.slice(0, 4)) assert.strictEqual(answer.status, 400)
    })
  )

  it.effect(
    "refuse a token, a rule and a webhook for which nothing was chosen, and a plan that ends versions unasked",
    () =>
      Effect.gen(function* () {
        const team = yield* World.team({ plan: "team" })
        const owner = yield* World.session(team.owner)
        const here = `/app/teams/${team.id}` as const
        const rule = {
          kind: "github",
          name: "deploys",
          repository: "acme/shop",
          step: "create",
          lifetimeSeconds: "900"
        }
        const token = { name: "deploy", accessLevel: "read", lifetime: "30d" }
        for (const [path, fields, sentence] of [
          ["tokens/new", token, "Choose projects, or choose all projects."],
          ["tokens/new", { ...token, allProjects: "yes" }, "Choose environments, or choose all environments."],
          ["ci/new", { ...rule, accessLevel: "read" }, "Choose projects, or choose all projects."],
          ["webhooks/new", { name: "hook", url: "https://example.com/" }, "Choose events, or choose all events."],
          ["settings", { name: "Team", plan: "developer" }, "confirm that all earlier versions are deleted"]
        ] as const) {
          const refused = yield* send(`${here}/${path}`, owner, fields)
          assert.strictEqual(refused.status, 400, path)
          assert.include(refused.text, sentence)
        }
        const everything = { ...token, allProjects: "yes", allEnvironments: "yes" }
        assert.include((yield* send(`${here}/tokens/new`, owner, everything)).text, "only time it is shown")
        const plan = { name: "Team", plan: "developer", deleteVersions: "yes" }
        assert.strictEqual((yield* send(`${here}/settings`, owner, plan)).status, 303)
      })
  )

  it.effect("name the keys that a text refers to and the environment does not have", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const refused = yield* send(`${place(project, "development")}/add`, owner, { key: "A", value: "${NOT_THERE}" })
      assert.strictEqual(refused.status, 400)
      assert.include(refused.text, "NOT_THERE")
    })
  )

  it.effect("ask once more before they save a secret whose name can run code, and never repeat its value", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const viewer = yield* World.session(yield* World.member(project.team, "viewer"))
      const development = place(project, "development")
      const typed = { key: "LD_PRELOAD", value: "/tmp/typed-and-not-repeated.so" }
      const asks = (answer: TestApp.Answer, key: string, sentence: string) => {
        assert.strictEqual(answer.status, 400)
        assert.include(answer.text, `<code>${key}</code> ${sentence}.`)
        assert.match(answer.text, new RegExp(`name="anyway" value="${key}"(?! checked)`))
        assert.include(answer.text, "Save it anyway")
        assert.notInclude(answer.text, typed.value)
      }
      assert.notInclude((yield* TestApp.get(`${development}?panel=add`, { session: owner.text })).text, "anyway")
      asks(yield* send(`${development}/add`, owner, typed), "LD_PRELOAD", "decides which libraries are loaded")
      const other = { ...typed, key: "BASH_ENV", anyway: "LD_PRELOAD" }
      asks(yield* send(`${development}/add`, owner, other), "BASH_ENV", "decides which programs a shell finds or runs")
      assert.strictEqual(rows((yield* TestApp.get(development, { session: owner.text })).text), 0)

      const refused = yield* send(`${development}/add`, owner, { ...typed, value: "${MISSING}", anyway: typed.key })
      assert.match(refused.text, /name="anyway" value="LD_PRELOAD" checked/)
      assert.strictEqual((yield* send(`${development}/add`, viewer, typed)).status, 403)
      assert.strictEqual((yield* send(`${development}/add`, owner, { ...typed, anyway: typed.key })).status, 303)
      assert.strictEqual(rows((yield* TestApp.get(development, { session: owner.text })).text), 1)
      assert.strictEqual((yield* send(`${development}/add`, owner, { key: "API_KEY", value: "x" })).status, 303)
    })
  )

  it.effect("mark the names that can run code in the preview of a pasted file", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const preview = (text: string) => send(`${place(project, "development")}/paste`, owner, { text, step: "preview" })
      const { status, text } = yield* preview("API_KEY=x\nNODE_OPTIONS=--require=/tmp/typed.js")
      assert.strictEqual(status, 200)
      assert.match(text, /<code>NODE_OPTIONS<\/code> <span class="badge[^"]*">dangerous name/)
      assert.strictEqual(text.split("dangerous name</span>").length, 2, "one mark")
      assert.include(text, "decides which code Node.js, Bun or Deno loads")
      assert.include(text, "Save 2 secrets")
      assert.notInclude(text, "/tmp/typed.js")
      assert.notInclude((yield* preview("API_KEY=x")).text, "dangerous name")
    })
  )

  it.effect("refuse a body that is too large, and one that is no form", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const large = yield* send(`${place(project, "development")}/add`, owner, {
        key: "K",
        value: "x".repeat(1_100_000)
      })
      assert.strictEqual(large.status, 413)
      assert.include(large.text, "too much at once")
      const json = yield* TestApp.post(`${place(project, "development")}/add`, {
        session: owner.text,
        json: { key: "K", value: "x" }
      })
      assert.strictEqual(json.status, 400)
    })
  )
})
