/** Forms of all pages: each works for its person, its address and its environment alone. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as http from "node:http"
import * as OldRows from "#src/rows/OldRows.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import * as Rooms from "./Rooms.ts"

const form = /<form((?:\s+[^\s=>"]+(?:="[^"]*")?)*)\s*>([\s\S]*?)<\/form>/g
const sealField = /<input type="hidden" name="seal" value="([^"]+)"\/>/g

interface SentForm {
  readonly action: string
  readonly seals: ReadonlyArray<string>
}

const formsOf = (html: string, path: string): ReadonlyArray<SentForm> =>
  [...html.matchAll(form)]
    .filter(([, attributes]) => attributes.includes('method="post"'))
    .map(([, attributes, inside]) => ({
      action: (/\saction="([^"]*)"/.exec(attributes)?.[1] ?? path).replaceAll("&amp;", "&"),
      seals: [...inside.matchAll(sealField)].map(([, seal]) => seal)
    }))

const send = (session: string, action: string, fields: ReadonlyArray<readonly [string, string]>) =>
  TestApp.post(action, {
    session,
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      "sec-fetch-mode": "navigate",
      "sec-fetch-site": "same-origin"
    },
    body: new URLSearchParams(fields.map(([name, value]) => [name, value])).toString()
  })

/** As a browser that follows a form without a seal; `fetch` does not say that it navigates. */
const navigate = (base: string, session: string, action: string) =>
  Effect.async<string>((resume) => {
    const headers = {
      cookie: `ampoule_session=${session}`,
      "content-type": "application/x-www-form-urlencoded",
      "sec-fetch-mode": "navigate",
      "sec-fetch-site": "same-origin"
    }
    const request = http.request(new URL(action, base), { method: "POST", headers }, (response) => {
      const parts: Array<Buffer> = []
      response.on("data", (part: Buffer) => parts.push(part))
      response.on("end", () => resume(Effect.succeed(Buffer.concat(parts).toString())))
    })
    request.end("key=ONE")
  })

