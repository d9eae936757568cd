/** A request to each page, and the pages that are left out, with the reason. */
import * as Effect from "effect/Effect"
import * as TestApp from "#test/support/TestApp.ts"
import { about, type Ask, get } from "./Routes.ts"
import type { Scene } from "./Scene.ts"

export const of = ({
  aRule,
  asks,
  colleague,
  incident,
  ofTeam,
  project,
  secret,
  token,
  webhook
}: Scene): Record<string, Ask> => {
  const inTeam = `/app/teams/${project.team.id}`
  const inProject = `/app/projects/${project.id}`
  const inEnvironment = `${inProject}/env/development`
  const ofSecret = `${inEnvironment}/secrets/${secret.id}`
  const page = (path: string) => get(path, asks.person)
  const see = (path: string) => TestApp.get(path, asks.person)
  const change = Effect.map(
    TestApp.get(`/projects/${project.id}/activity`, asks.person),
    ({ json }) => json.items[0].id
  )
  const entry = Effect.map(TestApp.get(`${ofTeam}/audit`, asks.person), ({ json }) => json.items[0].id)
  return {
    "GET /app": page("/app"),
    "GET /app/account": page("/app/account"),
    "GET /app/account/second-factor": page("/app/account/second-factor"),
    "GET /app/account/sessions": page("/app/account/sessions"),
    "GET /app/account/sign-ins": page("/app/account/sign-ins"),
    "GET /app/confirm": page("/app/confirm"),
    "GET /app/connections": page("/app/connections"),
    "GET /app/grants": page("/app/grants"),
    "GET /app/search": page("/app/search?q=OWN"),
    "GET /app/start": page("/app/start"),
    "GET /app/waiting": page("/app/waiting"),
    "GET /app/teams/new": page("/app/teams/new"),
    "GET /app/projects/:projectId": page(inProject),
    "GET /app/projects/:projectId/activity": page(`${inProject}/activity`),
    "GET /app/projects/:projectId/activity/:entry": about(change, (id) => see(`${inProject}/activity/${id}`)),
    "GET /app/projects/:projectId/compare": page(`${inProject}/compare?from=development&to=staging`),
    "GET /app/projects/:projectId/exposure": page(`${inProject}/exposure`),
    "GET /app/projects/:projectId/settings": page(`${inProject}/settings`),
    "GET /app/projects/:projectId/steps": page(`${inProject}/steps`),
    "GET /app/projects/:projectId/env/:slug": page(inEnvironment),
    "GET /app/projects/:projectId/env/:slug/access": page(`${inEnvironment}/access`),
    "GET /app/projects/:projectId/env/:slug/deleted": page(`${inEnvironment}/deleted`),
    "GET /app/projects/:projectId/env/:slug/graph": page(`${inEnvironment}/graph`),
    "GET /app/projects/:projectId/env/:slug/key/:key": page(`${inEnvironment}/key/OWN_0`),
    "GET /app/projects/:projectId/env/:slug/restore": page(`${inEnvironment}/restore`),
    "GET /app/projects/:projectId/env/:slug/sealing": page(`${inEnvironment}/sealing`),
    "GET /app/projects/:projectId/env/:slug/secrets/:secretId": page(ofSecret),
    "GET /app/projects/:projectId/env/:slug/secrets/:secretId/exposure": page(`${ofSecret}/exposure`),
    "GET /app/projects/:projectId/env/:slug/secrets/:secretId/versions/:version": page(`${ofSecret}/versions/1`),
    "GET /app/teams/:teamId/access": page(`${inTeam}/access`),
    "GET /app/teams/:teamId/audit": page(`${inTeam}/audit`),
    "GET /app/teams/:teamId/audit/:entry": about(entry, (id) => see(`${inTeam}/audit/${id}`)),
    "GET /app/teams/:teamId/audit/:entry/proof.jsonl": about(entry, (id) => see(`${inTeam}/audit/${id}/proof.jsonl`)),
    "GET /app/teams/:teamId/ci/:ruleId": about(aRule, (id) => see(`${inTeam}/ci/${id}`)),
    "GET /app/teams/:teamId/ci": page(`${inTeam}/ci`),
    "GET /app/teams/:teamId/ci/new": page(`${inTeam}/ci/new`),
    "GET /app/teams/:teamId/incidents": page(`${inTeam}/incidents`),
    "GET /app/teams/:teamId/incidents/new": page(`${inTeam}/incidents/new?person=${colleague.email}`),
    "GET /app/teams/:teamId/incidents/:incidentId": page(`${inTeam}/incidents/${incident}`),
    "GET /app/teams/:teamId/incidents/:incidentId/note": page(`${inTeam}/incidents/${incident}/note`),
    "GET /app/teams/:teamId/members": page(`${inTeam}/members`),
    "GET /app/teams/:teamId/members/:userId": page(`${inTeam}/members/${colleague.id}`),
    "GET /app/teams/:teamId/settings": page(`${inTeam}/settings`),
    "GET /app/teams/:teamId/sign-in": page(`${inTeam}/sign-in`),
    "GET /app/teams/:teamId/tokens": page(`${inTeam}/tokens`),
    "GET /app/teams/:teamId/tokens/new": page(`${inTeam}/tokens/new`),
    "GET /app/teams/:teamId/tokens/:tokenId": page(`${inTeam}/tokens/${token}`),
    "GET /app/teams/:teamId/webhooks": page(`${inTeam}/webhooks`),
    "GET /app/teams/:teamId/webhooks/new": page(`${inTeam}/webhooks/new`),
    "GET /app/teams/:teamId/webhooks/:webhookId": page(`${inTeam}/webhooks/${webhook}`)
  }
}

const form = "a form of a person who is not signed in"
const flow = "a step of a flow that others began; its rows are found by keys of the request"
const documentation = "the same for every caller, without a statement"
const whole = "the trail as a file, as long as it is: `npm run test:trail`"

/** Pages without a request here, and why. */
export const omissions: Record<string, string> = {
  "GET /": "leads on",
  "GET /app/*": "what is not there",
  "GET /app/account/address/confirm": "a form of one person, for a link",
  "GET /app/account/second-factor/app": "makes a factor, of one person",
  "GET /app/account/ways-in": "lists the authenticators of one person, after a reset link",
  "GET /app/connect/:uid": flow,
  "GET /app/provide/:code": flow,
  "GET /app/sign-in": form,
  "GET /app/sign-in/code": flow,
  "GET /app/sign-in/recovery": flow,
  "GET /app/sign-in/with/:issuer/callback": flow,
  "GET /app/teams/:teamId/audit.csv": whole,
  "GET /app/teams/:teamId/audit.jsonl": whole,
  "GET /device": flow,
  "GET /docs": documentation,
  "GET /docs/*": documentation,
  "GET /invite": form,
  "GET /llms.txt": documentation,
  "GET /reset": form,
  "GET /setup": form
}
