/**
 * Database of the maintenance programs, unchanged: they do not migrate, and only `restore` creates one. In the wrong
 * folder they would otherwise create an empty one, in which no key is in use.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { AppConfig, type Settings, StartRefused } from "#src/AppConfig.ts"
import * as Canary from "#src/crypto/Canary.ts"
import * as Rows from "#src/database/Rows.ts"
import * as DataFolder from "./DataFolder.ts"
import * as Migrations from "./Migrations.ts"
import * as PgPool from "./PgPool.ts"
import * as Pglite from "./Pglite.ts"
import { hostsOf, privateConnection } from "./Postgres.ts"

/** No request waits for these programs, so a statement over millions of rows may take long. */
const longDeadlines = { checkoutMillis: 30_000, deadlineMillis: 3_600_000 }

const missing = new StartRefused({
  message: "There is no Ampoule database here yet. Check AMPOULE_DATABASE_URL, or AMPOULE_DATA_DIR."
})

const database = (settings: Settings) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      if (Option.isSome(settings.databaseUrl)) {
        yield* privateConnection({ url: settings.databaseUrl.value, plaintextHosts: settings.plaintextHosts })
        return PgPool.layer({ ...hostsOf(settings.databaseUrl.value), size: 4, ...longDeadlines })
      }
      const real = yield* DataFolder.ensure(settings.dataDir)
      yield* DataFolder.lock(real)
      const origin = { folder: `${real}/postgres` }
      return (yield* Pglite.make({ origin, migrated: false, ...longDeadlines })).layer
    })
  )

/** Migrations of this program, in the form of the ledger. */
export const knownMigrations = Object.keys(Migrations.registry).map((key): readonly [number, string] => {
  const cut = key.indexOf("_")
  return [Number(key.slice(0, cut)), key.slice(cut + 1)]
})

const LedgerRow = Schema.Struct({ exists: Schema.Boolean })
const LastRow = Schema.Struct({ last: Schema.Number })

const isCurrent = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ledger = yield* Rows.decodeSingle(
    LedgerRow,
    sql`SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS exists`
  )
  if (!ledger.exists) return yield* missing
  const { last } = yield* Rows.decodeSingle(
    LastRow,
    sql`SELECT coalesce(max(migration_id), 0) AS last FROM effect_sql_migrations`
  )
  const newest = Math.max(...knownMigrations.map(([id]) => id))
  if (last === newest) return
  return yield* new StartRefused({
    message:
      last > newest
        ? "The database was migrated by a newer Ampoule; use that one."
        : "The database belongs to an older release: run `ampoule migrate` first, or use that release."
  })
})

/** Any database, even an empty one. */
export const any = Layer.unwrapEffect(Effect.map(AppConfig, database))

/** A database with the migrations of this release. */
export const current = Layer.unwrapEffect(
  Effect.flatMap(AppConfig, (settings) =>
    Option.isNone(settings.databaseUrl) && !existsSync(join(settings.dataDir, "postgres"))
      ? missing
      : Effect.succeed(Layer.tap(database(settings), (context) => Effect.provide(isCurrent, context)))
  )
)

/** A database that a server has used with its vault. */
export const used = Layer.tap(current, (context) =>
  Effect.provide(
    Effect.filterOrFail(
      Canary.read,
      (canary) => canary !== undefined,
      () => missing
    ),
    context
  )
)
