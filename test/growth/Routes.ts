/** A request to each route of the API, and the routes that are left out, with the reason. Pages: `Pages.ts`. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { type Needs, type Scene, word } from "./Scene.ts"

/** The outer effect makes its request, and is not measured. */
export type Ask = Effect.Effect<Effect.Effect<TestApp.Answer, never, Needs>, never, Needs>

const just = (ask: () => Effect.Effect<TestApp.Answer, never, Needs>): Ask => Effect.sync(ask)
export const about = <A>(
  made: Effect.Effect<A, unknown, Needs>,
  ask: (made: A) => Effect.Effect<TestApp.Answer, never, Needs>
): Ask => Effect.map(Effect.orDie(made), ask)
export const get = (path: string, by: TestApp.Asked = {}) => just(() => TestApp.get(path, by))

const reads = ({ asks, colleague, incident, ofTeam, project, secret, webhook }: Scene): Record<string, Ask> => {
  const { bearer, login, person } = asks
  const { development, id, production } = project
  const at = `projectId=${id}&environment=development`
  const ofEnvironment = `/environments/${development.id}`
  return {
    "GET /.well-known/oauth-authorization-server": get("/.well-known/oauth-authorization-server"),
    "GET /.well-known/oauth-protected-resource": get("/.well-known/oauth-protected-resource"),
    "GET /.well-known/oauth-protected-resource/mcp": get("/.well-known/oauth-protected-resource/mcp"),
    "GET /health/live": get("/health/live"),
    "GET /health/ready": get("/health/ready"),
    "GET /openapi.json": get("/openapi.json"),
    "GET /dashboard/openapi.json": get("/dashboard/openapi.json"),
    "GET /capabilities": get("/capabilities", bearer),
    "GET /me/verify": get("/me/verify", bearer),
    "GET /me": get("/me", person),
    "GET /me/cli": get("/me/cli", login),
    "GET /me/cli-grants": get("/me/cli-grants", person),
    "GET /me/sessions": get("/me/sessions", person),
    "GET /me/sign-ins": get("/me/sign-ins", person),
    "GET /auth/cli/device/requests/:userCode": about(TestApp.post("/auth/cli/device", { json: {} }), ({ json }) =>
      TestApp.get(`/auth/cli/device/requests/${json.userCode}`, person)
    ),
    "GET /projects": get("/projects", person),
    "GET /projects/:projectId/environments": get(`/projects/${id}/environments`, person),
    "GET /projects/:projectId/exposure": get(`/projects/${id}/exposure`, person),
    "GET /projects/:projectId/activity": get(`/projects/${id}/activity`, person),
    "GET /projects/:projectId/grants": get(`/projects/${id}/grants`, person),
    "GET /environments/:envId/keypair": get(`${ofEnvironment}/keypair`, bearer),
    "GET /environments/:envId/access": get(`${ofEnvironment}/access`, person),
    "GET /environments/:envId/grants": get(`${ofEnvironment}/grants`, person),
    "GET /environments/:envId/access-requests": get(`/environments/${production.id}/access-requests`, person),
    "GET /environments/:envId/change-requests": get(`${ofEnvironment}/change-requests`, person),
    "GET /access-requests": get("/access-requests", person),
    "GET /change-requests": get("/change-requests", person),
    "GET /secrets": get(`/secrets?${at}`, bearer),
    "GET /secrets?lastRead": get(`/secrets?${at}&lastRead=true`, person),
    "GET /secrets/with-values": get(`/secrets/with-values?${at}`, bearer),
    "GET /secrets/value": get(`/secrets/value?${at}&key=OWN_0`, bearer),
    "GET /secrets/inject": get(`/secrets/inject?${at}`, bearer),
    "GET /secrets/diff": get(`/secrets/diff?projectId=${id}&sourceEnv=development&targetEnv=staging`, bearer),
    "GET /secrets/composition": get(`/secrets/composition?${at}`, bearer),
    "GET /secrets/deleted": get(`/secrets/deleted?${at}`, bearer),
    "GET /secrets/exposure": get(`/secrets/exposure?${at}&key=OWN_0`, person),
    "GET /secrets/:secretId/versions": get(`/secrets/${secret.id}/versions`, bearer),
    "GET /secrets/:secretId/metadata": get(`/secrets/${secret.id}/metadata`, bearer),
    "GET /secrets/:secretId/exposure": get(`/secrets/${secret.id}/exposure`, person),
    "GET /teams/:teamId/api-tokens": get(`${ofTeam}/api-tokens`, person),
    "GET /teams/:teamId/members": get(`${ofTeam}/members`, person),
    "GET /teams/:teamId/members/:userId/access": get(`${ofTeam}/members/${project.team.owner.id}/access`, person),
    "GET /teams/:teamId/second-person": get(`${ofTeam}/second-person`, person),
    "GET /teams/:teamId/machine-rules": get(`${ofTeam}/machine-rules`, person),
    "GET /teams/:teamId/webhooks": get(`${ofTeam}/webhooks`, person),
    "GET /teams/:teamId/webhooks/:webhookId/deliveries": get(`${ofTeam}/webhooks/${webhook}/deliveries`, person),
    "GET /teams/:teamId/sign-in": get(`${ofTeam}/sign-in`, person),
    "GET /teams/:teamId/incident-report": get(`${ofTeam}/incident-report?person=${colleague.email}`, person),
    "GET /teams/:teamId/incidents": get(`${ofTeam}/incidents`, person),
    "GET /teams/:teamId/incidents/:incidentId": get(`${ofTeam}/incidents/${incident}`, person),
    "GET /teams/:teamId/incidents/:incidentId/note": get(`${ofTeam}/incidents/${incident}/note`, person),
    "GET /teams/:teamId/leaked-credentials": get(`${ofTeam}/leaked-credentials`, person),
    "GET /teams/:teamId/audit": get(`${ofTeam}/audit`, person),
    "GET /teams/:teamId/audit?key": get(`${ofTeam}/audit?key=NEVER_USED`, person),
    "GET /teams/:teamId/audit?actor": get(`${ofTeam}/audit?actor=${project.team.owner.id}`, person),
    "GET /teams/:teamId/audit?action": get(`${ofTeam}/audit?action=secret.delete`, person)
  }
}

