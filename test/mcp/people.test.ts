/**
 * A person's part in an agent's work: type a value, confirm a deletion. The agent sees neither page nor
 * value.
 */
import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client"
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { ElicitationCompleteNotificationSchema, UrlElicitationRequiredError } from "@modelcontextprotocol/sdk/types.js"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { allScopes } from "#schema/Scopes.ts"
import { Changes } from "#src/mcp/Changes.ts"
import { columnName, type authorizationTables } from "#src/rows/AuthorizationRows.ts"
import { auditEntry, parsed } from "#test/support/Json.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const typed = "p@ss ${NOT_A_TEMPLATE}\nsecond line"

const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const token = yield* World.token({ team: project.team, mcpScopes: allScopes, name: "Build agent" })
  const session = yield* World.session(project.team.owner)
  const place = { projectId: project.id, environment: "development" }
  const ask = (input: Record<string, unknown> = {}, capabilities: Record<string, unknown> = {}) =>
    Effect.map(
      Clients.raw(base, "POST", {
        bearer: token.text,
        ...Clients.modernCall("request_secret_value", { ...place, key: "STRIPE_KEY", ...input }, capabilities)
      }),
      (answer) => answer
    )
  return { base, project, token, place, ask, browser: new McpApp.Browser(session.text) }
})

const go = (browser: McpApp.Browser, url: string, form?: ReadonlyArray<readonly [string, string]>, origin?: string) =>
  Effect.promise(async () => {
    const response = await browser.go(url, form, origin)
    return { status: response.status, text: await response.text() }
  })

