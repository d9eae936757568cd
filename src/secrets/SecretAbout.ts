/**
 * Metadata of a secret (docs/contract/secrets.md, "Metadata"). It is not part of the value: a change makes no version
 * and moves no revision, and nothing here opens a box.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Forbidden, SecretNotFound } from "#schema/Errors.ts"
import { EnvironmentIdOut, ProjectIdOut, type SecretId, type TeamId } from "#schema/Ids.ts"
import { Visibility } from "#schema/Scopes.ts"
import type { DescribeSecret, EnvironmentQuery, TagSecrets } from "#schema/SecretRequests.ts"
import type { DescribedSecret } from "#schema/SecretResponses.ts"
import type { Access } from "#src/access/Access.ts"
import type { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import * as Rows from "#src/database/Rows.ts"
import { aboutOf, refOf } from "./SecretMetadata.ts"
import * as SecretRows from "./SecretRows.ts"

interface Needs {
  readonly access: Access
  readonly audit: Audit
  readonly sql: SqlClient.SqlClient
}

const DescribedRow = Schema.Struct({ ...SecretRows.metadata, ...SecretRows.about })
const DueRow = Schema.Struct({ total: Schema.Number, keys: Schema.Array(Schema.String) })
const maxNamed = 20

/** Days begin in UTC: a day is the same for all readers. */
export const dayOf = (at: number) => DateTime.formatIsoDate(DateTime.unsafeMake(at))

const find = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, permit: SecretRows.ReadPermit, id: SecretId) {
  const row = yield* Rows.findOne(
    DescribedRow,
    sql`
      SELECT ${SecretRows.metadataColumns(sql)}, ${SecretRows.aboutColumns(sql)} FROM ${SecretRows.liveVersions(sql)}
      WHERE s.id = ${id} AND s.environment_id = ${permit.target.environmentId} AND s.deleted_at IS NULL`
  )
  if (row === undefined) return yield* new SecretNotFound()
  const response: DescribedSecret = { ...refOf(permit.target, row), ...aboutOf(row) }
  return response
})

export const described = Effect.fnUntraced(function* ({ access, sql }: Needs, id: SecretId) {
  const permit = yield* access.environmentOfSecret("secrets:read", id, { audit: "secret.list" })
  return yield* find(sql, permit, id)
})

/** Live secrets whose day of replacement has come: their number, and the first keys. */
export const due = Effect.fnUntraced(function* ({ access, sql }: Needs, at: EnvironmentQuery) {
  const permit = yield* access.environment("secrets:read", at, { audit: "secret.list" })
  const today = dayOf(yield* Clock.currentTimeMillis)
  return yield* Rows.single(
    DueRow,
    sql`
      SELECT count(*)::int AS total, coalesce((array_agg(key ORDER BY key))[1:${sql.literal(String(maxNamed))}], '{}') AS keys
      FROM secrets
      WHERE environment_id = ${permit.target.environmentId} AND deleted_at IS NULL AND rotate_by <= ${today}::date`
  )
})

const DuePlaceRow = Schema.Struct({
  projectId: ProjectIdOut,
  project: Schema.String,
  environmentId: EnvironmentIdOut,
  environment: Schema.String,
  visibility: Visibility,
  total: Schema.Number
})
const placesAtMost = 200

/** Numbers of due secrets in the environments of a team that the caller reaches. For an overview. */
export const dueInTeam = Effect.fnUntraced(function* ({ access, sql }: Needs, teamId: TeamId) {
  const { caller, teams } = yield* access.eachTeam("secrets:read", { audit: "secret.list" })
  if (!teams.some(({ id }) => id === teamId)) return []
  const today = dayOf(yield* Clock.currentTimeMillis)
  const places = yield* Rows.findAll(
    DuePlaceRow,
    sql`
      SELECT p.id AS project_id, p.name AS project, e.id AS environment_id, e.slug AS environment, p.visibility,
        count(*)::int AS total
      FROM secrets s JOIN environments e ON e.id = s.environment_id AND e.deleted_at IS NULL
      JOIN projects p ON p.id = e.project_id AND p.deleted_at IS NULL
      WHERE e.team_id = ${teamId} AND s.deleted_at IS NULL AND s.rotate_by <= ${today}::date
      GROUP BY p.id, e.id ORDER BY p.name, e.position, e.id LIMIT ${placesAtMost}`
  )
  return places.filter((place) => Policy.environmentVisible(caller, { teamId, ...place }))
})

export const waitsForNoApproval = () =>
  new Forbidden({
    message:
      "Changes of this environment wait for an approval. What is said of its secrets does not: owners and admins write it."
  })

/** The trail names tags, since they group secrets. Other metadata is free text. */
export const tagsTarget = (id: string, name: string) => ({ type: "tags", id, name })

/** Absent members stay as they are. */
export const describe = Effect.fnUntraced(function* (needs: Needs, id: SecretId, body: DescribeSecret) {
  const { access, audit, sql } = needs
  const permit = yield* access.environmentOfSecret("secrets:write", id, { audit: "secret.describe" })
  const { alias, note, owner, rotateBy } = body
  const tags = body.tags === undefined ? undefined : [...body.tags].sort()
  return yield* change(needs, permit.event(), function* () {
    if (permit.proposes) return yield* waitsForNoApproval()
    // The environment first, as every write of secrets locks it.
    const isLive = yield* Rows.exists(sql`
      WITH environment AS (
        UPDATE environments SET described = described + 1
        WHERE id = ${permit.target.environmentId} AND deleted_at IS NULL RETURNING id)
      UPDATE secrets s SET
        owner = CASE WHEN ${owner === undefined}::boolean THEN s.owner ELSE ${owner ?? null}::text END,
        note = CASE WHEN ${note === undefined}::boolean THEN s.note ELSE ${note ?? null}::text END,
        rotate_by = CASE WHEN ${rotateBy === undefined}::boolean THEN s.rotate_by ELSE ${rotateBy ?? null}::date END,
        alias = CASE WHEN ${alias === undefined}::boolean THEN s.alias ELSE ${alias ?? null}::text END,
        tags = CASE WHEN ${tags === undefined}::boolean THEN s.tags ELSE ${tags ?? []}::text[] END
      FROM environment e WHERE s.id = ${id} AND s.environment_id = e.id AND s.deleted_at IS NULL
      RETURNING s.id`)
    if (!isLive) return yield* new SecretNotFound()
    const response = yield* find(sql, permit, id)
    const about = tags === undefined ? {} : { target: tagsTarget(id, tags.join(", ")) }
    yield* audit.append(permit.event({ keys: [response.key], ...about }))
    return response
  })
})

const TaggedRow = Schema.Struct({ key: Schema.String, tags: Schema.Number })

/** Adds or takes away a tag. Of the live secrets with these keys, those that change, and how many tags they have then. */
export const writeTag = (
  sql: SqlClient.SqlClient,
  { target }: EnvironmentPermit<"secrets:write">,
  { keys, op, tag }: TagSecrets
) =>
  Rows.findAll(
    TaggedRow,
    sql`
      UPDATE secrets SET tags = ${
        op === "add"
          ? sql`array(SELECT t FROM unnest(tags || ${tag}::text) AS t ORDER BY t COLLATE "C")`
          : sql`array_remove(tags, ${tag}::text)`
      }
      WHERE environment_id = ${target.environmentId} AND deleted_at IS NULL AND key = any(${keys}::text[])
        AND (${tag}::text = any(tags)) = ${op === "remove"}
      RETURNING key, cardinality(tags) AS tags`
  )
