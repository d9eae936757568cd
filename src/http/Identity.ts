import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/Api.ts"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import type { CliWhoamiResponse, MeResponse, Person, VerifyAuthResponse } from "#schema/IdentityApi.ts"
import { GrantIdOut } from "#schema/Ids.ts"
import { Access } from "#src/access/Access.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import * as SessionCookie from "./SessionCookie.ts"

const intent = { audit: "identity.read" } as const

/** The routes that answer about a person take no credential without one. */
const personOf = ({ user }: Caller): Effect.Effect<Person> =>
  user === null ? Effect.dieMessage("a credential without a person reached a person's route") : Effect.succeed(user)

const verification = (caller: Caller): VerifyAuthResponse => ({
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
  restrictions: caller.restrictions
})

export const layer = HttpApiBuilder.group(ServerApi, "identity", (handlers) =>
  Effect.gen(function* () {
    const access = yield* Access
    const sessions = yield* Sessions
    const tokens = yield* Tokens
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    return handlers
      .handle("verify", () => Effect.map(access.allTeams("identity:read", intent), verification))
      .handle("revokeOwnToken", () =>
        Effect.gen(function* () {
          const caller = yield* CurrentCaller
          if (caller.kind === "session") {
            yield* sessions.end(caller)
            yield* cookie.clear
          } else {
            yield* tokens.revokeOwn(caller)
          }
          return { revoked: true }
        })
      )
      .handle("me", () =>
        Effect.gen(function* () {
          const caller = yield* access.allTeams("identity:read", intent)
          const me: MeResponse = {
            user: yield* personOf(caller),
            teams: caller.teams.map(({ id, name, plan, role }) => ({ id, name, role: role ?? "viewer", plan })),
            activeTeam: yield* sessions.activeTeam(caller)
          }
          return me
        })
      )
      .handle("meCli", () =>
        Effect.gen(function* () {
          const caller = yield* access.allTeams("identity:read", intent)
          const grant: CliWhoamiResponse = {
            grantId: GrantIdOut.make(caller.credentialId),
            machine: caller.machine,
            user: yield* personOf(caller),
            teams: caller.teams.map(({ id, name, scopes }) => ({ id, name, scopes: scopes ?? [] })),
            restrictions: caller.restrictions,
            createdAt: caller.createdAt.toISOString(),
            expiresAt: (caller.expiresAt ?? caller.createdAt).toISOString(),
            lastUsedAt: caller.lastUsedAt?.toISOString() ?? null
          }
          return grant
        })
      )
  })
)
