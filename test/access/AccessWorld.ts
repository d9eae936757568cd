/** The places and the credentials of the access matrix, made once. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { ProjectIdOut } from "#schema/Ids.ts"
import { cliScopes, GrantLevel, type Role, type Scope } from "#schema/Scopes.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Seals from "#test/support/Seals.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import type { Credential, Held, Kind, Place, TeamKey } from "./AccessOracle.ts"

const day = 86_400_000
const ago = (millis: number) => Effect.map(Clock.currentTimeMillis, (now) => new Date(now - millis))

const places = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const newId = (yield* Crypto).uuid
  const T = yield* World.team()
  const U = yield* World.team()
  const P1 = yield* World.project({ team: T, slug: "one" })
  const P2 = yield* World.project({ team: T, slug: "two" })
  const X = yield* World.project({ team: U, slug: "one" })
  const hidden = yield* World.project({ team: T, slug: "hidden" })
  const closedEnvironment = yield* World.environment(P1, "closed")
  // A team that binds its admins, and its tokens by their creators.
  const V = yield* World.team()
  const bound = yield* World.project({ team: V, slug: "one" })
  const keys = new Map([P1, P2, X, hidden, bound].map(({ id }, i) => [id, ["P1", "P2", "X", "H", "B"][i]]))
  const deletedProject = yield* World.project({ team: T })
  const deletedEnvironment = yield* World.environment(P1, "gone")

  const owners = {
    T: (yield* World.session(T.owner)).text,
    U: (yield* World.session(U.owner)).text,
    V: (yield* World.session(V.owner)).text
  }
  /** A secret that another one uses: BASE and DEPENDENT. Answers the id of BASE. */
  const secrets = Effect.fnUntraced(function* (session: string, projectId: string, environment: string) {
    const create = (key: string, value: string) =>
      TestApp.post("/secrets", { session, json: { projectId, environment, key, value } })
    const { json } = yield* create("BASE", "value")
    yield* create("DEPENDENT", "${BASE}")
    return String(json.id)
  })
  const at = Effect.fnUntraced(function* (
    name: string,
    team: TeamKey,
    project: World.Project,
    environment: World.Environment,
    more: Partial<Place> = {}
  ) {
    const key = keys.get(project.id) ?? project.id
    const place: Place = {
      name,
      team,
      project: key,
      environment: `${key}/${environment.slug}`,
      protected: environment.protected,
      readers: "team",
      visibility: "team",
      secret: "live",
      ids: {
        teamId: project.team.id,
        projectId: project.id,
        environmentId: environment.id,
        slug: environment.slug,
        secretId: yield* secrets(owners[team], project.id, environment.slug)
      },
      ...more
    }
    return place
  })

  const development = yield* at("development", "T", P1, P1.development)
  const production = yield* at("production (protected)", "T", P1, P1.production)
  const staging = yield* at("staging", "T", P1, P1.staging)
  const otherProject = yield* at("development of another project", "T", P2, P2.development)
  const otherTeam = yield* at("development of another team", "U", X, X.development)
  const closed = yield* at("a granted environment", "T", P1, closedEnvironment, { readers: "granted" })
  const inHidden = yield* at("a granted project", "T", hidden, hidden.development, { visibility: "granted" })
  const alsoInHidden = yield* at("another environment of it", "T", hidden, hidden.staging, { visibility: "granted" })
  const inBound = yield* at("a granted environment whose team binds its admins", "V", bound, bound.development, {
    readers: "granted"
  })
  yield* Seals.after(
    "environments",
    sql`UPDATE environments SET readers = 'granted' WHERE id IN (${closed.ids.environmentId}, ${inBound.ids.environmentId})`
  )
  yield* Seals.after("projects", sql`UPDATE projects SET visibility = 'granted' WHERE id = ${hidden.id}`)
  yield* Seals.after(
    "teams",
    sql`UPDATE teams SET admins_need_grants = true, tokens_follow_creators = true WHERE id = ${V.id}`
  )
  const nothing = { environment: null, secret: null, protected: false } as const
  const inDeletedEnvironment = yield* at("a deleted environment", "T", P1, deletedEnvironment, nothing)
  const inDeletedProject = yield* at("a deleted project", "T", deletedProject, deletedProject.development, {
    ...nothing,
    project: null
  })
  yield* sql`UPDATE environments SET deleted_at = ${new Date()} WHERE id = ${deletedEnvironment.id}`
  yield* sql`UPDATE projects SET deleted_at = ${new Date()} WHERE id = ${deletedProject.id}`
  const ids = {
    teamId: yield* newId,
    projectId: yield* newId,
    environmentId: yield* newId,
    slug: "nowhere",
    secretId: yield* newId
  }
  const noEnvironment: Place = {
    ...development,
    ...nothing,
    name: "an environment that the project does not have",
    ids: { ...ids, teamId: T.id, projectId: P1.id }
  }
  const nowhere: Place = { ...noEnvironment, name: "nothing at all", team: null, project: null, ids }
  const gone = yield* TestApp.post("/secrets", {
    session: owners.T,
    json: { projectId: P1.id, environment: "development", key: "GONE", value: "v" }
  })
  yield* TestApp.del(`/secrets/${gone.json.id}`, { session: owners.T })
  yield* TestApp.post("/secrets", {
    session: owners.T,
    json: { projectId: P1.id, environment: "development", key: "GONE", value: "v" }
  })
  const deletedSecret: Place = {
    ...development,
    name: "a deleted secret",
    secret: "deleted",
    ids: { ...development.ids, secretId: gone.json.id }
  }

  return {
    T,
    U,
    V,
    P1,
    P2,
    closed,
    inHidden,
    inBound,
    development,
    all: [
      development,
      production,
      staging,
      otherProject,
      otherTeam,
      closed,
      inHidden,
      alsoInHidden,
      inBound,
      inDeletedEnvironment,
      inDeletedProject,
      noEnvironment,
      nowhere,
      deletedSecret
    ]
  }
})
type Places = Effect.Effect.Success<typeof places>

