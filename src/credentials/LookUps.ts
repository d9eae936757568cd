/**
 * Look-ups of credentials, shared: those that come while a statement is under way go with the next one, which asks for each
 * of them once, and what it finds is described once.
 */
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import type { CredentialRow, Lookup } from "./CredentialRows.ts"

export interface Asked extends Lookup {
  /** When its request asked. */
  readonly now: number
}

/** The row of a credential that there is. */
export type Present<Row extends CredentialRow> = Row & { readonly id: string }

const isPresent = <Row extends CredentialRow>(row: Row): row is Present<Row> => row.id !== null

/** What the row says; undefined: no server wrote what counts in it. */
type Describe<Row extends CredentialRow, A> = (row: Present<Row>, now: number, macs: RowMac) => A | undefined

/** What a statement found for all requests that asked for the same in one batch. Nothing of it outlives the batch. */
export class Found<Row extends CredentialRow, A> {
  readonly row: Row
  /** Of the last of them. */
  readonly #now: number
  readonly #describe: Describe<Row, A>
  #known: { readonly macs: RowMac; readonly described: A | undefined } | undefined

  constructor(row: Row, now: number, describe: Describe<Row, A>) {
    this.row = row
    this.#now = now
    this.#describe = describe
  }

  described(macs: RowMac): A | undefined {
    const { row } = this
    if (!isPresent(row)) return undefined
    if (this.#known?.macs !== macs) this.#known = { macs, described: this.#describe(row, this.#now, macs) }
    return this.#known.described
  }
}

export const batched = <Row extends CredentialRow, A>(
  statement: (batch: ReadonlyArray<Lookup>) => Effect.Effect<ReadonlyArray<Row>, SqlError>,
  describe: Describe<Row, A>
) => {
  const run = (batch: ReadonlyArray<Asked>) => {
    Metrics.credentialsLookedUp(batch.length)
    const places = new Map<string, number>()
    const distinct: Array<Asked> = []
    const placeOf = batch.map((asked) => {
      const { id, named, now } = asked
      const name = named === undefined ? id : `${id} ${named.projectId} ${named.environment}`
      const place = places.get(name)
      if (place === undefined) {
        places.set(name, distinct.length)
        return distinct.push(asked) - 1
      }
      if (now > distinct[place].now) distinct[place] = asked
      return place
    })
    return Effect.map(statement(distinct), (rows) => {
      const found = distinct.map(({ now }, place) => new Found(rows[place], now, describe))
      return placeOf.map((place) => found[place])
    })
  }
  return GroupCommit.make({ run, maxBatch: 128, maxInFlight: 1 })
}
