/** Names that every JavaScript object has, where a request names something: each is one more unknown name. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Listening } from "#src/http/engine/Server.ts"
import { AnyFailure } from "#test/support/Bodies.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.unlimited
const specialNames = [...Object.getOwnPropertyNames(Object.prototype), "__proto__", "prototype"]
const ordinaryName = "unknown"

type Door = (name: string) => Effect.Effect<TestApp.Answer, never, Listening>

/** An answer without the requested name. */
const shapeOf = ({ as, headers, status, text }: TestApp.Answer, name: string) => {
  const isJson = headers.get("content-type")?.startsWith("application/json") === true
  const { code, error } = isJson ? as(AnyFailure) : {}
  const said = code ?? (typeof error === "object" ? error.code : error)
  return [status, said ?? (status === 200 ? text.replaceAll(name, "NAME").length > 0 : "")]
}

/** Names that the door answers in another way than an ordinary unknown one, and what it answers to that. */
const exceptions = (door: Door) =>
  Effect.gen(function* () {
    const expected = shapeOf(yield* door(ordinaryName), ordinaryName)
    const others: Array<unknown> = Number(expected[0]) < 500 ? [] : [expected]
    for (const name of specialNames) {
      const shape = shapeOf(yield* door(name), name)
      if (String(shape) !== String(expected)) others.push([name, shape, expected])
    }
    return others
  })

layer(app, { excludeTestServices: true })("names that every object has", (it) => {
  const doors = Effect.gen(function* () {
    const project = yield* World.project()
    const { text: session } = yield* World.session(project.team.owner)
    const token = yield* World.token({ team: project.team, mcpScopes: ["projects:read", "secrets:read"] })
    const team = `/teams/${project.team.id}` as const
    const post = <const Path extends string>(path: Path, json: unknown) => TestApp.post(path, { session, json })
    const form = (path: string, parameters: Record<string, string>) =>
      TestApp.post(path, {
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: new URLSearchParams(parameters).toString()
      })
    const mcp = (method: string, params: unknown) =>
      TestApp.post("/mcp", {
        bearer: token.text,
        headers: { accept: "application/json, text/event-stream" },
        json: { jsonrpc: "2.0", id: 1, method, params }
      })
    const rule = (issuer: string, claims: unknown) => post(`${team}/machine-rules`, { name: "rule", issuer, claims })
    const refused: Record<string, Door> = {
      "the claims of a rule": (name) => rule("https://gitlab.com", Object.fromEntries([[name, "x"]])),
      "the role of an invitation": (name) => post(`${team}/invitations`, { email: "a@example.com", role: name }),
      "the plan of a team": (name) => TestApp.patch(team, { session, json: { plan: name } }),
      "the events of a webhook": (name) =>
        post(`${team}/webhooks`, { name: "hook", url: "https://example.com", events: [name] }),
      "the lifetime of a token": (name) =>
        post(`${team}/api-tokens`, { name: "t", accessLevel: "read", lifetime: name }),
      "the scopes of a token": (name) =>
        post(`${team}/api-tokens`, { name: "t", accessLevel: "read", mcpScopes: [name] }),
      "an action of the trail": (name) => TestApp.get(`${team}/audit?action=${name}`, { session }),
      "a query parameter": (name) => TestApp.get(`${team}/audit?${name}=x`, { session }),
      "a member of a body": (name) =>
        post(
          "/teams",
          Object.fromEntries([
            ["name", "x"],
            [name, "y"]
          ])
        ),
      "an environment": (name) =>
        TestApp.get(`/secrets?projectId=${project.id}&environment=${name.toLowerCase().replaceAll("_", "")}`, {
          bearer: token.text
        }),
      "a route": (name) => TestApp.get(`/${name}`, { session }),
      "a grant type of the token exchange": (name) => form("/auth/token-exchange", { grant_type: name }),
      "a grant type of OAuth": (name) => form("/oauth/token", { grant_type: name, client_id: name }),
      "a method of MCP": (name) => mcp(name, {}),
      "a tool of MCP": (name) => mcp("tools/call", { name, arguments: {} }),
      "a prompt of MCP": (name) => mcp("prompts/get", { name, arguments: {} }),
      "a resource of MCP": (name) => mcp("resources/read", { uri: `secrets://${name}` })
    }
    return { project, session, team, rule, refused }
  })

  it.effect("are refused like any other unknown name, at every door that takes one", () =>
    Effect.gen(function* () {
      const { refused } = yield* doors
      const wrong: Array<unknown> = []
      for (const [what, door] of Object.entries(refused)) {
        for (const exception of yield* exceptions(door)) wrong.push([what, exception])
      }
      assert.deepStrictEqual(wrong, [])
    })
  )

  it.effect("are hosts of issuers that nobody runs, and pages that have nothing more to say", () =>
    Effect.gen(function* () {
      const { rule, session, team } = yield* doors
      for (const name of specialNames) {
        const strangers = yield* rule(`https://${name}`, { ref: "main" })
        assert.deepStrictEqual([strangers.status, strangers.error.code], [400, "VALIDATION_FAILED"], name)
        const creation = yield* rule(`https://${name}.example.com`, { sub: "job" })
        assert.strictEqual(creation.status, 201, creation.text)
      }
      const page = (path: string, name: string) =>
        Effect.map(TestApp.get(path.replace("NAME", name), { session }), ({ status, text }) => [
          status,
          text.replaceAll(name, "NAME")
        ])
      for (const path of [
        `${"/app/sign-in"}?done=NAME`,
        `/app${team}/ci/new?kind=NAME`,
        `/app${team}/members?panel=NAME`
      ]) {
        const expected = yield* page(path, "unknown-name")
        for (const name of ["constructor", "__proto__", "toString"]) {
          assert.deepStrictEqual(yield* page(path, name), expected, path)
        }
      }
    })
  )

  it.effect("are good names for what a person names", () =>
    Effect.gen(function* () {
      const { session, team } = yield* doors
      const json = { name: "constructor", slug: "constructor", environments: [{ slug: "constructor" }] }
      const project = yield* TestApp.post(`${team}/projects`, { session, json })
      assert.strictEqual(project.status, 201, project.text)
      const at = { projectId: project.json.id, environment: "constructor" }
      const creation = yield* TestApp.post("/secrets", { session, json: { ...at, key: "CONSTRUCTOR", value: "v" } })
      assert.strictEqual(creation.status, 201, creation.text)
      const values = yield* TestApp.get(`/secrets/inject?${new URLSearchParams(at).toString()}`, { session })
      assert.deepStrictEqual(values.json.values, { CONSTRUCTOR: "v" })
    })
  )
})