const refusal = "belongs to another page, place or person"

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("the form of a page", (it) => {
  it.scoped("carries a seal on every page, and works at no other address and for no other person", () =>
    Effect.gen(function* () {
      const rooms = yield* Rooms.furnished
      const forms = new Map<string, string>()
      for (const path of [...Object.values(rooms.pages), ...Object.values(rooms.openPages)]) {
        const page = yield* TestApp.get(path, { session: rooms.session.text })
        for (const { action, seals } of formsOf(page.text, path)) {
          assert.isAtLeast(seals.length, 1, `${path}: ${action}`)
          forms.set(action, seals[0])
        }
      }
      assert.isAbove(forms.size, 30)
      const { baseUrl: base } = yield* Browser.Site
      const other = yield* World.person()
      const actions = [...forms.keys()]
      for (const [i, action] of actions.entries()) {
        // One each: fifty requests a second are all that a session has.
        const own = (yield* World.session(rooms.owner)).text
        const elsewhere = forms.get(actions[(i + 1) % actions.length]) ?? ""
        const moved = yield* send(own, action, [["seal", elsewhere]])
        assert.strictEqual(moved.status, 400, action)
        assert.include(moved.text, refusal, action)
        assert.include(yield* navigate(base, own, action), refusal, action)
        const user = (forms.get(action) ?? "").split(".")[0]
        if (user === "" || !action.startsWith("/app/account")) continue
        const theirs = yield* send((yield* World.session(other)).text, action, [["seal", forms.get(action) ?? ""]])
        assert.include(theirs.text, refusal, action)
      }
      const theme = yield* send(rooms.session.text, "/app/theme", [
        ["seal", forms.get("/app/theme") ?? ""],
        ["theme", "dark"]
      ])
      assert.strictEqual(theme.status, 303, theme.text)
    })
  )

  it.scoped("of an environment that was deleted stores nothing in the next one of that name", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: session } = yield* World.session(project.team.owner)
      const here = `/app/projects/${project.id}/env/staging`
      yield* TestApp.post("/secrets", {
        session,
        json: { projectId: project.id, environment: "staging", key: "ONE", value: "v" }
      })
      const page = yield* TestApp.get(`${here}?panel=add`, { session })
      const add = formsOf(page.text, here).find(({ action }) => action === `${here}/add`) ?? assert.fail("no form")
      const fields: ReadonlyArray<readonly [string, string]> = [
        ["seal", add.seals[0]],
        ["key", "TWO"],
        ["value", "typed"]
      ]
      assert.strictEqual((yield* send(session, add.action, fields)).status, 303)
      yield* TestApp.del(`/environments/${project.staging.id}`, { session })
      const again = yield* TestApp.post(`/projects/${project.id}/environments`, { session, json: { slug: "staging" } })
      assert.strictEqual(again.status, 201, again.text)
      const late = yield* send(session, add.action, fields)
      assert.strictEqual(late.status, 400)
      assert.include(late.text, refusal)
      const list = yield* TestApp.get(`/secrets?projectId=${project.id}&environment=staging`, { session })
      assert.deepStrictEqual(list.json.items, [])
    })
  )

  it.scoped("of a comparison copies nothing from or to an environment that another one has replaced", () =>
    Effect.gen(function* () {
      const project = yield* World.project()
      const { text: session } = yield* World.session(project.team.owner)
      const at = { projectId: project.id, environment: "development" }
      for (const key of ["ONE", "TWO"]) {
        yield* TestApp.post("/secrets", { session, json: { ...at, key, value: "v" } })
      }
      const here = `/app/projects/${project.id}/compare`
      const page = yield* TestApp.get(`${here}?from=development&to=staging`, { session })
      const forms = formsOf(page.text, here).filter(({ action }) => action.startsWith(`${here}/copy`))
      assert.strictEqual(forms.length, 2)
      const fieldsOf = (key: string, to = "staging") =>
        [
          ["seal", forms[0].seals[0]],
          ["key", key],
          ["from", "development"],
          ["to", to]
        ] as const
      const elsewhere = yield* send(session, forms[0].action, fieldsOf("ONE", "production"))
      assert.strictEqual(elsewhere.status, 400)
      assert.strictEqual((yield* send(session, forms[0].action, fieldsOf("ONE"))).status, 303)
      yield* TestApp.del(`/environments/${project.staging.id}`, { session })
      yield* TestApp.post(`/projects/${project.id}/environments`, { session, json: { slug: "staging" } })
      const late = yield* send(session, forms[0].action, fieldsOf("TWO"))
      assert.strictEqual(late.status, 400)
      assert.include(late.text, refusal)
      const list = yield* TestApp.get(`/secrets?projectId=${project.id}&environment=staging`, { session })
      assert.deepStrictEqual(list.json.items, [])
    })
  )
})

/** The database of a rolling upgrade: no server of this release has sealed its rows. */
const notSealed = Layer.effectDiscard(
  Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.orDie(sql`DELETE FROM sealed_tables`))
).pipe(Layer.merge(Layer.succeed(OldRows.UnsealedRows, "later")), Layer.provideMerge(TestApp.backends))

layer(Browser.layerWith(undefined, "127.0.0.1", {}, notSealed), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("a form of a server of the release before", (it) => {
  it.scoped("is taken without a seal while such servers run, and refused with a wrong one", () =>
    Effect.gen(function* () {
      const { baseUrl: base } = yield* Browser.Site
      const { text: session } = yield* World.session(yield* World.person())
      assert.notInclude(yield* navigate(base, session, "/app/theme"), refusal)
      assert.notInclude(yield* navigate(base, session, "/app/sign-in"), refusal)
      const wrong = yield* send(session, "/app/theme", [
        ["seal", "a..b"],
        ["theme", "dark"]
      ])
      assert.include(wrong.text, refusal)
      const sql = yield* SqlClient.SqlClient
      yield* OldRows.sealTables({ sql, macs: yield* (yield* RowSeal).ready }, "once")
      assert.include(yield* navigate(base, session, "/app/sign-in"), refusal)
    })
  )
})
