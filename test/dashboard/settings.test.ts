/** Trust rules and webhooks as people make them, with a CI and a receiver that are really there. */
import { assert, describe, it as plain, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import { createHmac } from "node:crypto"
import type { IncomingHttpHeaders } from "node:http"
import { RuleIdOut } from "#schema/Ids.ts"
import * as Form from "#src/dashboard/frame/Form.ts"
import * as Words from "#src/dashboard/credentials/RuleWords.ts"
import * as LocalIssuer from "#test/machines/LocalIssuer.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Browser from "./Browser.ts"
import { inspect } from "./Look.ts"
import * as Rooms from "./Rooms.ts"

const { button, row } = Browser
const patience = 120_000

layer(Browser.layerWith(), { excludeTestServices: true, timeout: "60 seconds" })("a team's settings", (it) => {
  it.scoped.skipIf(!Browser.available)(
    "let a job in by a rule that says whom it lets in before it is made, and out when the rule is deleted",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        const issuer = yield* LocalIssuer.make()
        const id = yield* Browser.steps(async () => {
          await page.goto(rooms.pages["team-settings"])
          await page.getByRole("link", { name: "Access", exact: true }).click()
          await page.getByRole("link", { name: "CI identities" }).click()
          await page.getByRole("link", { name: "New CI identity" }).click()
          await page.getByRole("textbox", { name: "Name" }).fill("shop")
          await page.getByRole("textbox", { name: "Repository" }).fill("acme/shop")
          await page.getByRole("checkbox", { name: "All projects" }).check()
          await page.getByRole("checkbox", { name: "All environments" }).check()
          await button(page, "Preview the rule").click()
          await page.getByText("Jobs of GitHub Actions can get a token").waitFor()
          await page.getByText("Every branch is trusted").waitFor()
          await inspect(page, "used-rule-preview-1440-light", true)
          await page.getByRole("textbox", { name: "Branch or tag" }).fill("refs/heads/main")
          await button(page, "Preview the rule").click()
          await page.getByText("Every branch is trusted").waitFor({ state: "detached" })
          await page.getByRole("textbox", { name: "Repository" }).fill("acme*")
          await button(page, "Create the rule").click()
          await page.getByText("an asterisk must follow a slash or a colon").waitFor()
          assert.strictEqual(await page.getByRole("textbox", { name: "Name" }).inputValue(), "shop")

          await page.getByRole("link", { name: "Another issuer" }).click()
          await page.getByRole("textbox", { name: "Name" }).fill("shop of our own CI")
          await page.getByRole("textbox", { name: "Issuer" }).fill(issuer.url)
          await page.getByRole("textbox", { name: "Claims" }).fill("repository: acme/shop")
          await page.getByRole("checkbox", { name: "All projects" }).check()
          await button(page, "Create the rule").click()
          await page.getByText("Write one claim per line").waitFor()
          await page.getByRole("textbox", { name: "Claims" }).fill("repository = acme/shop\nref = refs/heads/*")
          await page.getByRole("checkbox", { name: "development" }).check()
          await button(page, "Create the rule").click()
          await page.getByText("The trust rule is created.").waitFor()
          return new URL(page.url()).pathname.split("/").at(-1) ?? ""
        })
        assert.include(yield* Browser.steps(() => page.locator("pre").first().textContent()), `-d audience=${id}`)

        const exchange = (claims: Record<string, unknown>) =>
          Effect.flatMap(issuer.sign({ aud: rooms.baseUrl, ...claims }), (jwt) =>
            TestApp.post("/auth/token-exchange", {
              json: {
                grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
                subject_token: jwt,
                subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
                audience: id
              }
            })
          )
        const got = yield* exchange({})
        assert.strictEqual(got.status, 200)
        assert.strictEqual((yield* exchange({ repository: "evil/shop" })).status, 400)
        const bearer = got.as(LocalIssuer.IssuedToken).access_token
        const inject = (environment: string) =>
          TestApp.get(`/secrets/inject?projectId=${rooms.project.id}&environment=${environment}`, { bearer })
        assert.strictEqual((yield* inject("development")).status, 200)
        assert.strictEqual((yield* inject("production")).status, 404)

        yield* Browser.steps(async () => {
          await page.goto(rooms.pages["rules"])
          await page.getByRole("link", { name: "shop of our own CI" }).click()
          await page.locator("summary", { hasText: "Delete" }).click()
          await button(page, "Delete the rule").click()
          await page.getByText("The trust rule is deleted").waitFor()
          assert.strictEqual(await page.getByRole("link", { name: "shop of our own CI" }).count(), 0)
        })
        assert.strictEqual((yield* inject("development")).status, 401)
        assert.strictEqual((yield* exchange({})).status, 400)
      }),
    patience
  )

  it.scoped.skipIf(!Browser.available)(
    "tell a receiver of changes, signed with the secret that was shown once, and say what became of it",
    () =>
      Effect.gen(function* () {
        const { page, rooms } = yield* Browser.entered()
        const deliveries: Array<{ readonly headers: IncomingHttpHeaders; readonly body: string }> = []
        const receiver = yield* LocalIssuer.serve((request, response) => {
          let body = ""
          request.on("data", (part) => (body += String(part)))
          request.on("end", () => {
            deliveries.push({ headers: request.headers, body })
            response.writeHead(204).end()
          })
        })
        const signedWith = (secret: string, { body, headers }: (typeof deliveries)[number]) => {
          const parts = String(headers["ampoule-signature"]).split(",")
          const t = parts.find((part) => part.startsWith("t="))?.slice(2)
          const expected = createHmac("sha256", secret).update(`${t}.${body}`).digest("hex")
          return parts.includes(`v1=${expected}`)
        }
        const shownSecret = async () => {
          await inspect(page, "used-webhook-once-1440-light", true)
          const secret = await page.getByLabel(/is shown only once/).inputValue()
          await page.getByRole("link", { name: "I have saved it" }).click()
          assert.notInclude(await page.content(), secret)
          return secret
        }
        /** Reloads until the page says so: deliveries are sent in the background. */
        const delivered = async (count: number) => {
          for (let i = 0; i < 100; i++) {
            if ((await page.getByRole("row").filter({ hasText: "answered 204" }).count()) >= count) return
            await page.waitForTimeout(200)
            await page.reload()
          }
          assert.fail(`${count} deliveries are not shown`)
        }
        const first = yield* Browser.steps(async () => {
          await page.goto(rooms.pages["webhooks"])
          await page.getByRole("link", { name: "New webhook" }).click()
          await page.getByRole("textbox", { name: "Name" }).fill("restart")
          await page.getByRole("textbox", { name: "Address" }).fill("ftp://example.com/")
          await button(page, "Create the webhook").click()
          await page.getByText("Choose events, or choose all events.").waitFor()
          await page.getByRole("checkbox", { name: "secret.created" }).check()
          await button(page, "Create the webhook").click()
          await page.getByText("must be a public https address").waitFor()
          await page.getByRole("textbox", { name: "Address" }).fill(receiver.url)
          await button(page, "Create the webhook").click()
          const secret = await shownSecret()
          await button(page, "Send a test event").click()
          await page.getByText("A test event is being sent").waitFor()
          await delivered(1)
          return secret
        })
        yield* Rooms.write(rooms.caller, rooms.project, "staging", { TOLD: "not-in-the-event" })
        yield* Browser.steps(() => delivered(2))
        assert.deepStrictEqual(
          deliveries.map(({ headers }) => headers["ampoule-event"]),
          ["webhook.test", "secret.created"]
        )
        for (const one of deliveries) assert.isTrue(signedWith(first, one))
        assert.notInclude(deliveries[1].body, "not-in-the-event")

        const second = yield* Browser.steps(async () => {
          await page.locator("summary", { hasText: "Rotate the secret" }).click()
          await button(page, "Create a new secret").click()
          const secret = await shownSecret()
          await page.getByRole("checkbox", { name: "secret.created" }).uncheck()
          await button(page, "Save").click()
          await page.locator(".error").waitFor()
          await page.getByRole("checkbox", { name: "token.created" }).check()
          await button(page, "Save").click()
          await page.getByText("The webhook is saved.").waitFor()
          await button(page, "Send a test event").click()
          await delivered(3)
          await button(page, "Switch off").click()
          await page.getByText("It gets no events.").waitFor()
          return secret
        })
        assert.notStrictEqual(second, first)
        for (const secret of [first, second]) assert.isTrue(signedWith(secret, deliveries[2]))
        yield* Rooms.write(rooms.caller, rooms.project, "staging", { NOT_TOLD: "x" })
        yield* Browser.steps(async () => {
          await button(page, "Switch on").click()
          await page.getByText("The webhook is on").waitFor()
          await page.locator("summary", { hasText: "Delete" }).click()
          await button(page, "Delete the webhook").click()
          await page.getByText("The webhook is deleted.").waitFor()
          assert.strictEqual(
            await row(page, "restart")
              .filter({ hasText: receiver.url.slice(7) })
              .count(),
            0
          )
        })
        assert.lengthOf(deliveries, 3)
      }),
    patience
  )

  it.effect("are an owner's and an admin's: others see neither pages nor tabs, and change nothing", () =>
    Effect.gen(function* () {
      const rooms = yield* Rooms.furnished
      const pages = ["rules", "rule", "rule-new", "webhooks", "webhook", "webhook-new"].map((name) => rooms.pages[name])
      const { rule, webhook } = rooms.pages
      const actions = [
        `${rooms.pages["rules"]}/new`,
        `${rule}/delete`,
        `${rooms.pages["webhooks"]}/new`,
        webhook,
        ...["enable", "disable", "rotate", "test", "delete"].map((verb) => `${webhook}/${verb}`)
      ]
      const send = (path: string, session: string) =>
        TestApp.post(path, {
          session,
          headers: { "content-type": "application/x-www-form-urlencoded", origin: rooms.baseUrl },
          body: "name=x"
        })
      for (const role of ["member", "viewer"] as const) {
        const { text: session } = yield* World.session(yield* World.member(rooms.team, role))
        for (const path of pages) assert.strictEqual((yield* TestApp.get(path, { session })).status, 403, path)
        for (const path of actions) {
          // Whatever the form lacks: the role comes first (order of checks, docs/contract/errors.md), and no secret is
          // shown.
          const { status, text } = yield* send(path, session)
          assert.strictEqual(status, 403, path)
          assert.notInclude(text, "is shown only once")
        }
        assert.notInclude((yield* TestApp.get(rooms.pages["team-settings"], { session })).text, "/access")
      }
      const admin = (yield* World.session(yield* World.member(rooms.team, "admin"))).text
      for (const path of pages) assert.strictEqual((yield* TestApp.get(path, { session: admin })).status, 200, path)
      const elsewhere = yield* World.team()
      const stranger = (yield* World.session(elsewhere.owner)).text
      for (const path of [...pages, ...actions]) {
        const answer = pages.includes(path) ? TestApp.get(path, { session: stranger }) : send(path, stranger)
        assert.strictEqual((yield* answer).status, 404, path)
      }
      // By way of a team of theirs, others' things are not there either.
      for (const path of [rule, webhook, `${rule}/delete`, `${webhook}/rotate`]) {
        const theirs = path.replace(rooms.team.id, elsewhere.id)
        const answer = pages.includes(path) ? TestApp.get(theirs, { session: stranger }) : send(theirs, stranger)
        assert.strictEqual((yield* answer).status, 404, theirs)
      }
    })
  )
})

