/** Sessions, streams and several processes: the owner of a session, its life, and the notices on its stream. */
import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { type TeamId, TeamIdOut } from "#schema/Ids.ts"
import { allScopes } from "#schema/Scopes.ts"
import { Changes } from "#src/mcp/Changes.ts"
import * as Sessions from "#src/mcp/Sessions.ts"
import { inTotal as streamsInTotal, streamToEvict, perCredential, perTeam } from "#src/mcp/Changes.ts"
import * as Seals from "#test/support/Seals.ts"
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
const getStream = (base: string, bearer: string, session: string, more: Record<string, string> = {}) =>
  listen(`${base}/mcp`, {
    headers: { authorization: `Bearer ${bearer}`, accept: "text/event-stream", "mcp-session-id": session, ...more }
  })
/** The same of the newer revision, which needs no session. */
const listenModern = (
  base: string,
  bearer: string,
  uris: ReadonlyArray<string> = [],
  more: Record<string, string> = {}
) => {
  const { body, headers } = Clients.modernCall("x", {})
  return listen(`${base}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${bearer}`,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": headers["mcp-protocol-version"] ?? "",
      "mcp-method": "subscriptions/listen",
      ...more
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 9,
      method: "subscriptions/listen",
      params: {
        notifications: { toolsListChanged: true, resourceSubscriptions: uris },
        _meta: body.params._meta
      }
    })
  })
}

