import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential, GrantCredential, OwnTokenCredential, PersonCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentIdOut, GrantIdOut, ProjectIdOut, TeamIdOut, UserIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { Timestamp } from "./Values.ts"
import { AccessLevelOut, answers, openEnum, PlanOut, RestrictionsOut, RoleOut, ScopeOut, Slug } from "./Wire.ts"
import { optional } from "./Strict.ts"

export const Person = Schema.Struct({ id: UserIdOut, email: Schema.String, name: Schema.String }).annotations({
  identifier: "Person"
})
export type Person = typeof Person.Type

export const PersonRef = Schema.Struct({ id: UserIdOut, email: Schema.String }).annotations({ identifier: "PersonRef" })

const NamedTeam = Schema.Struct({ id: TeamIdOut, name: Schema.String }).annotations({ identifier: "NamedTeam" })
const TeamScopes = Schema.Struct({ teamId: TeamIdOut, scopes: Schema.Array(ScopeOut) }).annotations({
  identifier: "TeamScopes"
})

const OnlyEnvironment = Schema.Struct({
  projectId: ProjectIdOut,
  project: Schema.String.annotations({ description: "Project slug." }),
  environmentId: EnvironmentIdOut,
  environment: Slug
}).annotations({ identifier: "OnlyEnvironment" })

export const VerifyAuthResponse = Schema.Struct({
  credential: Schema.Struct({
    type: openEnum("api_token", "cli_grant", "session"),
    id: Schema.String,
    name: optional(Schema.String),
    expiresAt: Schema.NullOr(Timestamp)
  }).annotations({ identifier: "VerifiedCredential" }),
  accessLevel: optional(AccessLevelOut),
  teams: Schema.Array(NamedTeam),
  scopes: optional(Schema.Array(TeamScopes).annotations({ description: "For a CLI grant, per team." })),
  mcpScopes: optional(Schema.Array(ScopeOut).annotations({ description: "For an API token." })),
  restrictions: RestrictionsOut,
  only: Schema.NullOr(OnlyEnvironment).annotations({
    description:
      "The environment that the credential reaches, when it is exactly one. A client that names none uses it."
  })
}).annotations({
  identifier: "VerifyAuthResponse",
  description: "Identity and access of the presented credential. accessLevel is that of an API token."
})
export type VerifyAuthResponse = typeof VerifyAuthResponse.Type

/** A team for its members; also the record of the session routes for teams. */
export const MyTeam = Schema.Struct({
  id: TeamIdOut,
  name: Schema.String,
  role: RoleOut,
  plan: PlanOut
}).annotations({ identifier: "MyTeam" })
export type MyTeam = typeof MyTeam.Type

export const MeResponse = Schema.Struct({
  user: Person,
  teams: Schema.Array(MyTeam),
  activeTeam: Schema.NullOr(TeamIdOut)
}).annotations({ identifier: "MeResponse" })
export type MeResponse = typeof MeResponse.Type

export const GrantedTeam = Schema.Struct({
  id: TeamIdOut,
  name: Schema.String,
  scopes: Schema.Array(ScopeOut)
}).annotations({ identifier: "GrantedTeam" })
export type GrantedTeam = typeof GrantedTeam.Type

export const CliWhoamiResponse = Schema.Struct({
  grantId: GrantIdOut,
  machine: Schema.Boolean,
  user: Person,
  teams: Schema.Array(GrantedTeam),
  restrictions: RestrictionsOut,
  createdAt: Timestamp,
  expiresAt: Timestamp,
  lastUsedAt: Schema.NullOr(Timestamp)
}).annotations({ identifier: "CliWhoamiResponse" })
export type CliWhoamiResponse = typeof CliWhoamiResponse.Type

export const RevokedAck = Schema.Struct({ revoked: Schema.Boolean }).annotations({ identifier: "RevokedAck" })
export type RevokedAck = typeof RevokedAck.Type

const teamId = "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30"
const user = { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com", name: "Ada" }
const unrestricted = { projectIds: null, environmentIds: null }

/** Identity of the caller, and revocation of the presented credential. */
export class IdentityApi extends HttpApiGroup.make("identity")
  .add(
    HttpApiEndpoint.get("verify", "/me/verify")
      .addSuccess(answers(200, VerifyAuthResponse))
      .addError(Errors.ScopeMissing)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "identity:read",
          summary: "Check the credential",
          description:
            "The cheapest call for diagnosing authentication: returns the identity and access of the credential.",
          response: {
            credential: {
              type: "api_token",
              id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6",
              name: "ci",
              expiresAt: "2027-02-19T08:00:00.000Z"
            },
            accessLevel: "read",
            teams: [{ id: teamId, name: "Platform" }],
            mcpScopes: [],
            restrictions: {
              projectIds: ["01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"],
              environmentIds: ["01980a5f-3a4b-7c5d-8e6f-70819a2b3c4d"]
            },
            only: {
              projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
              project: "shop",
              environmentId: "01980a5f-3a4b-7c5d-8e6f-70819a2b3c4d",
              environment: "production"
            }
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("revokeOwnToken", "/me/token")
      .addSuccess(answers(200, RevokedAck))
      .middleware(OwnTokenCredential)
      .annotateContext(
        operation({
          scope: "none",
          summary: "Revoke the presented token",
          description: "Idempotent: an already revoked token still gets 200. With a session it ends that session.",
          response: { revoked: true }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("me", "/me")
      .addSuccess(answers(200, MeResponse))
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "identity:read",
          summary: "Read the person behind the credential",
          description: "The person, their teams and the active team; for a CLI grant only the granted teams.",
          response: {
            user,
            teams: [{ id: teamId, name: "Platform", role: "owner", plan: "team" }],
            activeTeam: teamId
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("meCli", "/me/cli")
      .addSuccess(answers(200, CliWhoamiResponse))
      .addError(Errors.ScopeMissing)
      .middleware(GrantCredential)
      .annotateContext(
        operation({
          scope: "identity:read",
          summary: "Read the CLI grant",
          description: "Teams, scopes per team, and any project or environment restriction of the presented CLI grant.",
          response: {
            grantId: "01980a61-5c6d-7e8f-a0b1-c2d3e4f50617",
            machine: false,
            user,
            teams: [{ id: teamId, name: "Platform", scopes: ["identity:read", "secrets:run"] }],
            restrictions: unrestricted,
            createdAt: "2026-11-21T08:00:00.000Z",
            expiresAt: "2027-05-20T08:00:00.000Z",
            lastUsedAt: null
          }
        })
      )
  )
  .annotateContext(
    OpenApi.annotations({ description: "Identity of the caller, and revocation of the presented credential." })
  ) {}
