/**
 * The rows that need each generation of a service key. A generation is removed when nothing needs it any more. The list
 * is total by its type: a new key does not compile without its use.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServiceKeyName } from "#src/crypto/KeyGenerations.ts"
import * as Rows from "#src/database/Rows.ts"
import { authorizationTables, type credentials } from "./AuthorizationRows.ts"

/** Generation of a digest in a column (`src/crypto/KeyRing.ts`). Null for an ended or unsealed row. */
export const digestGeneration = (sql: SqlClient.SqlClient, column: string): Statement.Fragment =>
  sql`CASE length(${sql(column)}) WHEN 32 THEN 1 WHEN 34 THEN get_byte(${sql(column)}, 0) * 256 + get_byte(${sql(column)}, 1) END`

/** Generation of a box in a column (`src/crypto/ServiceBox.ts`). */
export const boxGeneration = (sql: SqlClient.SqlClient, column: string): Statement.Fragment => sql`
  CASE WHEN length(${sql(column)}) < 3 THEN NULL
    WHEN get_byte(${sql(column)}, 0) = 2 THEN get_byte(${sql(column)}, 1) * 256 + get_byte(${sql(column)}, 2) ELSE 1 END`

/** Generation of a sealed password (`src/rows/PasswordBox.ts`). Null for an account without a password. */
export const passwordGeneration = (sql: SqlClient.SqlClient): Statement.Fragment => sql`
  CASE WHEN password_hash ~ '^sealed[$][0-9]{1,5}[$]' THEN split_part(password_hash, '$', 2)::int
    WHEN password_hash LIKE 'sealed$%' THEN 1 END`

/** A column with a generation, and the condition of the rows that need it. */
interface UsedColumn {
  readonly table: string
  readonly generation: (sql: SqlClient.SqlClient) => Statement.Fragment
  /** By default all rows. */
  readonly live?: Condition
}

/**
 * `columns`: rows that name the generation. `minutes`: the longest life of texts that clients hold, such as cookies.
 */
interface Use {
  readonly columns: ReadonlyArray<UsedColumn>
  readonly minutes: number
}

export type PepperedTable = keyof typeof credentials | "recovery_codes" | "passkey_challenges"
type Condition = (sql: SqlClient.SqlClient, now: Date) => Statement.Fragment

/** Rows that a rotation seals again. One without a MAC has ended, or no server wrote it. */
const withMac: Condition = (sql) => sql`mac <> ''`
const unexpired: Condition = (sql, now) => sql`expires_at > ${now}`
const unexpiredWithout =
  (ended: string): Condition =>
  (sql, now) =>
    sql`${sql(ended)} IS NULL AND expires_at > ${now}`

/** For each table with a peppered hash, the rows whose credential may still be presented. */
const presentable: Readonly<Record<PepperedTable, Condition>> = {
  api_tokens: (sql, now) => sql`revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${now})`,
  cli_grants: unexpiredWithout("revoked_at"),
  sessions: unexpiredWithout("revoked_at"),
  device_requests: unexpiredWithout("delivered_at"),
  invitations: (sql, now) => sql`accepted_at IS NULL AND revoked_at IS NULL AND expires_at > ${now}`,
  password_resets: unexpiredWithout("used_at"),
  recovery_codes: (sql) => sql`used_at IS NULL`,
  setup_codes: (sql) => sql`used_at IS NULL AND NOT EXISTS (SELECT 1 FROM users)`,
  known_devices: unexpired,
  oauth_access_tokens: unexpired,
  oauth_codes: unexpired,
  oauth_refresh_tokens: (sql, now) => sql`
    consumed_at IS NULL AND expires_at > ${now}
      AND EXISTS (SELECT 1 FROM oauth_grants g WHERE g.id = grant_id AND g.revoked_at IS NULL)`,
  passkey_challenges: unexpired,
  sign_in_steps: unexpired
}

/** Rows of a table with a hash under another pepper than the newest. */
export const isOfOldPepper = (
  sql: SqlClient.SqlClient,
  table: PepperedTable,
  { newest, now }: { readonly newest: number; readonly now: Date }
): Statement.Fragment => sql`${presentable[table](sql, now)} AND ${digestGeneration(sql, "hash")} < ${newest}`

const uses: Readonly<Record<ServiceKeyName, Use>> = {
  "row-seals": {
    columns: [...Object.keys(authorizationTables), "sealed_tables"].map((table) => ({
      table,
      generation: (sql) => digestGeneration(sql, "mac")
    })),
    minutes: 0
  },
  "credential-pepper": {
    columns: Object.entries(presentable).map(([table, live]) => ({
      table,
      generation: (sql) => digestGeneration(sql, "hash"),
      live
    })),
    minutes: 0
  },
  "password-hashes": {
    columns: [{ table: "users", generation: passwordGeneration, live: withMac }],
    minutes: 0
  },
  "second-factors": {
    columns: [{ table: "totp_factors", generation: (sql) => boxGeneration(sql, "sealed"), live: withMac }],
    minutes: 0
  },
  "issuer-secrets": {
    columns: [{ table: "sign_in_issuers", generation: (sql) => boxGeneration(sql, "sealed"), live: withMac }],
    minutes: 0
  },
  /** The last entry of each stream proves its end; `Reseal.ts` counts those. */
  "audit-entries": { columns: [], minutes: 0 },
  "run-output": {
    columns: [
      {
        table: "run_plans",
        generation: (sql) => boxGeneration(sql, "output"),
        live: (sql, now) => sql`expires_at > ${now}`
      }
    ],
    minutes: 0
  },
  /** The next token is sealed for half a minute. */
  "oauth-refresh": { columns: [], minutes: 1 },
  /** Interactions of a consent (`src/oauth/Configuration.ts`). */
  "oauth-cookies": { columns: [], minutes: 60 },
  "mcp-request-state": { columns: [], minutes: 10 },
  /** Links that confirm an address (`src/credentials/AddressConfirmation.ts`) last a day, all others ten minutes. */
  "sign-in-flows": { columns: [], minutes: 24 * 60 }
}

export const minutesOf = (name: ServiceKeyName): number => uses[name].minutes

/** For each table of a key, the condition of the rows that need one of these generations. */
export const needsOf = (
  sql: SqlClient.SqlClient,
  name: ServiceKeyName,
  { generations, now }: { readonly generations: ReadonlyArray<number>; readonly now: Date }
): ReadonlyArray<{ readonly table: string; readonly where: Statement.Fragment }> =>
  uses[name].columns.map(({ generation, live, table }) => ({
    table,
    where: sql`${generation(sql)} = ANY(${generations}::int[]) AND ${live?.(sql, now) ?? sql`true`}`
  }))

const UseRow = Schema.Struct({ generation: Schema.Number, n: Schema.Number })

/** Number of rows per generation of a key, over all tables. */
export const rowsPerGeneration = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  name: ServiceKeyName,
  now: Date
) {
  const counts = new Map<number, number>()
  for (const { generation, live, table } of uses[name].columns) {
    const rows = yield* Rows.decodeAll(
      UseRow,
      sql`
        SELECT generation, count(*) AS n FROM (
          SELECT ${generation(sql)} AS generation FROM ${sql(table)} WHERE ${live?.(sql, now) ?? sql`true`}
        ) AS used WHERE generation IS NOT NULL GROUP BY generation`
    )
    for (const { generation, n } of rows) counts.set(generation, n + (counts.get(generation) ?? 0))
  }
  return counts
})
