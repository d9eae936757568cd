import * as Migrator from "@effect/sql/Migrator"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import _0001_identity from "#migrations/0001_identity.ts"
import _0002_projects from "#migrations/0002_projects.ts"
import _0003_secrets from "#migrations/0003_secrets.ts"
import _0004_credentials from "#migrations/0004_credentials.ts"
import _0005_audit from "#migrations/0005_audit.ts"
import _0006_vault from "#migrations/0006_vault.ts"
import _0007_oauth from "#migrations/0007_oauth.ts"
import _0008_mcp from "#migrations/0008_mcp.ts"
import _0009_data_key_rotation from "#migrations/0009_data_key_rotation.ts"
import _0010_audit_seals from "#migrations/0010_audit_seals.ts"
import _0011_machines_webhooks from "#migrations/0011_machines_webhooks.ts"
import _0012_mcp_shares from "#migrations/0012_mcp_shares.ts"
import _0013_ages from "#migrations/0013_ages.ts"
import _0014_known_devices from "#migrations/0014_known_devices.ts"
import _0015_oauth_environments from "#migrations/0015_oauth_environments.ts"
import _0016_audit_entry_mac from "#migrations/0016_audit_entry_mac.ts"
import _0017_audit_terms from "#migrations/0017_audit_terms.ts"
import _0018_access from "#migrations/0018_access.ts"
import _0019_environment_totals from "#migrations/0019_environment_totals.ts"
import _0020_audit_key_lists from "#migrations/0020_audit_key_lists.ts"
import _0021_access_requests from "#migrations/0021_access_requests.ts"
import _0022_row_seals from "#migrations/0022_row_seals.ts"
import _0023_exposure from "#migrations/0023_exposure.ts"
import _0024_run_plans from "#migrations/0024_run_plans.ts"
import _0025_interaction_seals from "#migrations/0025_interaction_seals.ts"
import _0026_change_requests from "#migrations/0026_change_requests.ts"
import _0027_webhook_format from "#migrations/0027_webhook_format.ts"
import _0028_incidents from "#migrations/0028_incidents.ts"
import _0029_second_factor from "#migrations/0029_second_factor.ts"
import _0030_oauth_devices from "#migrations/0030_oauth_devices.ts"
import _0031_secret_metadata from "#migrations/0031_secret_metadata.ts"
import _0032_secret_renames from "#migrations/0032_secret_renames.ts"
import _0033_secret_absences from "#migrations/0033_secret_absences.ts"
import _0034_management from "#migrations/0034_management.ts"
import _0035_passkeys from "#migrations/0035_passkeys.ts"
import _0036_leaked_credentials from "#migrations/0036_leaked_credentials.ts"
import _0037_openid from "#migrations/0037_openid.ts"
import _0038_account_notices from "#migrations/0038_account_notices.ts"
import _0039_addresses from "#migrations/0039_addresses.ts"
import _0040_exposure_latest from "#migrations/0040_exposure_latest.ts"
import _0041_tags_and_views from "#migrations/0041_tags_and_views.ts"
import _0042_environment_order from "#migrations/0042_environment_order.ts"
import _0043_access_request_seals from "#migrations/0043_access_request_seals.ts"
import _0044_growing_teams from "#migrations/0044_growing_teams.ts"
import _0045_approvers from "#migrations/0045_approvers.ts"
import _0046_ways_in from "#migrations/0046_ways_in.ts"
import _0047_address_skeletons from "#migrations/0047_address_skeletons.ts"
import _0048_second_person from "#migrations/0048_second_person.ts"
import _0049_secret_aliases from "#migrations/0049_secret_aliases.ts"
import _0050_change_content from "#migrations/0050_change_content.ts"
import _0051_service_key_generations from "#migrations/0051_service_key_generations.ts"
import _0052_authors from "#migrations/0052_authors.ts"
import _0053_more_row_seals from "#migrations/0053_more_row_seals.ts"
import _0054_provisional_accounts from "#migrations/0054_provisional_accounts.ts"
import _0055_bound_plans from "#migrations/0055_bound_plans.ts"
import _0056_key_instances from "#migrations/0056_key_instances.ts"
import _0057_allowed_keys from "#migrations/0057_allowed_keys.ts"
import { StartRefused } from "#src/AppConfig.ts"

