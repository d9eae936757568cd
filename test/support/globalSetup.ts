import * as PgClient from "@effect/sql-pg/PgClient"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { buildIslands } from "#src/buildIslands.mjs"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import type { TestProject } from "vitest/node"
import { migrate } from "#layers/Migrations.ts"
import * as Pglite from "#layers/Pglite.ts"

declare module "vitest" {
  export interface ProvidedContext {
    /** Path of a dumped, migrated database. */
    readonly embeddedTemplate: string
    /** The Postgres the run is against, with a migrated template database in it; absent: the embedded database. */
    readonly postgres: { readonly url: string; readonly template: string } | undefined
    /** A folder of this run alone, for what its files make once: `Once.ts`. */
    readonly runFolder: string
  }
}

/** Changes whenever the template would: with a migration, and with the program that runs them. */
const fingerprint = () => {
  const hash = createHash("sha256")
  hash.update(fs.readFileSync("test/support/globalSetup.ts"))
  for (const folder of ["migrations", "layers"]) {
    for (const name of fs.readdirSync(folder).sort()) {
      if (folder === "migrations" || /^(Migrations|Pglite|pglite-worker)\./.test(name)) {
        hash.update(name).update(fs.readFileSync(path.join(folder, name)))
      }
    }
  }
  return hash.digest("hex").slice(0, 16)
}

/** The databases that others would be copied from: half of the files that each test's database is filled with. */
const withoutTemplates = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE pg_database SET datistemplate = false`
  yield* sql`DROP DATABASE template1`
  yield* sql`DROP DATABASE template0`
})

const embeddedTemplate = async (version: string) => {
  const folder = path.resolve("node_modules/.cache/ampoule")
  const file = path.join(folder, `template-${version}.tar`)
  if (fs.existsSync(file)) return file
  const bytes = await Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(
        Pglite.make({ origin: { empty: true }, checkoutMillis: 30_000, deadlineMillis: 30_000 }),
        ({ dump, layer }) => Effect.zipRight(Effect.provide(withoutTemplates, layer), dump)
      )
    )
  )
  fs.mkdirSync(folder, { recursive: true })
  for (const old of fs.readdirSync(folder)) {
    const stale = path.join(folder, old)
    // Not the fresh ones: another run of the tests may be reading them.
    if (fs.statSync(stale).mtimeMs < Date.now() - 3_600_000) fs.rmSync(stale, { recursive: true, force: true })
  }
  const unfinished = `${file}.${process.pid}`
  fs.writeFileSync(unfinished, bytes)
  fs.renameSync(unfinished, file)
  return file
}

const postgresTemplate = (url: string, version: string) => {
  const template = `ampoule_template_${version}`
  const at = (database: string) => {
    const target = new URL(url)
    target.pathname = `/${database}`
    return PgClient.layer({ url: Redacted.make(target.href), maxConnections: 1 })
  }
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql`SELECT 1 FROM pg_database WHERE datname = ${template}`
    if (rows.length > 0) return { url, template }
    const unfinished = `${template}_${process.pid}`
    yield* sql`CREATE DATABASE ${sql(unfinished)}`
    yield* Effect.provide(migrate(), at(unfinished))
    yield* sql`ALTER DATABASE ${sql(unfinished)} RENAME TO ${sql(template)}`
    return { url, template }
  }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })), Effect.runPromise)
}

export default async function setup(project: TestProject) {
  // Beside the dashboard's other assets, as a build has them.
  await buildIslands(path.resolve("src/dashboard/frame/assets/built"))
  const version = fingerprint()
  const url = process.env["AMPOULE_TEST_DATABASE_URL"]
  project.provide("postgres", url === undefined ? undefined : await postgresTemplate(url, version))
  project.provide("embeddedTemplate", await embeddedTemplate(version))
  // Inside node_modules, where the packages that stay outside a bundle are found.
  const runFolder = fs.mkdtempSync(path.resolve("node_modules/.cache/ampoule/run-"))
  project.provide("runFolder", runFolder)
  return () => fs.rmSync(runFolder, { recursive: true, force: true })
}
