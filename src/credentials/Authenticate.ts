/**
 * Credential text to `Caller`, in one batched statement that also reads the environment the request names. No validity
 * is cached: revocation holds from the next request, on every process.
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
  type Named,
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

/** A token of a list of addresses is, from another address, as unknown as any other text. */
const tokenFrom = (row: TokenRow, verified: Verified, ip: string): Verified | undefined =>
  AddressRanges.holds(row.addresses, ip) ? verified : undefined

/** From another address than the team says, a person has nothing of it: signed in, or at the command line. */
const personFrom = (row: SessionRow | GrantRow, verified: Verified, ip: string): Verified => {
  const teams: ReadonlyArray<TeamRow> = row.teams
  const barred = teams.filter(({ sessionAddresses }) => !AddressRanges.holds(sessionAddresses, ip))
  if (barred.length === 0) return verified
  const isOpen = ({ id }: { readonly id: TeamId }) => !barred.some((team) => team.id === id)
  const { caller } = verified
  return {
    ...verified,
    caller: { ...caller, teams: caller.teams.filter(isOpen), withheld: caller.withheld.filter(isOpen) }
  }
}
/** Agents come from the addresses of whoever runs them. */
const fromAnywhere = (_: AccessRow, verified: Verified): Verified => verified

/**
 * The row of a credential text, described; CREDENTIAL_INVALID when there is none, when its secret is another, and when no
 * server wrote what counts in it: undefined.
 */
const verifier = <Row extends CredentialRow>(
  { ready }: RowSeal,
  find: (asked: LookUps.Asked) => Effect.Effect<LookUps.Found<Row, Verified>, SqlError>,
  from: (row: Row, verified: Verified, ip: string) => Verified | undefined
) =>
  Effect.fnUntraced(function* ({ id, kind, secret }: TokenText.TokenText, named: Named | undefined, now: number) {
    const macs = yield* ready
    const found = yield* Effect.orDie(find({ id, named, now }))
    const { ip } = yield* RequestInfo
    const { row } = found
    const isProved = TokenText.verify(macs, kind, row.id === null ? undefined : row, secret)
    const described = isProved ? found.described(macs) : undefined
    const verified = described === undefined ? undefined : from(row, described, ip)
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

    /** Text, or what was parsed of it, to a credential in any state of life; does not count as a use. */
    const verify = (
      presented: string | TokenText.TokenText | undefined,
      named?: Named
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

    /** Only a live credential goes on; counts as its use. */
    const admit = (verified: Verified): Effect.Effect<Verified, CredentialRevoked | CredentialExpired> => {
      if (verified.life === "revoked") return new CredentialRevoked()
      if (verified.life === "expired") return new CredentialExpired()
      const { caller } = verified
      return Effect.as(lastUse.touch(usedTables[caller.kind], caller.credentialId, caller.lastUsedAt), verified)
    }

    /** A credential that may be used now. Counts as its use. */
    const authenticate = (text: string, named?: Named) => Effect.flatMap(verify(text, named), admit)

    return { verify, admit, authenticate } as const
  })
}) {}