/** Append-only. A test compares it with the folder. */
export const registry: Record<string, Effect.Effect<unknown, unknown, SqlClient.SqlClient>> = {
  "0001_identity": _0001_identity,
  "0002_projects": _0002_projects,
  "0003_secrets": _0003_secrets,
  "0004_credentials": _0004_credentials,
  "0005_audit": _0005_audit,
  "0006_vault": _0006_vault,
  "0007_oauth": _0007_oauth,
  "0008_mcp": _0008_mcp,
  "0009_data_key_rotation": _0009_data_key_rotation,
  "0010_audit_seals": _0010_audit_seals,
  "0011_machines_webhooks": _0011_machines_webhooks,
  "0012_mcp_shares": _0012_mcp_shares,
  "0013_ages": _0013_ages,
  "0014_known_devices": _0014_known_devices,
  "0015_oauth_environments": _0015_oauth_environments,
  "0016_audit_entry_mac": _0016_audit_entry_mac,
  "0017_audit_terms": _0017_audit_terms,
  "0018_access": _0018_access,
  "0019_environment_totals": _0019_environment_totals,
  "0020_audit_key_lists": _0020_audit_key_lists,
  "0021_access_requests": _0021_access_requests,
  "0022_row_seals": _0022_row_seals,
  "0023_exposure": _0023_exposure,
  "0024_run_plans": _0024_run_plans,
  "0025_interaction_seals": _0025_interaction_seals,
  "0026_change_requests": _0026_change_requests,
  "0027_webhook_format": _0027_webhook_format,
  "0028_incidents": _0028_incidents,
  "0029_second_factor": _0029_second_factor,
  "0030_oauth_devices": _0030_oauth_devices,
  "0031_secret_metadata": _0031_secret_metadata,
  "0032_secret_renames": _0032_secret_renames,
  "0033_secret_absences": _0033_secret_absences,
  "0034_management": _0034_management,
  "0035_passkeys": _0035_passkeys,
  "0036_leaked_credentials": _0036_leaked_credentials,
  "0037_openid": _0037_openid,
  "0038_account_notices": _0038_account_notices,
  "0039_addresses": _0039_addresses,
  "0040_exposure_latest": _0040_exposure_latest,
  "0041_tags_and_views": _0041_tags_and_views,
  "0042_environment_order": _0042_environment_order,
  "0043_access_request_seals": _0043_access_request_seals,
  "0044_growing_teams": _0044_growing_teams,
  "0045_approvers": _0045_approvers,
  "0046_ways_in": _0046_ways_in,
  "0047_address_skeletons": _0047_address_skeletons,
  "0048_second_person": _0048_second_person,
  "0049_secret_aliases": _0049_secret_aliases,
  "0050_change_content": _0050_change_content,
  "0051_service_key_generations": _0051_service_key_generations,
  "0052_authors": _0052_authors,
  "0053_more_row_seals": _0053_more_row_seals,
  "0054_provisional_accounts": _0054_provisional_accounts,
  "0055_bound_plans": _0055_bound_plans,
  "0056_key_instances": _0056_key_instances,
  "0057_allowed_keys": _0057_allowed_keys
}

type Registry = typeof registry

/**
 * By migration number: the last migration that a program must know to keep serving, and to start again, beside it. A
 * migration that only adds has a number before its own: since 46 the last one of the earlier commit of `test/upgrade`,
 * whose server starts again while an upgrade is under way. One that drops something has the last number of the release
 * that stopped using it. A migration without an entry stops all programs that do not know it.
 */
const servedFrom: ReadonlyMap<number, number> = new Map([
  [16, 15],
  [17, 16],
  [19, 18],
  [20, 19],
  [21, 20],
  [23, 22],
  [24, 23],
  [31, 30],
  [33, 32],
  [38, 37],
  [40, 39],
  [41, 40],
  [42, 41],
  [46, 45],
  [47, 45],
  [48, 45],
  [49, 45],
  [50, 45],
  [51, 45],
  [52, 45],
  [53, 45],
  [54, 45],
  [55, 45],
  [56, 45],
  [57, 45]
])

