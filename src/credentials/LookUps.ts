/**
 * Batched look-ups of credentials. Requests that arrive during a statement share the next one, which reads each
 * credential once. Its row is also described once.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import type { CredentialRow, Lookup } from "./CredentialRows.ts"

export interface TimedLookup extends Lookup {
  /** Time of the request, milliseconds since 1970. */
  readonly now: number
}

/** The row of an existing credential. */
export type Present<Row extends CredentialRow> = Row & { readonly id: string }

const isPresent = <Row extends CredentialRow>(row: Row): row is Present<Row> => row.id !== null

/** Interprets a row; undefined when its MAC fails. */
type Describe<Row extends CredentialRow, A> = (row: Present<Row>, now: number, macs: RowMac) => A | undefined

/** The row for all requests of one batch with the same look-up. Lives no longer than the batch. */
export class LookUpResult<Row extends CredentialRow, A> {
  readonly row: Row
  /** Latest time among those requests. */
  readonly #now: number
  readonly #describe: Describe<Row, A>
  #cache: { readonly macs: RowMac; readonly value: A | undefined } | undefined

  constructor(row: Row, now: number, describe: Describe<Row, A>) {
    this.row = row
    this.#now = now
    this.#describe = describe
  }

  describe(macs: RowMac): A | undefined {
    const { row } = this
    if (!isPresent(row)) return undefined
    if (this.#cache?.macs !== macs) this.#cache = { macs, value: this.#describe(row, this.#now, macs) }
    return this.#cache.value
  }
}

export const batched = <Row extends CredentialRow, A>(
  statement: (batch: ReadonlyArray<Lookup>) => Effect.Effect<ReadonlyArray<Row>, SqlError>,
  describe: Describe<Row, A>
) => {
  const run = (batch: ReadonlyArray<TimedLookup>) => {
    Metrics.credentialsLookedUp(batch.length)
    const places = new Map<string, number>()
    const distinct: Array<TimedLookup> = []
    const placeOf = batch.map((lookup) => {
      const { id, named, now } = lookup
      const name = named === undefined ? id : `${id} ${named.projectId} ${named.environment}`
      const place = places.get(name)
      if (place === undefined) {
        places.set(name, distinct.length)
        return distinct.push(lookup) - 1
      }
      if (now > distinct[place].now) distinct[place] = lookup
      return place
    })
    return Effect.map(statement(distinct), (rows) => {
      const results = distinct.map(({ now }, place) => new LookUpResult(rows[place], now, describe))
      return placeOf.map((place) => results[place])
    })
  }
  return GroupCommit.make({ run, maxBatch: 128, maxInFlight: 1 })
}
