/**
 * Credential text to `Caller`, in one batched statement that also reads the environment the request names. No validity
 * is cached: revocation holds from the next request, on every process.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Caller, NamedEnvironment } from "#schema/Caller.ts"
import { CredentialExpired, CredentialInvalid, CredentialRevoked } from "#schema/Errors.ts"
import type { Role } from "#schema/Scopes.ts"
import * as GroupCommit from "#src/access/GroupCommit.ts"
import * as Metrics from "#src/telemetry/Metrics.ts"
import type {
  AccessRow,
  CredentialRow,
  GrantRow,
  Lookup,
  Named,
  PersonRow,
  SessionRow,
  TokenRow
} from "./CredentialRows.ts"
import * as CredentialRows from "./CredentialRows.ts"
import { LastUse, type UsedTable } from "./LastUse.ts"
import * as Liveness from "./Liveness.ts"
import * as TokenText from "./TokenText.ts"

export type { Named } from "./CredentialRows.ts"

export interface Verified {
  readonly caller: Caller
  readonly life: Liveness.Life
  /** Of an API token: the creator's role now, which MCP checks too. */
  readonly creatorRole: Role | null
  /** Accepted at `/mcp` and nowhere else: an OAuth access token, and an API token that says so. */
  readonly mcpOnly: boolean
  /** Of an OAuth access token: the one resource it was issued for (RFC 8707), and the client that holds it. */
  readonly audience: string | null
  readonly clientId: string | null
}

const namedOf = (row: CredentialRow): NamedEnvironment | null =>
  row.eTeamId === null
    ? null
    : {
        teamId: row.eTeamId,
        projectId: row.eProjectId,
        environmentId: row.eId,
        slug: row.eSlug,
        protected: row.eProtected,
        revision: row.eRevision,
        plan: row.ePlan
      }

const unrestricted = { projectIds: null, environmentIds: null } as const

/** What every credential's caller has from its row. */
const common = (row: CredentialRow & { readonly expiresAt: Date | null }) => ({
  createdAt: row.createdAt,
  expiresAt: row.expiresAt,
  lastUsedAt: row.lastUsedAt,
  named: namedOf(row)
})
const personOf = (row: PersonRow) => ({ id: row.userId, email: row.email, name: row.userName })

const ofToken = (row: TokenRow, id: string, now: number): Verified => ({
  life: Liveness.ofToken(row, now),
  creatorRole: row.creatorActive === true ? row.creatorRole : null,
  mcpOnly: row.mcpOnly,
  audience: null,
  clientId: null,
  caller: {
    ...common(row),
    kind: "api_token",
    credentialId: id,
    name: row.name,
    user: null,
    teams: [{ id: row.teamId, name: row.teamName, plan: row.plan, role: null, scopes: null }],
    accessLevel: row.accessLevel,
    mcpScopes: row.mcpScopes,
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: true
  }
})

const ofSession = (row: SessionRow, id: string, now: number): Verified => ({
  life: Liveness.ofSession(row, now),
  creatorRole: null,
  mcpOnly: false,
  audience: null,
  clientId: null,
  caller: {
    ...common(row),
    kind: "session",
    credentialId: id,
    name: null,
    user: personOf(row),
    teams: row.teams.map((team) => ({ ...team, scopes: null })),
    accessLevel: null,
    mcpScopes: [],
    restrictions: unrestricted,
    machine: false
  }
})

const ofGrant = (row: GrantRow, id: string, now: number): Verified => ({
  life: Liveness.ofGrant({ ...row, teams: row.teams.length }, now),
  creatorRole: null,
  mcpOnly: false,
  audience: null,
  clientId: null,
  caller: {
    ...common(row),
    kind: "cli_grant",
    credentialId: id,
    name: null,
    user: personOf(row),
    teams: row.teams,
    accessLevel: null,
    mcpScopes: [],
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: row.machine
  }
})

