/**
 * A program for the tests to kill: opens the embedded database in the folder of its argument and writes pairs of rows,
 * each pair in a transaction, for ever. Prints `ready`, then each number whose pair is committed.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { writeSync } from "node:fs"
import * as Pglite from "#layers/Pglite.ts"

const say = (line: string) => Effect.sync(() => void writeSync(1, `${line}\n`))

const write = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE IF NOT EXISTS pairs (n int, half int, filler text, PRIMARY KEY (n, half))`
  const [row] = yield* sql<{ last: number }>`SELECT coalesce(max(n), 0) AS last FROM pairs`
  yield* say("ready")
  for (let n = (row?.last ?? 0) + 1; ; n++) {
    yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`INSERT INTO pairs (n, half, filler) VALUES (${n}, 1, repeat('x', 500))`
        yield* sql`INSERT INTO pairs (n, half, filler) VALUES (${n}, 2, repeat('y', 500))`
      })
    )
    yield* say(String(n))
    if (n % 50 === 0) yield* sql`CHECKPOINT`
  }
})

write.pipe(
  Effect.provide(Pglite.layerFolder(process.argv[2] ?? "")),
  Effect.catchTag("StartRefused", ({ message }) =>
    Effect.sync(() => {
      writeSync(2, message)
      process.exitCode = 78
    })
  ),
  Effect.provide(Logger.remove(Logger.defaultLogger)),
  Effect.runPromise
)
