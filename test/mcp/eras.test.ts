/** The same work through the official clients of both eras, with an API token and over OAuth. */
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client"
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ToolName, toolNames, tools as definitions } from "#schema/McpTools.ts"
import { allScopes, type Scope } from "#schema/Scopes.ts"
import { Seal } from "#src/trail/Seal.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

interface Caller {
  readonly listTools: () => Promise<{ readonly tools: ReadonlyArray<{ readonly name: string }> }>
  readonly callTool: (call: {
    readonly name: string
    readonly arguments: Record<string, unknown>
  }) => Promise<{ readonly structuredContent?: unknown; readonly isError?: boolean; readonly content?: unknown }>
}

const Texts = Schema.Struct({ content: Schema.Array(Schema.Struct({ text: Schema.String })) })

const eras = {
  legacy: (base: string, bearer: string) =>
    Effect.map(Clients.legacy(base, bearer), ({ client }) => client as unknown as Caller),
  modern: (base: string, bearer: string) =>
    Effect.map(Clients.modern(base, bearer), ({ client }) => client as unknown as Caller)
} as const

const everything: ReadonlyArray<Scope> = allScopes

/** The list of a client that says it lists the tools again when they change. */
const stagedList = (base: string, bearer: string) =>
  Effect.map(
    Clients.raw(base, "POST", {
      bearer,
      headers: {
        "mcp-protocol-version": Clients.modernVersion,
        "mcp-method": "tools/list",
        "ampoule-tools": "staged"
      },
      body: {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/list",
        params: { _meta: Clients.modernCall("x", {}).body.params._meta }
      }
    }),
    ({ result }) => {
      // Growing lists are not kept.
      assert.strictEqual(result.ttlMs, 0)
      return result.tools?.map(({ name }) => name) ?? []
    }
  )
/** Beyond what the first consent asks for. */
const needsMore = (name: ToolName) => {
  const scopes: ReadonlyArray<Scope> = definitions[name].scopes
  return scopes.includes("secrets:read_values") || scopes.includes("audit:read")
}

