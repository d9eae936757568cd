/**
 * Turns credential text into a `Caller`, in one batched statement that also reads the environment that the request
 * names. No validity is cached: a revocation takes effect at the next request, on every process.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { CredentialExpired, CredentialInvalid, CredentialRevoked } from "#schema/Errors.ts"
import type { TeamId } from "#schema/Ids.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import * as GroupCommit from "#src/database/GroupCommit.ts"
import type { RowMac } from "#src/rows/RowMac.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import {
  type AccessRow,
  accessTokenRows,
  type CredentialRow,
  type GrantRow,
  grantRows,
  type EnvironmentName,
  type Lookup,
  type Present,
  type SessionRow,
  sessionRows,
  type TeamRow,
  type TokenRow,
  tokenRows
} from "./CredentialRows.ts"
import { ofAccess, ofGrant, ofSession, ofToken, type Verified } from "./CredentialCallers.ts"
import * as HashRenewal from "./HashRenewal.ts"
import { LastUse, type UsedTable, noteInterval } from "./LastUse.ts"
import * as TokenText from "./TokenText.ts"

interface TimedLookup extends Lookup {
  /** Time of the request, milliseconds since 1970. */
  readonly now: number
}

const isPresent = <Row extends CredentialRow>(row: Row): row is Present<Row> => row.id !== null

/** Interprets a row; undefined when its MAC fails. */
type Describe<Row extends CredentialRow, A> = (row: Present<Row>, now: number, macs: RowMac) => A | undefined

/** The row for all requests of one batch with the same look-up. Lives no longer than the batch. */
class LookUpResult<Row extends CredentialRow, A> {
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

/**
 * Requests that arrive during a statement share the next one, which reads each credential once. Its row is also
 * described once.
 */
const batched = <Row extends CredentialRow, A>(
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

/** A token with a list of addresses is unknown from any other address. */
const tokenFrom = ({ addresses }: TokenRow, verified: Verified, ip: string): Verified | undefined =>
  addresses === null || AddressRanges.includes(addresses, ip) ? verified : undefined

/** Removes teams whose address list excludes the request's address, for browser sessions and CLI logins. */
const personFrom = (row: SessionRow | GrantRow, verified: Verified, ip: string): Verified => {
  const teams: ReadonlyArray<TeamRow> = row.teams
  const blocked = teams.filter(
    ({ sessionAddresses: allowed }) => allowed !== null && !AddressRanges.includes(allowed, ip)
  )
  if (blocked.length === 0) return verified
  const isOpen = ({ id }: { readonly id: TeamId }) => !blocked.some((team) => team.id === id)
  const { caller } = verified
  return {
    ...verified,
    caller: { ...caller, teams: caller.teams.filter(isOpen), withheld: caller.withheld.filter(isOpen) }
  }
}
/** No address check: agents use the addresses of their vendors. */
const fromAnywhere = (_: AccessRow, verified: Verified): Verified => verified

/**
 * The verified credential of a text. CREDENTIAL_INVALID when no row exists, the secret differs, or the MAC of the row
 * fails.
 */
const verifier = <Row extends CredentialRow>(
  { ready }: RowSeal,
  renewals: HashRenewal.HashRenewal,
  find: (lookup: TimedLookup) => Effect.Effect<LookUpResult<Row, Verified>, SqlError>,
  from: (row: Row, verified: Verified, ip: string) => Verified | undefined
) =>
  Effect.fnUntraced(function* (
    { id, kind, secret }: TokenText.TokenText,
    named: EnvironmentName | undefined,
    now: number
  ) {
    const macs = yield* ready
    const result = yield* Effect.orDie(find({ id, named, now }))
    const { ip } = yield* RequestInfo
    const { row } = result
    const isProved = TokenText.verify(macs, kind, row.id === null ? undefined : row, secret)
    const credential = isProved ? result.describe(macs) : undefined
    const verified = credential === undefined ? undefined : from(row, credential, ip)
    if (verified === undefined) return yield* new CredentialInvalid()
    if (macs.hasOldPeppers && macs.isOldPepper(row.hash)) renewals.note(macs, kind, row, secret)
    return verified
  })

const usedTables = {
  api_token: "api_tokens",
  cli_grant: "cli_grants",
  management: "sessions",
  oauth_token: "oauth_grants",
  session: "sessions"
} as const satisfies Record<Caller["kind"], UsedTable>

export class Authenticate extends Effect.Service<Authenticate>()("credentials/Authenticate", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const renewals = yield* HashRenewal.make
    const lastUse = yield* LastUse
    const rowSeal = yield* RowSeal
    const verifyToken = verifier(rowSeal, renewals, yield* batched(tokenRows(sql), ofToken), tokenFrom)
    const verifySession = verifier(rowSeal, renewals, yield* batched(sessionRows(sql), ofSession), personFrom)
    const verifyGrant = verifier(rowSeal, renewals, yield* batched(grantRows(sql), ofGrant), personFrom)
    const verifyAccess = verifier(rowSeal, renewals, yield* batched(accessTokenRows(sql), ofAccess), fromAnywhere)

    /** Finds the credential of a text (or its parsed form), live or ended. Does not count as a use. */
    const verify = (
      presented: string | TokenText.TokenText | undefined,
      named?: EnvironmentName
    ): Effect.Effect<Verified, CredentialInvalid> => {
      const token = typeof presented === "string" ? TokenText.parse(presented) : presented
      return Effect.flatMap(Clock.currentTimeMillis, (now) => {
        switch (token?.kind) {
          case "at":
            return verifyToken(token, named, now)
          case "ss":
            return verifySession(token, named, now)
          case "cg":
            return verifyGrant(token, named, now)
          case "oa":
            return verifyAccess(token, named, now)
          default:
            return new CredentialInvalid()
        }
      })
    }

    /** Refuses an ended credential; counts as a use of a live one. */
    const admit = (verified: Verified): Effect.Effect<Verified, CredentialRevoked | CredentialExpired> => {
      if (verified.life === "revoked") return new CredentialRevoked()
      if (verified.life === "expired") return new CredentialExpired()
      const { credentialId, kind, lastUsedAt } = verified.caller
      return Effect.flatMap(Clock.currentTimeMillis, (at) =>
        lastUsedAt !== null && at - lastUsedAt.getTime() < noteInterval
          ? Effect.succeed(verified)
          : Effect.as(lastUse.note(usedTables[kind], credentialId, at), verified)
      )
    }

    /** Both steps: finds the credential and admits it. */
    const authenticate = (text: string, named?: EnvironmentName) => Effect.flatMap(verify(text, named), admit)

    return { verify, admit, authenticate, flushRenewals: renewals.flush } as const
  })
}) {}
