/** One row, or a few, per declared route: what it takes, what it is about, what it needs (docs/contract). */
import type { Kind, Place, Row } from "./AccessOracle.ts"

const all: ReadonlyArray<Kind> = ["api_token", "cli_grant", "session"]
const person: ReadonlyArray<Kind> = ["session"]
/** Actions that a command line may also take for some minutes after an approval. */
const manager: ReadonlyArray<Kind> = ["session", "management"]
const nowhere = "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"

const query = ({ ids }: Place) => `projectId=${ids.projectId}&environment=${ids.slug}`
const inEnvironment = ({ ids }: Place) => ({ projectId: ids.projectId, environment: ids.slug })

const open = (path: string, answers: Row["answers"], json?: unknown): Row => ({
  takes: "anyone",
  subject: "self",
  ask: () => ({ path, ...(json === undefined ? {} : { json }) }),
  answers
})
/** A read of an environment that its query names. */
const reads = (path: string, scope: "secrets:read" | "secrets:read_values" | "secrets:run"): Row => ({
  takes: all,
  subject: "environment",
  scope,
  needs: scope === "secrets:read" ? "names" : "values",
  ask: (place) => ({ path: `${path}${path.includes("?") ? "&" : "?"}${query(place)}` }),
  answers: [200]
})
const writes = (
  subject: "environment" | "secret",
  answers: Row["answers"],
  ask: Row["ask"],
  answersDeleted?: Row["answers"]
): Row => ({
  takes: all,
  subject,
  scope: "secrets:write",
  needs: "write",
  ask,
  answers,
  ...(answersDeleted === undefined ? {} : { answersDeleted })
})
/** A session route below a team. */
const ofTeam = (needs: Row["needs"] & string, answers: Row["answers"], rest: string, json?: unknown): Row => ({
  takes: person,
  subject: "team",
  needs,
  ask: ({ ids }) => ({ path: `/teams/${ids.teamId}${rest}`, ...(json === undefined ? {} : { json }) }),
  answers
})
/** For owners and admins, from anywhere; of a CLI grant with names in its reach. */
const tellsOfTeam = (rest: string, answers: Row["answers"]): Row => ({
  takes: ["cli_grant", "session"],
  subject: "team",
  scope: "secrets:read",
  needs: "manage",
  ofTheWholeTeam: true,
  ask: ({ ids }) => ({ path: `/teams/${ids.teamId}${rest}` }),
  answers
})
const mine = (path: string, answers: Row["answers"], json?: unknown): Row => ({
  takes: person,
  subject: "self",
  ask: () => ({ path, ...(json === undefined ? {} : { json }) }),
  answers
})
/** A session route about a project or, by its id, an environment. */
const manages = (
  subject: "project" | "environmentId",
  answers: Row["answers"],
  rest: string,
  json?: unknown,
  deletes?: "project" | "environment"
): Row => ({
  takes: person,
  subject,
  needs: "manage",
  ask: ({ ids }) => ({
    path: `${subject === "project" ? `/projects/${ids.projectId}` : `/environments/${ids.environmentId}`}${rest}`,
    ...(json === undefined ? {} : { json })
  }),
  answers,
  ...(deletes === undefined ? {} : { deletes })
})

const ofManagedTeam = (...of: Parameters<typeof ofTeam>): Row => ({ ...ofTeam(...of), takes: manager })
const isManaged = (...of: Parameters<typeof manages>): Row => ({ ...manages(...of), takes: manager })

const unknownCode = "/auth/cli/device/requests/BBBB-BBBB"
const noGrant = [404, "GRANT_NOT_FOUND"] as const