const seal = (environmentId: string, publicKey: string) =>
  Effect.gen(function* () {
    const to = yield* SealedEnv.recipient(environmentId, Option.getOrThrow(SealedEnv.parsePublicKey(publicKey)))
    return yield* SealedEnv.sealEntry(to, "A", Redacted.make("v"))
  }).pipe(Effect.orDie)

const ofSecrets = ({ aSecret, asks: { bearer, person }, project, secret }: Scene): Record<string, Ask> => {
  const { development, id, staging } = project
  const here = { projectId: id, environment: "development" }
  const there = { projectId: id, environment: "staging" }
  const keypair = TestApp.get(`/environments/${development.id}/keypair`, bearer)
  return {
    "POST /secrets": just(() =>
      TestApp.post("/secrets", { ...bearer, json: { ...there, key: word("NEW_"), value: "v" } })
    ),
    "PATCH /secrets/:secretId": just(() =>
      TestApp.patch(`/secrets/${secret.id}`, { ...bearer, json: { value: word("v") } })
    ),
    "POST /secrets/bulk": just(() =>
      TestApp.post("/secrets/bulk", {
        ...bearer,
        json: { ...there, secrets: Array.from({ length: 20 }, (_, i) => ({ key: `MANY_${i}`, value: word("v") })) }
      })
    ),
    "POST /projects/:projectId/changes": just(() =>
      TestApp.post(`/projects/${id}/changes`, {
        ...bearer,
        json: { entries: [{ environment: "staging", key: "OWN_1", op: "set", value: word("v") }] }
      })
    ),
    "DELETE /secrets/:secretId": about(aSecret, (one) => TestApp.del(`/secrets/${one}`, bearer)),
    "POST /secrets/delete-bulk": about(aSecret, (one) =>
      TestApp.post("/secrets/delete-bulk", { ...bearer, json: { ...here, ids: [one] } })
    ),
    "POST /secrets/:secretId/restore": about(
      Effect.tap(aSecret, (one) => TestApp.del(`/secrets/${one}`, bearer)),
      (one) => TestApp.post(`/secrets/${one}/restore`, bearer)
    ),
    "POST /secrets/:secretId/rollback": about(
      Effect.tap(aSecret, (one) => TestApp.patch(`/secrets/${one}`, { ...bearer, json: { value: "other" } })),
      (one) => TestApp.post(`/secrets/${one}/rollback`, { ...bearer, json: { version: 1 } })
    ),
    "POST /secrets/:secretId/rename": about(aSecret, (one) =>
      TestApp.post(`/secrets/${one}/rename`, { ...bearer, json: { key: word("RENAMED_") } })
    ),
    "PATCH /secrets/:secretId/metadata": just(() =>
      TestApp.patch(`/secrets/${secret.id}/metadata`, { ...bearer, json: { owner: word("owner ") } })
    ),
    "POST /environments/:envId/restore": just(() =>
      TestApp.post(`/environments/${staging.id}/restore`, {
        ...person,
        json: { at: new Date(Date.now() - 1_000).toISOString(), preview: true }
      })
    ),
    "POST /environments/:envId/sealed-values/open": about(
      Effect.flatMap(keypair, ({ json }) =>
        Effect.map(seal(development.id, json.publicKey), (entry) => ({ keyId: json.keyId, entries: { A: entry } }))
      ),
      (json) => TestApp.post(`/environments/${development.id}/sealed-values/open`, { ...bearer, json })
    ),
    "POST /environments/:envId/sealed-values/export": just(() =>
      TestApp.post(`/environments/${development.id}/sealed-values/export`, { ...bearer, json: { keys: ["OWN_0"] } })
    ),
    "POST /environments/:envId/keypair/rotate": just(() =>
      TestApp.post(`/environments/${development.id}/keypair/rotate`, person)
    ),
    "POST /environments/:envId/keypair/:keyId/retire": about(
      Effect.zipLeft(keypair, TestApp.post(`/environments/${development.id}/keypair/rotate`, person)),
      ({ json }) => TestApp.post(`/environments/${development.id}/keypair/${json.keyId}/retire`, person)
    )
  }
}

