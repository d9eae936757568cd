/** Names of query parameters that are names of something else as well. */
import { assert, describe, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { OAuthErrorResponse } from "#schema/OAuthApi.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "__defineGetter__", "prototype"]
const spellings = [
  ...names.flatMap((name) => [
    [name, `${name}=1`] as const,
    [name, name] as const,
    [name, `${name}=1&${name}=2`] as const
  ]),
  ["__proto__", "__%70roto__=1"],
  ["__proto__", "%5f%5Fproto%5F%5f=%7B%7D"]
] as const

const said = ({ error, status }: TestApp.Answer) => [status, error.code, error.field, error.message]
const unknown = (name: string) => [400, "VALIDATION_FAILED", name, "This member is not accepted here."]

describe("a query parameter that no route knows", () => {
  layer(TestApp.shared, { excludeTestServices: true })((it) => {
    it.effect("is refused by its name where a credential is asked for, whatever the name is", () =>
      Effect.gen(function* () {
        const project = yield* World.project()
        const { text: session } = yield* World.session(project.team.owner)
        const { text: bearer } = yield* World.token({ team: project.team })
        const place = `projectId=${project.id}&environment=development`
        for (const [name, query] of spellings) {
          const answers = [
            yield* TestApp.get(`/secrets?${place}&${query}`, { bearer }),
            yield* TestApp.get(`/secrets?${query}&${place}`, { bearer })
          ]
          assert.deepStrictEqual(answers.map(said), [unknown(name), unknown(name)], query)
        }
        for (const name of names) {
          const { message, ...me } = (yield* TestApp.get(`/me?${name}=1`, { session })).error
          assert.isString(message)
          assert.deepStrictEqual(me, { statusCode: 400, code: "VALIDATION_FAILED", field: name })
        }
      })
    )

    it.effect("is refused by its name where none is", () =>
      Effect.gen(function* () {
        for (const name of names) {
          for (const path of ["/health/live", "/openapi.json", "/.well-known/oauth-protected-resource"]) {
            const { code, field } = (yield* TestApp.get(`${path}?${name}=1`)).error
            assert.deepStrictEqual([code, field], ["VALIDATION_FAILED", name], path)
          }
        }
        const { error } = yield* TestApp.post("/auth/cli/device/token?__%70roto__", { json: { deviceCode: "x" } })
        assert.deepStrictEqual([error.code, error.field], ["VALIDATION_FAILED", "__proto__"])
      })
    )

    it.effect("is ignored by OAuth, as OAuth 2.1 3.1 wants it", () =>
      Effect.gen(function* () {
        const headers = { "content-type": "application/x-www-form-urlencoded" }
        const ask = (query: string) => TestApp.post(`/oauth/token${query}`, { headers, body: "grant_type=nonsense" })
        const answers = yield* Effect.all([ask("?__proto__=1"), ask("")])
        const [first, second] = answers.map((answer) => [answer.status, answer.as(OAuthErrorResponse)])
        assert.deepStrictEqual(first, second)
      })
    )

    it.effect("is spoken of after the credential, its kind and the site that the request comes from", () =>
      Effect.gen(function* () {
        const team = yield* World.team()
        const { text: bearer } = yield* World.token({ team })
        const { text: session } = yield* World.session(team.owner)
        const headers = { "sec-fetch-site": "cross-site" }
        const codes = [
          yield* TestApp.get("/me?__proto__=1"),
          yield* TestApp.get("/me?__proto__=1", { bearer }),
          yield* TestApp.get("/secrets/value?__proto__=1", { session, headers }),
          yield* TestApp.get("/auth/cli/device/events?__proto__=1"),
          yield* TestApp.get("/auth/cli/device/events?__proto__=1", { bearer }),
          yield* TestApp.get("/nowhere?__proto__=1", { bearer })
        ].map(({ error }) => error.code)
        assert.deepStrictEqual(codes, [
          "UNAUTHENTICATED",
          "CREDENTIAL_KIND_NOT_ACCEPTED",
          "CROSS_SITE_REQUEST",
          "UNAUTHENTICATED",
          "CREDENTIAL_KIND_NOT_ACCEPTED",
          "ROUTE_NOT_FOUND"
        ])
        const { json: started } = yield* TestApp.post("/auth/cli/device")
        const events = yield* TestApp.get("/auth/cli/device/events?__proto__=1", { bearer: started.deviceCode })
        assert.deepStrictEqual(said(events), unknown("__proto__"))
      })
    )
  })
})
