/**
 * Verbs that make what a test needs, straight in the database: each call makes something new, so tests share one. Every
 * verb takes what it should belong to and makes the rest itself. Credentials come back as the text a client sends.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import {
  type EnvironmentId,
  EnvironmentIdOut,
  GrantIdOut,
  type ProjectId,
  ProjectIdOut,
  type TeamId,
  TeamIdOut,
  TokenIdOut,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import type { AccessLevel, Plan, Role, Scope } from "#schema/Scopes.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as TokenText from "#src/credentials/TokenText.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Seals from "./Seals.ts"

const day = 86_400_000
const at = (millis: number) => new Date(millis).toISOString()

const newId = Effect.flatMap(Crypto, (crypto) => crypto.uuid)
export const issue = (kind: TokenText.TokenKind) =>
  Effect.flatMap(Effect.all({ crypto: Crypto, rowSeal: RowSeal }), (needs) => TokenText.issue(needs, kind))

export interface Person {
  readonly id: UserId
  readonly email: string
  readonly name: string
}
/** `passwordHash`: argon2 text; without it nobody can sign in as this person (`session` still can). */
export const person = (
  options: { readonly name?: string; readonly email?: string; readonly passwordHash?: string } = {}
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const id = UserIdOut.make(yield* newId)
    const now = at(yield* Clock.currentTimeMillis)
    const row: Person = { id, email: options.email ?? `${id}@example.com`, name: options.name ?? "Ada" }
    yield* sql`
      INSERT INTO users (id, email, name, password_hash, created_at, updated_at)
      VALUES (${id}, ${row.email}, ${row.name}, ${options.passwordHash ?? ""}, ${now}, ${now})`
    yield* Seals.give("users")
    return row
  })

export interface Team {
  readonly id: TeamId
  readonly name: string
  readonly plan: Plan
  readonly owner: Person
}
/** Written as a server writes: nobody sees the rows without their MAC. */
const sealed = <A, E, R>(table: "memberships" | "projects" | "environments", write: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(Effect.zipLeft(write, Seals.give(table))))

/** A team with an owner. */
export const team = (options: { readonly plan?: Plan; readonly owner?: Person; readonly name?: string } = {}) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const id = TeamIdOut.make(yield* newId)
    const owner = options.owner ?? (yield* person())
    const now = at(yield* Clock.currentTimeMillis)
    const row: Team = { id, name: options.name ?? "Team", plan: options.plan ?? "team", owner }
    yield* sql`
      INSERT INTO teams (id, name, plan, created_at, updated_at) VALUES (${id}, ${row.name}, ${row.plan}, ${now}, ${now})`
    yield* Seals.give("teams")
    yield* join(row, owner, "owner")
    return row
  })

export const join = (team: { readonly id: TeamId }, person: Person, role: Role) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = at(yield* Clock.currentTimeMillis)
    yield* sealed(
      "memberships",
      sql`
        INSERT INTO memberships (team_id, user_id, role, created_at, updated_at)
        VALUES (${team.id}, ${person.id}, ${role}, ${now}, ${now})`
    )
  })

/** The person's account becomes a provisional one with the address of another account, as an invitation leaves it. */
export const displace = (person: Person, other: Person, by: { readonly id: TeamId }) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Seals.after(
      "users",
      sql`
        UPDATE users SET email = ${`${other.email} (by ${person.id})`}, vouched_by = 'none', made_by = ${by.id}
        WHERE id = ${person.id}`
    )
  )

/** A new person in the team. */
export const member = (team: { readonly id: TeamId }, role: Role) =>
  Effect.tap(person(), (made) => join(team, made, role))

export interface Environment {
  readonly id: EnvironmentId
  readonly slug: string
  readonly protected: boolean
}
export const environment = (
  project: { readonly id: ProjectId; readonly team: { readonly id: TeamId } },
  slug: string,
  options: { readonly protected?: boolean } = {}
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const row: Environment = { id: EnvironmentIdOut.make(yield* newId), slug, protected: options.protected ?? false }
    const now = at(yield* Clock.currentTimeMillis)
    yield* sealed(
      "environments",
      sql`
        INSERT INTO environments (id, team_id, project_id, slug, name, protected, created_at, updated_at)
        VALUES (${row.id}, ${project.team.id}, ${project.id}, ${slug}, ${slug}, ${row.protected}, ${now}, ${now})`
    )
    return row
  })