const ofAccess = (row: AccessRow, id: string, now: number): Verified => ({
  life: Liveness.ofAccessToken({ ...row, teams: row.teams.length }, now),
  creatorRole: null,
  mcpOnly: true,
  audience: row.audience,
  clientId: row.clientId,
  caller: {
    ...common(row),
    kind: "oauth_token",
    // Of the grant, not of the token: tokens come and go every 15 minutes.
    credentialId: id,
    name: row.clientName,
    user: personOf(row),
    teams: row.teams.map((team) => ({ ...team, scopes: row.scopes })),
    accessLevel: null,
    mcpScopes: row.scopes,
    restrictions: { projectIds: row.projectIds, environmentIds: row.environmentIds },
    machine: true
  }
})

/** Look-ups that come while a statement is under way share the next one. */
const batched = <Row extends CredentialRow>(
  statement: (batch: ReadonlyArray<Lookup>) => Effect.Effect<ReadonlyArray<Row>, SqlError>
) => {
  const run = (batch: ReadonlyArray<Lookup>) => {
    Metrics.credentialsLookedUp(batch.length)
    return statement(batch)
  }
  return GroupCommit.make({ run, maxBatch: 128, maxInFlight: 1 })
}

/** The row of a credential text, described; CREDENTIAL_INVALID when there is none or its secret is another. */
const verifier =
  <Row extends CredentialRow>(
    find: (lookup: Lookup) => Effect.Effect<Row, SqlError>,
    describe: (row: Row, id: string, now: number) => Verified
  ) =>
  (token: TokenText.TokenText, named: Named | undefined, now: number) =>
    Effect.flatMap(Effect.orDie(find({ id: token.id, named })), (row) =>
      TokenText.verify(row.id === null ? undefined : row, token.secret) && row.id !== null
        ? Effect.succeed(describe(row, row.id, now))
        : new CredentialInvalid()
    )

const usedTables = {
  api_token: "api_tokens",
  cli_grant: "cli_grants",
  oauth_token: "oauth_grants",
  session: "sessions"
} as const satisfies Record<Caller["kind"], UsedTable>

export class Authenticate extends Effect.Service<Authenticate>()("credentials/Authenticate", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const lastUse = yield* LastUse
    const verifyToken = verifier(yield* batched(CredentialRows.tokens(sql)), ofToken)
    const verifySession = verifier(yield* batched(CredentialRows.sessions(sql)), ofSession)
    const verifyGrant = verifier(yield* batched(CredentialRows.grants(sql)), ofGrant)
    const verifyAccess = verifier(yield* batched(CredentialRows.accessTokens(sql)), ofAccess)

    /** Text, or what was parsed of it, to a credential in any state of life; does not count as a use. */
    const verify = Effect.fnUntraced(function* (presented: string | TokenText.TokenText | undefined, named?: Named) {
      const token = typeof presented === "string" ? TokenText.parse(presented) : presented
      const now = yield* Clock.currentTimeMillis
      switch (token?.kind) {
        case "at":
          return yield* verifyToken(token, named, now)
        case "ss":
          return yield* verifySession(token, named, now)
        case "cg":
          return yield* verifyGrant(token, named, now)
        case "oa":
          return yield* verifyAccess(token, named, now)
        default:
          return yield* new CredentialInvalid()
      }
    })

    /** Only a live credential goes on; counts as its use. */
    const admit = Effect.fnUntraced(function* (verified: Verified) {
      if (verified.life === "revoked") return yield* new CredentialRevoked()
      if (verified.life === "expired") return yield* new CredentialExpired()
      const { caller } = verified
      yield* lastUse.touch(usedTables[caller.kind], caller.credentialId, caller.lastUsedAt)
      return verified
    })

    /** A credential that may be used now. Counts as its use. */
    const authenticate = (text: string, named?: Named) => Effect.flatMap(verify(text, named), admit)

    return { verify, admit, authenticate } as const
  })
}) {}
