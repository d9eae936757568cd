/** Sessions, streams and several processes: who a session belongs to, how long it lives, what its stream is told. */
import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { allScopes } from "#schema/Scopes.ts"
import { Changes } from "#src/mcp/Changes.ts"
import * as Sessions from "#src/mcp/Sessions.ts"
import * as World from "#test/support/World.ts"
import * as Clients from "./Clients.ts"
import * as McpApp from "./McpApp.ts"

const scene = Effect.gen(function* () {
  const base = yield* McpApp.base
  const project = yield* World.project()
  const token = yield* World.token({ team: project.team, mcpScopes: allScopes })
  return { base, project, token, bearer: token.text }
})

const ping = { jsonrpc: "2.0", id: 7, method: "ping" }
const post = (base: string, bearer: string, session: string, body: unknown = ping) =>
  Clients.raw(base, "POST", { bearer, headers: { "mcp-session-id": session }, body })

/** A stream's text as it comes; closed with the scope. */
const listen = (url: string, init: RequestInit) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const abort = new AbortController()
        const response = await fetch(url, { ...init, signal: abort.signal })
        let text = ""
        let ended = false
        const reading = (async () => {
          const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
          for (;;) {
            const chunk = await reader?.read()
            if (chunk === undefined || chunk.done) break
            text += chunk.value
          }
        })()
          .catch(() => undefined)
          .finally(() => (ended = true))
        return { abort, response, reading, text: () => text, ended: () => ended }
      }),
      ({ abort, reading }) =>
        Effect.promise(() => {
          abort.abort()
          return reading
        })
    ),
    (stream) => ({
      ...stream,
      until: (holds: (text: string, ended: boolean) => boolean) =>
        Effect.promise(async () => {
          while (!holds(stream.text(), stream.ended())) await new Promise((resolve) => setTimeout(resolve, 10))
        })
    })
  )
const getStream = (base: string, bearer: string, session: string) =>
  listen(`${base}/mcp`, {
    headers: { authorization: `Bearer ${bearer}`, accept: "text/event-stream", "mcp-session-id": session }
  })

