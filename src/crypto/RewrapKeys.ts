/** Wraps keys again with the vault's current root key. */
import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import type { IntegrityFailure } from "#schema/Errors.ts"
import type { KeyContext, KeyPurpose, VaultUnavailable } from "#schema/Vault.ts"
import * as Canary from "./Canary.ts"
import * as Instance from "./Instance.ts"
import { nothingLeft, type OnProgress, type UnopenedRow, type Turn, retrying } from "./RotationTurn.ts"
import { inTime, type Vault } from "./Vault.ts"
import { type Rewrapped, rowsPerRootKey, type WrappedKeyRow, type WrappedKeys, wrappedKeys } from "./WrappedKeys.ts"

interface Needs {
  readonly sql: SqlClient.SqlClient
  readonly vault: Vault["Type"]
}

/** Passes after the first are for rows that were locked. Locks end within a request's time. */
const maxPasses = 50

const rowsOfOtherKeys = ({ sql }: Needs, current: string) =>
  Effect.map(rowsPerRootKey(sql), (counts) => [...counts].reduce((sum, [id, n]) => (id === current ? sum : sum + n), 0))

/** `instance`: the id in the context of a bound row. */
const contextOf = (purpose: KeyPurpose, row: WrappedKeyRow, instance: string | undefined): KeyContext => {
  const { environmentId, keyId, projectId, teamId } = row
  return { purpose, teamId, projectId, environmentId, keyId: Instance.keyIdIn(keyId, instance) }
}

type WrapAgain = (
  purpose: KeyPurpose,
  row: WrappedKeyRow
) => Effect.Effect<Omit<Rewrapped, "id">, VaultUnavailable | IntegrityFailure>

/**
 * One turn: wraps unlocked rows again and stores them. The lock still allows inserts and deletes of rows that refer to
 * the key.
 */
const rewrapBatch = (
  { sql }: Pick<Needs, "sql">,
  { batch, purpose, store, table }: WrappedKeys,
  condition: Statement.Fragment,
  after: string,
  wrapAgain: WrapAgain
) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const rows = yield* batch(condition, after)
      if (rows.length === 0) return nothingLeft
      const rewrap = (row: WrappedKeyRow) =>
        wrapAgain(purpose, row).pipe(
          Effect.map((rewrapped): Rewrapped => ({ id: row.id, ...rewrapped })),
          Effect.catchTag("INTEGRITY_FAILURE", () => Effect.succeed<UnopenedRow>({ table, name: row.keyId }))
        )
      // Concurrent calls, which the vault batches. No statement is among them.
      const results = yield* Effect.forEach(rows, rewrap, { concurrency: "unbounded" })
      const done = results.filter((answer): answer is Rewrapped => "wrapped" in answer)
      if (done.length > 0) yield* store(done)
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
  const { sql, vault } = needs
  const total = yield* rowsOfOtherKeys(needs, current)
  const instance = yield* Instance.stored(sql)
  const wrapAgain: WrapAgain = (purpose, row) =>
    Effect.map(
      vault.rewrap(contextOf(purpose, row, row.bound ? instance : undefined), row.wrapped, row.rootKeyId),
      (rewrapped) => ({ bound: row.bound, ...rewrapped })
    )
  const refused = new Map<string, UnopenedRow>()
  let done = 0
  yield* onProgress({ done, total })
  for (let pass = 0; pass < maxPasses; pass++) {
    for (const source of wrappedKeys(needs.sql)) {
      let after: string | undefined = ""
      while (after !== undefined) {
        const turn: Turn<string> = yield* retrying(
          rewrapBatch(needs, source, sql`root_key_id <> ${current}`, after, wrapAgain)
        )
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

/** Keys without data of their own, whose bytes stay when their context changes. */
const keptBytes: ReadonlySet<KeyPurpose> = new Set(["sealing-key", "webhook-secret"])

/**
 * Wraps private sealing keys and secrets of webhooks for the database `to`. `from`: the id in their contexts now.
 * Returns the number of rows; those that do not open stay.
 */
export const bindTo = Effect.fn("Rotation.bindTo")(function* (
  { sql, vault }: Needs,
  {
    condition,
    from,
    to
  }: { readonly condition: Statement.Fragment; readonly from: string | undefined; readonly to: string }
) {
  const wrapAgain: WrapAgain = Effect.fnUntraced(function* (purpose, row) {
    const earlier = contextOf(purpose, row, row.bound ? from : undefined)
    const bytes = yield* inTime(vault.unwrapBytes(earlier, row.wrapped, row.rootKeyId))
    const rewrapped = yield* inTime(vault.wrapBytes(contextOf(purpose, row, to), bytes))
    return { bound: true, ...rewrapped }
  })
  let done = 0
  for (const source of wrappedKeys(sql).filter(({ purpose }) => keptBytes.has(purpose))) {
    let after: string | undefined = ""
    while (after !== undefined) {
      const turn: Turn<string> = yield* retrying(rewrapBatch({ sql }, source, condition, after, wrapAgain))
      done += turn.done
      after = turn.last
    }
  }
  return done
})