export interface Project {
  readonly id: ProjectId
  readonly team: Team
  readonly slug: string
  readonly development: Environment
  readonly staging: Environment
  /** Protected. */
  readonly production: Environment
}
/** A project with the three default environments, in a new team unless one is given. */
export const project = (options: { readonly team?: Team; readonly slug?: string } = {}) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const owning = options.team ?? (yield* team())
    const id = ProjectIdOut.make(yield* newId)
    const slug = options.slug ?? `p-${id.slice(-12)}`
    const now = at(yield* Clock.currentTimeMillis)
    yield* sealed(
      "projects",
      sql`
        INSERT INTO projects (id, team_id, name, slug, created_at, updated_at)
        VALUES (${id}, ${owning.id}, 'Demo', ${slug}, ${now}, ${now})`
    )
    const place = { id, team: owning }
    const row: Project = {
      ...place,
      slug,
      development: yield* environment(place, "development"),
      staging: yield* environment(place, "staging"),
      production: yield* environment(place, "production", { protected: true })
    }
    return row
  })

/** `count` further teams of the person, with nothing in them: for tests of limits. */
export const fillerTeams = (owner: Person, count: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = at(yield* Clock.currentTimeMillis)
    yield* sql`
      WITH made AS (
        INSERT INTO teams (id, name, plan, created_at, updated_at)
        SELECT gen_random_uuid(), 'Filler', 'developer', ${now}::timestamptz, ${now}::timestamptz
        FROM generate_series(1, ${count}::int) RETURNING id
      )
      INSERT INTO memberships (team_id, user_id, role, created_at, updated_at)
      SELECT id, ${owner.id}::uuid, 'owner', ${now}::timestamptz, ${now}::timestamptz FROM made`
    yield* Seals.give("teams", "memberships")
  })

/** `count` further projects of the team without environments: for tests of limits. */
export const fillerProjects = (team: { readonly id: TeamId }, count: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = at(yield* Clock.currentTimeMillis)
    yield* sql`
      INSERT INTO projects (id, team_id, name, slug, created_at, updated_at)
      SELECT gen_random_uuid(), ${team.id}::uuid, 'Filler', 'filler-' || n, ${now}::timestamptz, ${now}::timestamptz
      FROM generate_series(1, ${count}::int) AS n`
    yield* Seals.give("projects")
  })

/** `count` further environments of the project: for tests of limits. */
export const fillerEnvironments = (project: Project, count: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = at(yield* Clock.currentTimeMillis)
    yield* sql`
      INSERT INTO environments (id, team_id, project_id, slug, name, protected, created_at, updated_at)
      SELECT gen_random_uuid(), ${project.team.id}::uuid, ${project.id}::uuid, 'filler-' || n, 'Filler', false,
        ${now}::timestamptz, ${now}::timestamptz
      FROM generate_series(1, ${count}::int) AS n`
    yield* Seals.give("environments")
  })