export interface Made extends Credential {
  /** The same standing once more, for requests that end it. */
  readonly again: Effect.Effect<TestApp.Asked, never, SqlClient.SqlClient | Crypto | RowSeal>
}

/** Grants of people, written straight into the database; `millis` from now. */
export const grantTo = (
  person: World.Person,
  by: World.Person,
  { ids: { environmentId, projectId, teamId } }: Place,
  { level, millis, whole }: { readonly level: GrantLevel; readonly millis: number | null; readonly whole: boolean }
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = yield* Clock.currentTimeMillis
    yield* sql`
      INSERT INTO access_grants (id, team_id, user_id, project_id, environment_id, level, until, created_by, created_at)
      VALUES (${yield* (yield* Crypto).uuid}, ${teamId}, ${person.id}, ${projectId}, ${whole ? null : environmentId}, ${level},
        ${millis === null ? null : new Date(now + millis)}, ${by.id}, ${new Date(now)})`
    yield* Seals.give("access_grants")
  })

const credentials = ({ P1, T, U, V, closed, inBound, inHidden }: Places) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const list: Array<Made> = []
    const add = <E>(
      name: string,
      kind: Kind,
      ask: Effect.Effect<TestApp.Asked, E, SqlClient.SqlClient | Crypto | RowSeal>,
      more: Partial<Credential> = {}
    ) => {
      const again = Effect.orDie(ask)
      return Effect.map(again, (asked) => {
        list.push({
          name,
          kind,
          presents: "credential",
          life: "live",
          teams: {},
          grants: [],
          level: null,
          projects: null,
          environments: null,
          crossSite: false,
          ...more,
          asked,
          again
        })
      })
    }
    const bearer = <E, R>(credential: Effect.Effect<{ readonly text: string }, E, R>) =>
      Effect.map(credential, ({ text }): TestApp.Asked => ({ bearer: text }))
    const cookie = <E, R>(credential: Effect.Effect<{ readonly text: string }, E, R>) =>
      Effect.map(credential, ({ text }): TestApp.Asked => ({ session: text }))
    const inT = (role: Role | null, scopes: ReadonlyArray<Scope> | null) => ({ teams: { T: { role, scopes } } })

    // --- what is no credential ---
    const garbage = { presents: "garbage" } as const
    const anyToken = World.token({ team: T })
    yield* add("nothing", "session", Effect.succeed({}), { presents: "nothing" })
    yield* add("an empty bearer", "session", Effect.succeed({ headers: { authorization: "Bearer" } }), {
      presents: "nothing"
    })
    yield* add("malformed text", "api_token", Effect.succeed({ bearer: "let me in" }), garbage)
    yield* add(
      "a bad checksum",
      "api_token",
      Effect.map(anyToken, ({ text }) => ({ bearer: text.slice(0, -1) + (text.endsWith("0") ? "1" : "0") })),
      garbage
    )
    const reprint = (change: (token: TokenText.TokenText) => TokenText.TokenText) =>
      Effect.map(anyToken, ({ text }): TestApp.Asked => {
        const token = TokenText.parse(text)
        return { bearer: token === undefined ? "" : TokenText.print(change(token)) }
      })
    yield* add(
      "an unknown id",
      "api_token",
      reprint((token) => ({ ...token, id: "0000000000000000" })),
      garbage
    )
    yield* add(
      "a wrong secret",
      "api_token",
      reprint((token) => ({ ...token, secret: "0".repeat(43) })),
      garbage
    )
    yield* add(
      "a token said to be a grant",
      "cli_grant",
      reprint((token) => ({ ...token, kind: "cg" })),
      garbage
    )
    yield* add("a cookie that is none", "session", Effect.succeed({ session: "x" }), garbage)
    yield* add(
      "a bad bearer beside a good cookie",
      "session",
      Effect.map(World.session(T.owner), ({ text }) => ({ session: text, bearer: "let me in" })),
      garbage
    )

    // --- API tokens ---
    const token = (
      name: string,
      options: Omit<Parameters<typeof World.token>[0], "team">,
      more: Partial<Credential> = {}
    ) =>
      add(name, "api_token", bearer(World.token({ team: T, ...options })), {
        ...inT(null, null),
        level: options.accessLevel ?? "write",
        ...more
      })
    yield* token("a read token", { accessLevel: "read" })
    yield* token("a write token", {})
    yield* token("a write token of project one", { projects: [P1] }, { projects: ["P1"] })
    const naming = (...environments: ReadonlyArray<World.Environment>) =>
      [{ environments }, { environments: environments.map(({ slug }) => `P1/${slug}`) }] as const
    yield* token("a write token naming development", ...naming(P1.development))
    yield* token("a write token naming production", ...naming(P1.production))
    yield* token("a write token naming development and production", ...naming(P1.development, P1.production))
    const [named, reach] = naming(P1.production)
    yield* token("a read token naming production", { ...named, accessLevel: "read" }, reach)
    yield* token("a write token whose environments are all deleted", ...naming())
    yield* token("an expired token", { expiresIn: -1 }, { life: "expired" })
    yield* token("a revoked token", { revoked: true }, { life: "revoked" })
    yield* add(
      "a token without expiry, 90 days unused",
      "api_token",
      bearer(
        Effect.tap(World.token({ team: T, expiresIn: null }), ({ id }) =>
          Effect.flatMap(ago(90 * day), (at) =>
            Seals.after("api_tokens", sql`UPDATE api_tokens SET created_at = ${at} WHERE id = ${id}`)
          )
        )
      ),
      { ...inT(null, null), life: "expired" }
    )
    const tokenOfCreator = (change: (creator: World.Person) => Effect.Effect<unknown, unknown, SqlClient.SqlClient>) =>
      bearer(
        Effect.gen(function* () {
          const creator = yield* World.member(T, "admin")
          const fresh = yield* World.token({ team: T, creator })
          yield* change(creator)
          return fresh
        })
      )
    const switchedOff = (millisAgo: number) => (creator: World.Person) =>
      Effect.flatMap(ago(millisAgo), (at) =>
        Seals.after(
          "memberships",
          sql`UPDATE memberships SET active = false, deactivated_at = ${at} WHERE user_id = ${creator.id}`
        )
      )
    yield* add("a token whose creator was switched off 6 days ago", "api_token", tokenOfCreator(switchedOff(6 * day)), {
      ...inT(null, null),
      level: "write"
    })
    yield* add("a token whose creator was switched off 7 days ago", "api_token", tokenOfCreator(switchedOff(7 * day)), {
      ...inT(null, null),
      life: "expired"
    })
    yield* add(
      "a token whose creator left",
      "api_token",
      tokenOfCreator((creator) => sql`DELETE FROM memberships WHERE user_id = ${creator.id}`),
      { ...inT(null, null), life: "revoked" }
    )

    // --- CLI grants ---
    const grantOf = (role: Role, scopes: ReadonlyArray<Scope>, more: Partial<Parameters<typeof World.grant>[0]> = {}) =>
      Effect.flatMap(World.member(T, role), (person) => World.grant({ person, teams: [{ team: T, scopes }], ...more }))
    for (const scope of cliScopes) {
      yield* add(`a grant with ${scope} alone`, "cli_grant", bearer(grantOf("owner", [scope])), inT("owner", [scope]))
    }
    for (const role of ["viewer", "member", "admin", "owner"] as const) {
      yield* add(
        `a grant of a ${role} with all scopes`,
        "cli_grant",
        bearer(grantOf(role, cliScopes)),
        inT(role, cliScopes)
      )
    }
    yield* add(
      "a grant restricted to project one",
      "cli_grant",
      bearer(grantOf("owner", cliScopes, { projects: [P1] })),
      {
        ...inT("owner", cliScopes),
        projects: ["P1"]
      }
    )
    yield* add(
      "a grant restricted to production",
      "cli_grant",
      bearer(grantOf("owner", cliScopes, { environments: [P1.production] })),
      { ...inT("owner", cliScopes), environments: ["P1/production"] }
    )
    yield* add(
      "a member's grant restricted to production",
      "cli_grant",
      bearer(grantOf("member", cliScopes, { environments: [P1.production] })),
      { ...inT("member", cliScopes), environments: ["P1/production"] }
    )
    yield* add(
      "an unattended grant restricted to development",
      "cli_grant",
      bearer(grantOf("member", cliScopes, { environments: [P1.development], machine: true })),
      { ...inT("member", cliScopes), environments: ["P1/development"] }
    )
    const ofTwo = (inOne: ReadonlyArray<Scope>, inOther: ReadonlyArray<Scope>) =>
      Effect.gen(function* () {
        const person = yield* World.member(T, "owner")
        yield* World.join(U, person, "viewer")
        return yield* World.grant({
          person,
          teams: [
            { team: T, scopes: inOne },
            { team: U, scopes: inOther }
          ]
        })
      })
    yield* add(
      "a grant of two teams, with identity alone in one",
      "cli_grant",
      bearer(ofTwo(cliScopes, ["identity:read"])),
      {
        teams: { T: { role: "owner", scopes: cliScopes }, U: { role: "viewer", scopes: ["identity:read"] } }
      }
    )
    yield* add(
      "a grant of two teams, with projects in one and values in the other",
      "cli_grant",
      bearer(ofTwo(["projects:read"], ["secrets:read_values", "secrets:read"])),
      {
        teams: {
          T: { role: "owner", scopes: ["projects:read"] },
          U: { role: "viewer", scopes: ["secrets:read_values", "secrets:read"] }
        }
      }
    )
    const aged = (created: number, used: number | null) =>
      Effect.tap(grantOf("owner", cliScopes), ({ id }) =>
        Effect.gen(function* () {
          yield* Seals.after(
            "cli_grants",
            sql`UPDATE cli_grants SET created_at = ${yield* ago(created)}, expires_at = ${yield* ago(created - 180 * day)},
            last_used_at = ${used === null ? null : yield* ago(used)} WHERE id = ${id}`
          )
        })
      )
    const over = { ...inT("owner", cliScopes), life: "expired" } as const
    yield* add("a grant 180 days old", "cli_grant", bearer(aged(180 * day, 1_000)), over)
    yield* add("a grant 90 days unused", "cli_grant", bearer(aged(100 * day, 90 * day)), over)
    yield* add("a grant never used in 90 days", "cli_grant", bearer(aged(90 * day, null)), over)
    const ended = { ...inT("owner", cliScopes), life: "revoked" } as const
    const revoked = Effect.tap(grantOf("owner", cliScopes), (grant) => World.revoke("cli_grants", grant))
    yield* add("a revoked grant", "cli_grant", bearer(revoked), ended)
    const leaver = Effect.gen(function* () {
      const person = yield* World.member(T, "owner")
      const grant = yield* World.grant({ person, teams: [{ team: T, scopes: cliScopes }] })
      yield* sql`DELETE FROM memberships WHERE user_id = ${person.id}`
      return grant
    })
    yield* add("a grant of someone who left", "cli_grant", bearer(leaver), ended)

    // --- sessions ---
    const sessionOf = (role: Role) => Effect.flatMap(World.member(T, role), World.session)
    for (const role of ["viewer", "member", "admin", "owner"] as const) {
      yield* add(`a session of a ${role}`, "session", cookie(sessionOf(role)), inT(role, null))
    }
    // Provisional accounts with the address of an owner of the team: each is its own membership, and no more.
    const displacedIn = (team: World.Team, role: Role) =>
      Effect.tap(World.member(team, role), (person) => World.displace(person, T.owner, team))
    yield* add(
      "a session of a provisional viewer with the owner's address",
      "session",
      cookie(Effect.flatMap(displacedIn(T, "viewer"), World.session)),
      inT("viewer", null)
    )
    yield* add(
      "a session of another team's provisional owner with the owner's address",
      "session",
      cookie(Effect.flatMap(displacedIn(U, "owner"), World.session)),
      { teams: { U: { role: "owner", scopes: null } } }
    )
    yield* add(
      "a session of the owner of another team",
      "session",
      cookie(Effect.flatMap(World.member(U, "owner"), World.session)),
      { teams: { U: { role: "owner", scopes: null } } }
    )
    // Owner of both teams: the issuer of U signed the person in, so T does not exist for the session.
    const byIssuerOfU = Effect.gen(function* () {
      const person = yield* World.member(U, "owner")
      yield* World.join(T, person, "owner")
      const session = yield* World.session(person)
      yield* Seals.after(
        "sessions",
        sql`UPDATE sessions SET issuer = ${`team-${U.id}`}, only_team = ${U.id} WHERE id = ${session.id}`
      )
      return session
    })
    yield* add("a session by another team's own issuer, of an owner here too", "session", cookie(byIssuerOfU), {
      teams: { U: { role: "owner", scopes: null } },
      onlyTeam: "U"
    })
    yield* add("a session of someone without a team", "session", cookie(Effect.flatMap(World.person(), World.session)))
    const off = Effect.flatMap(World.member(T, "owner"), (person) =>
      Effect.zipRight(
        Seals.after("memberships", sql`UPDATE memberships SET active = false WHERE user_id = ${person.id}`),
        World.session(person)
      )
    )
    yield* add("a session of an owner who is switched off", "session", cookie(off))
    yield* add(
      "a session of an owner, from another site",
      "session",
      Effect.map(sessionOf("owner"), ({ text }) => ({
        session: text,
        headers: { origin: "https://elsewhere.example", "sec-fetch-site": "same-origin" }
      })),
      { ...inT("owner", null), crossSite: true }
    )
    const agedSession = (column: "expires_at" | "last_used_at", millis: number) =>
      Effect.tap(sessionOf("owner"), ({ id }) =>
        Effect.flatMap(ago(millis), (at) =>
          Seals.after("sessions", sql`UPDATE sessions SET ${sql(column)} = ${at} WHERE id = ${id}`)
        )
      )
    yield* add("a session 7 days old", "session", cookie(agedSession("expires_at", 0)), {
      ...inT("owner", null),
      life: "expired"
    })
    yield* add("a session 12 hours idle", "session", cookie(agedSession("last_used_at", day / 2)), {
      ...inT("owner", null),
      life: "expired"
    })
    yield* add(
      "a session that ended",
      "session",
      cookie(Effect.tap(sessionOf("owner"), (session) => World.revoke("sessions", session))),
      { ...inT("owner", null), life: "revoked" }
    )

    // --- management sessions of command lines ---
    const managing = (
      role: Role,
      change: (made: {
        readonly login: { readonly id: string }
        readonly session: { readonly id: string }
        readonly person: World.Person
      }) => Effect.Effect<unknown, unknown, SqlClient.SqlClient> = () => Effect.void
    ) =>
      Effect.gen(function* () {
        const person = yield* World.member(T, role)
        const login = yield* World.grant({ person, teams: [{ team: T, scopes: ["identity:read"] }] })
        const session = yield* World.management({ person, team: T, login })
        yield* change({ login, session, person })
        return session
      })
    for (const role of ["viewer", "member", "admin", "owner"] as const) {
      yield* add(`a management session of a ${role}`, "management", bearer(managing(role)), inT(role, null))
    }
    yield* add(
      "a management session as a cookie, from another site",
      "management",
      Effect.map(managing("owner"), ({ text }) => ({
        session: text,
        headers: { origin: "https://elsewhere.example", "sec-fetch-site": "same-origin" }
      })),
      { ...inT("owner", null), crossSite: true }
    )
    yield* add(
      "a management session 10 minutes old",
      "management",
      bearer(
        managing("owner", ({ session }) =>
          Effect.flatMap(ago(0), (at) =>
            Seals.after("sessions", sql`UPDATE sessions SET expires_at = ${at} WHERE id = ${session.id}`)
          )
        )
      ),
      { ...inT("owner", null), life: "expired" }
    )
    yield* add(
      "a management session whose login was revoked",
      "management",
      bearer(managing("owner", ({ login }) => World.revoke("cli_grants", login))),
      { ...inT("owner", null), life: "revoked" }
    )
    yield* add(
      "a management session whose login lost the team",
      "management",
      bearer(managing("owner", ({ login }) => sql`DELETE FROM cli_grant_teams WHERE grant_id = ${login.id}`)),
      { ...inT("owner", null), life: "revoked" }
    )
    yield* add(
      "a management session of someone who left",
      "management",
      bearer(managing("owner", ({ person }) => sql`DELETE FROM memberships WHERE user_id = ${person.id}`)),
      { ...inT("owner", null), life: "revoked" }
    )

    // --- people who were granted something ---
    const grantee = (team: World.Team, role: Role, place: Place, held: Held, millis: number | null) =>
      Effect.tap(World.member(team, role), (person) =>
        grantTo(person, team.owner, place, { level: held.level, millis, whole: held.environment === null })
      )
    const holding = (place: Place, level: GrantLevel, whole = false, until: number | null = null): Held => ({
      project: place.project ?? "",
      environment: whole ? null : place.environment,
      level,
      until
    })
    for (const level of GrantLevel.literals) {
      const grant = holding(closed, level)
      const person = grantee(T, "member", closed, grant, null)
      yield* add(
        `a session of a member who was granted ${level}`,
        "session",
        cookie(Effect.flatMap(person, World.session)),
        {
          ...inT("member", null),
          grants: [grant]
        }
      )
    }
    const endedGrant = holding(closed, "write", true, 0)
    yield* add(
      "a session of a member whose grant ended",
      "session",
      cookie(Effect.flatMap(grantee(T, "member", closed, endedGrant, -1_000), World.session)),
      { ...inT("member", null), grants: [endedGrant] }
    )
    const ofViewer = holding(closed, "write")
    yield* add(
      "a session of a viewer who holds a grant above the role",
      "session",
      cookie(Effect.flatMap(grantee(T, "viewer", closed, ofViewer, null), World.session)),
      { ...inT("viewer", null), grants: [ofViewer] }
    )
    const ofHidden = holding(inHidden, "values")
    yield* add(
      "a grant of a member who was granted an environment of a granted project",
      "cli_grant",
      bearer(
        Effect.flatMap(grantee(T, "member", inHidden, ofHidden, null), (person) =>
          World.grant({ person, teams: [{ team: T, scopes: cliScopes }] })
        )
      ),
      { ...inT("member", cliScopes), grants: [ofHidden] }
    )
    const inV = (role: Role) => ({ teams: { V: { role, scopes: null, adminsNeedGrants: true } } }) as const
    yield* add(
      "a session of an owner whose team binds its admins",
      "session",
      cookie(Effect.flatMap(World.member(V, "owner"), World.session)),
      inV("owner")
    )
    const ofAdmin = holding(inBound, "run", true)
    const admin = grantee(V, "admin", inBound, ofAdmin, null)
    yield* add("a session of such an admin with a grant", "session", cookie(Effect.flatMap(admin, World.session)), {
      ...inV("admin"),
      grants: [ofAdmin]
    })
    const ofCreator = (role: Role) =>
      Effect.flatMap(World.member(V, role), (creator) => World.token({ team: V, creator }))
    yield* add("a token that follows a member", "api_token", bearer(ofCreator("member")), {
      ...inV("member"),
      level: "write"
    })
    yield* add(
      "a token that follows someone who is switched off",
      "api_token",
      bearer(
        Effect.gen(function* () {
          const creator = yield* World.member(V, "admin")
          const token = yield* World.token({ team: V, creator })
          yield* switchedOff(0)(creator)
          return token
        })
      ),
      { ...inV("admin"), life: "revoked" }
    )

    // --- device codes: denied ones, so that their stream ends ---
    const deviceCode = (expiresIn: number) =>
      Effect.gen(function* () {
        const crypto = yield* Crypto
        const { proof, text } = yield* World.issue("dc")
        const id = yield* crypto.uuid
        yield* sql`
          INSERT INTO device_requests (id, lookup_id, salt, hash, user_code_hash, status, credential_protection,
            machine_requested, ip, interval_seconds, created_at, expires_at, decided_by)
          VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${yield* crypto.randomBytes(32)}, 'denied',
            'os_keychain', false, '', 5, ${yield* ago(0)}, ${yield* ago(-expiresIn)}, ${T.owner.id})`
        yield* Seals.give("device_requests")
        return { text: Redacted.value(text) }
      })
    yield* add("a device code", "device_code", bearer(deviceCode(600_000)))
    return list
  })

