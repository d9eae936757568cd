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
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as AddressRanges from "#src/net/AddressRanges.ts"
import {
  type AccessRow,
  accessTokenRows,
  type CredentialRow,
  type GrantRow,
  grantRows,
  type EnvironmentName,
  type SessionRow,
  sessionRows,
  type TeamRow,
  type TokenRow,
  tokenRows
} from "./CredentialRows.ts"
import { ofAccess, ofGrant, ofSession, ofToken, type Verified } from "./CredentialCallers.ts"
import { LastUse, type UsedTable } from "./LastUse.ts"
import * as LookUps from "./LookUps.ts"
import * as TokenText from "./TokenText.ts"

/** A token with a list of addresses is unknown from any other address. */
const tokenFrom = (row: TokenRow, verified: Verified, ip: string): Verified | undefined =>
  AddressRanges.includes(row.addresses, ip) ? verified : undefined

/** Removes teams whose address list excludes the request's address, for browser sessions and CLI logins. */
const personFrom = (row: SessionRow | GrantRow, verified: Verified, ip: string): Verified => {
  const teams: ReadonlyArray<TeamRow> = row.teams
  const blocked = teams.filter(({ sessionAddresses }) => !AddressRanges.includes(sessionAddresses, ip))
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
  find: (lookup: LookUps.TimedLookup) => Effect.Effect<LookUps.LookUpResult<Row, Verified>, SqlError>,
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
    return verified === undefined ? yield* new CredentialInvalid() : verified
  })

const usedTables = {
  api_token: "api_tokens",
  cli_grant: "cli_grants",
  management: "sessions",
  oauth_token: "oauth_grants",
  session: "sessions"
} as const satisfies Record<Caller["kind"], UsedTable>

export class Authenticate extends Effect.Service<Authenticate>()("credentials/Authenticate", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const lastUse = yield* LastUse
    const rowSeal = yield* RowSeal
    const verifyToken = verifier(rowSeal, yield* LookUps.batched(tokenRows(sql), ofToken), tokenFrom)
    const verifySession = verifier(rowSeal, yield* LookUps.batched(sessionRows(sql), ofSession), personFrom)
    const verifyGrant = verifier(rowSeal, yield* LookUps.batched(grantRows(sql), ofGrant), personFrom)
    const verifyAccess = verifier(rowSeal, yield* LookUps.batched(accessTokenRows(sql), ofAccess), fromAnywhere)

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
      const { caller } = verified
      return Effect.as(lastUse.touch(usedTables[caller.kind], caller.credentialId, caller.lastUsedAt), verified)
    }

    /** Both steps: finds the credential and admits it. */
    const authenticate = (text: string, named?: EnvironmentName) => Effect.flatMap(verify(text, named), admit)

    return { verify, admit, authenticate } as const
  })
}) {}
