/** A team with something at every route, and the requests that make more of it. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const ok = <A extends TestApp.Answer, R>(ask: Effect.Effect<A, never, R>) =>
  Effect.tap(ask, (answer) => assert.isBelow(answer.status, 300, `${answer.status} ${answer.text}`))

let serial = 0
/** A word that was not said before. */
export const word = (beginning: string) => `${beginning}${++serial}`

export const make = Effect.gen(function* () {
  const project = yield* World.project()
  const { development, id, production, staging, team } = project
  const { id: tokenId, text: token } = yield* World.token({ team, accessLevel: "write" })
  const { text: session } = yield* World.session(team.owner)
  const login = yield* World.grant({
    person: team.owner,
    teams: [{ team, scopes: ["identity:read", "projects:read", "secrets:read", "secrets:write"] }]
  })
  const bearer = { bearer: token }
  const person = { session, headers: { origin: TestApp.baseUrl } }
  const ofTeam = `/teams/${team.id}` as const

  const secrets = Array.from({ length: 50 }, (_, i) => ({ key: `OWN_${i}`, value: `value ${i}` }))
  const bulk = (environment: string) =>
    ok(TestApp.post("/secrets/bulk", { ...bearer, json: { projectId: id, environment, secrets } }))
  const [secret] = (yield* bulk("development")).json.items
  yield* bulk("staging")

  /** A secret of its own, in `development`. */
  const aSecret = Effect.suspend(() =>
    ok(
      TestApp.post("/secrets", {
        ...bearer,
        json: { projectId: id, environment: "development", key: word("MADE_"), value: "v" }
      })
    )
  ).pipe(Effect.map(({ json }) => json.id))
  const aMember = Effect.gen(function* () {
    const one = yield* World.member(team, "member")
    const { id, text } = yield* World.session(one)
    return { ...one, session: { session: text, headers: person.headers }, sessionId: id }
  })
  const aToken = Effect.suspend(() =>
    ok(TestApp.post(`${ofTeam}/api-tokens`, { ...person, json: { name: word("made "), lifetime: "1d" } }))
  ).pipe(Effect.map(({ json }) => json))
  const aProject = Effect.suspend(() => {
    const slug = word("made-")
    return ok(TestApp.post(`${ofTeam}/projects`, { ...person, json: { name: slug, slug } }))
  }).pipe(Effect.map(({ json }) => json.id))
  const anEnvironment = Effect.flatMap(aProject, (projectId) =>
    ok(TestApp.post(`/projects/${projectId}/environments`, { ...person, json: { slug: "made" } }))
  ).pipe(Effect.map(({ json }) => json.id))
  const aWebhook = Effect.suspend(() =>
    ok(
      TestApp.post(`${ofTeam}/webhooks`, {
        ...person,
        json: { name: word("made "), url: "https://hooks.example.com/x" }
      })
    )
  ).pipe(Effect.map(({ json }) => json.id))
  const aRule = Effect.suspend(() =>
    ok(
      TestApp.post(`${ofTeam}/machine-rules`, {
        ...person,
        json: { name: word("made "), issuer: "https://ci.example.com", claims: { sub: word("project:") } }
      })
    )
  ).pipe(Effect.map(({ json }) => json.id))

  // Where grants decide, and where changes wait.
  const guarded = yield* World.project({ team })
  yield* ok(TestApp.patch(`/environments/${production.id}`, { ...person, json: { readers: "granted" } }))
  yield* ok(TestApp.patch(`/environments/${guarded.production.id}`, { ...person, json: { changes: "proposed" } }))
  const aChange = Effect.flatMap(aMember, (by) =>
    Effect.map(
      ok(
        TestApp.post("/secrets", {
          ...by.session,
          json: { projectId: guarded.id, environment: "production", key: word("MADE_"), value: "v" }
        })
      ),
      (answer) => ({ by, id: answer.as(ChangeRequest).id })
    )
  )
  const request = (by: TestApp.Asked) =>
    Effect.map(
      ok(
        TestApp.post(`/environments/${production.id}/access-requests`, {
          ...by,
          json: { level: "values", hours: 1, reason: "An incident" }
        })
      ),
      ({ json }) => json.id
    )
  const anAccessRequest = Effect.flatMap(aMember, (by) => Effect.map(request(by.session), (id) => ({ by, id })))
  const aGrant = Effect.flatMap(aMember, ({ id: userId }) =>
    ok(TestApp.post(`/environments/${staging.id}/grants`, { ...person, json: { userId, level: "values" } }))
  ).pipe(Effect.map(({ json }) => json.id))
  const opened = yield* Effect.flatMap(aMember, ({ email }) =>
    ok(TestApp.post(`${ofTeam}/incidents`, { ...person, json: { person: email } }))
  )
  return {
    project: { ...project, development, staging, production },
    ofTeam,
    asks: { bearer, person, login: { bearer: login.text } },
    login,
    colleague: yield* aMember,
    secret,
    token: tokenId,
    webhook: yield* aWebhook,
    incident: opened.json.id,
    aSecret,
    aMember,
    aToken,
    aProject,
    anEnvironment,
    aWebhook,
    aRule,
    anAccessRequest,
    aChange,
    aGrant
  }
})

export type Scene = Effect.Effect.Success<typeof make>
export type Needs = Effect.Effect.Context<typeof make>
