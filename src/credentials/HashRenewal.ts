/** Renews hashes under an older pepper after a use of their credential, in the background. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Housekeeping from "#src/Housekeeping.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as TokenText from "./TokenText.ts"

/** Kinds that live longer than a rotation, and their tables. Codes and access tokens end within minutes. */
const tables = { at: "api_tokens", cg: "cli_grants", ss: "sessions" } as const
type LastingKind = keyof typeof tables
const isLasting = (kind: TokenText.TokenKind): kind is LastingKind => Object.hasOwn(tables, kind)

interface Renewal {
  readonly kind: LastingKind
  readonly from: Uint8Array
  readonly to: Buffer
}

/** Waiting renewals at most; a later use notes the others. */
const capacity = 1_000

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rowSeal = yield* RowSeal
  const pending = new Map<string, Renewal>()

  /** After the proof of `secret` against a hash of an older pepper. */
  const note = (
    macs: RowMac,
    kind: TokenText.TokenKind,
    row: { readonly id: string | null; readonly salt: Uint8Array; readonly hash: Uint8Array },
    secret: string
  ): void => {
    if (row.id === null || !isLasting(kind) || pending.size >= capacity) return
    pending.set(row.id, { kind, from: row.hash, to: TokenText.hash(macs, kind, row.salt, secret) })
  }

  /** In a transaction, since the MAC covers columns that others may change. */
  const renew = (id: string, { from, kind, to }: Renewal) =>
    sql.withTransaction(
      rowSeal.update(tables[kind], sql`id = ${id}::uuid AND hash = ${from} AND revoked_at IS NULL`, () => ({
        hash: to
      }))
    )

  const flush = Effect.suspend(() => {
    const renewals = [...pending]
    pending.clear()
    return Effect.forEach(renewals, ([id, renewal]) => renew(id, renewal), { discard: true })
  })
  // The next use repeats a failed renewal.
  yield* Housekeeping.every("2 seconds", flush, "hashes of credentials")

  return { note, flush: Effect.orDie(flush) } as const
})

export type HashRenewal = Effect.Effect.Success<typeof make>