layer(McpApp.shared, { excludeTestServices: true })("a value that a person types", (it) => {
  it.effect("is asked for by address where the client opens none, and stored as typed", () =>
    Effect.gen(function* () {
      const { ask, base, browser, place, project } = yield* scene
      const request = yield* ask({ note: "To charge customers" })
      const { expiresAt = "", status, url = "" } = request.output("request_secret_value")
      assert.strictEqual(status, "needs_human")
      assert.match(url, new RegExp(`^${base}/app/provide/[0-9A-Za-z]{24}$`))
      assert.isAbove(Date.parse(expiresAt), Date.now() + 500_000)
      // The same question again is the same page.
      assert.strictEqual((yield* ask({ note: "To charge customers" })).output("request_secret_value").url, url)
      const page = yield* go(browser, url)
      assert.strictEqual(page.status, 200)
      for (const text of ["STRIPE_KEY", "development", "Build agent", "To charge customers"]) {
        assert.include(page.text, text)
      }
      const stored = yield* go(browser, `${url}/store`, [["value", typed]])
      assert.strictEqual(stored.status, 200)
      assert.notInclude(stored.text, "p@ss")
      const afterwards = yield* ask({ note: "To charge customers" })
      assert.strictEqual(afterwards.output("request_secret_value").status, "stored")
      assert.strictEqual(afterwards.output("request_secret_value").version, 1)
      assert.notInclude(afterwards.text, "p@ss")
      const reader = yield* World.token({ team: project.team })
      const value = yield* TestApp.get(
        `/secrets/value?projectId=${project.id}&environment=${place.environment}&key=STRIPE_KEY`,
        { bearer: reader.text }
      )
      assert.strictEqual(value.json.value, typed)
      assert.strictEqual(value.json.kind, "literal")
    })
  )

  it.effect("is stored in the person's name, once", () =>
    Effect.gen(function* () {
      const { ask, browser, project } = yield* scene
      const { url = "" } = (yield* ask()).output("request_secret_value")
      const answers = yield* Effect.forEach([1, 2, 3, 4], (n) => go(browser, `${url}/store`, [["value", `v${n}`]]), {
        concurrency: 4
      })
      assert.strictEqual(answers.filter(({ status }) => status === 200).length, 1)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${project.team.id} AND action = 'secret.create'`
      assert.lengthOf(rows, 1)
      const entry = auditEntry(rows[0])
      assert.strictEqual(entry.actor.type, "user")
      assert.strictEqual(entry.via, "dashboard")
      // The person holds what they typed; the agent that asked does not.
      assert.isTrue(entry.typed)
    })
  )

  it.effect("may be declined, and is asked for anew after that", () =>
    Effect.gen(function* () {
      const { ask, browser } = yield* scene
      const { url = "" } = (yield* ask()).output("request_secret_value")
      yield* go(browser, `${url}/decline`, [])
      assert.deepStrictEqual((yield* ask()).output("request_secret_value"), { status: "declined" })
      assert.notStrictEqual((yield* ask()).output("request_secret_value").url, url)
      assert.strictEqual((yield* go(browser, url)).status, 409)
    })
  )

  it.effect("is typed by a person of the team who may write there, and by no one else", () =>
    Effect.gen(function* () {
      const { ask, project } = yield* scene
      const { url = "" } = (yield* ask()).output("request_secret_value")
      const stranger = new McpApp.Browser((yield* World.session(yield* World.person())).text)
      assert.strictEqual((yield* go(stranger, url)).status, 404)
      assert.strictEqual((yield* go(stranger, `${url}/store`, [["value", "x"]])).status, 404)
      const viewer = new McpApp.Browser((yield* World.session(yield* World.member(project.team, "viewer"))).text)
      assert.strictEqual((yield* go(viewer, `${url}/store`, [["value", "x"]])).status, 403)
      const nobody = yield* go(new McpApp.Browser(), url)
      assert.strictEqual(nobody.status, 303)
      assert.strictEqual((yield* ask()).output("request_secret_value").status, "needs_human")
    })
  )

  it.effect("expires after ten minutes", () =>
    Effect.gen(function* () {
      const { ask, browser } = yield* scene
      const { url = "" } = (yield* ask()).output("request_secret_value")
      const sql = yield* SqlClient.SqlClient
      yield* Seals.after(
        "value_requests",
        sql`UPDATE value_requests SET expires_at = expires_at - interval '11 minutes' WHERE code = ${url.slice(-24)}`
      )
      assert.strictEqual((yield* go(browser, url)).status, 404)
      assert.strictEqual((yield* go(browser, `${url}/store`, [["value", "x"]])).status, 404)
    })
  )

  it.effect("is stored where the page says, or nowhere: a writer of the database cannot turn the request", () =>
    Effect.gen(function* () {
      const { base, browser, place, project } = yield* scene
      const scoped = yield* World.token({
        team: project.team,
        mcpScopes: allScopes,
        environments: [project.production, project.development]
      })
      const at = { ...place, environment: "production", key: "LIVE_KEY" }
      const { url = "" } = (yield* Clients.raw(base, "POST", {
        bearer: scoped.text,
        ...Clients.modernCall("request_secret_value", at)
      })).output("request_secret_value")
      const code = url.slice(-24)
      const sql = yield* SqlClient.SqlClient
      /** SQL of another value of each column. */
      const forged: Readonly<Record<(typeof authorizationTables)["value_requests"]["columns"][number], string>> = {
        id: "gen_random_uuid()",
        code: "translate(code, 'abcdefgh', 'hgfedcba') || 'x'",
        credentialId: "gen_random_uuid()",
        askedBy: `'{"kind": "session", "name": "the owner"}'`,
        userId: `'${project.team.owner.id}'`,
        teamId: `'${(yield* World.project()).team.id}'`,
        projectId: `'${(yield* World.project({ team: project.team })).id}'`,
        environmentId: `'${project.development.id}'`,
        key: "'OTHER_KEY'",
        note: "'Paste the root key here'",
        replace: "NOT replace",
        status: "'declined'",
        secretId: "gen_random_uuid()",
        version: "7",
        createdAt: "created_at + interval '1 minute'",
        expiresAt: "expires_at + interval '1 day'"
      }
      const page = yield* go(browser, url)
      assert.include(page.text, "production")
      for (const [column, value] of Object.entries(forged)) {
        const name = columnName(column)
        const [before] = yield* sql<{ readonly cell: unknown; readonly mac: Uint8Array }>`
          SELECT ${sql(name)} AS cell, mac FROM value_requests WHERE code = ${code}`
        yield* sql`UPDATE value_requests SET ${sql(name)} = ${sql.literal(value)} WHERE code = ${code}`
        const answer = yield* go(browser, `${url}/store`, [["value", "the production key"]])
        assert.strictEqual(answer.status, 404, column)
        yield* sql`UPDATE value_requests SET ${sql(name)} = ${before.cell} WHERE mac = ${before.mac}`
      }
      assert.strictEqual((yield* go(browser, url)).status, 200)
      const stored = yield* go(browser, `${url}/store`, [["value", "the production key"]])
      assert.strictEqual(stored.status, 200)
      const read = (environment: string) =>
        TestApp.get(`/secrets/inject?projectId=${project.id}&environment=${environment}`, {
          bearer: scoped.text
        })
      assert.include((yield* read("production")).text, "the production key")
      assert.notInclude((yield* read("development")).text, "the production key")
    })
  )

  it.effect("replaces a value only when that was asked for", () =>
    Effect.gen(function* () {
      const { ask, base, browser, place, token } = yield* scene
      yield* Clients.raw(base, "POST", {
        bearer: token.text,
        ...Clients.modernCall("create_secret", { ...place, key: "STRIPE_KEY", generate: { length: 16 } })
      })
      assert.strictEqual((yield* ask()).refusal.code, "SECRET_ALREADY_EXISTS")
      const { url = "" } = (yield* ask({ replace: true })).output("request_secret_value")
      yield* go(browser, `${url}/store`, [["value", "newer"]])
      assert.strictEqual((yield* ask({ replace: true })).output("request_secret_value").version, 2)
    })
  )

  it.effect("is asked for without texts that hide something", () =>
    Effect.gen(function* () {
      const { ask } = yield* scene
      for (const note of ["a\u202eb", "a\u200bb", "line\nbreak", " "]) {
        const { code, field } = (yield* ask({ note })).refusal
        assert.strictEqual(code, "VALIDATION_FAILED")
        assert.strictEqual(field, "note")
      }
    })
  )

  describe("through clients that open pages", () => {
    const capabilities = { elicitation: { url: {}, form: {} } }

    it.scoped("the newer one waits for the person and then has the answer", () =>
      Effect.gen(function* () {
        const { base, browser, place, token } = yield* scene
        const messages: Array<string> = []
        const client = new ModernClient(
          { name: "opens", version: "1" },
          { capabilities, versionNegotiation: { mode: "auto" } }
        )
        client.setRequestHandler("elicitation/create", async ({ params }) => {
          messages.push(JSON.stringify(params))
          const { url } = params as { readonly url: string }
          await browser.go(url)
          setTimeout(() => void browser.go(`${url}/store`, [["value", typed]]), 50)
          return { action: "accept" as const }
        })
        yield* Effect.promise(() =>
          client.connect(
            new ModernTransport(new URL(`${base}/mcp`), {
              requestInit: { headers: { authorization: `Bearer ${token.text}` } }
            })
          )
        )
        yield* Effect.promise(() => client.listTools())
        const result = yield* Effect.promise(() =>
          client.callTool({ name: "request_secret_value", arguments: { ...place, key: "STRIPE_KEY" } })
        )
        assert.strictEqual((result.structuredContent as { status: string }).status, "stored")
        assert.lengthOf(messages, 1)
        assert.notInclude(JSON.stringify([messages, result]), "p@ss")
        yield* Effect.promise(() => client.close())
      })
    )

    it.effect("what it brings back is bound to the call, the credential and our signature", () =>
      Effect.gen(function* () {
        const { ask, base, place, project, token } = yield* scene
        const first = yield* ask({}, capabilities)
        assert.strictEqual(first.result.resultType, "input_required")
        const { requestState = "" } = first.result
        assert.notInclude(first.text, "-32042")
        const input = { ...place, key: "STRIPE_KEY" }
        const again = (bearer: string, state: string, key = "STRIPE_KEY") =>
          Clients.raw(base, "POST", {
            bearer,
            ...Clients.modernCall("request_secret_value", { ...input, key }, capabilities, {
              requestState: state,
              inputResponses: { page: { action: "decline" } }
            })
          })
        const forged = yield* again(
          token.text,
          `${requestState.slice(0, -4)}${requestState.endsWith("AAAA") ? "BBBB" : "AAAA"}`
        )
        assert.strictEqual(forged.error.code, -32_602)
        const other = yield* World.token({ team: project.team, mcpScopes: allScopes })
        assert.strictEqual((yield* again(other.text, requestState)).error.code, -32_602)
        // Of another question: the answer does not count, the question is put.
        const elsewhere = yield* again(token.text, requestState, "OTHER_KEY")
        assert.strictEqual(elsewhere.result.resultType, "input_required")
        const declined = yield* again(token.text, requestState)
        assert.deepStrictEqual(declined.output("request_secret_value"), { status: "declined" })
      })
    )

    it.scoped("the older one gets the address, and asks again", () =>
      Effect.gen(function* () {
        const { base, browser, place, token } = yield* scene
        const client = new LegacyClient({ name: "opens", version: "1" }, { capabilities })
        const transport = new LegacyTransport(new URL(`${base}/mcp`), {
          requestInit: { headers: { authorization: `Bearer ${token.text}` } }
        })
        yield* Effect.promise(() => client.connect(transport))
        const call = () => client.callTool({ name: "request_secret_value", arguments: { ...place, key: "STRIPE_KEY" } })
        const refused = yield* Effect.promise(() =>
          call().then(
            () => assert.fail("did not ask for a page"),
            (error: unknown) =>
              error as {
                readonly code: number
                readonly data: { readonly elicitations: ReadonlyArray<{ readonly url: string; readonly mode: string }> }
              }
          )
        )
        assert.strictEqual(refused.code, -32_042)
        const [{ mode, url }] = refused.data.elicitations
        assert.strictEqual(mode, "url")
        yield* go(browser, `${url}/store`, [["value", typed]])
        const result = yield* Effect.promise(call)
        assert.strictEqual((result.structuredContent as { status: string }).status, "stored")
        yield* Effect.promise(() => client.close())
      })
    )

    for (const decision of ["store", "decline"] as const) {
      it.scoped(`the older one hears that the person is done (${decision}), whichever process had the page`, () =>
        Effect.gen(function* () {
          const { base, browser, place, token } = yield* scene
          const bystander = yield* Clients.legacy(base, token.text, capabilities)
          const { client } = yield* Clients.legacy(base, token.text, capabilities)
          const heard = (of: LegacyClient) => {
            const ids: Array<string> = []
            of.setNotificationHandler(ElicitationCompleteNotificationSchema, ({ params }) => {
              ids.push(params.elicitationId)
            })
            return ids
          }
          const notices = heard(client)
          const overheard = heard(bystander.client)
          const call = () =>
            client.callTool({ name: "request_secret_value", arguments: { ...place, key: "STRIPE_KEY" } })
          const error = yield* Effect.flip(Effect.tryPromise({ try: call, catch: (cause) => cause }))
          assert.instanceOf(error, UrlElicitationRequiredError)
          const [{ elicitationId, url }] = error.elicitations
          const elsewhere = yield* McpApp.otherProcess
          const form: ReadonlyArray<readonly [string, string]> = decision === "store" ? [["value", typed]] : []
          const posted = yield* go(browser, `${elsewhere}${new URL(url).pathname}/${decision}`, form, base)
          assert.strictEqual(posted.status, 200)
          yield* Effect.promise(async () => {
            while (notices.length === 0) await new Promise((resolve) => setTimeout(resolve, 10))
          })
          assert.deepStrictEqual(notices, [elicitationId])
          const result = yield* Effect.promise(call)
          const { status } = result.structuredContent as { readonly status: string }
          assert.strictEqual(status, decision === "store" ? "stored" : "declined")
          // Once, and to the client that was sent to the page; a round trip on each stream's process has passed.
          const changes = yield* Changes
          yield* changes.look()
          assert.lengthOf(notices, 1)
          assert.lengthOf(overheard, 0)
        })
      )
    }

    it.scoped("a stream that begins after the person was done hears of it", () =>
      Effect.gen(function* () {
        const { base, browser, place, token } = yield* scene
        const session = yield* Clients.open(base, token.text, Clients.legacyVersion, capabilities)
        const headers = { "mcp-session-id": session }
        const refused = yield* Clients.raw(base, "POST", {
          bearer: token.text,
          headers,
          body: Clients.call("request_secret_value", { ...place, key: "STRIPE_KEY" })
        })
        const [{ elicitationId, url }] = refused.error.data?.elicitations ?? []
        yield* go(browser, `${url}/store`, [["value", typed]])
        const text = yield* Effect.promise(async () => {
          const abort = new AbortController()
          const response = await fetch(`${base}/mcp`, {
            headers: { ...headers, authorization: `Bearer ${token.text}`, accept: "text/event-stream" },
            signal: abort.signal
          })
          let seen = ""
          for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
            seen += chunk
            if (seen.includes("elicitation/complete")) break
          }
          abort.abort()
          return seen
        })
        assert.include(
          text,
          `"method":"notifications/elicitation/complete","params":{"elicitationId":"${elicitationId}"}`
        )
        assert.notInclude(text, "p@ss")
      })
    )
  })

  describe("a deletion", () => {
    it.effect("is confirmed where the client can ask, and not done without the tick", () =>
      Effect.gen(function* () {
        const { base, place, token } = yield* scene
        const creation = yield* Clients.raw(base, "POST", {
          bearer: token.text,
          ...Clients.modernCall("create_secret", { ...place, key: "K", generate: { length: 16 } })
        })
        const input = { secretId: creation.output("create_secret").id }
        const send = (more: Record<string, unknown> = {}) =>
          Effect.map(
            Clients.raw(base, "POST", {
              bearer: token.text,
              ...Clients.modernCall("delete_secret", input, { elicitation: { form: {} } }, more)
            }),
            ({ result }) => result
          )
        const question = yield* send()
        assert.strictEqual(question.resultType, "input_required")
        const answer = (content: unknown) => ({
          requestState: question.requestState,
          inputResponses: { confirmation: { action: "accept", content } }
        })
        assert.deepStrictEqual((yield* send(answer({}))).structuredContent, { deleted: false, dependents: [] })
        assert.deepStrictEqual((yield* send(answer({ confirm: true }))).structuredContent, {
          deleted: true,
          dependents: []
        })
      })
    )
  })

  describe("a deletion of several", () => {
    it.effect("is asked about once, by keys, project and environment, and does nothing without the tick", () =>
      Effect.gen(function* () {
        const { base, place, project, token } = yield* scene
        const keys = ["ONE", "TWO"]
        const use = (tool: string, input: Record<string, unknown>, more: Record<string, unknown> = {}) =>
          Effect.map(
            Clients.raw(base, "POST", {
              bearer: token.text,
              ...Clients.modernCall(tool, input, { elicitation: { form: {} } }, more)
            }),
            ({ result }) => result
          )
        for (const key of keys) yield* use("create_secret", { ...place, key, generate: { length: 16 } })
        const result = yield* use("delete_secrets", { ...place, keys })
        const question = JSON.stringify(result)
        assert.strictEqual(result.resultType, "input_required")
        for (const named of [...keys, place.environment, project.slug]) assert.include(question, named)
        const answered = (action: string, content: unknown) =>
          use(
            "delete_secrets",
            { ...place, keys },
            { requestState: result.requestState, inputResponses: { confirmation: { action, content } } }
          )
        assert.deepStrictEqual((yield* answered("decline", {})).structuredContent, { deleted: [] })
        const { structuredContent } = yield* answered("accept", { confirm: true })
        assert.match(JSON.stringify(structuredContent), /^\{"deleted":\["[^"]+","[^"]+"\]\}$/)
      })
    )
  })

  describe("resources and prompts", () => {
    for (const era of ["legacy", "modern"] as const) {
      it.scoped(`hold names only, ${era}`, () =>
        Effect.gen(function* () {
          const { base, place, project, token } = yield* scene
          yield* Clients.raw(base, "POST", {
            bearer: token.text,
            ...Clients.modernCall("create_secret", { ...place, key: "K", value: "marker-value" })
          })
          const uri = `secrets://projects/${project.id}/environments/development`
          interface Reader {
            readonly listResources: () => Promise<{ readonly resources: ReadonlyArray<{ readonly uri: string }> }>
            readonly readResource: (at: {
              readonly uri: string
            }) => Promise<{ readonly contents: ReadonlyArray<{ readonly text?: string }> }>
            readonly getPrompt: (at: {
              readonly name: string
              readonly arguments: Record<string, string>
            }) => Promise<unknown>
          }
          const { client } =
            era === "legacy" ? yield* Clients.legacy(base, token.text) : yield* Clients.modern(base, token.text)
          const reader = client as unknown as Reader
          const { resources } = yield* Effect.promise(() => reader.listResources())
          assert.includeMembers(
            resources.map((one) => one.uri),
            ["secrets://guide", uri]
          )
          const { contents } = yield* Effect.promise(() => reader.readResource({ uri }))
          const text = contents[0].text ?? ""
          assert.deepStrictEqual(parsed(Schema.Struct({ secrets: Schema.Unknown }))(text).secrets, [
            { key: "K", kind: "literal", references: [] }
          ])
          assert.notInclude(text, "marker-value")
          const prompt = yield* Effect.promise(() =>
            reader.getPrompt({ name: "rotate_credential", arguments: { ...place, key: "K" } })
          )
          assert.include(JSON.stringify(prompt), "Never reveal the value")
          const completed = (name: string, value: string, given: Record<string, string>) =>
            Effect.promise(async () => {
              const ref = { type: "ref/prompt" as const, name: "rotate_credential" }
              const params = { ref, argument: { name, value }, context: { arguments: given } }
              return (await client.complete(params)).completion.values
            })
          assert.deepStrictEqual(yield* completed("projectId", project.slug.slice(0, 3), {}), [project.slug])
          const { environment } = place
          const inProject = { projectId: project.slug }
          assert.deepStrictEqual(yield* completed("environment", "dev", inProject), [environment])
          assert.deepStrictEqual(yield* completed("key", "", { projectId: project.id, environment }), ["K"])
          assert.deepStrictEqual(yield* completed("key", "K", { projectId: project.id, environment: "nope" }), [])
          const missing = yield* Effect.promise(() =>
            reader.readResource({ uri: `secrets://projects/${project.id}/environments/nope` }).then(
              () => 0,
              (error: { readonly code: number }) => error.code
            )
          )
          assert.strictEqual(missing, era === "legacy" ? -32_002 : -32_602)
        })
      )
    }
  })
})
