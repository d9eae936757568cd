/**
 * A random team: its rules, projects, environments, people, what they were granted and until when, and a credential of
 * each kind for every person. `build` puts it into the database; `credentialOf` says what the contract makes of each.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Redacted from "effect/Redacted"
import { type AccessLevel, allScopes, cliScopes, GrantLevel, type Role, type Scope } from "#schema/Scopes.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"
import type { Credential, Held, Place } from "./AccessOracle.ts"
import { grantTo } from "./AccessWorld.ts"

type Open = "team" | "granted"
interface Reach {
  readonly projects: ReadonlyArray<string> | null
  readonly environments: ReadonlyArray<string> | null
}
export interface ScenePerson {
  readonly key: string
  readonly role: Role
  readonly active: boolean
  /** The account has the address of the team's owner, without a witness: it has nothing of the owner's account. */
  readonly provisional: boolean
  /** `until` counts from the beginning of the scene. */
  readonly grants: ReadonlyArray<Held>
  readonly cli: Reach & { readonly scopes: ReadonlyArray<Scope> }
  readonly agent: Reach & { readonly scopes: ReadonlyArray<Scope> }
  readonly token: Reach & { readonly level: AccessLevel; readonly mcpScopes: ReadonlyArray<Scope> }
}
interface SceneEnvironment {
  readonly key: string
  readonly protected: boolean
  readonly readers: Open
  readonly proposed: boolean
}
interface SceneProject {
  readonly key: string
  readonly visibility: Open
  readonly environments: ReadonlyArray<SceneEnvironment>
}
export interface Scene {
  readonly adminsNeedGrants: boolean
  readonly tokensFollowCreators: boolean
  readonly secondPerson: boolean
  readonly projects: ReadonlyArray<SceneProject>
  readonly people: ReadonlyArray<ScenePerson>
}

/** How a credential is presented: an API token has two ways. */
export type Way = "session" | "management" | "cli_grant" | "api_token" | "api_token at /mcp" | "oauth_token"
export const ways: ReadonlyArray<Way> = [
  "session",
  "management",
  "cli_grant",
  "api_token",
  "api_token at /mcp",
  "oauth_token"
]
export const atMcp = (way: Way) => way === "api_token at /mcp" || way === "oauth_token"

const hour = 3_600_000
/** When cells are asked, from the beginning on: around the ends of grants, to the millisecond. */
export const times: ReadonlyArray<number> = [0, hour - 1, hour, 2 * hour]
const ends: ReadonlyArray<number | null> = [null, hour, hour + 1, 2 * hour]

const projectKeys = ["P1", "P2"]
const slugs = ["one", "two", "three"]
const environmentKeys = projectKeys.flatMap((project) => slugs.map((slug) => `${project}/${slug}`))

const anyOf = <A>(values: ReadonlyArray<A>) => FastCheck.constantFrom(...values)
const open = anyOf<Open>(["team", "granted"])
const narrowed = (keys: ReadonlyArray<string>) =>
  FastCheck.option(FastCheck.subarray([...keys], { minLength: 1 }), { freq: 2 })
const reach = FastCheck.record({ projects: narrowed(projectKeys), environments: narrowed(environmentKeys) }).map(
  // A credential is narrowed to environments of the projects that it is narrowed to.
  ({ environments, projects }): Reach => ({
    projects,
    environments: environments?.filter((key) => projects?.includes(key.slice(0, 2)) ?? true) ?? null
  })
)
const scopesOf = (scopes: ReadonlyArray<Scope>) => FastCheck.subarray([...scopes], { minLength: 3 })
const grant: FastCheck.Arbitrary<Held> = FastCheck.record({
  project: anyOf(projectKeys),
  slug: FastCheck.option(anyOf(slugs)),
  level: anyOf(GrantLevel.literals),
  until: anyOf(ends)
}).map(({ slug, ...grant }) => ({ ...grant, environment: slug === null ? null : `${grant.project}/${slug}` }))

const person: FastCheck.Arbitrary<Omit<ScenePerson, "key">> = FastCheck.record({
  role: anyOf<Role>(["viewer", "member", "member", "admin", "owner"]),
  active: anyOf([true, true, true, true, false]),
  provisional: anyOf([false, false, true]),
  grants: FastCheck.array(grant, { maxLength: 3 }),
  cli: FastCheck.tuple(reach, scopesOf(cliScopes)).map(([narrowing, scopes]) => ({ ...narrowing, scopes })),
  agent: FastCheck.tuple(reach, scopesOf(allScopes)).map(([narrowing, scopes]) => ({ ...narrowing, scopes })),
  token: FastCheck.tuple(reach, scopesOf(allScopes), anyOf<AccessLevel>(["read", "write"])).map(
    ([narrowing, scopes, level]) => ({
      ...narrowing,
      level,
      mcpScopes: scopes.filter((scope) => level === "write" || scope !== "secrets:write")
    })
  )
})

