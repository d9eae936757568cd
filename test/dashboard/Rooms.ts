/** A team with something on every page. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { EnvironmentSlug, SecretKey, SecretTag, SecretText } from "#schema/Values.ts"
import { Seal } from "#src/trail/Seal.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { githubIssuer } from "#src/dashboard/credentials/RuleWords.ts"
import { Rules } from "#src/machines/Rules.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import { Incidents } from "#src/secrets/Incidents.ts"
import { SecretStore } from "#src/secrets/SecretStore.ts"
import { Webhooks } from "#src/webhooks/Webhooks.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as World from "#test/support/World.ts"

const slug = Schema.decodeSync(EnvironmentSlug)
const key = Schema.decodeSync(SecretKey)
const text = Schema.decodeSync(SecretText)

/** The caller whom the server makes of a session's text. */
export const callerOf = (session: { readonly text: string }): Effect.Effect<Caller, never, Authenticate> =>
  Effect.flatMap(Authenticate, (authenticate) => authenticate.authenticate(session.text)).pipe(
    Effect.map(({ caller }) => caller),
    Effect.orDie
  )

export const write = (
  caller: Caller,
  project: World.Project,
  environment: string,
  entries: Readonly<Record<string, string>>
) =>
  Effect.flatMap(Fixtures.secrets, (secrets) =>
    secrets.createBulk({
      projectId: project.id,
      environment: slug(environment),
      secrets: Object.entries(entries).map(([name, value]) => ({ key: key(name), value: text(value) }))
    })
  ).pipe(Effect.provideService(CurrentCaller, caller))

/** The stored text of a secret. */
export const valueOf = (caller: Caller, project: World.Project, environment: string, name: string) =>
  Effect.flatMap(Fixtures.secrets, (secrets) =>
    secrets.value({
      projectId: project.id,
      environment: slug(environment),
      key: key(name),
      representation: "source"
    })
  ).pipe(
    Effect.map((found) => found.value().value),
    Effect.provideService(CurrentCaller, caller)
  )

/** One delivery of each state, as a receiver with a bad day leaves them. */
const deliveriesOf = (webhookId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const now = yield* Clock.currentTimeMillis
    const at = (minutes: number) => new Date(now + minutes * 60_000)
    const tried = (...outcomes: ReadonlyArray<number | null>) =>
      JSON.stringify(
        outcomes.map((status, i) => ({
          at: at(i - 60).toISOString(),
          status,
          problem: status === null ? "timeout" : null
        }))
      )
    for (const [event, state, log, attempts] of [
      ["secret.updated", "pending", tried(500, null, 503), 3],
      ["secret.created", "delivered", tried(204), 1],
      ["token.created", "failed", tried(null, null), 40],
      ["webhook.test", "pending", tried(), 0]
    ] as const) {
      yield* sql`
        INSERT INTO webhook_deliveries (webhook_id, event_id, event, body, state, attempts, log, created_at, next_at, finished_at)
        VALUES (${webhookId}, ${yield* crypto.uuid}, ${event}, '{}', ${state}, ${attempts}, ${log}::jsonb, ${at(-60)},
          ${at(20)}, ${state === "pending" ? null : at(-50)}::timestamptz)`
    }
  })

/** Two credentials that scanners found: one ended, one that works. */
const leaked = (teamId: string, tokenId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const at = new Date((yield* Clock.currentTimeMillis) - 7_200_000)
    const url = "https://github.com/acme/a-repository-with-a-rather-long-name/blob/0f3a9c1d/deploy/environments/.env"
    for (const [type, id, name, person, revoked] of [
      ["api_token", tokenId, "left in a log", null, true],
      ["cli_grant", yield* crypto.uuid, "", "grace.hopper@example.com", false]
    ] as const) {
      yield* sql`
        INSERT INTO leaked_credentials (id, team_id, credential_type, credential_id, name, person, url, source, revoked, reported_at)
        VALUES (${yield* crypto.uuid}, ${teamId}, ${type}, ${id}, ${name}, ${person}, ${url}, 'content', ${revoked}, ${at})`
    }
  })

