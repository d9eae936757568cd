/**
 * The picture of the README: people, tokens and backups that have a secret, by version, in the dashboard of the released
 * program. `AMPOULE_RECORD_PICTURE=1` draws it anew into docs/who-has-a-value.png.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { chromium } from "playwright-core"
import * as Browser from "#test/dashboard/Browser.ts"
import { parsed } from "#test/support/Json.ts"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Reader from "./Reader.ts"

const file = "docs/who-has-a-value.png"
const Secrets = parsed(Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, key: Schema.String })) }))

describe("the picture of the README", () => {
  it.scopedLive.skipIf(!PostgresServer.available)(
    "shows who has which version of a secret",
    () =>
      Effect.gen(function* () {
        const { ada, bob, ci, environments, must, names, projectId, server } = yield* Reader.reader({
          operator: true,
          people: ["Grace"]
        })
        const { url } = server
        const query = `projectId=${projectId}&environment=production`
        const read = (cookie: string) => Reader.ask(url, cookie, "GET", `/secrets/value?${query}&key=STRIPE_KEY`)
        const ofCi = must("ampoule run --env production --credential env -- true", { AMPOULE_API_TOKEN: ci })
        const write = (value: string) => must(`printf ${value} | ampoule secrets set STRIPE_KEY --env production`)
        for (const { id, slug } of environments) {
          if (slug === "production") yield* Reader.ask(url, ada, "PATCH", `/environments/${id}`, { readers: "team" })
        }
        yield* read(bob)
        yield* ofCi
        yield* must("ampoule backup keygen ../identity > ../recipient")
        yield* must(`ampoule backup ../nightly.backup --recipient "$(cat ../recipient)"`)
        yield* write("sk_live_made_up_2")
        yield* read(names.get("Grace") ?? "")
        yield* ofCi
        yield* write("sk_live_made_up_3")
        yield* ofCi
        const list = yield* Reader.ask(url, ada, "GET", `/secrets?${query}`)
        const secret = Secrets(list.text).items.find(({ key }) => key === "STRIPE_KEY")
        assert.isDefined(secret)

        const browser = yield* Effect.acquireRelease(
          Effect.promise(() => chromium.launch({ executablePath: Browser.executable, args: ["--no-sandbox"] })),
          (browser) => Effect.promise(() => browser.close())
        )
        const { holders, text } = yield* Effect.promise(async () => {
          const context = await browser.newContext({ viewport: { width: 1200, height: 760 } })
          const [name = "", value = ""] = ada.split("=")
          await context.addCookies([{ name, value, url }])
          const page = await context.newPage()
          await page.goto(`${url}/app/projects/${projectId}/env/production/secrets/${secret.id}/exposure`)
          // The ledger follows the trail within a minute.
          const holders = ["bob@example.com", "grace@example.com", "ci", "backup", "v3"]
          for (let tries = 0; tries < 120; tries++) {
            await page.reload()
            const text = await page.innerText("main")
            if (holders.every((holder) => text.includes(holder))) break
            await new Promise((resolve) => setTimeout(resolve, 1_000))
          }
          if (process.env["AMPOULE_RECORD_PICTURE"] !== undefined) await page.screenshot({ path: file })
          return { holders, text: await page.innerText("main") }
        })
        for (const holder of holders) assert.include(text, holder)
      }),
    300_000
  )
})