const ofProjects = (scene: Scene): Record<string, Ask> => {
  const { aChange, aGrant, aMember, aProject, anAccessRequest, anEnvironment, asks, ofTeam, project } = scene
  const { person } = asks
  const { id, production, staging } = project
  const decides = (
    path: string,
    made: Effect.Effect<{ readonly id: string }, unknown, Needs>,
    how: "approve" | "deny" | "reveal"
  ) => about(made, ({ id }) => TestApp.post(`${path}/${id}/${how}`, person))
  return {
    "POST /teams/:teamId/projects": just(() => {
      const slug = word("made-")
      return TestApp.post(`${ofTeam}/projects`, { ...person, json: { name: slug, slug } })
    }),
    "PATCH /projects/:projectId": just(() =>
      TestApp.patch(`/projects/${id}`, { ...person, json: { name: word("Demo ") } })
    ),
    "DELETE /projects/:projectId": about(aProject, (one) => TestApp.del(`/projects/${one}`, person)),
    "POST /projects/:projectId/environments": about(aProject, (one) =>
      TestApp.post(`/projects/${one}/environments`, { ...person, json: { slug: "made" } })
    ),
    "PATCH /environments/:envId": just(() =>
      TestApp.patch(`/environments/${staging.id}`, { ...person, json: { name: word("Staging ") } })
    ),
    "DELETE /environments/:envId": about(anEnvironment, (one) => TestApp.del(`/environments/${one}`, person)),
    "POST /projects/:projectId/grants": about(aMember, ({ id: userId }) =>
      TestApp.post(`/projects/${id}/grants`, { ...person, json: { userId, level: "names" } })
    ),
    "POST /environments/:envId/grants": about(aMember, ({ id: userId }) =>
      TestApp.post(`/environments/${staging.id}/grants`, { ...person, json: { userId, level: "names" } })
    ),
    "DELETE /access-grants/:grantId": about(aGrant, (one) => TestApp.del(`/access-grants/${one}`, person)),
    "POST /environments/:envId/access-requests": about(aMember, ({ session }) =>
      TestApp.post(`/environments/${production.id}/access-requests`, {
        ...session,
        json: { level: "values", hours: 1, reason: "An incident" }
      })
    ),
    "DELETE /access-requests/:requestId": about(anAccessRequest, ({ by, id }) =>
      TestApp.del(`/access-requests/${id}`, by.session)
    ),
    "POST /access-requests/:requestId/approve": decides("/access-requests", anAccessRequest, "approve"),
    "POST /access-requests/:requestId/deny": decides("/access-requests", anAccessRequest, "deny"),
    "DELETE /change-requests/:requestId": about(aChange, ({ by, id }) =>
      TestApp.del(`/change-requests/${id}`, by.session)
    ),
    "POST /change-requests/:requestId/reveal": decides("/change-requests", aChange, "reveal"),
    "POST /change-requests/:requestId/approve": decides("/change-requests", aChange, "approve"),
    "POST /change-requests/:requestId/deny": decides("/change-requests", aChange, "deny")
  }
}

