/** Several processes of one service, as a balancer without sticky sessions would use them: on Postgres and Redis. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomBytes, randomUUID } from "node:crypto"
import { join } from "node:path"
import { inject } from "vitest"
import { Listening } from "#src/http/engine/Server.ts"
import * as RedisServer from "#test/support/RedisServer.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const postgres = inject("postgres")
const possible = postgres !== undefined && RedisServer.available

/** Settings that the processes share. The database is empty, and not migrated yet. */
const common = Effect.gen(function* () {
  if (postgres === undefined) return yield* Effect.dieMessage("no Postgres")
  const { url } = yield* TestDatabase.freshPostgres({ url: postgres.url })
  const folder = yield* Release.build
  return {
    folder,
    env: {
      AMPOULE_DATABASE_URL: url,
      AMPOULE_UNSAFE_DATABASE: "allow",
      AMPOULE_REDIS_URL: yield* RedisServer.url,
      AMPOULE_ROOT_KEY: randomBytes(32).toString("hex"),
      AMPOULE_BASE_URL: TestApp.baseUrl,
      AMPOULE_SETUP_CODE: "the first owner"
    }
  }
})

const setUp = TestApp.post("/setup", {
  json: {
    setupCode: "the first owner",
    email: "ada@example.com",
    name: "Ada",
    password: "vial of thirty drops",
    teamName: "Platform"
  }
})
const sessionIn = (answer: TestApp.Answer) =>
  /ampoule_session=([^;]+)/.exec(answer.headers.get("set-cookie") ?? "")?.[1] ?? assert.fail(answer.text)

/** The stream of a device request, event by event. */
const eventsOf = (url: string, deviceCode: string) =>
  Effect.gen(function* () {
    const headers = { authorization: `Bearer ${deviceCode}` }
    const { body } = yield* Effect.promise((signal) => fetch(`${url}/auth/cli/device/events`, { headers, signal }))
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader() ?? assert.fail("no body")
    yield* Effect.addFinalizer(() => Effect.promise(() => reader.cancel()))
    return {
      next: Effect.map(
        Effect.promise(() => reader.read()),
        ({ value }) => value ?? ""
      )
    }
  })

describe.skipIf(!possible)("several hosts, one database, one Redis", () => {
  it.scopedLive(
    "are one service: whatever one of them did holds on the other, from the next request on",
    () =>
      Effect.gen(function* () {
        const { env, folder } = yield* common
        const host = (name: string) => Release.server(folder, { ...env, AMPOULE_DATA_DIR: join(folder, name) })
        // Both find an empty database, and both migrate it.
        const [a, b] = yield* Effect.all([host("a"), host("b")], { concurrency: 2 })
        const on =
          ({ port }: { readonly port: number }) =>
          <A, E>(effect: Effect.Effect<A, E, Listening>) =>
            Effect.provideService(effect, Listening, { host: "127.0.0.1", port })
        const onA = on(a)
        const onB = on(b)

        const owner = yield* onA(setUp)
        assert.strictEqual(owner.status, 201, owner.text)
        assert.strictEqual((yield* onB(setUp)).error.code, "SETUP_ALREADY_DONE")
        const session = sessionIn(owner)
        const me = yield* onB(TestApp.get("/me", { session }))
        assert.strictEqual(me.json.user.email, "ada@example.com")
        const teamId: string = owner.json.team.id

        const project = yield* onB(TestApp.post(`/teams/${teamId}/projects`, { session, json: { name: "Demo" } }))
        assert.strictEqual(project.status, 201, project.text)
        const place = { projectId: project.json.id, environment: "development" }
        const path = `/teams/${teamId}/api-tokens` as const
        const token = yield* onA(TestApp.post(path, { session, json: { name: "ci", accessLevel: "write" } }))
        assert.strictEqual(token.status, 201, token.text)
        const bearer: string = token.json.value

        // Each write on one host, each read on the other, turn by turn: nobody serves what is gone.
        const inject = TestApp.get(`/secrets/inject?${new URLSearchParams(place)}`, { bearer })
        const created = yield* onA(TestApp.post("/secrets", { bearer, json: { ...place, key: "TURN", value: "0" } }))
        assert.strictEqual(created.status, 201, created.text)
        for (let turn = 1; turn <= 6; turn++) {
          const [here, there] = turn % 2 === 0 ? [onA, onB] : [onB, onA]
          const before = yield* there(inject)
          assert.strictEqual(before.json.values.TURN, String(turn - 1))
          const written = yield* here(
            TestApp.patch(`/secrets/${created.json.id}`, { bearer, json: { value: String(turn) } })
          )
          assert.strictEqual(written.status, 200, written.text)
        }

        const revoked = yield* onA(TestApp.post(`${path}/${token.json.id}/revoke`, { session }))
        assert.strictEqual(revoked.status, 200, revoked.text)
        assert.strictEqual((yield* onB(inject)).error.code, "CREDENTIAL_REVOKED")
        assert.strictEqual((yield* onA(inject)).error.code, "CREDENTIAL_REVOKED")

        // Approved on A; the stream waits on B.
        const device = yield* onB(TestApp.post("/auth/cli/device", { json: {} }))
        const { deviceCode, userCode }: { readonly deviceCode: string; readonly userCode: string } = device.json
        const events = yield* eventsOf(b.url, deviceCode)
        assert.include(yield* events.next, "event: connected\n")
        const approval = { teams: [{ teamId, scopes: ["identity:read", "secrets:run"] }] }
        const approved = yield* onA(
          TestApp.post(`/auth/cli/device/requests/${userCode}/approve`, { session, json: approval })
        )
        assert.strictEqual(approved.status, 200, approved.text)
        assert.include(yield* events.next, "event: approved\n")
        const polls = Array.from({ length: 10 }, (_, i) =>
          (i % 2 === 0 ? onA : onB)(TestApp.post("/auth/cli/device/token", { json: { deviceCode } }))
        )
        const granted = (yield* Effect.all(polls, { concurrency: "unbounded" })).flatMap(({ json }) =>
          json.credential === undefined ? [] : [String(json.credential)]
        )
        assert.strictEqual(granted.length, 1)
        assert.strictEqual((yield* onB(TestApp.get("/me/verify", { bearer: granted[0] }))).status, 200)

        assert.strictEqual((yield* onB(TestApp.del("/auth/session", { session }))).status, 200)
        assert.strictEqual((yield* onA(TestApp.get("/me", { session }))).status, 401)

        // Ten tries in ten minutes, wherever they are made. One after the other: hashing many passwords at once starves
        // this machine, and an answer of Redis that comes too late is counted in the process alone (races:
        // redis.test.ts).
        const wrong = { json: { email: `${randomUUID()}@example.com`, password: "not the password" } }
        const tries = Array.from({ length: 16 }, (_, i) =>
          (i % 2 === 0 ? onA : onB)(TestApp.post("/auth/session", wrong))
        )
        const statuses = (yield* Effect.all(tries)).map(({ status }) => status)
        assert.deepStrictEqual(
          [401, 429].map((wanted) => statuses.filter((status) => status === wanted).length),
          [10, 6]
        )
      }),
    180_000
  )
})