layer(McpApp.shared, { excludeTestServices: true })("both eras", (it) => {
  for (const era of ["legacy", "modern"] as const) {
    describe(era, () => {
      const scene = Effect.gen(function* () {
        const base = yield* McpApp.base
        const project = yield* World.project()
        const token = yield* World.token({ team: project.team, mcpScopes: everything })
        const client = yield* eras[era](base, token.text)
        const use = <A>(name: string, input: Record<string, unknown>) =>
          Effect.map(
            Effect.promise(() => client.callTool({ name, arguments: input })),
            (result) => {
              if (result.isError === true) throw new Error(JSON.stringify(result.content))
              return result.structuredContent as A
            }
          )
        const place = { projectId: project.id, environment: "development" }
        return { base, project, token, client, use, place }
      })

      it.scoped("lists every tool to a token that holds every scope", () =>
        Effect.gen(function* () {
          const { client } = yield* scene
          const { tools } = yield* Effect.promise(() => client.listTools())
          assert.deepStrictEqual(
            tools.map(({ name }) => name),
            toolNames.filter((name) => name !== "more_tools")
          )
        })
      )

      it.scoped("creates, checks, plans, copies and deletes without a value in the conversation", () =>
        Effect.gen(function* () {
          const { place, project, use } = yield* scene
          const secret = yield* use<{ id: string; version: number }>("create_secret", {
            ...place,
            key: "DB_PASSWORD",
            generate: { length: 32 }
          })
          assert.strictEqual(secret.version, 1)
          yield* use("create_secret", {
            ...place,
            key: "DATABASE_URL",
            template: { source: "postgres://app:${DB_PASSWORD}@db/app" }
          })
          assert.deepStrictEqual(yield* use("check_secrets", { ...place, keys: ["DATABASE_URL", "NOPE"] }), {
            present: ["DATABASE_URL"],
            missing: ["NOPE"],
            unresolved: []
          })
          const listed = yield* use<{ secrets: ReadonlyArray<{ key: string; reference: string }>; total: number }>(
            "list_secrets",
            { ...place, query: "database", fields: ["reference"] }
          )
          assert.strictEqual(listed.total, 1)
          assert.strictEqual(listed.secrets[0].reference, `secret://${project.id}/development/DATABASE_URL`)
          const graph = yield* use<{ edges: unknown; cycles: unknown }>("get_composition", place)
          assert.deepStrictEqual(graph.edges, [{ from: "DATABASE_URL", to: "DB_PASSWORD" }])
          assert.deepStrictEqual(graph.cycles, [])
          const plan = yield* use<{ command: ReadonlyArray<string>; injectedKeys: ReadonlyArray<string> }>("plan_run", {
            ...place,
            command: ["npm", "start"],
            keys: ["DATABASE_URL"]
          })
          assert.deepStrictEqual(plan.command.slice(-4), ["--redact", "--", "npm", "start"])
          assert.deepStrictEqual(plan.injectedKeys, ["DATABASE_URL"])
          const copied = yield* use("copy_secrets", {
            projectId: project.id,
            sourceEnv: "development",
            targetEnv: "staging",
            keys: ["DB_PASSWORD", "DATABASE_URL"]
          })
          assert.deepStrictEqual(copied, { created: ["DB_PASSWORD", "DATABASE_URL"], updated: [], skipped: [] })
          assert.deepStrictEqual(
            yield* use("compare_environments", {
              projectId: project.id,
              sourceEnv: "development",
              targetEnv: "staging"
            }),
            { counts: { added: 0, removed: 0, changed: 0 }, added: [], removed: [], changed: [] }
          )
          assert.deepStrictEqual(yield* use("delete_secret", { secretId: secret.id, disposition: "cascade" }), {
            deleted: true,
            dependents: ["DATABASE_URL"]
          })
        })
      )

      it.scoped("reveals a value only by the tools that say so, on record with the reason", () =>
        Effect.gen(function* () {
          const { client, place, use } = yield* scene
          yield* use("bulk_upsert_secrets", {
            ...place,
            secrets: [
              { key: "A", value: "first" },
              { key: "B", template: { source: "${A}!" } }
            ]
          })
          assert.deepStrictEqual(
            yield* use("reveal_secret_value", { ...place, key: "B", reason: "The person asked for it" }),
            { key: "B", version: 1, value: "first!" }
          )
          const whole = yield* Effect.promise(() => client.callTool({ name: "resolve_environment", arguments: place }))
          assert.deepStrictEqual(whole.structuredContent, { values: { A: "first", B: "first!" }, total: 2 })
          assert.deepStrictEqual(whole.content, [
            {
              type: "text",
              text: JSON.stringify(whole.structuredContent),
              annotations: { audience: ["user"] }
            }
          ])
          const { events } = yield* use<{
            events: ReadonlyArray<{ action: string; via: string; reason?: string; keys: ReadonlyArray<string> }>
          }>("list_audit_events", { ...place, key: "B" })
          const read = events.find(({ action }) => action === "secret.read")
          assert.strictEqual(read?.reason, "The person asked for it")
          assert.strictEqual(read?.via, "mcp")
          // A value that a model saw counts as an agent's, also for values inside it.
          yield* Effect.flatMap(Seal, (seal) => seal.now)
          const { latest, total, versions } = yield* use<{
            versions: ReadonlyArray<Record<string, unknown>>
            latest: ReadonlyArray<{ type: string; version: number }>
            total: number
          }>("get_exposure", { ...place, key: "A" })
          assert.deepStrictEqual(versions, [{ version: 1, handedTo: "1 agent", heldBy: "1 agent" }])
          // The agent typed it, too.
          assert.deepStrictEqual([latest[0]?.version, total], [1, 2])
          // By the key that it had: what it is called now, and the other way around.
          const { secrets } = yield* use<{ secrets: ReadonlyArray<{ id: string; key: string }> }>("list_secrets", {
            ...place,
            fields: ["id"]
          })
          const secretId = secrets.find(({ key }) => key === "A")?.id
          yield* use("rename_secret", { secretId, key: "A_NOW", rewriteReferences: true })
          const before = yield* use<{ renamedTo?: ReadonlyArray<string> }>("get_exposure", { ...place, key: "A" })
          assert.deepStrictEqual(before.renamedTo, ["A_NOW"])
          const now = yield* use<{ formerly?: ReadonlyArray<string> }>("get_exposure", { ...place, key: "A_NOW" })
          assert.deepStrictEqual([now.formerly, "renamedTo" in now], [["A"], false])
        })
      )

      it.scoped("carries values sealed: export, verify, import, open", () =>
        Effect.gen(function* () {
          const { place, project, use } = yield* scene
          yield* use("bulk_upsert_secrets", { ...place, secrets: [{ key: "SEALED", value: "p${x}" }] })
          const file = yield* use<{ keyId: string; entries: Record<string, string> }>("export_encrypted_env", {
            ...place,
            keys: ["SEALED"]
          })
          assert.match(file.entries["SEALED"] ?? "", /^sealed:v1:ek_/)
          const sealed = { ...place, keyId: file.keyId, entries: file.entries }
          assert.deepStrictEqual(yield* use("verify_encrypted_env", sealed), { keys: ["SEALED"], altered: false })
          assert.deepStrictEqual(yield* use("import_encrypted_env", sealed), {
            created: [],
            updated: [],
            skipped: ["SEALED"]
          })
          assert.deepStrictEqual(yield* use("open_sealed_values", sealed), { values: { SEALED: "p${x}" } })
          const { keyId } = yield* use<{ keyId: string }>("get_environment_keypair", place)
          assert.strictEqual(keyId, file.keyId)
          assert.strictEqual(project.id, place.projectId)
        })
      )

      it.scoped("tells a failed call by the code that REST has, and repeats no input", () =>
        Effect.gen(function* () {
          const { client, place } = yield* scene
          // Then the older client checks each structured result against its tool's schema.
          yield* Effect.promise(() => client.listTools())
          const wrong = yield* Effect.promise(() =>
            client.callTool({ name: "create_secret", arguments: { ...place, key: "lower", value: "hunter2-marker" } })
          )
          assert.isTrue(wrong.isError)
          const said = JSON.stringify(wrong)
          assert.include(said, "VALIDATION_FAILED")
          assert.notInclude(said, "hunter2")
          const absent = yield* Effect.promise(() =>
            client.callTool({ name: "reveal_secret_value", arguments: { ...place, key: "NOPE", reason: "x" } })
          )
          assert.isUndefined(absent.structuredContent)
          const { content } = Schema.decodeUnknownSync(Texts)(absent)
          assert.deepStrictEqual(JSON.parse(content[0].text), {
            statusCode: 404,
            code: "SECRET_NOT_FOUND",
            message: "No such secret.",
            next: "list_secrets with query finds the key."
          })
        })
      )
    })
  }

  describe("from 401 to a tool call, and further by stepping up", () => {
    const provider = (browser: McpApp.Browser, team: { readonly id: string }) => {
      const kept: { client?: unknown; tokens?: unknown; verifier?: string; discovery?: unknown } = {}
      const requests: Array<string> = []
      let code = ""
      return {
        asked: requests,
        code: () => code,
        tokens: () => kept.tokens as { scope?: string; access_token: string } | undefined,
        provider: {
          redirectUrl: "http://127.0.0.1:53121/callback",
          clientMetadata: {
            client_name: "Official client",
            redirect_uris: ["http://127.0.0.1:53121/callback"],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none"
          },
          clientInformation: () => kept.client,
          saveClientInformation: (client: unknown) => void (kept.client = client),
          tokens: () => kept.tokens,
          saveTokens: (tokens: unknown) => void (kept.tokens = tokens),
          saveCodeVerifier: (verifier: string) => void (kept.verifier = verifier),
          codeVerifier: () => kept.verifier ?? "",
          discoveryState: () => kept.discovery,
          saveDiscoveryState: (state: unknown) => void (kept.discovery = state),
          invalidateCredentials: () => undefined,
          redirectToAuthorization: async (url: URL) => {
            const scopes = (url.searchParams.get("scope") ?? "").split(" ")
            requests.push(scopes.join(" "))
            const { callback } = await McpApp.decide(browser, url.href, { scopes, teams: [team] })
            code = callback.search
          }
        }
      }
    }

    for (const era of ["legacy", "modern"] as const) {
      it.scoped(era, () =>
        Effect.gen(function* () {
          const base = yield* McpApp.base
          const project = yield* World.project()
          const session = yield* World.session(project.team.owner)
          const auth = provider(new McpApp.Browser(session.text), project.team)
          const connect = () => {
            const url = new URL(`${base}/mcp`)
            if (era === "legacy") {
              const client = new LegacyClient({ name: "oauth", version: "1" })
              const transport = new LegacyTransport(url, { authProvider: auth.provider as never })
              return {
                client: client as unknown as Caller,
                go: () => client.connect(transport),
                finish: () => transport.finishAuth(new URLSearchParams(auth.code()).get("code") ?? ""),
                close: () => client.close()
              }
            }
            const client = new ModernClient({ name: "oauth", version: "1" }, { versionNegotiation: { mode: "auto" } })
            const transport = new ModernTransport(url, { authProvider: auth.provider as never })
            return {
              client: client as unknown as Caller,
              go: () => client.connect(transport),
              finish: () => transport.finishAuth(new URLSearchParams(auth.code())),
              close: () => client.close()
            }
          }
          const first = connect()
          yield* Effect.promise(() =>
            first.go().then(
              () => assert.fail("connected without a credential"),
              () => undefined
            )
          )
          assert.deepStrictEqual(auth.asked, ["identity:read projects:read secrets:read secrets:write secrets:run"])
          yield* Effect.promise(() => first.finish())
          yield* Effect.promise(() => first.close())

          const second = connect()
          yield* Effect.promise(() => second.go())
          const projects = yield* Effect.promise(() => second.client.callTool({ name: "list_projects", arguments: {} }))
          assert.include(JSON.stringify(projects.structuredContent), project.id)
          const { tools } = yield* Effect.promise(() => second.client.listTools())
          assert.strictEqual(tools.length, toolNames.length - 1)

          const input = { projectId: project.id, environment: "development", key: "K", generate: { length: 16 } }
          const { key: _, generate: __, ...place } = input
          // One consent is enough for everything that shows no value.
          for (const call of [
            { name: "create_secret", arguments: input },
            { name: "plan_run", arguments: { ...place, command: ["true"] } },
            {
              name: "copy_secrets",
              arguments: { projectId: project.id, sourceEnv: "development", targetEnv: "staging", keys: ["K"] }
            }
          ]) {
            assert.isUndefined((yield* Effect.promise(() => second.client.callTool(call))).isError, call.name)
          }
          assert.lengthOf(auth.asked, 1)

          const short = yield* stagedList(base, auth.tokens()?.access_token ?? "")
          assert.deepStrictEqual(new Set(short), new Set<string>(toolNames.filter((name) => !needsMore(name))))

          // Plaintext is one tick more. The older client answers a challenge with its refresh token, which gives no more
          // scopes than before: it cannot ask, and its answer says so.
          const reveal = { name: "reveal_secret_value", arguments: { ...place, key: "K", reason: "Asked for" } }
          const refused = yield* Effect.flip(Effect.tryPromise(() => second.client.callTool(reveal)))
          if (era === "legacy") {
            assert.include(String(refused.error), "403")
            assert.lengthOf(auth.asked, 1)
          } else {
            const scopes = new Set(auth.asked[1]?.split(" "))
            assert.deepStrictEqual(scopes, new Set(allScopes.filter((scope) => scope !== "audit:read")))
            yield* Effect.promise(() => second.finish())
            assert.isUndefined((yield* Effect.promise(() => second.client.callTool(reveal))).isError)
            const bearer = auth.tokens()?.access_token ?? ""
            const opened = yield* Clients.use(base, bearer, "more_tools", { scope: "secrets:read_values" })
            const plaintext = ["reveal_secret_value", "resolve_environment", "open_sealed_values"]
            assert.deepStrictEqual(opened.output.tools, plaintext)
            assert.includeMembers([...(yield* stagedList(base, bearer))], plaintext)
            const audit = Clients.modernCall("more_tools", { scope: "audit:read" })
            const challenged = yield* Clients.raw(base, "POST", { bearer, ...audit })
            assert.strictEqual(challenged.status, 403)
            assert.include(challenged.headers.get("www-authenticate") ?? "", "secrets:read_values")
            assert.include(challenged.headers.get("www-authenticate") ?? "", "audit:read")
          }
          yield* Effect.promise(() => second.close())
        })
      )
    }
  })
})