const LEDGER = "effect_sql_migrations"
/** Fixed number of the lock among all users of the database ("ampoule" in ASCII digits, cut). */
const LOCK = 97_109_112

const parse = (key: string) => {
  const cut = key.indexOf("_")
  return { id: Number(key.slice(0, cut)), name: key.slice(cut + 1) }
}

/**
 * Applies `migrations` in one transaction, under a lock for one process at a time. A failed migration leaves nothing
 * behind. Returns the applied ones.
 */
export const migrate = (
  migrations: Registry = registry,
  served = servedFrom
): Effect.Effect<ReadonlyArray<readonly [id: number, name: string]>, StartRefused | SqlError, SqlClient.SqlClient> =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const parsed = Object.keys(migrations).map(parse)
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`SELECT pg_advisory_xact_lock(${LOCK}::bigint)`
        // The migrator creates its ledger only after a failed query, which would spoil this transaction.
        yield* sql`CREATE TABLE IF NOT EXISTS ${sql(LEDGER)} (
          migration_id integer PRIMARY KEY,
          created_at timestamptz NOT NULL DEFAULT now(),
          name text NOT NULL,
          served_from integer
        )`
        // A ledger of 1.0 lacks the column. Checked first, because ALTER TABLE waits for all readers of the table, such
        // as a backup.
        const [column] = yield* sql`
          SELECT 1 FROM pg_attribute WHERE attrelid = ${LEDGER}::regclass AND attname = 'served_from'`
        if (column === undefined) yield* sql`ALTER TABLE ${sql(LEDGER)} ADD COLUMN served_from integer`
        const applied = yield* sql<Applied>`
          SELECT migration_id AS id, name, coalesce(served_from, migration_id) AS served_from
          FROM ${sql(LEDGER)} ORDER BY migration_id`
        yield* refuseForeignLedger(applied, parsed)
        const run = yield* Migrator.make({})({
          // Each migration needs only the SqlClient; the migrator reports its failure.
          loader: Migrator.fromRecord(migrations as Record<string, Effect.Effect<void, unknown, SqlClient.SqlClient>>),
          table: LEDGER
        })
        for (const [id] of run) {
          yield* sql`UPDATE ${sql(LEDGER)} SET served_from = ${served.get(id) ?? id} WHERE migration_id = ${id}`
        }
        return run
      })
    )
  }).pipe(
    Effect.catchTag("MigrationError", (error) => new StartRefused({ message: error.message })),
    Effect.catchSomeDefect((defect) =>
      defect instanceof Migrator.MigrationError
        ? Option.some(Effect.zipRight(Effect.logDebug("migration", defect.cause), refused(defect)))
        : Option.none()
    )
  )

const refused = (defect: Migrator.MigrationError) =>
  new StartRefused({ message: `${defect.message}. The database is unchanged.` })

interface Applied {
  readonly id: number
  readonly name: string
  readonly servedFrom: number
}

/** Refuses the database of another program or version: a ledger that this program could not have written. */
const refuseForeignLedger = (
  applied: ReadonlyArray<Applied>,
  known: ReadonlyArray<{ readonly id: number; readonly name: string }>
): Effect.Effect<void, StartRefused> => {
  const newest = Math.max(0, ...known.map(({ id }) => id))
  const last = applied.at(-1)?.id ?? 0
  const ledger = new Map(applied.map(({ id, name }) => [id, name]))
  const odd = known.find(({ id, name }) => id <= last && ledger.get(id) !== name)
  if (odd !== undefined) {
    return new StartRefused({
      message: `The database's list of migrations differs from this program's at number ${odd.id}. It belongs to another program or version.`
    })
  }
  if (last <= newest) return Effect.void
  const ahead = `The database was migrated by a newer Ampoule (migration ${last}, this program knows up to ${newest})`
  return applied.every(({ id, servedFrom }) => id <= newest || servedFrom <= newest)
    ? Effect.logWarning(`${ahead}. This program may still serve beside it: upgrade this one too.`)
    : new StartRefused({ message: `${ahead}. Start that version, or restore a backup from before.` })
}