export const scene: FastCheck.Arbitrary<Scene> = FastCheck.record({
  adminsNeedGrants: FastCheck.boolean(),
  tokensFollowCreators: FastCheck.boolean(),
  secondPerson: FastCheck.boolean(),
  projects: FastCheck.tuple(
    ...projectKeys.map((key) =>
      FastCheck.record({
        visibility: open,
        environments: FastCheck.tuple(
          ...slugs.map((slug) =>
            FastCheck.record({ protected: FastCheck.boolean(), readers: open, proposed: FastCheck.boolean() }).map(
              (environment) => ({
                key: `${key}/${slug}`,
                ...environment
              })
            )
          )
        )
      }).map((project) => ({ key, ...project }))
    )
  ),
  people: FastCheck.array(person, { minLength: 10, maxLength: 10 }).map((people) =>
    people.map((one, i) => ({ key: `person-${i}`, ...one }))
  )
})

/** An agent's grant and its access token, as a consent leaves them. */
export const oauthToken = (
  holder: World.Person,
  team: World.Team,
  audience: string,
  options: {
    readonly scopes: ReadonlyArray<Scope>
    readonly projects: ReadonlyArray<string> | null
    readonly environments: ReadonlyArray<string> | null
  }
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const { proof, text } = yield* World.issue("oa")
    const id = yield* crypto.uuid
    const now = yield* Clock.currentTimeMillis
    const [at, end] = [new Date(now), new Date(now + 24 * hour)]
    yield* sql`
      INSERT INTO oauth_grants (id, user_id, client_id, client_name, redirect_host, scopes, project_ids, environment_ids,
        payload, created_at, expires_at)
      VALUES (${id}, ${holder.id}, 'agent', 'Agent', '127.0.0.1', ${options.scopes}::text[], ${options.projects}::uuid[],
        ${options.environments}::uuid[], '{}', ${at}, ${end})`
    yield* sql`INSERT INTO oauth_grant_teams (grant_id, team_id) VALUES (${id}, ${team.id})`
    yield* sql`
      INSERT INTO oauth_access_tokens (lookup_id, salt, hash, grant_id, audience, scopes, payload, created_at, expires_at)
      VALUES (${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${id}, ${audience}, ${options.scopes}::text[], '{}', ${at},
        ${end})`
    yield* Seals.give("oauth_grants", "oauth_grant_teams", "oauth_access_tokens")
    return { id, text: Redacted.value(text) }
  })

export interface Built {
  readonly scene: Scene
  /** Milliseconds since 1970. */
  readonly start: number
  readonly places: ReadonlyArray<Place>
  readonly asked: (person: ScenePerson, way: Way) => TestApp.Asked
}

const buildPlaces = Effect.fnUntraced(function* (scene: Scene, team: World.Team) {
  const sql = yield* SqlClient.SqlClient
  const { text: session } = yield* World.session(team.owner)
  const environments = new Map<string, World.Environment>()
  const projects = new Map<string, World.Project>()
  const places: Array<Place> = []
  for (const project of scene.projects) {
    const row = yield* World.project({ team })
    projects.set(project.key, row)
    for (const [i, environment] of project.environments.entries()) {
      const { id, slug } = yield* World.environment(row, slugs[i], { protected: environment.protected })
      environments.set(environment.key, { id, slug, protected: environment.protected })
      const { json } = yield* TestApp.post("/secrets", {
        session,
        json: { projectId: row.id, environment: slug, key: "BASE", value: "value" }
      })
      yield* TestApp.post("/secrets", {
        session,
        json: { projectId: row.id, environment: slug, key: "DEPENDENT", value: "${BASE}" }
      })
      yield* Seals.after(
        "environments",
        sql`
          UPDATE environments SET readers = ${environment.readers}, changes = ${environment.proposed ? "proposed" : "direct"}
          WHERE id = ${id}`
      )
      places.push({
        name: environment.key,
        team: "T",
        project: project.key,
        environment: environment.key,
        protected: environment.protected,
        readers: environment.readers,
        visibility: project.visibility,
        ...(environment.proposed ? { changes: "proposed" } : {}),
        secret: "live",
        ids: { teamId: team.id, projectId: row.id, environmentId: id, slug, secretId: json.id }
      })
    }
    yield* Seals.after("projects", sql`UPDATE projects SET visibility = ${project.visibility} WHERE id = ${row.id}`)
  }
  yield* Seals.after(
    "teams",
    sql`
    UPDATE teams SET admins_need_grants = ${scene.adminsNeedGrants}, tokens_follow_creators = ${scene.tokensFollowCreators},
      second_person = ${scene.secondPerson}
    WHERE id = ${team.id}`
  )
  return { places, environments, projects }
})