describe("words of a trust rule", () => {
  const formOf = (entries: Readonly<Record<string, string>>) => new Form.Form(Object.entries(entries))

  plain("are read from fields and from further lines, each claim once", () => {
    assert.deepStrictEqual(
      Words.claimsOf(formOf({ repository: " acme/shop ", ref: "", claims: "actor = ada\r\n\r\n sub=a=b " }), "github"),
      { repository: "acme/shop", actor: "ada", sub: "a=b" }
    )
    assert.deepStrictEqual(Words.claimsOf(formOf({ project_path: "acme/shop", ref_protected: "yes" }), "gitlab"), {
      project_path: "acme/shop",
      ref_protected: "true"
    })
    assert.isUndefined(Words.claimsOf(formOf({ repository: "acme/shop", claims: "repository = evil/shop" }), "github"))
    assert.isUndefined(Words.claimsOf(formOf({ claims: "a = 1\na = 2" }), "other"))
    assert.isUndefined(Words.claimsOf(formOf({ claims: "no value here" }), "other"))
  })

  plain.prop(
    "are all there: no claim that is written gets lost, none is invented",
    [
      FastCheck.dictionary(
        FastCheck.stringMatching(/^[a-z][a-z_]{0,9}$/),
        FastCheck.stringMatching(/^[\w/:.*=-]{1,20}$/)
      )
    ],
    ([claims]) => {
      const text = Object.entries(claims).map(([name, value]) => `${name} = ${value}`)
      const read = Words.claimsOf(formOf({ claims: text.join("\r\n") }), "other")
      assert.deepStrictEqual({ ...read }, { ...claims })
      assert.deepStrictEqual(
        Words.conditions(read ?? {}).map(({ claim, value, verb }) => [claim, verb === "is" ? value : `${value}*`]),
        Object.entries(claims)
      )
    }
  )

  plain("warn of what their author may not have meant", () => {
    const warns = (issuer: string, claims: Record<string, string>, accessLevel = "read") =>
      Words.cautions({ issuer, claims, accessLevel }).join(" ")
    assert.strictEqual(warns(Words.githubIssuer, { repository: "acme/shop", ref: "refs/heads/main" }), "")
    assert.include(warns(Words.githubIssuer, { repository: "acme/shop" }), "Every branch")
    assert.include(warns(Words.githubIssuer, { repository: "acme/*", environment: "production" }), "Every repository")
    assert.include(warns(Words.githubIssuer, { repository_owner: "acme", environment: "x" }), "Every repository")
    assert.include(warns(Words.gitlabIssuer, { project_path: "acme/shop" }), "Every branch")
    assert.strictEqual(warns("https://git.example.com", { project_path: "acme/shop", ref_protected: "true" }), "")
    assert.include(warns("https://issuer.example.com", { sub: "x" }), "This rule trusts any JWT of this issuer")
    assert.include(
      warns(Words.githubIssuer, { repository: "acme/shop", ref: "refs/heads/main" }, "write"),
      "change and delete"
    )
  })

  plain.prop(
    "never carry text into an example that a shell or YAML reads as more than itself",
    [
      FastCheck.string(),
      FastCheck.string(),
      FastCheck.constantFrom(Words.githubIssuer, Words.gitlabIssuer, "https://a.example.com")
    ],
    ([audience, project, issuer]) => {
      const usual = { audience: "<audience of the rule>", project: "my-project" }
      const example = (texts: { readonly audience: string; readonly project: string }) =>
        Words.example(
          { id: RuleIdOut.make("01980a64-8f90-7192-a3b4-d5e6f7081920"), claims: {}, issuer, audience: texts.audience },
          { baseUrl: "https://ampoule.example.com", environment: "production", project: texts.project }
        )
      const safe = (text: string, otherwise: string) => (/[^\w.:/@%+-]|^$/.test(text) ? otherwise : text)
      assert.strictEqual(
        example({ audience, project }),
        example({ audience: safe(audience, usual.audience), project: safe(project, usual.project) })
      )
    }
  )
})