layer(McpApp.shared, { excludeTestServices: true })("sessions", (it) => {
  it.effect("are named by each request, known to their opener alone, and gone when ended", () =>
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
      assert.strictEqual(answer.text, "")
    })
  )

  it.effect("are a hundred at most for a principal; then the one longest without use makes room", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      const sql = yield* SqlClient.SqlClient
      const first = yield* Clients.open(base, bearer)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '1 minute' WHERE id = ${first}`
      const more = yield* Effect.forEach(Array.from({ length: Sessions.perPrincipal - 1 }), () =>
        Clients.open(base, bearer)
      )
      // The 21st, and each up to the hundredth, displaced none.
      assert.lengthOf(yield* sql`SELECT id FROM mcp_sessions WHERE id = ${first}`, 1)
      more.push(yield* Clients.open(base, bearer))
      assert.strictEqual((yield* post(base, bearer, first)).status, 404)
      for (const session of more) assert.strictEqual((yield* post(base, bearer, session)).status, 200)
    })
  )

  it.effect("end after a day without use, and last while they are used", () =>
    Effect.gen(function* () {
      const { base, bearer } = yield* scene
      const sql = yield* SqlClient.SqlClient
      const session = yield* Clients.open(base, bearer)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '23 hours' WHERE id = ${session}`
      assert.strictEqual((yield* post(base, bearer, session)).status, 200)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '23 hours' WHERE id = ${session}`
      assert.strictEqual((yield* post(base, bearer, session)).status, 200)
      yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '25 hours' WHERE id = ${session}`
      assert.strictEqual((yield* post(base, bearer, session)).status, 404)
    })
  )

  describe("beyond a limit", () => {
    /** Sessions of others, last used so many minutes ago. */
    const fill = (teamId: string | null, count: number, minutesAgo: number) =>
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql<{ readonly id: string }>`
          INSERT INTO mcp_sessions
            (id, principal, team_id, protocol_version, client_capabilities, subscriptions, created_at, last_seen_at)
          SELECT 'filler-' || gen_random_uuid(), 'filler-' || gen_random_uuid(), coalesce(${teamId}::uuid, gen_random_uuid()),
            '2025-11-25', '{}', '{}', now(), now() - make_interval(mins => ${minutesAgo}::int, secs => n / 100.0)
          FROM generate_series(1, ${count}::int) AS n RETURNING id`
      )
    const standing = (ids: ReadonlyArray<{ readonly id: string }>) =>
      Effect.flatMap(
        SqlClient.SqlClient,
        (sql) => sql`SELECT id FROM mcp_sessions WHERE id = any(${ids.map(({ id }) => id)}::text[])`
      )
    const cleared = Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`DELETE FROM mcp_sessions WHERE id LIKE 'filler-%'`
    ).pipe(Effect.orDie)

    it.effect("of a team its own least recently used session makes room, and no other team's", () =>
      Effect.gen(function* () {
        const { base, bearer, project } = yield* scene
        const elsewhere = yield* scene
        const theirs = yield* Clients.open(base, elsewhere.bearer)
        const others = yield* fill(elsewhere.project.team.id, 30, 20)
        const first = yield* fill(project.team.id, 1, 10)
        const more = yield* fill(project.team.id, Sessions.perTeam - 1, 1)
        const opened = yield* Clients.open(base, bearer)
        assert.lengthOf(yield* standing(first), 0)
        assert.lengthOf(yield* standing(more), Sessions.perTeam - 1)
        assert.lengthOf(yield* standing(others), 30)
        for (const [who, session] of [
          [bearer, opened],
          [elsewhere.bearer, theirs]
        ]) {
          assert.strictEqual((yield* post(base, who, session)).status, 200)
        }
      }).pipe(Effect.ensuring(cleared))
    )

    it.effect("in all the team with the most makes room for each newcomer, and no one is refused", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const most = yield* fill((yield* World.team()).id, 190, 2)
        const few = yield* fill((yield* World.team()).id, 10, 20)
        const singles = yield* fill(null, Sessions.inTotal - 200, 20)
        for (let i = 0; i < 5; i++) {
          const session = yield* Clients.open(base, bearer)
          assert.strictEqual((yield* post(base, bearer, session)).status, 200)
        }
        const sql = yield* SqlClient.SqlClient
        const [{ n }] = yield* sql<{ readonly n: number }>`SELECT count(*)::int AS n FROM mcp_sessions`
        assert.isAtMost(n, Sessions.inTotal)
        assert.isBelow((yield* standing(most)).length, 190)
        assert.lengthOf(yield* standing(few), 10)
        assert.lengthOf(yield* standing(singles), Sessions.inTotal - 200)
      }).pipe(Effect.ensuring(cleared))
    )

    it.scoped("the stream of a session that made room ends", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const session = yield* Clients.open(base, bearer)
        const stream = yield* getStream(base, bearer, session)
        yield* stream.until((text) => text !== "")
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '1 minute' WHERE id = ${session}`
        yield* Effect.forEach(Array.from({ length: Sessions.perPrincipal }), () => Clients.open(base, bearer))
        yield* stream.until((_, ended) => ended)
      })
    )

    it.scoped(
      "that cannot open because there is too much to do says so, also where its session is marked as used",
      () =>
        Effect.gen(function* () {
          const { base, bearer } = yield* scene
          const session = yield* Clients.open(base, bearer)
          const sql = yield* SqlClient.SqlClient
          yield* sql`UPDATE mcp_sessions SET last_seen_at = last_seen_at - interval '2 minutes' WHERE id = ${session}`
          // A lock that was not given in time: nothing is broken, and nothing that counts was written.
          yield* sql`
          CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'busy' USING ERRCODE = '55P03'; END $$`
          yield* sql`CREATE TRIGGER busy BEFORE UPDATE ON mcp_sessions FOR EACH ROW EXECUTE FUNCTION busy()`
          const open = Clients.raw(base, "GET", {
            bearer,
            headers: { accept: "text/event-stream", "mcp-session-id": session }
          })
          const refused = yield* open
          yield* sql`DROP FUNCTION busy() CASCADE`
          assert.deepStrictEqual([refused.status, refused.headers.get("retry-after")], [429, "2"])
          assert.include(JSON.stringify(refused.json), "SERVER_BUSY")
          const stream = yield* getStream(base, bearer, session)
          yield* stream.until((text) => text.startsWith(": open\n\n"))
        })
    )

    it.scoped("of a client whose list of tools grows begins with a look at the list, and no other does", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const staged = { "ampoule-tools": "staged" }
        const changed = "notifications/tools/list_changed"
        const older = yield* getStream(base, bearer, yield* Clients.open(base, bearer), staged)
        const newer = yield* listenModern(base, bearer, [], staged)
        const plain = yield* listenModern(base, bearer)
        yield* plain.until((text) => text.includes("acknowledged"))
        for (const stream of [older, newer]) yield* stream.until((text) => text.includes(changed))
        assert.isBelow(newer.text().indexOf("acknowledged"), newer.text().indexOf(changed))
        yield* (yield* Changes).look()
        assert.notInclude(plain.text(), changed)
      })
    )

    it.scoped("of a credential its oldest stream ends, and its client gets a time to come back", () =>
      Effect.gen(function* () {
        const { base, bearer } = yield* scene
        const session = yield* Clients.open(base, bearer)
        const oldest = yield* getStream(base, bearer, session)
        yield* oldest.until((text) => text !== "")
        const others = yield* Effect.forEach(Array.from({ length: perCredential - 1 }), () =>
          listenModern(base, bearer)
        )
        for (const other of others) yield* other.until((text) => text.includes("acknowledged"))
        assert.isFalse(oldest.ended())
        const newest = yield* listenModern(base, bearer)
        yield* newest.until((text) => text.includes("acknowledged"))
        yield* oldest.until((_, ended) => ended)
        assert.match(oldest.text(), /retry: \d+\n\n$/)
        assert.isTrue([...others, newest].every((other) => !other.ended()))
      })
    )

    interface Open {
      readonly credentialId: string
      readonly teamId: TeamId
    }
    const streamsOf = (shares: ReadonlyArray<readonly [team: number, credentials: number, each: number]>) =>
      shares.flatMap(([team, credentials, each]) =>
        Array.from({ length: credentials * each }, (_, i): Open => ({
          credentialId: `${team}/${i % credentials}`,
          teamId: TeamIdOut.make(`00000000-0000-4000-8000-${String(team).padStart(12, "0")}`)
        }))
      )

    it("of a team's streams one of its busiest credential ends", () => {
      const [newcomer] = streamsOf([[1, 1, 1]])
      const open = [...streamsOf([[2, 9, 20]]), ...streamsOf([[1, perTeam / 20 - 1, 20]]), ...streamsOf([[1, 30, 1]])]
      const ended = streamToEvict(open, { ...newcomer, credentialId: "new" })
      assert.strictEqual(ended?.teamId, newcomer.teamId)
      assert.strictEqual(open.filter(({ credentialId }) => credentialId === ended?.credentialId).length, 21)
    })

    it.prop(
      "of a process's streams one of the busiest team ends for each newcomer",
      [FastCheck.array(FastCheck.integer({ min: 1, max: perTeam }), { minLength: 1, maxLength: 60 })],
      ([counts]) => {
        const open = streamsOf(counts.map((n, team) => [team + 1, n, 1] as const))
        const [newcomer] = streamsOf([[999, 1, 1]])
        const ended = streamToEvict(open, newcomer)
        if (open.length < streamsInTotal) assert.isUndefined(ended)
        else {
          const size = (teamId: TeamId | undefined) => open.filter((one) => one.teamId === teamId).length
          assert.strictEqual(size(ended?.teamId), Math.max(...counts))
        }
      },
      { fastCheck: { numRuns: 60 } }
    )
  })

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
        yield* changes.look()
        yield* stream.until((text) => text.includes(`"notifications/resources/updated","params":{"uri":"${uri}"}`))
        const sql = yield* SqlClient.SqlClient
        yield* Seals.after(
          "api_tokens",
          sql`UPDATE api_tokens SET mcp_scopes = '{projects:read}' WHERE id = ${token.id}`
        )
        yield* changes.look()
        yield* stream.until((text) => text.includes('"notifications/tools/list_changed"'))
        yield* World.environment(project, "preview")
        yield* changes.look()
        yield* stream.until((text) => text.includes('"notifications/resources/list_changed"'))
        yield* World.revoke("api_tokens", token)
        yield* changes.look()
        yield* stream.until((_, ended) => ended)
      })
    )

    it.scoped("opened beside another of its team begins at the last look, and hears what changed since", () =>
      Effect.gen(function* () {
        const { base, bearer, project } = yield* scene
        const changes = yield* Changes
        const changed = "notifications/resources/list_changed"
        const opened = Effect.gen(function* () {
          const stream = yield* getStream(base, bearer, yield* Clients.open(base, bearer))
          yield* stream.until((text) => text !== "")
          return stream
        })
        const first = yield* opened
        yield* changes.look()
        assert.notInclude(first.text(), changed)
        yield* World.environment(project, "preview")
        const second = yield* opened
        yield* changes.look()
        yield* first.until((text) => text.includes(changed))
        yield* second.until((text) => text.includes(changed))
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
        yield* changes.look()
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
        const stream = yield* listenModern(base, bearer, [uri])
        yield* stream.until((text) => text.includes("notifications/subscriptions/acknowledged"))
        assert.match(
          stream.text().replace(/^:.*$/gm, "").trim(),
          /^[^{]*\{"jsonrpc":"2.0","method":"notifications\/subs/
        )
        // Asked for tools and one resource: other lists are none of its business.
        yield* World.environment(project, "preview")
        const sql = yield* SqlClient.SqlClient
        yield* sql`UPDATE environments SET revision = revision + 1 WHERE id = ${project.development.id}`
        yield* changes.look()
        yield* stream.until((text) => text.includes("notifications/resources/updated"))
        assert.notInclude(stream.text(), "list_changed")
        const messages = stream.text().match(/^data: \{.*$/gm) ?? []
        for (const message of messages) assert.include(message, '"io.modelcontextprotocol/subscriptionId":')
        yield* World.revoke("api_tokens", token)
        yield* changes.look()
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
          const { as, status } = yield* post(i % 2 === 0 ? other : base, bearer, session, {
            ...Clients.call("list_environments", { projectId: project.id }),
            id: i
          })
          assert.strictEqual(status, 200)
          assert.strictEqual(as(Clients.Response).id, i)
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
            const listing =
              i % 3 === 0
                ? Clients.raw(base, "POST", { bearer, ...Clients.modernCall("list_projects", {}) })
                : post(base, bearer, sessions[i % 8], Clients.call("list_projects", {}, i))
            return Effect.map(listing, ({ output }) => [output("list_projects").projects, project.id] as const)
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
