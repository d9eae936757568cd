/**
 * Database of the settings: a Postgres when its URL is set, else the embedded one in the data folder. Migrated in both
 * cases.
 */
import type * as PgClient from "@effect/sql-pg/PgClient"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as EventBusMemory from "#layers/EventBusMemory.ts"
import * as Pglite from "#layers/Pglite.ts"
import * as Postgres from "#layers/Postgres.ts"
import type { StartRefused } from "#src/AppConfig.ts"
import { AppConfig } from "#src/AppConfig.ts"
import type { EventBus } from "#src/events/EventBus.ts"

export const layer: Layer.Layer<
  SqlClient.SqlClient | PgClient.PgClient | EventBus,
  StartRefused | SqlError,
  AppConfig
> = Layer.unwrapEffect(
  Effect.map(AppConfig, (config) =>
    Option.match(config.databaseUrl, {
      onNone: () => Layer.merge(Pglite.layerFolder(config.dataDir), EventBusMemory.layer),
      onSome: (url) =>
        Postgres.layer({
          url,
          poolSize: config.databasePoolSize,
          unsafe: config.unsafeDatabase,
          plaintextHosts: config.plaintextHosts
        })
    })
  )
)
