/** Facts that a credential may read about itself and its person. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import type { CliWhoamiResponse, MeResponse, Person, VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { GrantIdOut } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { onlyEnvironment } from "#src/access/OnlyEnvironment.ts"
import { methods } from "#src/Methods.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import { Sessions } from "./Sessions.ts"

const services = Effect.all({ access: Access, sessions: Sessions, sql: SqlClient.SqlClient, rowSeal: RowSeal })
type Needs = Effect.Effect.Success<typeof services>

/** The caller, when it may read its own identity. */
const callerWithIdentity = ({ access }: Needs) => access.allTeams("identity:read", { audit: "identity.read" })

/** Routes about a person never accept a credential without one. */
const personOf = ({ user }: Caller): Effect.Effect<Person> =>
  user === null ? Effect.dieMessage("a credential without a person reached a person's route") : Effect.succeed(user)

const verification = (caller: Caller, only: NonNullable<VerifyAuthResponse["only"]> | null): VerifyAuthResponse => ({
  credential: {
    type: caller.kind,
    id: caller.credentialId,
    ...(caller.name === null ? {} : { name: caller.name }),
    expiresAt: caller.expiresAt?.toISOString() ?? null
  },
  ...(caller.accessLevel === null ? {} : { accessLevel: caller.accessLevel }),
  teams: caller.teams.map(({ id, name }) => ({ id, name })),
  ...(caller.kind === "cli_grant"
    ? { scopes: caller.teams.map(({ id, scopes }) => ({ teamId: id, scopes: scopes ?? [] })) }
    : {}),
  ...(caller.kind === "api_token" ? { mcpScopes: caller.mcpScopes } : {}),
  restrictions: caller.restrictions,
  only
})

const verify = Effect.fnUntraced(function* (needs: Needs) {
  const caller = yield* callerWithIdentity(needs)
  return verification(caller, yield* onlyEnvironment(needs, caller))
})

const me = Effect.fnUntraced(function* (needs: Needs) {
  const caller = yield* callerWithIdentity(needs)
  const answer: MeResponse = {
    user: yield* personOf(caller),
    teams: caller.teams.map(({ id, name, plan, role }) => ({ id, name, role: role ?? "viewer", plan })),
    activeTeam: yield* needs.sessions.activeTeam(caller)
  }
  return answer
})

/** Identity of a CLI grant. */
const grant = Effect.fnUntraced(function* (needs: Needs) {
  const caller = yield* callerWithIdentity(needs)
  const answer: CliWhoamiResponse = {
    grantId: GrantIdOut.make(caller.credentialId),
    machine: caller.machine,
    user: yield* personOf(caller),
    teams: caller.teams.map(({ id, name, scopes }) => ({ id, name, scopes: scopes ?? [] })),
    restrictions: caller.restrictions,
    createdAt: caller.createdAt.toISOString(),
    expiresAt: (caller.expiresAt ?? caller.createdAt).toISOString(),
    lastUsedAt: caller.lastUsedAt?.toISOString() ?? null
  }
  return answer
})

export class Identity extends Effect.Service<Identity>()("credentials/Identity", {
  effect: Effect.map(services, (needs) => methods(needs, { caller: callerWithIdentity, verify, me, grant }))
}) {}