export const furnished = Effect.gen(function* () {
  const owner = yield* World.person({
    name: "Ada Lovelace",
    email: `ada.${Math.random().toString(36).slice(2, 8)}@example.com`
  })
  const team = yield* World.team({ owner, name: "Platform" })
  const project = yield* World.project({ team, slug: "shop" })
  yield* World.project({ team, slug: "billing" })
  const session = yield* World.session(owner)
  const caller = yield* callerOf(session)
  const secrets = yield* Fixtures.secrets
  const invitations = yield* Invitations
  const rules = yield* Rules
  const webhooks = yield* Webhooks
  const as = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.provideService(work, CurrentCaller, caller)
  yield* write(caller, project, "development", {
    // It is called DB_PASSWORD below, by its second name.
    DATABASE_PASSWORD: "correct horse",
    DB_HOST: "db.internal",
    DATABASE_URL: "postgres://app:${DATABASE_PASSWORD}@${DB_HOST}/app",
    ANALYTICS_DATABASE_URL: "${DATABASE_URL}?application_name=analytics",
    STRIPE_SECRET_KEY: "sk_test_1",
    A_RATHER_LONG_KEY_NAME_THAT_DOES_NOT_FIT_ON_A_SMALL_TELEPHONE_WITHOUT_BREAKING_SOMEWHERE: "x"
  })
  yield* write(caller, project, "development", { STRIPE_SECRET_KEY: "sk_test_2" })
  yield* write(caller, project, "production", { DB_HOST: "db.production", STRIPE_SECRET_KEY: "sk_live" })
  const listed = yield* secrets.list({ projectId: project.id, environment: slug("development") }).pipe(as)
  const gone = listed.items.find((item) => item.key.startsWith("A_RATHER"))
  if (gone !== undefined) {
    yield* secrets.remove(gone.id, undefined).pipe(as)
    yield* secrets.restore(gone.id).pipe(as)
  }
  yield* write(caller, project, "development", { OLD_KEY: "x" })
  const old = (yield* secrets.list({ projectId: project.id, environment: slug("development") }).pipe(as)).items.find(
    (item) => item.key === "OLD_KEY"
  )
  if (old !== undefined) yield* secrets.remove(old.id, undefined).pipe(as)
  const idOf = (name: string) => listed.items.find((item) => item.key === name)?.id ?? ""
  const token = yield* World.token({ team, accessLevel: "write", mcpScopes: ["secrets:read"], projects: [project] })
  yield* World.token({ team, name: "staging server" })
  yield* World.member(team, "viewer")
  yield* World.grant({
    person: owner,
    teams: [{ team, scopes: ["identity:read", "secrets:run"] }],
    projects: [project],
    machine: true
  })
  const other = yield* World.team({ name: "Research" })
  yield* World.join(other, owner, "admin")
  yield* as(
    Effect.gen(function* () {
      yield* invitations.invite(team.id, { email: "grace.hopper@example.com", role: "admin" })
      yield* invitations.invite(team.id, {
        email: "a.person.with.a.rather.long.address@a-rather-long-domain.example.com",
        role: "viewer"
      })
    })
  )
  const rule = yield* as(
    rules.create(team.id, {
      name: "shop deploys",
      issuer: githubIssuer,
      claims: { repository: "acme/shop", environment: "production" },
      projects: [project.id],
      environments: [slug("production")]
    })
  )
  yield* as(
    rules.create(team.id, {
      name: "preview environments of every project of the group",
      issuer: "https://gitlab.example.com",
      claims: { project_path: "a-rather-long-group-name/with-a-subgroup/*", ref_protected: "true" },
      accessLevel: "write"
    })
  )
  const webhook = yield* as(
    webhooks.create(team.id, {
      name: "restart the shop",
      url: "https://127.0.0.1:9/hooks/a-path-that-is-itself-a-secret"
    })
  )
  const quiet = yield* as(
    webhooks.create(team.id, {
      name: "channel of the platform team",
      url: "https://127.0.0.1:9/b",
      events: ["token.created", "token.revoked"]
    })
  )
  yield* as(webhooks.update(team.id, quiet.id, { enabled: false }))
  const device = yield* Effect.flatMap(DeviceGrants, (grants) =>
    grants.start({ machineCredential: "grant", host: { hostname: "build-7.example.com", os: "linux x64" } })
  )
  // Somebody had a bad day: what they were handed is listed, and one value is replaced.
  const leakedToken = yield* World.token({ team, name: "left in a log" })
  const leftCaller = yield* Effect.map(
    Effect.flatMap(Authenticate, (authenticate) => authenticate.authenticate(leakedToken.text)),
    ({ caller }) => caller
  ).pipe(Effect.orDie)
  yield* Effect.provideService(
    secrets.resolved({ projectId: project.id, environment: slug("development") }),
    CurrentCaller,
    leftCaller
  )
  yield* Effect.provideService(
    secrets.resolved({ projectId: project.id, environment: slug("production") }),
    CurrentCaller,
    leftCaller
  )
  yield* Effect.flatMap(Seal, (seal) => seal.now)
  const incidents = yield* Incidents
  const incident = yield* as(incidents.open(team.id, { token: leakedToken.id }))
  yield* write(caller, project, "development", { DB_HOST: "db2.internal" })
  yield* as(
    Effect.gen(function* () {
      const { writes } = yield* SecretStore
      const renamed = listed.items.find((item) => item.key === "DATABASE_PASSWORD")
      if (renamed !== undefined) yield* writes.rename(renamed.id, { key: key("DB_PASSWORD"), references: "rewrite" })
      const described = listed.items.find((item) => item.key === "STRIPE_SECRET_KEY")
      if (described === undefined) return
      const note = "The account of the shop at Stripe; its dashboard makes new keys."
      const tags = ["billing", "pci"].map((tag) => Schema.decodeSync(SecretTag)(tag))
      yield* writes.describe(described.id, { owner: "grace.hopper@example.com", note, rotateBy: "2026-01-31", tags })
    })
  )
  yield* leaked(team.id, leakedToken.id)
  const grace = yield* World.member(team, "member")
  // Last: what a page says of a webhook is its latest delivery.
  yield* deliveriesOf(webhook.id)
  const trail = yield* AuditTrail
  yield* as(trail.saveView(team.id, { name: "Reads of production", shared: true, filter: { action: "secret.inject" } }))
  const changes = yield* as(trail.changes(project.id, {}))
  const lastChange = changes.items.find(({ action }) => action === "secret.update")?.id ?? ""
  const here = `/app/projects/${project.id}`
  const development = `${here}/env/development`

  const openPages: Record<string, string> = {
    "sign-in": "/app/sign-in",
    reset: "/reset?code=x"
  }
  const pages: Record<string, string> = {
    projects: "/app",
    "project-new": "/app?panel=new",
    matrix: here,
    activity: `${here}/activity`,
    "activity-undo": `${here}/activity/${lastChange}`,
    search: "/app/search?q=db",
    "project-settings": `${here}/settings`,
    secrets: development,
    "secrets-add": `${development}?panel=add`,
    "secrets-paste": `${development}?panel=paste`,
    "secrets-empty": `${here}/env/staging`,
    "secrets-protected": `${here}/env/production`,
    secret: `${development}/secrets/${idOf("DATABASE_PASSWORD")}`,
    "secret-template": `${development}/secrets/${idOf("DATABASE_URL")}`,
    deleted: `${development}/deleted`,
    graph: `${development}/graph`,
    compare: `${here}/compare?from=development&to=production`,
    sealing: `${development}/sealing`,
    access: `${development}/access`,
    "team-access": `/app/teams/${team.id}/access`,
    tokens: `/app/teams/${team.id}/tokens`,
    "token-new": `/app/teams/${team.id}/tokens/new`,
    token: `/app/teams/${team.id}/tokens/${token.id}`,
    person: `/app/teams/${team.id}/members/${grace.id}`,
    exposure: `${here}/exposure`,
    "secret-described": `${development}/secrets/${idOf("STRIPE_SECRET_KEY")}`,
    "secret-exposure": `${development}/secrets/${idOf("STRIPE_SECRET_KEY")}/exposure`,
    members: `/app/teams/${team.id}/members`,
    "members-invite": `/app/teams/${team.id}/members?panel=invite`,
    member: `/app/teams/${team.id}/members/${owner.id}`,
    incidents: `/app/teams/${team.id}/incidents`,
    "incident-new": `/app/teams/${team.id}/incidents/new?person=${owner.id}`,
    incident: `/app/teams/${team.id}/incidents/${incident.id}`,
    waiting: "/app/waiting",
    "members-none": `/app/teams/${other.id}/members`,
    rules: `/app/teams/${team.id}/ci`,
    "rules-none": `/app/teams/${other.id}/ci`,
    rule: `/app/teams/${team.id}/ci/${rule.id}`,
    "rule-new": `/app/teams/${team.id}/ci/new`,
    "rule-new-gitlab": `/app/teams/${team.id}/ci/new?kind=gitlab`,
    "rule-new-other": `/app/teams/${team.id}/ci/new?kind=other`,
    webhooks: `/app/teams/${team.id}/webhooks`,
    "webhooks-none": `/app/teams/${other.id}/webhooks`,
    webhook: `/app/teams/${team.id}/webhooks/${webhook.id}`,
    "webhook-new": `/app/teams/${team.id}/webhooks/new`,
    audit: `/app/teams/${team.id}/audit`,
    "audit-filtered": `/app/teams/${team.id}/audit?action=secret.create`,
    "audit-entry": `/app/teams/${team.id}/audit/${lastChange}`,
    "team-settings": `/app/teams/${team.id}/settings`,
    "team-new": "/app/teams/new",
    device: "/device",
    "device-decide": `/device?code=${device.userCode}`,
    grants: "/app/grants",
    connections: "/app/connections",
    start: "/app/start",
    account: "/app/account"
  }
  const { baseUrl } = yield* AppConfig
  return { baseUrl, owner, team, project, session, caller, idOf, openPages, pages, development, here }
})