/** The world of the matrix. */
export class AccessWorld extends Context.Tag("test/AccessWorld")<
  AccessWorld,
  Places & {
    readonly credentials: ReadonlyArray<Made>
    /** A project, or an environment of the same one, to delete: it has the same place as `place`. */
    readonly copyOf: (
      place: Place,
      what: "project" | "environment"
    ) => Effect.Effect<Place, never, SqlClient.SqlClient | Crypto | RowSeal>
  }
>() {}

export const layer = Layer.effect(
  AccessWorld,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const layout = yield* places
    let copies = 0
    return {
      ...layout,
      credentials: yield* credentials(layout),
      copyOf: (place, what) =>
        Effect.gen(function* () {
          if (place.team === null || place.environment === null) return place
          if (what === "project") {
            const { id } = yield* World.project({ team: layout[place.team] })
            yield* Seals.after("projects", sql`UPDATE projects SET visibility = ${place.visibility} WHERE id = ${id}`)
            return { ...place, ids: { ...place.ids, projectId: id } }
          }
          const project = { id: ProjectIdOut.make(place.ids.projectId), team: layout[place.team] }
          const { id } = yield* World.environment(project, `copy-${++copies}`, { protected: place.protected })
          return { ...place, ids: { ...place.ids, environmentId: id } }
        }).pipe(Effect.orDie)
    }
  })
)
