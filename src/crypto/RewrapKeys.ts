/** What root keys wrap is wrapped again by the vault's current root key. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Canary from "./Canary.ts"
import { nothingLeft, type OnProgress, type Refused, type Turn, waiting } from "./RotationTurn.ts"
import type { Vault } from "./Vault.ts"
import { type Rewrapped, rowsPerRootKey, type WrappedKeyRow, type WrappedKeys, wrappedKeys } from "./WrappedKeys.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
}

/** Passes after the first are for rows that another transaction locked; it ends within a request's time. */
const passes = 50

const others = ({ sql }: Needs, current: string) =>
  Effect.map(rowsPerRootKey(sql), (counts) => [...counts].reduce((sum, [id, n]) => (id === current ? sum : sum + n), 0))

const rewrap = ({ vault }: Needs, { purpose, table }: WrappedKeys, row: WrappedKeyRow) => {
  const { environmentId, keyId, projectId, teamId } = row
  return vault.rewrap({ purpose, teamId, projectId, environmentId, keyId }, row.wrapped, row.rootKeyId).pipe(
    Effect.map((rewrapped): Rewrapped => ({ id: row.id, ...rewrapped })),
    Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed<Refused>({ table, name: keyId }))
  )
}

/**
 * One turn: rows that no other transaction locks, wrapped again, stored. The lock lets rows that name the key come and
 * go.
 */
const rewrapBatch = (needs: Needs, source: WrappedKeys, current: string, after: string) =>
  needs.sql.withTransaction(
    Effect.gen(function* () {
      const rows = yield* source.batch(current, after)
      if (rows.length === 0) return nothingLeft
      // Calls to the vault, which takes them as one; no statement is among them.
      const answers = yield* Effect.forEach(rows, (row) => rewrap(needs, source, row), { concurrency: "unbounded" })
      const done = answers.filter((answer): answer is Rewrapped => "wrapped" in answer)
      if (done.length > 0) yield* source.store(done)
      return {
        last: rows[rows.length - 1].id,
        done: done.length,
        refused: answers.filter((answer): answer is Refused => "table" in answer)
      }
    })
  )

/** Wraps everything by the vault's current root key. Returns how many rows, and what it could not open. */
export const rewrapAll = Effect.fn("Rotation.rewrapAll")(function* (needs: Needs, onProgress: OnProgress) {
  const current = (yield* waiting(needs.vault.status)).rootKeyId
  const total = yield* others(needs, current)
  const refused = new Map<string, Refused>()
  let done = 0
  yield* onProgress({ done, total })
  for (let pass = 0; pass < passes; pass++) {
    for (const source of wrappedKeys(needs.sql)) {
      let after: string | undefined = ""
      while (after !== undefined) {
        const turn: Turn<string> = yield* waiting(rewrapBatch(needs, source, current, after))
        for (const one of turn.refused) refused.set(`${one.table}/${one.name}`, one)
        done += turn.done
        after = turn.last
        if (turn.done > 0) yield* onProgress({ done, total })
      }
    }
    // It moves last: a server that starts in between needs the keys of both, and has both.
    yield* waiting(Effect.provideService(Canary.check(needs.vault), SqlClient.SqlClient, needs.sql))
    if ((yield* others(needs, current)) <= refused.size) break
    yield* Effect.sleep("200 millis")
  }
  return { rootKeyId: current, done, refused: [...refused.values()], remaining: yield* others(needs, current) }
})