export const rows: Record<string, ReadonlyArray<Row>> = {
  // Discovery and health
  "GET /.well-known/oauth-authorization-server": [open("/.well-known/oauth-authorization-server", [200])],
  "GET /.well-known/oauth-protected-resource": [open("/.well-known/oauth-protected-resource", [200])],
  "GET /.well-known/oauth-protected-resource/mcp": [open("/.well-known/oauth-protected-resource/mcp", [200])],
  "GET /health/live": [open("/health/live", [200])],
  "GET /health/ready": [open("/health/ready", [200])],
  "GET /openapi.json": [open("/openapi.json", [200])],
  "GET /dashboard/openapi.json": [open("/dashboard/openapi.json", [200])],

  // Identity and credentials
  "GET /me/verify": [
    { takes: all, subject: "allTeams", scope: "identity:read", ask: () => ({ path: "/me/verify" }), answers: [200] }
  ],
  "GET /me": [
    {
      takes: ["cli_grant", "session"],
      subject: "allTeams",
      scope: "identity:read",
      ask: () => ({ path: "/me" }),
      answers: [200]
    }
  ],
  "GET /me/cli": [
    {
      takes: ["cli_grant"],
      subject: "allTeams",
      scope: "identity:read",
      ask: () => ({ path: "/me/cli" }),
      answers: [200]
    }
  ],
  "DELETE /me/token": [
    {
      takes: ["api_token", "session"],
      subject: "self",
      ask: () => ({ path: "/me/token" }),
      answers: [200],
      endsCredential: true,
      takesRevokedTokens: true
    }
  ],
  "POST /auth/cli/logout": [
    {
      takes: ["cli_grant"],
      subject: "self",
      ask: () => ({ path: "/auth/cli/logout" }),
      answers: [201],
      endsCredential: true
    }
  ],
  "DELETE /auth/cli/management": [
    {
      takes: ["management"],
      subject: "self",
      ask: () => ({ path: "/auth/cli/management" }),
      answers: [200],
      endsCredential: true
    }
  ],
  "POST /auth/cli/management": [
    {
      takes: ["cli_grant"],
      subject: "team",
      scope: "identity:read",
      needs: "manage",
      ofTheWholeTeam: true,
      ask: ({ ids }) => ({ path: "/auth/cli/management", json: { teamId: ids.teamId } }),
      answers: [201]
    }
  ],
  "GET /capabilities": [{ takes: all, subject: "self", ask: () => ({ path: "/capabilities" }), answers: [200] }],

  // Device authorization
  "POST /auth/cli/device": [open("/auth/cli/device", [201], {})],
  "POST /auth/cli/device/token": [open("/auth/cli/device/token", [201], { deviceCode: "unknown" })],
  "GET /auth/cli/device/events": [
    { takes: ["device_code"], subject: "self", ask: () => ({ path: "/auth/cli/device/events" }), answers: [200] }
  ],
  "GET /auth/cli/device/requests/:userCode": [mine(unknownCode, noGrant)],
  "POST /auth/cli/device/requests/:userCode/approve": [
    mine(`${unknownCode}/approve`, noGrant, { teams: [{ teamId: nowhere, scopes: ["identity:read"] }] })
  ],
  "POST /auth/cli/device/requests/:userCode/approve-management": [mine(`${unknownCode}/approve-management`, noGrant)],
  "POST /auth/cli/device/requests/:userCode/deny": [mine(`${unknownCode}/deny`, noGrant)],
  "GET /me/cli-grants": [mine("/me/cli-grants", [200])],
  "DELETE /me/cli-grants/:grantId": [mine(`/me/cli-grants/${nowhere}`, noGrant)],

  // Projects, environments, keypairs
  "GET /projects": [
    { takes: all, subject: "eachTeam", scope: "projects:read", ask: () => ({ path: "/projects" }), answers: [200] }
  ],
  "GET /projects/:projectId/environments": [
    {
      takes: all,
      subject: "project",
      scope: "projects:read",
      needs: "names",
      ask: ({ ids }) => ({ path: `/projects/${ids.projectId}/environments` }),
      answers: [200]
    }
  ],
  "GET /projects/:projectId/exposure": [
    {
      takes: all,
      subject: "project",
      scope: "secrets:read",
      tokensNeed: "audit:read",
      needs: "manage",
      ask: ({ ids }) => ({ path: `/projects/${ids.projectId}/exposure` }),
      answers: [200]
    }
  ],
  "GET /projects/:projectId/activity": [
    {
      takes: all,
      subject: "project",
      scope: "secrets:read",
      tokensNeed: "audit:read",
      needs: "manage",
      ask: ({ ids }) => ({ path: `/projects/${ids.projectId}/activity?limit=1` }),
      answers: [200]
    }
  ],
  "GET /secrets/:secretId/exposure": [
    {
      takes: all,
      subject: "secret",
      scope: "secrets:read",
      tokensNeed: "audit:read",
      needs: "manage",
      ask: ({ ids }) => ({ path: `/secrets/${ids.secretId}/exposure` }),
      answers: [200],
      answersDeleted: [200]
    }
  ],
  "GET /secrets/exposure": [
    {
      takes: all,
      subject: "environment",
      scope: "secrets:read",
      tokensNeed: "audit:read",
      needs: "manage",
      ask: (place) => ({
        path: `/secrets/exposure?projectId=${place.ids.projectId}&environment=${place.ids.slug}&key=BASE`
      }),
      answers: [200]
    }
  ],
  "GET /environments/:envId/access": [
    {
      takes: ["cli_grant", "session"],
      subject: "environmentId",
      scope: "secrets:read",
      // Told to the same people as the trail.
      tokensNeed: "audit:read",
      needs: "manage",
      ask: ({ ids }) => ({ path: `/environments/${ids.environmentId}/access` }),
      answers: [200]
    }
  ],
  "GET /teams/:teamId/incident-report": [tellsOfTeam("/incident-report?person=nobody", [404, "MEMBER_NOT_FOUND"])],
  // Without keys in the settings the route does not exist.
  "POST /reports/leaked-credentials": [open("/reports/leaked-credentials", [404, "ROUTE_NOT_FOUND"], [])],
  "GET /teams/:teamId/leaked-credentials": [tellsOfTeam("/leaked-credentials", [200])],
  "GET /teams/:teamId/incidents": [tellsOfTeam("/incidents", [200])],
  "GET /teams/:teamId/incidents/:incidentId": [tellsOfTeam(`/incidents/${nowhere}`, [404, "ROUTE_NOT_FOUND"])],
  "GET /teams/:teamId/incidents/:incidentId/note": [
    tellsOfTeam(`/incidents/${nowhere}/note`, [404, "ROUTE_NOT_FOUND"])
  ],
  "POST /teams/:teamId/incidents": [ofTeam("manage", [404, "MEMBER_NOT_FOUND"], "/incidents", { person: "nobody" })],
  "POST /teams/:teamId/incidents/:incidentId/replace": [
    ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/incidents/${nowhere}/replace`, { secretId: nowhere })
  ],
  "POST /teams/:teamId/incidents/:incidentId/ask": [
    ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/incidents/${nowhere}/ask`, { secretId: nowhere, userId: nowhere })
  ],
  "GET /environments/:envId/keypair": [
    {
      takes: all,
      subject: "environmentId",
      scope: "secrets:read",
      needs: "names",
      ask: ({ ids }) => ({ path: `/environments/${ids.environmentId}/keypair` }),
      answers: [200]
    }
  ],
  "POST /environments/:envId/sealed-values/open": [
    {
      takes: all,
      subject: "environmentId",
      scope: "secrets:run",
      needs: "values",
      ask: ({ ids }) => ({
        path: `/environments/${ids.environmentId}/sealed-values/open`,
        json: { keyId: "ek_00000000", entries: { A: "sealed:v1:ek_00000000:AAAA" } }
      }),
      answers: [404, "SEALING_KEY_NOT_FOUND"]
    }
  ],
  "POST /environments/:envId/sealed-values/export": [
    {
      takes: all,
      subject: "environmentId",
      scope: "secrets:run",
      needs: "values",
      ask: ({ ids }) => ({ path: `/environments/${ids.environmentId}/sealed-values/export`, json: {} }),
      answers: [200]
    }
  ],
  "POST /environments/:envId/keypair/rotate": [manages("environmentId", [200], "/keypair/rotate")],
  "POST /environments/:envId/keypair/:keyId/retire": [
    manages("environmentId", [404, "SEALING_KEY_NOT_FOUND"], "/keypair/ek_00000000/retire")
  ],

  // Requests for access: names are enough to ask, and who sees no request finds none
  "POST /environments/:envId/access-requests": [
    {
      takes: ["cli_grant", "session"],
      subject: "environmentId",
      scope: "secrets:read",
      needs: "names",
      ask: ({ ids }) => ({
        path: `/environments/${ids.environmentId}/access-requests`,
        json: { level: "names", hours: 1, reason: "A try" }
      }),
      // Where grants decide, it is a request that somebody has to decide about.
      where: ({ readers, visibility }) => readers === "team" && visibility === "team",
      answers: [400, "VALIDATION_FAILED"]
    }
  ],
  "GET /environments/:envId/access-requests": [
    {
      takes: ["cli_grant", "session"],
      subject: "environmentId",
      scope: "secrets:read",
      needs: "names",
      ask: ({ ids }) => ({ path: `/environments/${ids.environmentId}/access-requests` }),
      answers: [200]
    }
  ],
  "GET /access-requests": [
    {
      takes: ["cli_grant", "session"],
      subject: "eachTeam",
      scope: "secrets:read",
      ask: () => ({ path: "/access-requests" }),
      answers: [200]
    }
  ],
  "DELETE /access-requests/:requestId": [
    {
      takes: ["cli_grant", "session"],
      subject: "self",
      ask: () => ({ path: `/access-requests/${nowhere}` }),
      answers: noGrant
    }
  ],
  "GET /teams/:teamId/second-person": [ofManagedTeam("manage", [200], "/second-person")],
  "POST /second-person/:requestId/approve": [mine(`/second-person/${nowhere}/approve`, noGrant)],
  "POST /second-person/:requestId/deny": [mine(`/second-person/${nowhere}/deny`, noGrant)],
  "POST /second-person/:requestId/link": [{ ...mine(`/second-person/${nowhere}/link`, noGrant), takes: manager }],
  "POST /access-requests/:requestId/approve": [mine(`/access-requests/${nowhere}/approve`, noGrant)],
  "POST /access-requests/:requestId/deny": [mine(`/access-requests/${nowhere}/deny`, noGrant)],

  // One's own sessions
  "GET /me/sessions": [
    {
      takes: ["cli_grant", "session"],
      subject: "allTeams",
      scope: "identity:read",
      ask: () => ({ path: "/me/sessions" }),
      answers: [200]
    }
  ],
  "DELETE /me/sessions/:sessionId": [
    {
      takes: ["cli_grant", "session"],
      subject: "allTeams",
      scope: "identity:read",
      ask: () => ({ path: `/me/sessions/${nowhere}` }),
      answers: noGrant
    }
  ],

  // Changes that wait: names are enough to look, and who sees no change finds none
  "GET /environments/:envId/change-requests": [
    {
      takes: ["cli_grant", "session"],
      subject: "environmentId",
      scope: "secrets:read",
      needs: "names",
      ask: ({ ids }) => ({ path: `/environments/${ids.environmentId}/change-requests` }),
      answers: [200]
    }
  ],
  "GET /change-requests": [
    {
      takes: ["cli_grant", "session"],
      subject: "eachTeam",
      scope: "secrets:read",
      ask: () => ({ path: "/change-requests" }),
      answers: [200]
    }
  ],
  "DELETE /change-requests/:requestId": [
    {
      takes: ["cli_grant", "session"],
      subject: "self",
      ask: () => ({ path: `/change-requests/${nowhere}` }),
      answers: noGrant
    }
  ],
  "POST /change-requests/:requestId/reveal": [mine(`/change-requests/${nowhere}/reveal`, noGrant)],
  "POST /change-requests/:requestId/approve": [mine(`/change-requests/${nowhere}/approve`, noGrant)],
  "POST /change-requests/:requestId/deny": [mine(`/change-requests/${nowhere}/deny`, noGrant)],

  // Secrets
  "POST /secrets": [
    writes("environment", [409, "SECRET_ALREADY_EXISTS"], (place) => ({
      path: "/secrets",
      json: { ...inEnvironment(place), key: "BASE", value: "other" }
    }))
  ],
  "GET /secrets": [reads("/secrets", "secrets:read")],
  "POST /secrets/bulk": [
    writes("environment", [400, "TEMPLATE_INVALID"], (place) => ({
      path: "/secrets/bulk",
      json: { ...inEnvironment(place), secrets: [{ key: "BROKEN", value: "${BASE} ${" }] }
    }))
  ],
  "POST /projects/:projectId/changes": [
    writes("environment", [409, "SECRETS_CHANGED"], ({ ids }) => ({
      path: `/projects/${ids.projectId}/changes`,
      json: { entries: [{ environment: ids.slug, key: "BASE", op: "set", value: "other", expectedVersion: 99 }] }
    }))
  ],
  "GET /secrets/with-values": [reads("/secrets/with-values", "secrets:read_values")],
  "GET /secrets/value": [
    reads("/secrets/value?key=BASE", "secrets:read_values"),
    { ...reads("/secrets/value?key=ABSENT", "secrets:read_values"), answers: [404, "SECRET_NOT_FOUND"] }
  ],
  "GET /secrets/inject": [reads("/secrets/inject", "secrets:run")],
  "POST /secrets/run-results": [
    {
      ...reads("", "secrets:run"),
      ask: (place) => ({
        path: "/secrets/run-results",
        json: { ...inEnvironment(place), plan: nowhere, exitCode: 0, durationMillis: 1 }
      }),
      answers: [400, "VALIDATION_FAILED"]
    }
  ],
  "GET /secrets/diff": [
    {
      ...reads("", "secrets:read"),
      ask: ({ ids }) => ({
        path: `/secrets/diff?projectId=${ids.projectId}&sourceEnv=${ids.slug}&targetEnv=${ids.slug}`
      })
    }
  ],
  "GET /secrets/composition": [reads("/secrets/composition", "secrets:read")],
  "GET /secrets/deleted": [reads("/secrets/deleted", "secrets:read")],
  "DELETE /secrets/:secretId": [
    writes("secret", [409, "SECRET_HAS_DEPENDENTS"], ({ ids }) => ({ path: `/secrets/${ids.secretId}` }))
  ],
  "POST /secrets/delete-bulk": [
    writes("environment", [404, "SECRET_NOT_FOUND"], (place) => ({
      path: "/secrets/delete-bulk",
      json: { ...inEnvironment(place), ids: [nowhere] }
    }))
  ],
  "PATCH /secrets/:secretId": [
    writes("secret", [409, "SECRET_VERSION_CONFLICT"], ({ ids }) => ({
      path: `/secrets/${ids.secretId}`,
      json: { value: "other", expectedVersion: 99 }
    }))
  ],
  "POST /secrets/:secretId/rollback": [
    writes("secret", [404, "SECRET_VERSION_NOT_FOUND"], ({ ids }) => ({
      path: `/secrets/${ids.secretId}/rollback`,
      json: { version: 99 }
    }))
  ],
  "POST /secrets/:secretId/restore": [
    // Of the deleted one the key is taken again, too.
    writes("secret", [409, "SECRET_ALREADY_EXISTS"], ({ ids }) => ({ path: `/secrets/${ids.secretId}/restore` }), [
      409,
      "SECRET_ALREADY_EXISTS"
    ])
  ],
  "POST /environments/:envId/restore": [
    {
      takes: all,
      subject: "environmentId",
      scope: "secrets:write",
      needs: "write",
      ask: ({ ids }) => ({
        path: `/environments/${ids.environmentId}/restore`,
        json: { at: "2100-01-01T00:00:00Z", preview: true }
      }),
      answers: [400, "VALIDATION_FAILED"]
    }
  ],
  "POST /secrets/:secretId/rename": [
    {
      ...writes("secret", [409, "SECRET_HAS_DEPENDENTS"], ({ ids }) => ({
        path: `/secrets/${ids.secretId}/rename`,
        json: { key: "RENAMED" }
      })),
      direct: true
    }
  ],
  "PATCH /secrets/:secretId/metadata": [
    {
      ...writes("secret", [200], ({ ids }) => ({ path: `/secrets/${ids.secretId}/metadata`, json: { owner: "ada" } })),
      direct: true
    }
  ],
  "GET /secrets/:secretId/metadata": [
    {
      takes: all,
      subject: "secret",
      scope: "secrets:read",
      needs: "names",
      ask: ({ ids }) => ({ path: `/secrets/${ids.secretId}/metadata` }),
      answers: [200]
    }
  ],
  "GET /secrets/:secretId/versions": [
    {
      takes: all,
      subject: "secret",
      scope: "secrets:read",
      needs: "names",
      ask: ({ ids }) => ({ path: `/secrets/${ids.secretId}/versions` }),
      answers: [200],
      answersDeleted: [200]
    }
  ],

  // The authorization server: in its own shapes (RFC 6749), for every caller
  "GET /oauth/authorize": [open("/oauth/authorize", [400, "page"])],
  "GET /oauth/authorize/:uid": [open("/oauth/authorize/unknown", [400, "page"])],
  "POST /oauth/token": [open("/oauth/token", [400, "invalid_request"], {})],
  "POST /oauth/register": [open("/oauth/register", [400, "invalid_redirect_uri"], {})],
  "POST /oauth/revoke": [open("/oauth/revoke", [400, "invalid_request"], {})],

  // Sessions, people, teams
  "POST /setup": [open("/setup", [400, "VALIDATION_FAILED"], {})],
  "POST /auth/session": [open("/auth/session", [400, "VALIDATION_FAILED"], {})],
  "POST /password-reset": [open("/password-reset", [400, "VALIDATION_FAILED"], {})],
  "POST /invitations/accept": [open("/invitations/accept", [400, "VALIDATION_FAILED"], {})],
  "DELETE /auth/session": [{ ...mine("/auth/session", [200]), endsCredential: true }],
  "PATCH /me": [mine("/me", [400, "VALIDATION_FAILED"], {})],
  "POST /me/email": [mine("/me/email", [400, "VALIDATION_FAILED"], {})],
  "POST /me/password": [mine("/me/password", [400, "VALIDATION_FAILED"], {})],
  "POST /teams": [{ ...mine("/teams", [201], { name: "Another" }), beyondTeams: true }],
  "PATCH /teams/:teamId": [
    ofTeam("manage", [200], "", { name: "Team" }),
    ofTeam("own", [200], "", { plan: "team" }),
    // As the team has it already.
    {
      ...ofTeam("own", [200], ""),
      ask: ({ ids, team }) => ({ path: `/teams/${ids.teamId}`, json: { tokensFollowCreators: team === "V" } })
    }
  ],
  "POST /teams/:teamId/leave": [{ ...ofTeam("names", [200], "/leave"), endsCredential: true }],
  "GET /teams/:teamId/members": [ofManagedTeam("names", [200], "/members")],
  "POST /teams/:teamId/invitations": [
    ofManagedTeam("manage", [201], "/invitations", { email: "new@example.com", role: "viewer" }),
    {
      ...ofManagedTeam("own", [201], "/invitations", { email: "new-owner@example.com", role: "owner" }),
      waits: true
    },
    {
      ...ofManagedTeam("manage", [201], "/invitations", { email: "new-admin@example.com", role: "admin" }),
      waits: true
    }
  ],
  "PATCH /teams/:teamId/members/:userId": [
    ofManagedTeam("manage", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}`, { active: false })
  ],
  "DELETE /teams/:teamId/members/:userId": [ofManagedTeam("manage", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}`)],
  "GET /teams/:teamId/members/:userId/access": [
    ofManagedTeam("manage", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}/access`)
  ],
  "POST /teams/:teamId/members/:userId/end-access": [
    ofTeam("manage", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}/end-access`, {})
  ],
  "POST /teams/:teamId/members/:userId/authenticators/:authenticatorId/confirm": [
    ofTeam("own", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}/authenticators/${nowhere}/confirm`)
  ],
  "DELETE /teams/:teamId/members/:userId/credentials/:credentialId": [
    ofManagedTeam("manage", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}/credentials/${nowhere}`)
  ],
  "POST /teams/:teamId/members/:userId/password-reset": [
    ofTeam("manage", [404, "MEMBER_NOT_FOUND"], `/members/${nowhere}/password-reset`)
  ],
  "POST /teams/:teamId/projects": [
    ofManagedTeam("manage", [409, "NAME_TAKEN"], "/projects", { name: "One", slug: "one" })
  ],
  "PATCH /projects/:projectId": [isManaged("project", [200], "", { name: "Demo" })],
  "DELETE /projects/:projectId": [isManaged("project", [200], "", undefined, "project")],
  "POST /projects/:projectId/environments": [
    isManaged("project", [409, "NAME_TAKEN"], "/environments", { slug: "development" })
  ],
  "PATCH /environments/:envId": [isManaged("environmentId", [200], "", { name: "Renamed" })],
  "DELETE /environments/:envId": [isManaged("environmentId", [200], "", undefined, "environment")],
  "GET /projects/:projectId/grants": [manages("project", [200], "/grants")],
  "POST /projects/:projectId/grants": [
    manages("project", [404, "MEMBER_NOT_FOUND"], "/grants", { userId: nowhere, level: "names" })
  ],
  "GET /environments/:envId/grants": [manages("environmentId", [200], "/grants")],
  "POST /environments/:envId/grants": [
    manages("environmentId", [404, "MEMBER_NOT_FOUND"], "/grants", { userId: nowhere, level: "names" })
  ],
  "DELETE /access-grants/:grantId": [mine(`/access-grants/${nowhere}`, [404, "GRANT_NOT_FOUND"])],
  "POST /teams/:teamId/api-tokens": [
    { ...ofManagedTeam("manage", [201], "/api-tokens", { name: "ci" }), makesReader: true }
  ],
  "GET /teams/:teamId/api-tokens": [ofManagedTeam("manage", [200], "/api-tokens")],
  "PATCH /teams/:teamId/api-tokens/:tokenId": [
    ofManagedTeam("manage", [404, "TOKEN_NOT_FOUND"], `/api-tokens/${nowhere}`, { name: "ci" })
  ],
  "POST /teams/:teamId/api-tokens/:tokenId/rotate": [
    ofManagedTeam("manage", [404, "TOKEN_NOT_FOUND"], `/api-tokens/${nowhere}/rotate`)
  ],
  "POST /teams/:teamId/api-tokens/:tokenId/revoke": [
    ofManagedTeam("manage", [404, "TOKEN_NOT_FOUND"], `/api-tokens/${nowhere}/revoke`)
  ],
  "DELETE /teams/:teamId/api-tokens/:tokenId": [
    ofManagedTeam("manage", [404, "TOKEN_NOT_FOUND"], `/api-tokens/${nowhere}`)
  ],
  "POST /teams/:teamId/machine-rules": [
    {
      ...ofTeam("manage", [201], "/machine-rules", {
        name: "ci",
        issuer: "https://ci.example.com",
        claims: { sub: "project:shop" }
      }),
      makesReader: true
    }
  ],
  "GET /teams/:teamId/machine-rules": [ofTeam("manage", [200], "/machine-rules")],
  "DELETE /teams/:teamId/machine-rules/:ruleId": [
    ofTeam("manage", [404, "GRANT_NOT_FOUND"], `/machine-rules/${nowhere}`)
  ],
  "POST /teams/:teamId/webhooks": [
    ofTeam("manage", [400, "VALIDATION_FAILED"], "/webhooks", { name: "hook", url: "https://10.0.0.1/hook" })
  ],
  "GET /teams/:teamId/webhooks": [ofTeam("manage", [200], "/webhooks")],
  "PATCH /teams/:teamId/webhooks/:webhookId": [
    ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/webhooks/${nowhere}`, { enabled: false })
  ],
  "POST /teams/:teamId/webhooks/:webhookId/rotate": [
    ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/webhooks/${nowhere}/rotate`)
  ],
  "POST /teams/:teamId/webhooks/:webhookId/test": [
    ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/webhooks/${nowhere}/test`)
  ],
  "GET /teams/:teamId/webhooks/:webhookId/deliveries": [
    ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/webhooks/${nowhere}/deliveries`)
  ],
  "DELETE /teams/:teamId/webhooks/:webhookId": [ofTeam("manage", [404, "ROUTE_NOT_FOUND"], `/webhooks/${nowhere}`)],
  "GET /teams/:teamId/sign-in": [ofTeam("own", [200], "/sign-in")],
  "PATCH /teams/:teamId/sign-in": [ofTeam("own", [200], "/sign-in", { only: null, breakGlass: [] })],
  "POST /teams/:teamId/sign-in/issuers": [
    ofTeam("own", [400, "VALIDATION_FAILED"], "/sign-in/issuers", {
      name: "Inside",
      issuer: "https://10.0.0.1",
      clientId: "ampoule"
    })
  ],
  "PATCH /teams/:teamId/sign-in/issuers/:issuerId": [
    ofTeam("own", [404, "GRANT_NOT_FOUND"], `/sign-in/issuers/${nowhere}`, { enabled: false })
  ],
  "DELETE /teams/:teamId/sign-in/issuers/:issuerId": [
    ofTeam("own", [404, "GRANT_NOT_FOUND"], `/sign-in/issuers/${nowhere}`)
  ],
  "POST /teams/:teamId/sign-in/rules": [
    ofTeam("own", [400, "VALIDATION_FAILED"], "/sign-in/rules", {
      issuer: nowhere,
      claim: "groups",
      value: "platform",
      role: "member"
    })
  ],
  "DELETE /teams/:teamId/sign-in/rules/:ruleId": [ofTeam("own", [404, "GRANT_NOT_FOUND"], `/sign-in/rules/${nowhere}`)],
  "GET /me/sign-ins": [mine("/me/sign-ins", [200])],
  "DELETE /me/sign-ins/:signInId": [
    { ...mine(`/me/sign-ins/${nowhere}`, [404, "GRANT_NOT_FOUND"]), beyondTeams: true }
  ],
  "GET /teams/:teamId/audit": [ofTeam("manage", [200], "/audit")]
}