const ofTeams = ({
  aMember,
  aRule,
  aToken,
  aWebhook,
  asks,
  login,
  ofTeam,
  project,
  webhook
}: Scene): Record<string, Ask> => {
  const { person } = asks
  const { team } = project
  const ofToken = (one: { readonly id: string }) => `${ofTeam}/api-tokens/${one.id}` as const
  return {
    "PATCH /teams/:teamId": just(() => TestApp.patch(ofTeam, { ...person, json: { name: word("Team ") } })),
    "POST /teams/:teamId/leave": about(aMember, ({ session }) => TestApp.post(`${ofTeam}/leave`, session)),
    "POST /teams/:teamId/invitations": just(() =>
      TestApp.post(`${ofTeam}/invitations`, {
        ...person,
        json: { email: `${word("new")}@example.com`, role: "viewer" }
      })
    ),
    "PATCH /teams/:teamId/members/:userId": about(aMember, ({ id }) =>
      TestApp.patch(`${ofTeam}/members/${id}`, { ...person, json: { active: false } })
    ),
    "DELETE /teams/:teamId/members/:userId": about(aMember, ({ id }) => TestApp.del(`${ofTeam}/members/${id}`, person)),
    "POST /teams/:teamId/members/:userId/end-access": about(aMember, ({ id }) =>
      TestApp.post(`${ofTeam}/members/${id}/end-access`, { ...person, json: {} })
    ),
    "DELETE /teams/:teamId/members/:userId/credentials/:credentialId": about(aMember, ({ id, sessionId }) =>
      TestApp.del(`${ofTeam}/members/${id}/credentials/${sessionId}`, person)
    ),
    "POST /teams/:teamId/members/:userId/password-reset": about(aMember, ({ id }) =>
      TestApp.post(`${ofTeam}/members/${id}/password-reset`, person)
    ),
    "POST /teams/:teamId/api-tokens": just(() =>
      TestApp.post(`${ofTeam}/api-tokens`, {
        ...person,
        json: { name: word("made "), accessLevel: "read", lifetime: "1d" }
      })
    ),
    "PATCH /teams/:teamId/api-tokens/:tokenId": about(aToken, (one) =>
      TestApp.patch(ofToken(one), { ...person, json: { name: word("made ") } })
    ),
    "POST /teams/:teamId/api-tokens/:tokenId/rotate": about(aToken, (one) =>
      TestApp.post(`${ofToken(one)}/rotate`, person)
    ),
    "POST /teams/:teamId/api-tokens/:tokenId/revoke": about(aToken, (one) =>
      TestApp.post(`${ofToken(one)}/revoke`, person)
    ),
    "DELETE /teams/:teamId/api-tokens/:tokenId": about(
      Effect.tap(aToken, (one) => TestApp.post(`${ofToken(one)}/revoke`, person)),
      (one) => TestApp.del(ofToken(one), person)
    ),
    "POST /teams/:teamId/machine-rules": just(() =>
      TestApp.post(`${ofTeam}/machine-rules`, {
        ...person,
        json: { name: word("made "), issuer: "https://ci.example.com", claims: { sub: word("project:") } }
      })
    ),
    "DELETE /teams/:teamId/machine-rules/:ruleId": about(aRule, (one) =>
      TestApp.del(`${ofTeam}/machine-rules/${one}`, person)
    ),
    "PATCH /teams/:teamId/webhooks/:webhookId": just(() =>
      TestApp.patch(`${ofTeam}/webhooks/${webhook}`, { ...person, json: { name: word("made ") } })
    ),
    "POST /teams/:teamId/webhooks/:webhookId/rotate": just(() =>
      TestApp.post(`${ofTeam}/webhooks/${webhook}/rotate`, person)
    ),
    "DELETE /teams/:teamId/webhooks/:webhookId": about(aWebhook, (one) =>
      TestApp.del(`${ofTeam}/webhooks/${one}`, person)
    ),
    "PATCH /teams/:teamId/sign-in": just(() =>
      TestApp.patch(`${ofTeam}/sign-in`, { ...person, json: { only: null, breakGlass: [] } })
    ),
    "POST /teams/:teamId/incidents": about(aMember, ({ email }) =>
      TestApp.post(`${ofTeam}/incidents`, { ...person, json: { person: email } })
    ),
    "POST /auth/cli/device": just(() => TestApp.post("/auth/cli/device", { json: {} })),
    "POST /auth/cli/management": just(() =>
      TestApp.post("/auth/cli/management", { ...asks.login, json: { teamId: team.id } })
    ),
    "DELETE /auth/cli/management": about(World.management({ person: team.owner, team, login }), ({ text }) =>
      TestApp.del("/auth/cli/management", { bearer: text })
    ),
    "POST /auth/cli/logout": about(
      World.grant({ person: team.owner, teams: [{ team, scopes: ["identity:read"] }] }),
      ({ text }) => TestApp.post("/auth/cli/logout", { bearer: text })
    ),
    "DELETE /me/token": about(World.token({ team }), ({ text }) => TestApp.del("/me/token", { bearer: text })),
    "DELETE /me/sessions/:sessionId": about(World.session(team.owner), ({ id }) =>
      TestApp.del(`/me/sessions/${id}`, person)
    ),
    "DELETE /me/cli-grants/:grantId": about(
      World.grant({ person: team.owner, teams: [{ team, scopes: ["identity:read"] }] }),
      ({ id }) => TestApp.del(`/me/cli-grants/${id}`, person)
    ),
    "DELETE /auth/session": about(World.session(team.owner), ({ text }) =>
      TestApp.del("/auth/session", { session: text, headers: { origin: TestApp.baseUrl } })
    ),
    "PATCH /me": just(() => TestApp.patch("/me", { ...person, json: { name: word("Ada ") } })),
    // A search asks for the people and tokens of each team that a person is in: it is to have few here.
    "POST /teams": about(Effect.flatMap(World.person(), World.session), ({ text }) =>
      TestApp.post("/teams", { session: text, headers: person.headers, json: { name: word("Team ") } })
    )
  }
}

