/** A team with something on every page. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Caller } from "#schema/Caller.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { EnvironmentSlug, SecretKey, SecretText } from "#schema/Values.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import { Secrets } from "#src/secrets/Secrets.ts"
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
  Effect.flatMap(Secrets, (secrets) =>
    secrets.createBulk({
      projectId: project.id,
      environment: slug(environment),
      secrets: Object.entries(entries).map(([name, value]) => ({ key: key(name), value: text(value) }))
    })
  ).pipe(Effect.provideService(CurrentCaller, caller))

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
  const secrets = yield* Secrets
  yield* write(caller, project, "development", {
    DB_PASSWORD: "correct horse",
    DB_HOST: "db.internal",
    DATABASE_URL: "postgres://app:${DB_PASSWORD}@${DB_HOST}/app",
    ANALYTICS_DATABASE_URL: "${DATABASE_URL}?application_name=analytics",
    STRIPE_SECRET_KEY: "sk_test_1",
    A_RATHER_LONG_KEY_NAME_THAT_DOES_NOT_FIT_ON_A_SMALL_TELEPHONE_WITHOUT_BREAKING_SOMEWHERE: "x"
  })
  yield* write(caller, project, "development", { STRIPE_SECRET_KEY: "sk_test_2" })
  yield* write(caller, project, "production", { DB_HOST: "db.production", STRIPE_SECRET_KEY: "sk_live" })
  const listed = yield* secrets
    .list({ projectId: project.id, environment: slug("development") })
    .pipe(Effect.provideService(CurrentCaller, caller))
  const gone = listed.items.find((item) => item.key.startsWith("A_RATHER"))
  if (gone !== undefined) {
    yield* secrets.remove(gone.id, undefined).pipe(Effect.provideService(CurrentCaller, caller))
    yield* secrets.restore(gone.id).pipe(Effect.provideService(CurrentCaller, caller))
  }
  yield* write(caller, project, "development", { OLD_KEY: "x" })
  const old = (yield* secrets
    .list({ projectId: project.id, environment: slug("development") })
    .pipe(Effect.provideService(CurrentCaller, caller))).items.find((item) => item.key === "OLD_KEY")
  if (old !== undefined) yield* secrets.remove(old.id, undefined).pipe(Effect.provideService(CurrentCaller, caller))
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
  yield* World.join(other, owner, "member")
  const device = yield* Effect.flatMap(DeviceGrants, (grants) =>
    grants.start({ machineCredential: "grant", host: { hostname: "build-7.example.com", os: "linux x64" } })
  )
  const here = `/app/projects/${project.id}`
  const development = `${here}/env/development`

  const openPages: Record<string, string> = {
    "sign-in": "/app/sign-in",
    reset: "/reset?code=x"
  }
  const pages: Record<string, string> = {
    projects: "/app",
    "project-new": "/app?panel=new",
    "project-settings": `${here}/settings`,
    secrets: development,
    "secrets-add": `${development}?panel=add`,
    "secrets-paste": `${development}?panel=paste`,
    "secrets-empty": `${here}/env/staging`,
    "secrets-protected": `${here}/env/production`,
    secret: `${development}/secrets/${idOf("DB_PASSWORD")}`,
    "secret-template": `${development}/secrets/${idOf("DATABASE_URL")}`,
    deleted: `${development}/deleted`,
    graph: `${development}/graph`,
    compare: `${here}/compare?from=development&to=production`,
    sealing: `${development}/sealing`,
    tokens: `/app/teams/${team.id}/tokens`,
    "token-new": `/app/teams/${team.id}/tokens/new`,
    token: `/app/teams/${team.id}/tokens/${token.id}`,
    members: `/app/teams/${team.id}/members`,
    audit: `/app/teams/${team.id}/audit`,
    "team-settings": `/app/teams/${team.id}/settings`,
    "team-new": "/app/teams/new",
    device: "/device",
    "device-decide": `/device?code=${device.userCode}`,
    grants: "/app/grants",
    start: "/app/start",
    account: "/app/account"
  }
  const { baseUrl } = yield* AppConfig
  return { baseUrl, owner, team, project, session, caller, idOf, openPages, pages, development, here }
})
