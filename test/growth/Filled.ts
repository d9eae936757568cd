/**
 * A database that holds as much as it is asked for, half of its environments one team's: rows as servers leave them, so that lists show
 * them and statistics know them. Values do not open: nobody asks for them.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import * as Seals from "#test/support/Seals.ts"
import * as World from "#test/support/World.ts"

/** How many of each the database holds. */
export interface Size {
  readonly secrets: number
  readonly tokens: number
  readonly environments: number
  readonly entries: number
}

/** Environments of a project. */
const ofProject = 20
const otherTeams = 60
const otherPeople = 500
/** Rows of one statement, at most. */
const batch = 25_000
/** Of secrets, where there are fewer. */
const firstBatch = 1_000

/** Every second one is the team's own. */
const projects = (sql: SqlClient.SqlClient, { team }: World.Project, from: number, to: number) => sql`
  WITH others AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM teams WHERE name = 'Filler')
  INSERT INTO projects (id, team_id, name, slug, created_at, updated_at)
  SELECT gen_random_uuid(), CASE WHEN n % 2 = 0 THEN ${team.id}::uuid ELSE o.id END, 'Filled', 'filled-' || n, now(), now()
  FROM generate_series(${from}::int, ${to}::int - 1) AS n JOIN others o ON o.place = n % ${otherTeams}::int`

const environments = (sql: SqlClient.SqlClient, from: number, to: number) => sql`
  INSERT INTO environments (id, team_id, project_id, slug, name, protected, created_at, updated_at)
  SELECT gen_random_uuid(), p.team_id, p.id, 'filled-' || n, 'Filled', false, now(), now()
  FROM generate_series(${from}::int, ${to}::int - 1) AS n
  JOIN projects p ON p.slug = 'filled-' || n / ${ofProject}::int`

/** In all filled environments, so many each: keys, counters and one version of each, under a data key of its own. */
const secrets = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, from: number, to: number, places: number) {
  yield* sql`
    INSERT INTO data_keys (id, environment_id, generation, root_key_id, wrapped, state, created_at)
    SELECT gen_random_uuid(), e.id, 1, (SELECT root_key_id FROM data_keys LIMIT 1), '\\x00', 'active', now() FROM environments e
    WHERE e.slug LIKE 'filled-%'
      AND NOT EXISTS (SELECT 1 FROM data_keys d WHERE d.environment_id = e.id)`
  yield* sql`
    WITH places AS (
      SELECT id AS environment_id, row_number() OVER (ORDER BY id) - 1 AS place FROM environments
      WHERE slug LIKE 'filled-%'
    ), made AS (
      INSERT INTO secrets (id, environment_id, key, version, revision, created_at, updated_at)
      SELECT gen_random_uuid(), p.environment_id, 'KEY_' || n, 1, 1, now(), now()
      FROM generate_series(${from}::int, ${to}::int - 1) AS n JOIN places p ON p.place = n % ${places}::int
      RETURNING id, environment_id, key
    ), counted AS (
      INSERT INTO secret_counters (environment_id, key, last_version) SELECT environment_id, key, 1 FROM made
    )
    INSERT INTO secret_versions (secret_id, version, kind, pinned, refs, data_key_id, sealed, created_at, created_by)
    SELECT m.id, 1, 'literal', false, '{}', d.id, decode(repeat('ab', 140), 'hex'), now(), '{"type": "user", "id": "filled", "name": null}'
    FROM made m JOIN data_keys d ON d.environment_id = m.environment_id`
})

const people = (sql: SqlClient.SqlClient) => sql`
  INSERT INTO users (id, email, name, password_hash, created_at, updated_at)
  SELECT gen_random_uuid(), 'filler-' || n || '@example.com', 'Filler', '', now(), now() FROM generate_series(1, ${otherPeople}::int) AS n`

