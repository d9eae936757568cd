import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { inject } from "vitest"
import * as Pglite from "#layers/Pglite.ts"
import * as PgPool from "#layers/PgPool.ts"
import type { StartRefused } from "#src/AppConfig.ts"
// It hears what connects after it: also a server that was started for an earlier file of this process.
import "./Statements.ts"

export type Provided = PgClient.PgClient | SqlClient.SqlClient

/** True when this run is against a real Postgres (`AMPOULE_TEST_DATABASE_URL`). */
export const onPostgres = inject("postgres") !== undefined

/**
 * The embedded database's code, compiled. V8 gives it to every later thread of this process that compiles the same
 * bytes, for as long as it is referenced: half of what a database costs otherwise.
 *
 * @public An export without a reader: the reference is its purpose.
 */
export const compiledCode = onPostgres
  ? undefined
  : WebAssembly.compile(readFileSync("node_modules/@electric-sql/pglite/dist/pglite.wasm"))

/** A database of its own on the run's Postgres, copied from `template`, dropped with the scope. Answers its URL. */
export const freshPostgres = (server: { readonly url: string; readonly template?: string }) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const name = `ampoule_test_${randomBytes(6).toString("hex")}`
      const sql = yield* SqlClient.SqlClient
      // A template that another test file is copying is busy for a moment; copies wait for one another instead.
      yield* sql`SELECT pg_advisory_lock(1)`
      yield* Effect.ensuring(
        server.template === undefined
          ? sql`CREATE DATABASE ${sql(name)}`
          : sql`CREATE DATABASE ${sql(name)} TEMPLATE ${sql(server.template)}`,
        Effect.orDie(sql`SELECT pg_advisory_unlock(1)`)
      )
      const url = new URL(server.url)
      url.pathname = `/${name}`
      return { name, url: url.href }
    }).pipe(Effect.provide(maintenance(server.url))),
    ({ name }) =>
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DROP DATABASE ${sql(name)} WITH (FORCE)`).pipe(
        Effect.provide(maintenance(server.url)),
        Effect.orDie
      )
  )

const maintenance = (url: string) => PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })

/** As `layer`, where requests are traced: each statement has a span. */
export const traced: Layer.Layer<Provided, StartRefused | SqlError> = Layer.suspend(() => {
  const postgres = inject("postgres")
  if (postgres === undefined) return Pglite.layerFromDump(inject("embeddedTemplate"))
  return Layer.unwrapScoped(
    Effect.map(freshPostgres(postgres), ({ url }) =>
      PgPool.layer({
        connection: { connectionString: url },
        size: 10,
        checkoutMillis: 30_000,
        deadlineMillis: 30_000
      })
    )
  )
})

/**
 * A migrated database, empty but for the schema: embedded and in memory, or on the run's Postgres. One per `layer(…)`
 * block. Nothing is traced, as in a server without a collector.
 */
export const layer: Layer.Layer<Provided, StartRefused | SqlError> = Layer.merge(traced, Layer.setTracerEnabled(false))