export const of = (scene: Scene): Record<string, Ask> => ({
  ...reads(scene),
  ...ofSecrets(scene),
  ...ofProjects(scene),
  ...ofTeams(scene)
})

const password = "takes the time of a password's hash; its rows are found by keys of one person"
const flow = "a step of a flow that others began; its rows are found by keys of the request"
const once = "once in the life of a service"

/** Routes without a request here, and why. */
export const omissions: Record<string, string> = {
  "POST /setup": once,
  "POST /auth/session": password,
  "POST /me/email": password,
  "POST /me/password": password,
  "POST /password-reset": password,
  "POST /invitations/accept": password,
  "GET /auth/cli/device/events": "a stream that ends when somebody decides",
  "POST /auth/cli/device/token": flow,
  "POST /auth/cli/device/requests/:userCode/approve": flow,
  "POST /auth/cli/device/requests/:userCode/approve-management": flow,
  "POST /auth/cli/device/requests/:userCode/deny": flow,
  "GET /oauth/authorize": flow,
  "GET /oauth/authorize/:uid": flow,
  "POST /oauth/token": flow,
  "POST /oauth/register": flow,
  "POST /oauth/revoke": flow,
  "POST /secrets/run-results": "answers to a run that an agent planned; `test/mcp/runs.test.ts`",
  "POST /reports/leaked-credentials": "off without keys in the settings; looks up credentials as each request does",
  "POST /teams/:teamId/incidents/:incidentId/replace":
    "writes a secret, as `PATCH /secrets/:secretId` does, of what one incident lists",
  "POST /teams/:teamId/incidents/:incidentId/ask": "a link for one secret of what one incident lists",
  "POST /teams/:teamId/webhooks": "20 of a team at most, and made before `DELETE`",
  "POST /teams/:teamId/webhooks/:webhookId/test": "one delivery, whose outcome is the receiver's",
  "POST /teams/:teamId/members/:userId/authenticators/:authenticatorId/confirm":
    "needs an authenticator that waits for an owner; `test/credentials/waysIn.test.ts`",
  "POST /second-person/:requestId/approve": "needs two owners; `test/projects/secondPerson.test.ts`",
  "POST /second-person/:requestId/link": "needs two owners; `test/projects/secondPerson.test.ts`",
  "POST /second-person/:requestId/deny": "needs two owners; `test/projects/secondPerson.test.ts`",
  "POST /teams/:teamId/sign-in/issuers": "asks the issuer, outside",
  "PATCH /teams/:teamId/sign-in/issuers/:issuerId": "of an issuer, which has to be asked, outside",
  "DELETE /teams/:teamId/sign-in/issuers/:issuerId": "of an issuer, which has to be asked, outside",
  "POST /teams/:teamId/sign-in/rules": "of an issuer, which has to be asked, outside",
  "DELETE /teams/:teamId/sign-in/rules/:ruleId": "of an issuer, which has to be asked, outside",
  "DELETE /me/sign-ins/:signInId": "of an issuer, which has to be asked, outside"
}
