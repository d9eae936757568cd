/** Rules that pages keep, asked over HTTP: what a role may, how far a list goes, when to come back. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "#schema/Caller.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import * as Rows from "#src/database/Rows.ts"
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

layer(TestApp.shared, { excludeTestServices: true, timeout: "60 seconds" })("pages", (it) => {
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

  it.effect("keep what a member writes where changes wait, and show names to who decides", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const member = yield* World.session(yield* World.member(project.team, "member"))
      const json = { changes: "proposed" }
      yield* TestApp.patch(`/environments/${project.production.id}`, { session: owner.text, json })
      const production = place(project, "production")
      const added = yield* send(`${production}/add`, member, { key: "ADDED", value: "hidden text" })
      assert.strictEqual(added.status, 303)
      assert.strictEqual(added.headers.get("location"), `${production}/access?done=change-waits`)
      const page = yield* TestApp.get(`${production}/access?done=change-waits`, { session: owner.text })
      assert.include(page.text, "Nothing is written yet")
      assert.include(page.text, "<code>ADDED</code>")
      assert.notInclude(page.text, "hidden text")
      const id = /access\/changes\/([0-9a-f-]{36})\/approve/.exec(page.text)?.[1] ?? assert.fail(page.text)
      const own = yield* TestApp.get(`${production}/access`, { session: member.text })
      assert.include(own.text, `/access/changes/${id}/withdraw`)
      assert.notInclude(own.text, `/access/changes/${id}/approve`)
      assert.strictEqual((yield* send(`${production}/access/changes/${id}/approve`, member, {})).status, 403)
      const change = `${production}/access/changes/${id}` as const
      assert.strictEqual((yield* send(`${change}/reveal`, member, {})).status, 403)
      const revealed = yield* send(`${change}/reveal`, owner, {})
      assert.strictEqual(revealed.status, 200)
      assert.include(revealed.text, "hidden text")
      const digest = /name="digest" value="([\w-]{43})"/.exec(revealed.text)?.[1] ?? assert.fail(revealed.text)
      const other = `${digest.slice(0, -1)}${digest.endsWith("A") ? "E" : "A"}`
      const refused = yield* send(`${change}/approve`, owner, { digest: other })
      assert.strictEqual(refused.status, 409)
      assert.include(refused.text, "This is not the change that you saw")
      assert.strictEqual((yield* send(`${change}/approve`, owner, { digest })).status, 303)
      assert.include((yield* TestApp.get(production, { session: owner.text })).text, "ADDED")
      const again = yield* send(`${production}/access/changes/${id}/approve`, owner, {})
      assert.strictEqual(again.status, 409)
    })
  )

  it.effect("show a large environment page by page, and find a key on any of them", () =>
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
      const html = (yield* page("?q=key_0299")).text
      assert.strictEqual(rows(html), 1)
      assert.include(html, "KEY_0299")
      assert.include((yield* page("?q=nothing")).text, "No key matches")
      assert.strictEqual((yield* page("?page=99")).status, 200)
    })
  )

  it.effect("show the progress of an approved login to its approver alone", () =>
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
        [`scope.${team.id}`]: "identity:read",
        everywhere: "yes"
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

  it.effect("say when to come back after too many tries", () =>
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
        yield* send(`${development}/add`, owner, { key: "bad-key", value: typed }),
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

  it.effect("refuse a token, a rule, a webhook and a login for which nothing was chosen", () =>
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
        ["webhooks/new", { name: "hook", url: "https://example.com/" }, "Choose events, or choose all events."]
      ] as const) {
        const refused = yield* send(`${here}/${path}`, owner, fields)
        assert.strictEqual(refused.status, 400, path)
        assert.include(refused.text, sentence)
      }
      const everything = { ...token, allProjects: "yes", allEnvironments: "yes" }
      assert.include((yield* send(`${here}/tokens/new`, owner, everything)).text, "is shown only once")
      const { json: device } = yield* TestApp.post("/auth/cli/device", {})
      const login = { code: String(device.userCode), team: team.id, [`scope.${team.id}`]: "identity:read" }
      const refused = yield* send("/app/device/approve", owner, login)
      assert.strictEqual(refused.status, 400)
      assert.include(refused.text, "Choose projects or environments, or choose everything.")
    })
  )

  it.effect("say how many versions a smaller plan ends, and end none before the team's name is typed", () =>
    Effect.gen(function* () {
      const team = yield* World.team({ plan: "team", name: "Analytical Engines" })
      const project = yield* World.project({ team })
      const owner = yield* World.session(team.owner)
      const admin = yield* World.session(yield* World.member(team, "admin"))
      const caller = yield* Rooms.callerOf(owner)
      for (const value of ["one", "two", "three"])
        yield* Rooms.write(caller, project, "development", { A: value, B: "b" })
      const settings = `/app/teams/${team.id}/settings` as const
      const page = yield* TestApp.get(settings, { session: owner.text })
      assert.include(page.text, "2 earlier versions")
      assert.include(page.text, "1 secret")
      const asAdmin = yield* TestApp.get(settings, { session: admin.text })
      assert.include(asAdmin.text, "Only an owner can change the plan.")
      const versions = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        return yield* Rows.count(sql`
          SELECT count(*) AS n FROM secret_versions v JOIN secrets s ON s.id = v.secret_id
          JOIN environments e ON e.id = s.environment_id WHERE e.team_id = ${team.id}`)
      })
      const smaller = { plan: "developer" }
      for (const confirm of [undefined, "analytical engines", "yes"]) {
        const answer = yield* send(`${settings}/plan`, owner, confirm === undefined ? smaller : { ...smaller, confirm })
        assert.strictEqual(answer.status, 400)
        assert.include(answer.text, "Type Analytical Engines to confirm.")
      }
      assert.strictEqual((yield* send(settings, owner, { name: "Analytical Engines", plan: "developer" })).status, 303)
      assert.strictEqual((yield* send(`${settings}/plan`, admin, smaller)).status, 403)
      assert.strictEqual(yield* versions, 4)
      const confirmed = { ...smaller, confirm: " Analytical Engines " }
      assert.strictEqual((yield* send(`${settings}/plan`, owner, confirmed)).status, 303)
      assert.strictEqual(yield* versions, 2)
      assert.strictEqual((yield* send(`${settings}/plan`, owner, { plan: "team" })).status, 303, "nothing ends")
    })
  )

  it.effect("say what a project and an environment hold, and delete neither before its name is typed", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const elsewhere = yield* World.project({ team: project.team })
      const owner = yield* World.session(project.team.owner)
      yield* Rooms.write(yield* Rooms.callerOf(owner), project, "staging", { A: "1", B: "2" })
      yield* World.token({ team: project.team, environments: [project.staging] })
      const settings = `/app/projects/${project.id}/settings` as const
      const staging = `${settings}/environments/${project.staging.id}/delete` as const
      const page = (yield* TestApp.get(settings, { session: owner.text })).text
      assert.include(page, "<strong>2 secrets</strong>")
      assert.include(page, "<strong>1 API token</strong>")
      const exists = (slug: string) =>
        Effect.map(TestApp.get(place(project, slug), { session: owner.text }), ({ status }) => status === 200)
      assert.strictEqual((yield* send(staging, owner, {})).status, 400)
      assert.strictEqual((yield* send(staging, owner, { confirm: "production" })).status, 400)
      const foreign = staging.replace(project.id, elsewhere.id)
      assert.strictEqual((yield* send(foreign, owner, { confirm: "staging" })).status, 404)
      assert.isTrue(yield* exists("staging"))
      assert.strictEqual((yield* send(staging, owner, { confirm: "staging" })).status, 303)
      assert.isFalse(yield* exists("staging"))
      const refused = yield* send(`${settings}/delete`, owner, { confirm: "yes" })
      assert.strictEqual(refused.status, 400)
      assert.include(refused.text, `Type ${project.slug} to confirm.`)
      assert.isTrue(yield* exists("development"))
      assert.strictEqual((yield* send(`${settings}/delete`, owner, { confirm: project.slug })).status, 303)
      assert.isFalse(yield* exists("development"))
    })
  )

  it.effect("say in the list of webhooks which of them fail", () =>
    Effect.gen(function* () {
      const rooms = yield* Rooms.furnished
      const badges = (page: { readonly text: string }) =>
        [...page.text.matchAll(/badge-\w+">(on|off|failing)</g)].map(([, state]) => state)
      assert.deepStrictEqual(badges(yield* TestApp.get(rooms.pages["webhooks"], { session: rooms.session.text })), [
        "off",
        "failing"
      ])
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE webhook_deliveries SET state = 'delivered' WHERE event = 'token.created'`
      assert.deepStrictEqual(badges(yield* TestApp.get(rooms.pages["webhooks"], { session: rooms.session.text })), [
        "off",
        "on"
      ])
    })
  )

  it.effect("leave compressed where a GET asks for one, never where a form is answered, with a value perhaps", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      yield* Rooms.write(yield* Rooms.callerOf(owner), project, "development", { A: "1" })
      const development = place(project, "development")
      const encoding = (path: string, accepts: string) =>
        Effect.map(
          TestApp.get(path, { session: owner.text, headers: { "accept-encoding": accepts } }),
          ({ headers, text }) => {
            assert.match(text, /^<!doctype html>|^\/\*/)
            return headers.get("content-encoding")
          }
        )
      assert.strictEqual(yield* encoding(development, "gzip, br"), "gzip")
      assert.strictEqual(yield* encoding(development, "br, gzip;q=0.5"), "gzip")
      for (const none of ["br", "gzip;q=0", "identity", "x-gzip-like"]) {
        assert.isNull(yield* encoding(development, none), none)
      }
      const style = /href="(\/app\/assets\/[^"]+\.css)"/.exec((yield* TestApp.get("/app/sign-in")).text)?.[1] ?? ""
      assert.strictEqual(yield* encoding(style, "gzip"), "gzip")
      const revealed = yield* TestApp.post(`${development}/reveal`, {
        session: owner.text,
        headers: {
          "accept-encoding": "gzip",
          "content-type": "application/x-www-form-urlencoded",
          origin: TestApp.baseUrl
        },
        body: "key=A"
      })
      assert.strictEqual(revealed.status, 200)
      assert.isNull(revealed.headers.get("content-encoding"))
    })
  )

  it.effect("show an earlier version to readers of values alone, recorded", () =>
    Effect.gen(function* () {
      const project = yield* World.project({ team: yield* World.team({ plan: "team" }) })
      const owner = yield* World.session(project.team.owner)
      const viewer = yield* World.session(yield* World.member(project.team, "viewer"))
      const caller = yield* Rooms.callerOf(owner)
      for (const value of ["first text", "second text", "third text"]) {
        yield* Rooms.write(caller, project, "development", { KEY: value })
      }
      const list = (yield* TestApp.get(place(project, "development"), { session: owner.text })).text
      const secret = /\/app\/projects\/[^"]+\/secrets\/[\w-]+/.exec(list)?.[0] ?? assert.fail("no secret")
      const page = yield* TestApp.get(`${secret}/versions/1`, { session: owner.text })
      assert.strictEqual(page.status, 200)
      assert.notMatch(page.text, /first text|third text/)
      const html = (yield* send(`${secret}/versions/1/reveal`, owner, {})).text
      assert.match(html, /first text[^]*third text/)
      assert.notInclude(html, "second text")
      const refused = yield* send(`${secret}/versions/1/reveal`, viewer, {})
      assert.strictEqual(refused.status, 403)
      assert.notMatch(refused.text, /first text|third text/)
      for (const none of ["3", "4", "0", "x"]) {
        assert.include([400, 404], (yield* TestApp.get(`${secret}/versions/${none}`, { session: owner.text })).status)
      }
      const trail = yield* Effect.flatMap(AuditTrail, (trail) =>
        trail.list(project.team.id, { action: "secret.read" })
      ).pipe(Effect.provideService(CurrentCaller, caller))
      assert.deepStrictEqual(trail.items.map(({ keys, outcome, versions }) => [keys, versions, outcome]).reverse(), [
        [["KEY"], [1], "allowed"],
        [["KEY"], [3], "allowed"],
        [[], undefined, "denied"]
      ])
    })
  )

  it.effect("tag ticked keys where the person may, all or none, and find them by it", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const member = yield* World.session(yield* World.member(project.team, "member"))
      const viewer = yield* World.session(yield* World.member(project.team, "viewer"))
      const caller = yield* Rooms.callerOf(owner)
      yield* Rooms.write(caller, project, "development", { A_KEY: "1", B_KEY: "2" })
      yield* Rooms.write(caller, project, "production", { A_KEY: "1" })
      const here = `/app/projects/${project.id}` as const
      const tag = (who: { readonly text: string }, fields: Readonly<Record<string, string>>) =>
        send(`${here}/tag-keys`, who, { key: "A_KEY", tag: "Billing", op: "add", ...fields })
      const tagsAt = (slug: string) =>
        Effect.map(
          TestApp.get(`/secrets?projectId=${project.id}&environment=${slug}`, { session: owner.text }),
          ({ json }) => json.items.map((item: { key: string; tags: ReadonlyArray<string> }) => [item.key, ...item.tags])
        )
      // A member writes what is not protected, a viewer nothing.
      assert.strictEqual((yield* tag(viewer, {})).status, 403)
      assert.strictEqual((yield* tag(member, {})).status, 303)
      assert.deepStrictEqual(yield* tagsAt("development"), [["A_KEY", "billing"], ["B_KEY"]])
      assert.deepStrictEqual(yield* tagsAt("production"), [["A_KEY"]])
      assert.strictEqual((yield* tag(owner, {})).status, 303)
      assert.deepStrictEqual(yield* tagsAt("production"), [["A_KEY", "billing"]])

      const matrix = (search: string) =>
        Effect.map(TestApp.get(`${here}${search}`, { session: owner.text }), ({ text }) => text)
      assert.include(yield* matrix(""), `href="${here}?q=%23billing">billing</a>`)
      for (const path of [`${here}?q=%23bil`, `${place(project, "development")}?q=%23bil`] as const) {
        const { text } = yield* TestApp.get(path, { session: owner.text })
        assert.match(text, /<span class="key">A_KEY|>A_<wbr/)
        assert.notMatch(text, /<span class="key">B_KEY|>B_<wbr/)
      }
      for (let i = 1; i < 10; i++) yield* tag(owner, { tag: `t${i}` })
      const full = yield* tag(owner, { tag: "one-more" })
      assert.strictEqual(full.status, 400)
      assert.include(full.text, "A_KEY has 10 tags already")
      const wrong = yield* tag(owner, { tag: "no spaces" })
      assert.include(wrong.text, "Must be a tag")
      assert.include(wrong.text, `value="no spaces"`)
      assert.strictEqual((yield* tag(owner, { op: "remove" })).status, 303)
      assert.notInclude(yield* matrix(""), "%23billing")
    })
  )

  it.effect("tell the trail in words, with a choice of people, and let a filter go one by one", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const admin = yield* World.member(project.team, "admin")
      yield* Rooms.write(yield* Rooms.callerOf(owner), project, "development", { API_KEY: "1" })
      const audit = `/app/teams/${project.team.id}/audit` as const
      const list = (search: string) =>
        Effect.map(TestApp.get(`${audit}${search}`, { session: owner.text }), ({ text }) => text)
      const all = yield* list("")
      assert.include(all, `<span title="secret.create">added a secret</span>`)
      assert.include(all, `href="${audit}?key=API_KEY"`)
      assert.include(all, `href="${place(project, "development")}"`)
      assert.include(all, `<option value="${admin.id}"`)
      assert.notInclude(all, "remove this filter")
      const filtered = yield* list(`?action=secret.create&key=API_KEY`)
      assert.match(filtered, new RegExp(`href="${audit}\\?action=secret.create"><bdi>API_KEY</bdi>`))
      assert.match(filtered, new RegExp(`href="${audit}\\?key=API_KEY"><bdi>added a secret</bdi>`))
      const page = yield* TestApp.get(place(project, "development"), { session: owner.text })
      const secret = /\/app\/projects\/[^"]+\/secrets\/[\w-]+/.exec(page.text)?.[0] ?? assert.fail("no secret")
      assert.include((yield* TestApp.get(secret, { session: owner.text })).text, "Who read and changed it")
    })
  )

  it.effect("keep text that looks like a reference text, and say what a paste refers to and what it cannot hold", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const development = place(project, "development")
      const text = "B=1\nTEXT='x${B}y'\nREFERS=x${B}y\nPORT=${PORT:-3000}\n"
      const preview = (yield* send(`${development}/paste`, owner, { text, step: "preview" })).text
      for (const said of ["refers to B", "text, although it looks like a reference", "PORT (line 4"]) {
        assert.include(preview, said)
      }
      assert.notInclude(preview, "3000")
      const saved = yield* send(`${development}/paste`, owner, { text, step: "apply" })
      assert.include(saved.headers.get("location") ?? "", "about=4.0.0")
      const query = `projectId=${project.id}&environment=development`
      const { json } = yield* TestApp.get(`/secrets/inject?${query}`, { session: owner.text })
      assert.deepStrictEqual(json.values, { B: "1", TEXT: "x${B}y", REFERS: "x1y", PORT: "${PORT:-3000}" })
      const refused = (yield* send(`${development}/paste`, owner, { text: "A=${NOPE}", step: "preview" })).text
      assert.include(refused, "A refers to NOPE")
      assert.notInclude(refused, "--literal")
      assert.notInclude(refused, "Save 1 secret")
    })
  )

  it.effect("import a file of 150 lines in one transaction, whatever its format, and say what became of it", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const development = place(project, "development")
      const entries = Array.from(
        { length: 150 },
        (_, i) => [`KEY_${i}`, i === 149 ? "typed-${KEY_0}" : `v${i}`] as const
      )
      const env = entries.map(([key, value]) => `${key}=${value}`).join("\n")
      const preview = yield* send(`${development}/paste`, owner, { text: env, step: "preview" })
      assert.include(preview.text, "Save 150 secrets")
      const saved = yield* send(`${development}/paste`, owner, { text: env, step: "apply" })
      assert.include(saved.headers.get("location") ?? "", "about=150.0.0")
      const json = JSON.stringify({ ...Object.fromEntries(entries), KEY_1: "other", NEW: "x" })
      const again = yield* send(`${development}/paste`, owner, { text: json, step: "apply" })
      const next = again.headers.get("location") ?? ""
      assert.include((yield* TestApp.get(next, { session: owner.text })).text, "1 added, 1 changed, 149 unchanged.")
      const broken = yield* send(`${development}/paste`, owner, { text: `NOT_SAVED=1\nB=\${MISSING}`, step: "apply" })
      assert.strictEqual(broken.status, 400)
      assert.include(broken.text, "MISSING")
      assert.notInclude((yield* TestApp.get(development, { session: owner.text })).text, "NOT_SAVED")
      const many = Array.from({ length: 501 }, (_, i) => `K${i}=v`).join("\n")
      assert.include((yield* send(`${development}/paste`, owner, { text: many, step: "preview" })).text, "at most 500")
      assert.strictEqual((yield* send(`${development}/paste`, owner, { text: many, step: "apply" })).status, 400)
    })
  )

  it.effect("compare page by page, with both values of a row at once, and copy without showing a value", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const viewer = yield* World.session(yield* World.member(project.team, "viewer"))
      const caller = yield* Rooms.callerOf(owner)
      const keys = Array.from({ length: 260 }, (_, i) => `KEY_${String(i).padStart(4, "0")}`)
      for (let i = 0; i < 260; i += 100) {
        const some = keys.slice(i, i + 100)
        yield* Rooms.write(
          caller,
          project,
          "development",
          Object.fromEntries(some.map((key) => [key, `left of ${key}`]))
        )
        yield* Rooms.write(caller, project, "staging", Object.fromEntries(some.map((key) => [key, `right of ${key}`])))
      }
      yield* Rooms.write(caller, project, "development", { SAME: "equal", ONLY_LEFT: "carried along" })
      yield* Rooms.write(caller, project, "staging", { SAME: "equal" })
      const compare = `/app/projects/${project.id}/compare` as const
      const between = "from=development&to=staging"
      const page = (search: string) => TestApp.get(`${compare}?${between}${search}`, { session: owner.text })
      const compared = (text: string) => text.match(/<tr data-filter-row/g)?.length ?? 0
      const first = (yield* page("")).text
      assert.strictEqual(compared(first), 250)
      assert.include(first, "261 of 262 keys differ")
      assert.strictEqual(compared((yield* page("&page=2")).text), 11)
      assert.strictEqual(compared((yield* page("&q=key_0259")).text), 1)
      assert.notInclude((yield* page("&q=SAME")).text, ">equal<")
      assert.include((yield* page("&q=SAME&show=all")).text, ">equal<")
      assert.strictEqual((yield* TestApp.get(compare, { session: owner.text })).status, 200)

      const both = (yield* send(`${compare}/reveal?${between}`, owner, { key: "KEY_0007" })).text
      assert.match(both, /left of KEY_0007[^]*right of KEY_0007/)
      assert.notMatch(both, /(?:left|right) of KEY_0008/)
      const refused = yield* send(`${compare}/reveal?${between}`, viewer, { key: "KEY_0007" })
      assert.strictEqual(refused.status, 403)

      const only = { key: "ONLY_LEFT", from: "development", to: "staging" }
      assert.strictEqual((yield* send(`${compare}/copy?${between}`, viewer, only)).status, 403)
      const copied = yield* send(`${compare}/copy?${between}`, owner, only)
      assert.strictEqual(copied.status, 303)
      const after = (yield* TestApp.get(copied.headers.get("location") ?? "", { session: owner.text })).text
      assert.include(after, "The secret is copied.")
      assert.notInclude(after, "ONLY_LEFT")
      assert.notInclude(after, "carried along")
    })
  )

  it.effect("offer to take a deletion back, and only one that takes nothing else with it", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const owner = yield* World.session(project.team.owner)
      const development = place(project, "development")
      yield* Rooms.write(yield* Rooms.callerOf(owner), project, "development", { A: "1", B: "2", USES_B: "${B}" })
      const page = yield* TestApp.get(development, { session: owner.text })
      const secrets = [...page.text.matchAll(/href="(\/app\/projects\/[^"]+\/secrets\/[\w-]+)"/g)].map(
        ([, path]) => path
      )
      const deleted = Effect.fnUntraced(function* (path: string | undefined, fields = {}) {
        const answer = yield* send(`${path}/delete`, owner, fields)
        return (yield* TestApp.get(answer.headers.get("location") ?? "", { session: owner.text })).text
      })
      const forged = yield* TestApp.get(`${development}?done=secret-deleted&about=../../x`, { session: owner.text })
      assert.notInclude(forged.text, "Undo")
      const undo = /action="([^"]+\/restore)"[^]*?Undo/.exec(yield* deleted(secrets[0]))?.[1] ?? assert.fail("no undo")
      assert.strictEqual((yield* send(undo, owner, {})).status, 303)
      assert.include((yield* TestApp.get(development, { session: owner.text })).text, secrets[0] ?? "none")
      const gone = yield* deleted(secrets[1], { disposition: "flatten" })
      assert.include(gone, "The secret is deleted.")
      assert.notInclude(gone, "Undo")
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
