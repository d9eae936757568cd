/** The subject of an incident as a request names it, and the rows of incidents. */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { GrantNotFound, MemberNotFound, TokenNotFound, ValidationFailed } from "#schema/Errors.ts"
import { IncidentIdOut, ProjectIdOut, SecretIdOut, type TeamId, uuidPattern } from "#schema/Ids.ts"
import type { ExposedValue, IncidentQuery } from "#schema/IncidentApi.ts"
import { rowsWithActors } from "#src/trail/ExposureRows.ts"
import type { Subject } from "#src/trail/IncidentExposure.ts"
import type { ExposedLine } from "#src/audit/Incident.ts"
import { hasAddress } from "#src/credentials/Accounts.ts"
import * as Rows from "#src/database/Rows.ts"

const NamedRow = Schema.Struct({ id: Schema.String, name: Schema.String })

const isType = Schema.is(Schema.Literal("person", "token", "grant"))
/** A note that the vault signed. */
export const typeOf = (type: string): Subject["type"] => (isType(type) ? type : "person")

export const placeOf = (projectId: string, environment: string) => ({
  projectId: ProjectIdOut.make(projectId),
  environment
})

export const exposedOf = (value: ExposedLine, out: boolean): ExposedValue => {
  const {
    environmentId: _environmentId,
    inferred: _inferred,
    projectId,
    renames = [],
    secretId,
    ways = [],
    ...one
  } = value
  const renamedTo = renames.at(-1)?.key ?? null
  return { ...one, ways, renamedTo, projectId: ProjectIdOut.make(projectId), secretId: SecretIdOut.make(secretId), out }
}

/** A text that is no id is compared with names alone. */
const idOr = (text: string) => (uuidPattern.test(text) ? text.toLowerCase() : null)

/** Members, and people who left: they keep the values that they received. */
const people = (sql: SqlClient.SqlClient, teamId: TeamId, text: string) =>
  Rows.findAll(
    NamedRow,
    sql`
      SELECT u.id, u.email AS name FROM users u
      WHERE (u.id = ${idOr(text)}::uuid OR lower(u.email) = lower(${text}) OR ${hasAddress(sql, text.toLowerCase())})
        AND (EXISTS (SELECT 1 FROM memberships m WHERE m.team_id = ${teamId} AND m.user_id = u.id)
          OR EXISTS (SELECT 1 FROM ${sql.literal(rowsWithActors)}
            WHERE r.project_id IN (SELECT id FROM projects WHERE team_id = ${teamId})
              AND a.type = 'user' AND a.id = u.id::text))
      LIMIT 2`
  )

/** Tokens and rules, revoked ones included; by name, active ones first. */
const tokens = (sql: SqlClient.SqlClient, teamId: TeamId, text: string) =>
  Rows.findAll(
    NamedRow,
    sql`
      SELECT t.id, t.name FROM (
        SELECT id, name, revoked_at FROM api_tokens WHERE team_id = ${teamId} AND rule_id IS NULL
        UNION ALL SELECT id, name, revoked_at FROM machine_rules WHERE team_id = ${teamId}
      ) AS t
      WHERE t.id = ${idOr(text)}::uuid OR t.name = ${text}
      ORDER BY t.id = ${idOr(text)}::uuid DESC NULLS LAST, t.revoked_at IS NULL DESC, t.id DESC LIMIT 2`
  )

const logins = (sql: SqlClient.SqlClient, teamId: TeamId, text: string) =>
  Rows.findAll(
    NamedRow,
    sql`
      SELECT g.id, g.name FROM (
        SELECT c.id, c.user_id, coalesce(c.hostname, '') AS name FROM cli_grants c
        UNION ALL SELECT o.id, o.user_id, o.client_name FROM oauth_grants o
      ) AS g
      WHERE g.id = ${idOr(text)}::uuid
        AND EXISTS (SELECT 1 FROM memberships m WHERE m.team_id = ${teamId} AND m.user_id = g.user_id) LIMIT 2`
  )

/** Fails with MEMBER_NOT_FOUND, TOKEN_NOT_FOUND or GRANT_NOT_FOUND when the team has no such subject. */
export const subjectOf = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  teamId: TeamId,
  { grant, person, token }: Pick<IncidentQuery, "grant" | "person" | "token">
) {
  if (person !== undefined) {
    const [one] = yield* people(sql, teamId, person)
    if (one === undefined) return yield* new MemberNotFound()
    return { type: "person", ...one } satisfies Subject
  }
  if (token !== undefined) {
    const [one, other] = yield* tokens(sql, teamId, token)
    if (one === undefined) return yield* new TokenNotFound()
    if (other !== undefined && one.id !== idOr(token)) {
      return yield* new ValidationFailed({ field: "token", message: "names several tokens: give the id of one" })
    }
    return { type: "token", ...one } satisfies Subject
  }
  const [one] = yield* logins(sql, teamId, grant ?? "")
  if (one === undefined) return yield* new GrantNotFound({ message: "No such login." })
  return { type: "grant", ...one } satisfies Subject
})

const VersionRow = Schema.Struct({ version: Schema.Number })

/** The version of a live secret, under any key; null: it was deleted. */
export const versionNow = (sql: SqlClient.SqlClient, secretId: string) =>
  Effect.map(
    Rows.findOne(VersionRow, sql`SELECT version FROM secrets WHERE id = ${secretId} AND deleted_at IS NULL`),
    (row) => row?.version ?? null
  )

const ListedRow = Schema.Struct({ id: IncidentIdOut, note: Schema.String, openedAt: Schema.DateFromSelf })

/** Notes that a list opens at most, and their bytes; always at least one. */
const listedAtMost = 100
const listedBytes = 16_777_216

/** The last incidents, from their notes. */
export const listed = (sql: SqlClient.SqlClient, teamId: TeamId, atMost = listedAtMost, bytes = listedBytes) =>
  Rows.findAll(
    ListedRow,
    sql`
      SELECT i.id, i.note, i.opened_at FROM incidents i JOIN (
        SELECT n.id, sum(n.size) OVER (ORDER BY n.id DESC) - n.size AS before FROM (
          SELECT id, octet_length(note) AS size FROM incidents WHERE team_id = ${teamId}
          ORDER BY id DESC LIMIT ${atMost}
        ) AS n
      ) AS l ON l.id = i.id
      WHERE l.before < ${bytes} ORDER BY i.id DESC`
  )