layer(McpApp.layer, { excludeTestServices: true })("sessions", (it) => {
  it.effect("are named by each request, known to whoever opened them, and gone when ended", () =>
    Effect.gen(function* () {
      const { base, bearer, project } = yield* scene
      const session = yield* Clients.open(base, bearer)
      assert.match(session, /^[0-9A-Za-z]{32}$/)
      assert.strictEqual((yield* Clients.raw(base, "POST", { bearer, body: ping })).status, 400)
      assert.strictEqual((yield* post(base, bearer, session)).status, 200)
      const other = yield* World.token({ team: project.team, mcpScopes: allScopes })
      for (const [who, which] of [
        [other.text, session],
        [bearer, "0".repeat(32)],
        [bearer, "../../x"]
      ] as const) {
        const { json, status } = yield* post(base, who, which)
        assert.strictEqual(status, 404)
        assert.deepStrictEqual(json, {
          jsonrpc: "2.0",
          error: { code: -32_001, message: "Session not found" },
          id: null
        })
      }
      const end = (who: string) => Clients.raw(base, "DELETE", { bearer: who, headers: { "mcp-session-id": session } })
      assert.strictEqual((yield* end(other.text)).status, 404)
      assert.strictEqual((yield* end(bearer)).status, 200)
      assert.strictEqual((yield* post(base, bearer, session)).status, 404)
      assert.strictEqual((yield* end(bearer)).status, 404)
    })
  )

  it.effect("take notifications with 202 and nothing else", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      const session = yield* Clients.open(base, bearer)
      const answer = yield* post(base, bearer, session, { jsonrpc: "2.0", method: "notifications/initialized" })
      assert.strictEqual(answer.status, 202)
      assert.strictEqual(answer.json, "")
    })
  )

  it.effect("are twenty at most, the least recently used makes room", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      const sql = yield* SqlClient.SqlClient
      const first = yield* Clients.open(base, bearer)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '1 minute' WHERE id = ${first}`
      const more = yield* Effect.forEach(Array.from({ length: Sessions.perPrincipal }), () =>
        Clients.open(base, bearer)
      )
      assert.strictEqual((yield* post(base, bearer, first)).status, 404)
      for (const session of more) assert.strictEqual((yield* post(base, bearer, session)).status, 200)
    })
  )

  it.effect("end after half an hour without use, and stand while they are used", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      const sql = yield* SqlClient.SqlClient
      const session = yield* Clients.open(base, bearer)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '29 minutes' WHERE id = ${session}`
      assert.strictEqual((yield* post(base, bearer, session)).status, 200)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '29 minutes' WHERE id = ${session}`
      assert.strictEqual((yield* post(base, bearer, session)).status, 200)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '31 minutes' WHERE id = ${session}`
      assert.strictEqual((yield* post(base, bearer, session)).status, 404)
    })
  )

  it.effect("are refused beyond two thousand in all", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO mcp_sessions (id, principal, protocol_version, client_capabilities, subscriptions, created_at, last_seen_at)
        SELECT 'filler-' || n, 'filler', '2025-11-25', '{}', '{}', now(), now() FROM generate_series(1, ${Sessions.inTotal}) AS n`
      const { status } = yield* Clients.raw(base, "POST", { bearer, body: Clients.initialize })
      assert.strictEqual(status, 429)
      yield* sql`DELETE FROM mcp_sessions WHERE principal = 'filler'`
    })
  )

  describe("their stream", () => {
    it.scoped("opens at once, one per session, and asks for its media type", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const session = yield* Clients.open(base, bearer)
        const plain = yield* Clients.raw(base, "GET", {
          bearer,
          headers: { accept: "application/json", "mcp-session-id": session }
        })
        assert.strictEqual(plain.status, 406)
        const stream = yield* getStream(base, bearer, session)
        yield* stream.until((text) => text.startsWith(": open\n\n"))
        assert.strictEqual(stream.response.headers.get("x-accel-buffering"), "no")
        const second = yield* Clients.raw(base, "GET", {
          bearer,
          headers: { accept: "text/event-stream", "mcp-session-id": session }
        })
        assert.strictEqual(second.status, 409)
      })
    )

    it.scoped("tells what changed, and ends with its credential", () =>
      Effect.gen(function* () {
        const { base, bearer, project, token } = yield* scene
        const changes = yield* Changes
        const session = yield* Clients.open(base, bearer)
        const uri = `secrets://projects/${project.id}/environments/development`
        yield* post(base, bearer, session, { jsonrpc: "2.0", id: 1, method: "resources/subscribe", params: { uri } })
        const stream = yield* getStream(base, bearer, session)
        yield* stream.until((text) => text !== "")
        yield* Clients.raw(base, "POST", {
          bearer,
          ...Clients.modernCall("create_secret", {
            projectId: project.id,
            environment: "development",
            key: "K",
            generate: { length: 16 }
          })
        })
        yield* changes.look
        yield* stream.until((text) => text.includes(`"notifications/resources/updated","params":{"uri":"${uri}"}`))
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE api_tokens SET mcp_scopes = '{projects:read}' WHERE id = ${token.id}`
        yield* changes.look
        yield* stream.until((text) => text.includes('"notifications/tools/list_changed"'))
        yield* World.environment(project, "preview")
        yield* changes.look
        yield* stream.until((text) => text.includes('"notifications/resources/list_changed"'))
        yield* World.revoke("api_tokens", token)
        yield* changes.look
        yield* stream.until((_, ended) => ended)
      })
    )

    it.scoped("says nothing of what its credential does not see", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const elsewhere = yield* World.project()
        const changes = yield* Changes
        const session = yield* Clients.open(base, bearer)
        const uri = `secrets://projects/${elsewhere.id}/environments/development`
        yield* post(base, bearer, session, { jsonrpc: "2.0", id: 1, method: "resources/subscribe", params: { uri } })
        const stream = yield* getStream(base, bearer, session)
        yield* stream.until((text) => text !== "")
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE environments SET revision = revision + 1 WHERE id = ${elsewhere.development.id}`
        yield* changes.look
        yield* Clients.raw(base, "DELETE", { bearer, headers: { "mcp-session-id": session } })
        yield* stream.until((_, ended) => ended)
        assert.notInclude(stream.text(), "updated")
      })
    )

    it.scoped("of the newer revision acknowledges first, tells, and ends with its credential", () =>
      Effect.gen(function* () {
        const { base, bearer, project, token } = yield* scene
        const changes = yield* Changes
        const uri = `secrets://projects/${project.id}/environments/development`
        const { body, headers } = Clients.modernCall("x", {})
        const stream = yield* listen(`${base}/mcp`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${bearer}`,
            accept: "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": headers["mcp-protocol-version"] ?? "",
            "mcp-method": "subscriptions/listen"
          },
          body: JSON.stringify({
            jsonrpc: "2.0",
            id: 9,
            method: "subscriptions/listen",
            params: {
              notifications: { toolsListChanged: true, resourceSubscriptions: [uri] },
              _meta: body.params._meta
            }
          })
        })
        yield* stream.until((text) => text.includes("notifications/subscriptions/acknowledged"))
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE environments SET revision = revision + 1 WHERE id = ${project.development.id}`
        yield* changes.look
        yield* stream.until((text) => text.includes("notifications/resources/updated"))
        yield* World.revoke("api_tokens", token)
        yield* changes.look
        yield* stream.until((_, ended) => ended)
      })
    )
  })

  describe("two processes behind one address", () => {
    it.scoped("serve one session by turns, and end it together", () =>
      Effect.gen(function* () {
        const { base, bearer, project } = yield* scene
        const other = yield* McpApp.otherProcess
        const session = yield* Clients.open(base, bearer)
        for (let i = 0; i < 6; i++) {
          const { json, status } = yield* post(i % 2 === 0 ? other : base, bearer, session, {
            ...Clients.call("list_environments", { projectId: project.id }),
            id: i
          })
          assert.strictEqual(status, 200)
          assert.strictEqual(json.id, i)
        }
        yield* Clients.raw(other, "DELETE", { bearer, headers: { "mcp-session-id": session } })
        assert.strictEqual((yield* post(base, bearer, session)).status, 404)
        assert.strictEqual((yield* post(other, bearer, session)).status, 404)
      })
    )
  })

  describe("a process that stops", () => {
    it.scoped("ends its streams and does not wait for their clients", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const session = yield* Clients.open(base, bearer)
        const scope = yield* Scope.make()
        const other = yield* Effect.provideService(McpApp.otherProcess, Scope.Scope, scope)
        const stream = yield* getStream(other, bearer, session)
        yield* stream.until((text) => text !== "")
        yield* Scope.close(scope, Exit.void)
        yield* stream.until((_, ended) => ended)
        assert.strictEqual((yield* post(base, bearer, session)).status, 200)
      })
    )
  })

  describe("many at once", () => {
    it.effect("get their own answers", () =>
      Effect.gen(function* () {
        const base = yield* McpApp.base
        const worlds = yield* Effect.forEach(Array.from({ length: 8 }), () => scene)
        const sessions = yield* Effect.forEach(worlds, ({ bearer }) => Clients.open(base, bearer))
        const answers = yield* Effect.forEach(
          Array.from({ length: 160 }, (_, i) => i),
          (i) => {
            const { bearer, project } = worlds[i % 8]
            const asked =
              i % 3 === 0
                ? Clients.raw(base, "POST", { bearer, ...Clients.modernCall("list_projects", {}) })
                : post(base, bearer, sessions[i % 8], Clients.call("list_projects", {}, i))
            return Effect.map(asked, ({ json }) => [json.result.structuredContent.projects, project.id] as const)
          },
          { concurrency: 32 }
        )
        for (const [projects, id] of answers) {
          assert.deepStrictEqual(
            projects.map((one: { id: string }) => one.id),
            [id]
          )
        }
      })
    )
  })
})