/** `audience`: the address of `/mcp`. */
export const build = (scene: Scene, audience: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const start = yield* Clock.currentTimeMillis
    const team = yield* World.team()
    const { environments, places, projects } = yield* buildPlaces(scene, team)
    const projectsOf = (keys: ReadonlyArray<string> | null) => keys?.flatMap((key) => projects.get(key) ?? [])
    const environmentsOf = (keys: ReadonlyArray<string> | null) => keys?.flatMap((key) => environments.get(key) ?? [])
    const idsOf = (made: ReadonlyArray<{ readonly id: string }> | undefined) => made?.map(({ id }) => id) ?? null
    const reachOf = (reach: Reach) => {
      const [inProjects, inEnvironments] = [projectsOf(reach.projects), environmentsOf(reach.environments)]
      return {
        ...(inProjects === undefined ? {} : { projects: inProjects }),
        ...(inEnvironments === undefined ? {} : { environments: inEnvironments })
      }
    }
    const presented = new Map<string, TestApp.Asked>()
    for (const one of scene.people) {
      const person = yield* World.member(team, one.role)
      if (one.provisional) yield* World.displace(person, team.owner, team)
      const grant = yield* World.grant({ person, teams: [{ team, scopes: one.cli.scopes }], ...reachOf(one.cli) })
      const token = yield* World.token({
        team,
        creator: person,
        accessLevel: one.token.level,
        mcpScopes: one.token.mcpScopes,
        ...reachOf(one.token)
      })
      const agent = yield* oauthToken(person, team, audience, {
        scopes: one.agent.scopes,
        projects: idsOf(projectsOf(one.agent.projects)),
        environments: idsOf(environmentsOf(one.agent.environments))
      })
      for (const { environment, level, project, until } of one.grants) {
        const place = places.find((at) =>
          environment === null ? at.project === project : at.environment === environment
        )
        if (place === undefined) return yield* Effect.dieMessage("a grant of no place")
        yield* grantTo(person, team.owner, place, { level, millis: until, whole: environment === null })
      }
      if (!one.active) {
        yield* Seals.after(
          "memberships",
          sql`
          UPDATE memberships SET active = false, deactivated_at = ${new Date(start)} WHERE user_id = ${person.id}`
        )
      }
      presented.set(`${one.key} session`, { session: (yield* World.session(person)).text })
      const managing = yield* World.management({ person, team, login: grant, millis: 24 * hour })
      presented.set(`${one.key} management`, { bearer: managing.text })
      presented.set(`${one.key} cli_grant`, { bearer: grant.text })
      presented.set(`${one.key} api_token`, { bearer: token.text })
      presented.set(`${one.key} api_token at /mcp`, { bearer: token.text })
      presented.set(`${one.key} oauth_token`, { bearer: agent.text })
    }
    const built: Built = {
      scene,
      start,
      places,
      asked: ({ key }, way) => presented.get(`${key} ${way}`) ?? {}
    }
    return built
  })

/** The contract's answer to a person's credential, presented in this way. */
export const credentialOf = ({ scene, start }: Built, person: ScenePerson, way: Way): Credential => {
  const { active, agent, cli, grants, role, token } = person
  const standing = (held: Role | null, scopes: ReadonlyArray<Scope> | null): Credential["teams"] => ({
    T: {
      role: held,
      scopes,
      ...(scene.adminsNeedGrants ? { adminsNeedGrants: true } : {}),
      ...(scene.secondPerson ? { secondPerson: true } : {})
    }
  })
  const common = {
    name: `${person.key} by ${way}`,
    presents: "credential",
    life: "live",
    level: null,
    projects: null,
    environments: null,
    grants: grants.map((grant) => ({ ...grant, until: grant.until === null ? null : start + grant.until })),
    crossSite: false,
    asked: {}
  } as const
  const follows = scene.tokensFollowCreators
  switch (way) {
    case "session":
      return { ...common, kind: "session", teams: active ? standing(role, null) : {} }
    case "management":
      return { ...common, kind: "management", teams: standing(role, null), life: active ? "live" : "revoked" }
    case "cli_grant":
      return {
        ...common,
        ...cli,
        kind: "cli_grant",
        teams: standing(role, cli.scopes),
        life: active ? "live" : "revoked"
      }
    case "oauth_token":
      return {
        ...common,
        ...agent,
        kind: "oauth_token",
        teams: standing(role, agent.scopes),
        life: active ? "live" : "revoked"
      }
    case "api_token":
    case "api_token at /mcp":
      return {
        ...common,
        ...token,
        kind: "api_token",
        life: follows && !active ? "revoked" : "live",
        teams:
          way === "api_token at /mcp"
            ? standing(role, active ? token.mcpScopes : [])
            : standing(follows ? role : null, null)
      }
  }
}