/** An API token. `projects`, `environments`: absent = all of the team. */
export const token = (options: {
  readonly team: Team
  readonly accessLevel?: AccessLevel
  readonly projects?: ReadonlyArray<{ readonly id: ProjectId }>
  readonly environments?: ReadonlyArray<{ readonly id: EnvironmentId }>
  readonly mcpScopes?: ReadonlyArray<Scope>
  readonly creator?: Person
  readonly name?: string
  /** Millis from now; negative = expired already; null = the older kind without expiry. */
  readonly expiresIn?: number | null
  readonly revoked?: boolean
}) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { proof, text } = yield* issue("at")
    const id = TokenIdOut.make(yield* newId)
    const now = yield* Clock.currentTimeMillis
    const expiresIn = options.expiresIn === undefined ? 30 * day : options.expiresIn
    yield* sql`
      INSERT INTO api_tokens (id, lookup_id, salt, hash, team_id, name, access_level, project_ids, environment_ids,
        mcp_scopes, created_by, created_at, expires_at, revoked_at)
      VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${options.team.id}, ${options.name ?? "ci"},
        ${options.accessLevel ?? "write"}, ${options.projects?.map((p) => p.id) ?? null}::uuid[],
        ${options.environments?.map((e) => e.id) ?? null}::uuid[], ${options.mcpScopes ?? []}::text[],
        ${(options.creator ?? options.team.owner).id}, ${at(now)},
        ${expiresIn === null ? null : at(now + expiresIn)}::timestamptz,
        ${options.revoked === true ? at(now) : null}::timestamptz)`
    yield* Seals.give("api_tokens")
    return { id, text: Redacted.value(text) }
  })

/** A dashboard session of the person. */
export const session = (person: { readonly id: UserId }) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { proof, text } = yield* issue("ss")
    const id = yield* newId
    const now = yield* Clock.currentTimeMillis
    yield* sql`
      INSERT INTO sessions (id, lookup_id, salt, hash, user_id, created_at, expires_at, last_used_at)
      VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${person.id}, ${at(now)}, ${at(now + 7 * day)},
        ${at(now)})`
    yield* Seals.give("sessions")
    return { id, text: Redacted.value(text) }
  })

/** A management session of the person, asked for by a login of theirs; `millis` from now it ends. */
export const management = (options: {
  readonly person: { readonly id: UserId }
  readonly team: { readonly id: TeamId }
  readonly login: { readonly id: string }
  readonly millis?: number
}) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { proof, text } = yield* issue("ss")
    const id = yield* newId
    const now = yield* Clock.currentTimeMillis
    yield* sql`
      INSERT INTO sessions (id, lookup_id, salt, hash, user_id, created_at, expires_at, last_used_at, manages, login_id)
      VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${options.person.id}, ${at(now)},
        ${at(now + (options.millis ?? 600_000))}, ${at(now)}, ${options.team.id}, ${options.login.id})`
    yield* Seals.give("sessions")
    return { id, text: Redacted.value(text) }
  })

/** A CLI grant of the person over teams that the person is in. */
export const grant = (options: {
  readonly person: { readonly id: UserId }
  readonly teams: ReadonlyArray<{ readonly team: { readonly id: TeamId }; readonly scopes: ReadonlyArray<Scope> }>
  readonly projects?: ReadonlyArray<{ readonly id: ProjectId }>
  readonly environments?: ReadonlyArray<{ readonly id: EnvironmentId }>
  readonly machine?: boolean
}) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { proof, text } = yield* issue("cg")
    const id = GrantIdOut.make(yield* newId)
    const now = yield* Clock.currentTimeMillis
    yield* sql`
      INSERT INTO cli_grants (id, lookup_id, salt, hash, user_id, machine, project_ids, environment_ids,
        credential_protection, created_at, expires_at)
      VALUES (${id}, ${proof.lookupId}, ${proof.salt}, ${proof.hash}, ${options.person.id}, ${options.machine ?? false},
        ${options.projects?.map((p) => p.id) ?? null}::uuid[], ${options.environments?.map((e) => e.id) ?? null}::uuid[],
        'os_keychain', ${at(now)}, ${at(now + 180 * day)})`
    for (const { scopes, team } of options.teams) {
      yield* sql`INSERT INTO cli_grant_teams (grant_id, team_id, scopes) VALUES (${id}, ${team.id}, ${scopes}::text[])`
    }
    yield* Seals.give("cli_grants", "cli_grant_teams")
    return { id, text: Redacted.value(text) }
  })

export const revoke = (table: "api_tokens" | "cli_grants" | "sessions", credential: { readonly id: string }) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE ${sql(table)} SET revoked_at = ${at(yield* Clock.currentTimeMillis)}, mac = '' WHERE id = ${credential.id}`
  })
