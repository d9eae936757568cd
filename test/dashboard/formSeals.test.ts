/** Forms of all pages: each works for its person, its address and its environment alone. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as http from "node:http"
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
})
