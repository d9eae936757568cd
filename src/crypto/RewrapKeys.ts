/** Wraps keys again with the vault's current root key. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Canary from "./Canary.ts"
import { nothingLeft, type OnProgress, type UnopenedRow, type Turn, retrying } from "./RotationTurn.ts"
import type { Vault } from "./Vault.ts"
import { type Rewrapped, rowsPerRootKey, type WrappedKeyRow, type WrappedKeys, wrappedKeys } from "./WrappedKeys.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
}

/** Passes after the first are for rows that were locked. Locks end within a request's time. */
const maxPasses = 50

const rowsOfOtherKeys = ({ sql }: Needs, current: string) =>
  Effect.map(rowsPerRootKey(sql), (counts) => [...counts].reduce((sum, [id, n]) => (id === current ? sum : sum + n), 0))

const rewrap = ({ vault }: Needs, { purpose, table }: WrappedKeys, row: WrappedKeyRow) => {
  const { environmentId, keyId, projectId, teamId } = row
  return vault.rewrap({ purpose, teamId, projectId, environmentId, keyId }, row.wrapped, row.rootKeyId).pipe(
    Effect.map((rewrapped): Rewrapped => ({ id: row.id, ...rewrapped })),
    Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed<UnopenedRow>({ table, name: keyId }))
  )
}

/**
 * One turn: wraps unlocked rows again and stores them. The lock still allows inserts and deletes of rows that refer to
 * the key.
 */
const rewrapBatch = (needs: Needs, source: WrappedKeys, current: string, after: string) =>
  needs.sql.withTransaction(
    Effect.gen(function* () {
      const rows = yield* source.batch(current, after)
      if (rows.length === 0) return nothingLeft
      // Concurrent calls, which the vault batches. No statement is among them.
      const results = yield* Effect.forEach(rows, (row) => rewrap(needs, source, row), { concurrency: "unbounded" })
      const done = results.filter((answer): answer is Rewrapped => "wrapped" in answer)
      if (done.length > 0) yield* source.store(done)
      return {
        last: rows[rows.length - 1].id,
        done: done.length,
        refused: results.filter((answer): answer is UnopenedRow => "table" in answer)
      }
    })
  )

/** Wraps every row with the vault's current root key. Returns the counts and the rows that did not open. */
export const rewrapAll = Effect.fn("Rotation.rewrapAll")(function* (needs: Needs, onProgress: OnProgress) {
  const current = (yield* retrying(needs.vault.status)).rootKeyId
  const total = yield* rowsOfOtherKeys(needs, current)
  const refused = new Map<string, UnopenedRow>()
  let done = 0
  yield* onProgress({ done, total })
  for (let pass = 0; pass < maxPasses; pass++) {
    for (const source of wrappedKeys(needs.sql)) {
      let after: string | undefined = ""
      while (after !== undefined) {
        const turn: Turn<string> = yield* retrying(rewrapBatch(needs, source, current, after))
        for (const one of turn.refused) refused.set(`${one.table}/${one.name}`, one)
        done += turn.done
        after = turn.last
        if (turn.done > 0) yield* onProgress({ done, total })
      }
    }
    // The canary comes last: a server that starts meanwhile needs both keys, and has both.
    yield* retrying(Effect.provideService(Canary.check(needs.vault), SqlClient.SqlClient, needs.sql))
    if ((yield* rowsOfOtherKeys(needs, current)) <= refused.size) break
    yield* Effect.sleep("200 millis")
  }
  return { rootKeyId: current, done, refused: [...refused.values()], remaining: yield* rowsOfOtherKeys(needs, current) }
})