/** As many as its plan allows in the team itself, less a few for the test; the others in other teams. */
const ownTokens = 1_500
const tokens = (sql: SqlClient.SqlClient, { team }: World.Project, from: number, to: number) => sql`
  WITH others AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM teams WHERE name = 'Filler'),
    makers AS (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place FROM users WHERE name = 'Filler')
  INSERT INTO api_tokens (id, lookup_id, salt, hash, team_id, name, access_level, mcp_scopes, created_by, created_at, expires_at)
  SELECT gen_random_uuid(), lpad(n::text, 16, 'f'), '\\x00', '\\x00',
    CASE WHEN n < ${ownTokens}::int THEN ${team.id}::uuid ELSE (SELECT o.id FROM others o WHERE o.place = n % ${otherTeams}::int) END,
    'filled ' || n, 'read', '{}',
    CASE WHEN n < ${ownTokens}::int THEN ${team.owner.id}::uuid ELSE (SELECT m.id FROM makers m WHERE m.place = n % ${otherPeople}::int) END,
    now(), now() + interval '30 days'
  FROM generate_series(${from}::int, ${to}::int - 1) AS n`

/** Most of them injections by one process, as a trail has them: of one stream, one project, a few actors, for a month. */
const entries = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { development, id, team }: World.Project,
  stream: string,
  from: number,
  to: number
) {
  for (let first = from; first < to; first += batch) {
    yield* sql`
      INSERT INTO audit_entries (stream, seq, id, at, team_id, project_id, environment_id, environment, actor_id, action, body, hash, mac)
      SELECT ${stream}::uuid, n + 1, e.id, t.at, ${team.id}::uuid, ${id}::uuid, ${development.id}::uuid, ${development.slug}::text, e.actor, e.action,
        json_build_object('action', e.action, 'actor', json_build_object('id', e.actor, 'name', 'ci', 'type', 'api_token'),
          'at', to_char(t.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'environment', ${development.slug}::text,
          'environmentId', ${development.id}::text, 'id', e.id, 'ip', null, 'keys', '["A","B","C"]'::json, 'outcome', 'allowed',
          'project', ${id}::text, 'requestId', e.id, 'seq', n + 1, 'stream', ${stream}::text, 'team', ${team.id}::text,
          'userAgent', repeat('x', 40), 'via', 'rest')::text,
        decode(md5(n::text) || md5(n::text), 'hex'), NULL
      FROM generate_series(${first}::int, ${Math.min(first + batch, to)}::int - 1) AS n,
        LATERAL (SELECT now() - interval '30 days' + n * interval '2.5 seconds' AS at) t,
        LATERAL (
          SELECT (lpad(to_hex(((extract(epoch FROM t.at) * 1000)::bigint)), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8'
              || substr(md5(n::text), 4, 15))::uuid AS id,
            'actor ' || n % 40 AS actor, CASE WHEN n % 10 < 8 THEN 'secret.inject' ELSE 'secret.read' END AS action
        ) e`
  }
})

/** Grows a team from one size to a larger one. */
export const grow = (project: World.Project) => {
  const stream = randomUUID()
  let isFirst = true
  let current: Size = { secrets: 0, tokens: 0, environments: 0, entries: 0 }
  return Effect.fnUntraced(function* (size: Size) {
    const sql = yield* SqlClient.SqlClient
    if (isFirst) {
      yield* World.fillerTeams(yield* World.person(), otherTeams)
      yield* people(sql)
      yield* Seals.give("users")
    }
    isFirst = false
    yield* projects(sql, project, Math.ceil(current.environments / ofProject), Math.ceil(size.environments / ofProject))
    yield* environments(sql, current.environments, size.environments)
    yield* Seals.give("projects", "environments")
    // No batch is larger than the table, and statistics follow each: Postgres checks foreign keys by the plan for the
    // size that it knows, and the plan for a small table reads all of it for each row.
    let from = current.secrets
    while (from < size.secrets) {
      const to = Math.min(from + Math.min(Math.max(from, firstBatch), batch), size.secrets)
      yield* secrets(sql, from, to, size.environments)
      yield* sql`ANALYZE secrets, data_keys, environments`
      from = to
    }
    yield* tokens(sql, project, current.tokens, size.tokens)
    yield* Seals.give("api_tokens")
    yield* entries(sql, project, stream, current.entries, size.entries)
    yield* sql`ANALYZE`
    current = size
  })
}