describe.skipIf(!possible)("AMPOULE_WORKERS", () => {
  it.scopedLive(
    "serve one port together, share limits, are scraped as one, and stop together",
    () =>
      Effect.gen(function* () {
        const { env, folder } = yield* common
        const metricsPort = yield* freePort
        const server = yield* Release.server(folder, {
          ...env,
          AMPOULE_DATA_DIR: join(folder, "data"),
          AMPOULE_WORKERS: "2",
          AMPOULE_METRICS_PORT: String(metricsPort)
        })
        const here = Effect.provideService(Listening, { host: "127.0.0.1", port: server.port })
        const scrape = Effect.promise(async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text())
        const up = (text: string) => [...text.matchAll(/^ampoule_cache_up\{worker="(\d+)"\} 1$/gm)].map(([, id]) => id)
        // The log names the address when the first worker listens.
        yield* Effect.repeat(Effect.delay(scrape, "100 millis"), { until: (text) => up(text).length === 2 })
        assert.sameMembers(up(yield* scrape), ["1", "2"])

        const owner = yield* here(setUp)
        const session = sessionIn(owner)
        const wrong = { json: { email: `${randomUUID()}@example.com`, password: "not the password" } }
        const tries = Array.from({ length: 14 }, () => here(TestApp.post("/auth/session", wrong)))
        const statuses = (yield* Effect.all(tries, { concurrency: 7 })).map(({ status }) => status)
        assert.strictEqual(statuses.filter((status) => status === 401).length, 10)
        for (let i = 0; i < 20; i++) {
          // A connection of its own each time: the primary hands out connections, not requests.
          const me = yield* here(TestApp.get("/me", { session, headers: { connection: "close" } }))
          assert.strictEqual(me.status, 200)
        }
        const series = /^ampoule_http_requests_total\{route="\/me",method="GET",status="200",worker="(\d+)"\} (\d+)$/gm
        const counts = [...(yield* scrape).matchAll(series)].map(([, , count]) => Number(count))
        assert.strictEqual(counts.length, 2)
        assert.strictEqual(counts[0] + counts[1], 20)

        const pools = [...(yield* scrape).matchAll(/^ampoule_database_pool_size\{worker="[12]"\} 10$/gm)]
        assert.strictEqual(pools.length, 2)

        const code = yield* Effect.async<number | null>((resume) => {
          server.child.once("exit", (code) => resume(Effect.succeed(code)))
          server.child.kill("SIGTERM")
        })
        assert.strictEqual(code, 0, server.output.text)
      }),
    180_000
  )
})
