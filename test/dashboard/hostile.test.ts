/** Texts of strangers, requests of other sites, and what a page may load: the dashboard as an attacker sees it. */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import * as Rooms from "./Rooms.ts"

const attack = `"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script>\${7*7}{{7*7}}`
/** Names are refused above 100 characters; two shapes, for text and for attributes. */
const name = attack.slice(0, 95)

const formActions = (html: string): ReadonlyArray<string> => [
  ...[...html.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, action]) => action),
  ...[...html.matchAll(/formaction="([^"]+)"/g)].map(([, action]) => action)
]

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("a hostile world", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "runs no text of a tenant: every name is text, and the policy has nothing to refuse",
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const rooms = yield* Rooms.furnished
        // Past the checks of names as well: rows of an earlier version may hold anything.
        yield* sql`UPDATE teams SET name = ${name} WHERE id = ${rooms.team.id}`
        yield* sql`UPDATE projects SET name = ${name} WHERE team_id = ${rooms.team.id}`
        yield* sql`UPDATE environments SET name = ${name} WHERE team_id = ${rooms.team.id}`
        yield* sql`UPDATE users SET name = ${name}, email = ${`${name}${rooms.owner.id}@x`} WHERE id = ${rooms.owner.id}`
        yield* sql`UPDATE api_tokens SET name = ${name}, last_used_at = now(), last_used_ip = ${name}, last_used_user_agent = ${name}
          WHERE team_id = ${rooms.team.id}`
        yield* sql`UPDATE cli_grants SET hostname = ${name}, os = ${name} WHERE user_id = ${rooms.owner.id}`
        yield* sql`UPDATE invitations SET email = ${name} || id::text WHERE team_id = ${rooms.team.id}`
        yield* sql`UPDATE machine_rules SET name = ${name}, issuer = ${name}, audience = ${name},
          claims = ${JSON.stringify({ [name]: name })}::jsonb WHERE team_id = ${rooms.team.id}`
        yield* Seals.after(
          "webhooks",
          sql`UPDATE webhooks SET name = ${name}, url = ${name}, enabled = false WHERE team_id = ${rooms.team.id}`
        )
        yield* sql`UPDATE webhook_deliveries SET event = ${name}
          WHERE webhook_id IN (SELECT id FROM webhooks WHERE team_id = ${rooms.team.id})`
        yield* Rooms.write(rooms.caller, rooms.project, "development", { STRIPE_SECRET_KEY: attack })
        const device = yield* Effect.flatMap(DeviceGrants, (grants) =>
          grants.start({ host: { hostname: name, os: name } })
        )
        const said = encodeURIComponent(attack)
        const pages = {
          ...rooms.pages,
          ...rooms.openPages,
          hostile: `/device?code=${device.userCode}`,
          filter: `${rooms.development}?q=${said}`,
          notice: `/app?done=${said}&q=${said}`,
          trail: `/app/teams/${rooms.team.id}/audit?environment=${said}&key=${said}&actor=${said}&since=${said}&cursor=${said}`,
          code: `/device?code=${said}`,
          next: `/app/sign-in?next=${said}`,
          invite: `/invite?code=${said}`,
          compare2: `${rooms.here}/compare?from=${said}&to=${said}`,
          missing: `/app/${said}`
        }
        const context = yield* Browser.signedIn(rooms.session)
        yield* Browser.steps(async () => {
          const page = await context.newPage()
          const complaints: Array<string> = []
          page.on("console", (message) => {
            if (/Content.Security.Policy/i.test(message.text())) complaints.push(message.text())
          })
          page.on("dialog", (dialog) => {
            complaints.push("a dialog")
            void dialog.dismiss()
          })
          for (const [where, path] of Object.entries(pages)) {
            await page.goto(path)
            assert.strictEqual(
              await page.evaluate(() => (window as unknown as { readonly pwned?: number }).pwned),
              undefined,
              where
            )
            assert.strictEqual(await page.locator("img, script:not([src])").count(), 0, where)
          }
          await page.goto(rooms.development)
          await page
            .getByRole("row")
            .filter({ hasText: "STRIPE_SECRET_KEY" })
            .getByRole("button", { name: /^Reveal/ })
            .click()
          await page.getByText(attack.slice(0, 20)).last().waitFor()
          assert.strictEqual(await page.locator("img, script:not([src])").count(), 0)
          assert.deepStrictEqual(complaints, [])
        })
      }),
    120_000
  )

  it.scoped("shows no page of a team to an owner whom another team's own issuer signed in", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rooms = yield* Rooms.furnished
      const other = yield* World.team()
      yield* World.join(other, rooms.owner, "owner")
      const session = yield* World.session(rooms.owner)
      yield* Seals.after(
        "sessions",
        sql`UPDATE sessions SET issuer = 'own', only_team = ${other.id} WHERE id = ${session.id}`
      )
      const own = [rooms.team.id, rooms.project.id]
      let hidden = 0
      for (const [where, path] of Object.entries(rooms.pages)) {
        const { status, text } = yield* TestApp.get(path, { session: session.text })
        if (own.some((id) => path.includes(id))) {
          hidden++
          assert.strictEqual(status, 404, where)
        } else {
          assert.isFalse(
            own.some((id) => text.includes(id)),
            where
          )
        }
      }
      assert.isAbove(hidden, 20)
    })
  )

  it.scoped.skipIf(!Browser.available)(
    "is asked by another site in vain: each form of each page refuses it, and nothing changes",
    () =>
      Effect.gen(function* () {
        const rooms = yield* Rooms.furnished
        const actions = new Set<string>(["/app/setup", "/app/invite", "/app/reset"])
        for (const path of [...Object.values(rooms.pages), ...Object.values(rooms.openPages)]) {
          const page = yield* TestApp.get(path, { session: rooms.session.text })
          for (const action of formActions(page.text)) actions.add(action)
        }
        assert.isAbove(actions.size, 30)
        const form = { "content-type": "application/x-www-form-urlencoded" }
        const foreign: ReadonlyArray<Record<string, string>> = [
          { origin: "https://evil.example.com" },
          { origin: "null" },
          { "sec-fetch-site": "cross-site" },
          { "sec-fetch-site": "same-site" }
        ]
        let turn = 0
        for (const action of actions) {
          // One each: fifty requests a second are all that a session has.
          const session = (yield* World.session(rooms.owner)).text
          const headers = { ...form, ...foreign[turn++ % foreign.length] }
          const answer = yield* TestApp.post(action, { session, headers, body: "key=DB_PASSWORD" })
          assert.strictEqual(answer.status, 403, action)
          assert.include(answer.text, "came from another site", action)
          assert.notInclude(answer.text, "correct horse")
        }
        const after = yield* TestApp.get(rooms.development, { session: rooms.session.text })
        assert.strictEqual(after.status, 200)
        assert.include(after.text, "STRIPE_SECRET_KEY")

        // A page of another port is another origin of the same site: the cookie goes along, the check has to hold.
        const evil = yield* Effect.acquireRelease(
          Effect.async<{ readonly port: number; readonly close: () => void }>((resume) => {
            const target = `${new URL(rooms.development, rooms.baseUrl).href}/add`
            const server = createServer((_request, response) => {
              response.setHeader("content-type", "text/html")
              response.end(
                `<form method="post" action="${target}"><input name="key" value="PLANTED"><input name="value" value="x"></form><script>document.forms[0].submit()</script>`
              )
            })
            server.listen(0, "127.0.0.1", () =>
              resume(Effect.succeed({ port: (server.address() as AddressInfo).port, close: () => void server.close() }))
            )
          }),
          ({ close }) => Effect.sync(close)
        )
        const context = yield* Browser.signedIn(rooms.session)
        yield* Browser.steps(async () => {
          const page = await context.newPage()
          await page.goto(`http://127.0.0.1:${evil.port}/`)
          await page.getByText("This request came from another site").waitFor()
          await page.goto(rooms.development)
          assert.strictEqual(await page.getByText("PLANTED").count(), 0)
        })
      }),
    60_000
  )

  it.effect("lets a page load three files of ours and nothing else, and no cache keeps it", () =>
    Effect.gen(function* () {
      const rooms = yield* Rooms.furnished
      const files = new Set<string>()
      for (const path of [...Object.values(rooms.pages), ...Object.values(rooms.openPages), "/app/nowhere"]) {
        const page = yield* TestApp.get(path, { session: rooms.session.text })
        const policy = page.headers.get("content-security-policy") ?? ""
        for (const part of [
          "default-src 'none'",
          "script-src 'self'",
          "style-src 'self'",
          "frame-ancestors 'none'",
          "base-uri 'none'",
          "form-action 'self'"
        ]) {
          assert.include(policy, part, path)
        }
        assert.notInclude(policy, "unsafe")
        assert.strictEqual(page.headers.get("cache-control"), "no-store", path)
        assert.strictEqual(page.headers.get("cross-origin-opener-policy"), "same-origin", path)
        assert.strictEqual(page.headers.get("x-content-type-options"), "nosniff", path)
        assert.strictEqual(page.headers.get("referrer-policy"), "same-origin", path)
        assert.notMatch(page.text, /<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)|javascript:/, path)
        for (const [, href] of page.text.matchAll(/(?:src|rel="stylesheet" href)="([^"]+)"/g)) files.add(href)
        assert.notMatch(page.text, /(?:src|href|action)="(?:https?:)?\/\//, path)
        for (const value of ["correct horse", "db.internal", "sk_test_2"]) assert.notInclude(page.text, value, path)
      }
      assert.strictEqual(files.size, 3)
      for (const file of files) {
        const asset = yield* TestApp.get(file)
        assert.strictEqual(asset.status, 200, file)
        assert.strictEqual(asset.headers.get("cache-control"), "public, max-age=31536000, immutable")
        assert.match(file, /\.[0-9a-f]{12}\.(css|js)$/)
      }
    })
  )

  it.effect("shows a visitor without a session no page but the doors, and leads back after signing in", () =>
    Effect.gen(function* () {
      const rooms = yield* Rooms.furnished
      for (const path of Object.values(rooms.pages)) {
        const page = yield* TestApp.get(path)
        assert.strictEqual(page.status, 303, path)
        assert.match(page.headers.get("location") ?? "", /^\/app\/sign-in/, path)
        assert.strictEqual(page.text, "")
      }
      const device = yield* TestApp.get("/device?code=BCDF-GHJK")
      assert.strictEqual((yield* TestApp.get("/app/nowhere")).status, 303)
      assert.strictEqual(device.headers.get("location"), "/app/sign-in?next=%2Fdevice%3Fcode%3DBCDF-GHJK")
    })
  )

  it.effect("does not tell another team's things from things that are not there", () =>
    Effect.gen(function* () {
      const rooms = yield* Rooms.furnished
      const stranger = yield* World.session(yield* World.member(yield* World.team(), "owner"))
      const nothing = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
      const paths = [
        rooms.development,
        `${rooms.here}/settings`,
        `/app/teams/${rooms.team.id}/members`,
        `/app/teams/${rooms.team.id}/audit.csv`
      ]
      for (const path of paths) {
        const theirs = yield* TestApp.get(path, { session: stranger.text })
        const missing = yield* TestApp.get(path.replace(rooms.project.id, nothing).replace(rooms.team.id, nothing), {
          session: stranger.text
        })
        assert.strictEqual(theirs.status, 404, path)
        assert.strictEqual(theirs.text, missing.text, path)
      }
    })
  )
})
