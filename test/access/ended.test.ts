/** The end of a grant, on two processes under load: requests that come after it pass on neither. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { randomBytes } from "node:crypto"
import { join } from "node:path"
import { inject } from "vitest"
import { Listening } from "#src/http/engine/Server.ts"
import * as Release from "#test/support/Release.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as TestDatabase from "#test/support/TestDatabase.ts"

const postgres = inject("postgres")
const password = "vial of thirty drops"
const sessionIn = (answer: TestApp.Answer) =>
  /ampoule_session=([^;]+)/.exec(answer.headers.get("set-cookie") ?? "")?.[1] ?? assert.fail(answer.text)

const processes = Effect.gen(function* () {
  if (postgres === undefined) return yield* Effect.dieMessage("no Postgres")
  const { url } = yield* TestDatabase.freshPostgres({ url: postgres.url })
  const folder = yield* Release.build
  const env = {
    AMPOULE_DATABASE_URL: url,
    AMPOULE_UNSAFE_DATABASE: "allow",
    AMPOULE_ROOT_KEY: randomBytes(32).toString("hex"),
    AMPOULE_BASE_URL: TestApp.baseUrl,
    AMPOULE_SETUP_CODE: "the first owner",
    AMPOULE_RATE_LIMITS: "off"
  }
  const host = (name: string) => Release.server(folder, { ...env, AMPOULE_DATA_DIR: join(folder, name) })
  return [yield* host("a"), yield* host("b")] as const
})

describe.skipIf(postgres === undefined)("a grant that ends, on two processes", () => {
  it.scopedLive(
    "lets 0 of 10,000 requests pass after its end",
    () =>
      Effect.gen(function* () {
        const ports = (yield* processes).map(({ port }) => port)
        const on =
          (port: number) =>
          <A, E>(effect: Effect.Effect<A, E, Listening>) =>
            Effect.provideService(effect, Listening, { host: "127.0.0.1", port })
        const onA = on(ports[0])
        const owner = yield* onA(
          TestApp.post("/setup", {
            json: {
              setupCode: "the first owner",
              email: "ada@example.com",
              name: "Ada",
              password,
              teamName: "Platform"
            }
          })
        )
        const session = sessionIn(owner)
        const teamId = owner.json.team.id
        const project = yield* onA(TestApp.post(`/teams/${teamId}/projects`, { session, json: { name: "Shop" } }))
        const projectId = project.json.id
        const environments = yield* onA(TestApp.get(`/projects/${projectId}/environments`, { session }))
        const production =
          environments.json.items.find(({ slug }) => slug === "production")?.id ?? assert.fail("no production")
        const place = { projectId, environment: "production" }
        yield* onA(TestApp.post("/secrets", { session, json: { ...place, key: "PIN", value: "4711" } }))
        const invited = yield* onA(
          TestApp.post(`/teams/${teamId}/invitations`, {
            session,
            json: { email: "grace@example.com", role: "member" }
          })
        )
        const code = new URL(invited.json.inviteUrl).searchParams.get("code")
        const joined = yield* onA(TestApp.post("/invitations/accept", { json: { code, name: "Grace", password } }))
        const member = sessionIn(joined)
        const me = yield* onA(TestApp.get("/me", { session: member }))

        const ends = Date.now() + 5_000
        const grant = yield* onA(
          TestApp.post(`/environments/${production}/grants`, {
            session,
            json: { userId: me.json.user.id, level: "values", until: new Date(ends).toISOString() }
          })
        )
        assert.strictEqual(grant.status, 201, grant.text)
        const query = new URLSearchParams(place).toString()
        const paths = [`/secrets/inject?${query}`, `/secrets/with-values?${query}`, `/secrets/value?${query}&key=PIN`]
        const counts = { before: 0, after: 0, passed: 0, others: new Set<string>() }
        const enough = 10_000
        const asking = (port: number, path: string) =>
          Effect.gen(function* () {
            while (counts.after < enough) {
              const late = Date.now() >= ends
              const answer = yield* on(port)(TestApp.get(path, { session: member }))
              if (late) counts.after++
              if (answer.status === 200 && late) counts.passed++
              else if (answer.status === 200) counts.before++
              else if (answer.error.code !== "ENVIRONMENT_NOT_GRANTED") counts.others.add(answer.text)
            }
          })
        const load = ports.flatMap((port) => paths.flatMap((path) => [0, 1, 2].map(() => asking(port, path))))
        yield* Effect.all(load, { concurrency: "unbounded", discard: true })
        assert.isAbove(counts.before, 0)
        assert.isAtLeast(counts.after, enough)
        assert.deepStrictEqual([counts.passed, [...counts.others]], [0, []])
      }),
    300_000
  )
})
