/**
 * Access to an environment: people, credentials and requests (docs/contract/access.md, "All that reaches an
 * environment").
 */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AccessRequest } from "./AccessRequestsApi.ts"
import { PersonCredential } from "./Authentication.ts"
import { EnvironmentId, EnvironmentIdOut, ProjectIdOut, TeamIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { MayNotReadEnvironment } from "./RouteErrors.ts"
import { Timestamp } from "./Values.ts"
import { answers, GrantLevelOut, openEnum, ReadersOut, RoleOut, Slug, VisibilityOut } from "./Wire.ts"

const GrantOfAccess = Schema.Struct({
  wholeProject: Schema.Boolean,
  givenBy: PersonRef,
  reason: Schema.NullOr(Schema.String)
}).annotations({ identifier: "GivenGrant" })

export const WayIn = Schema.Struct({
  way: openEnum("role", "grant", "api_token", "machine_rule", "cli_grant", "oauth_grant").annotations({
    description: "Kind of access: a person's role or grant, an API token, a CI rule, a CLI login or a connected agent."
  }),
  id: Schema.String.annotations({
    description: "Id of the grant, token, rule, login or agent; for a role, id of the person."
  }),
  name: Schema.NullOr(Schema.String).annotations({
    description: "Name of the token, rule, host or agent; null: it has none."
  }),
  /** The person, or the creator of the token or rule. */
  person: PersonRef,
  role: RoleOut.annotations({ description: "Role of the person in the team." }),
  level: GrantLevelOut.annotations({
    description: "Highest level there. A login or an agent never exceeds its person."
  }),
  grant: Schema.NullOr(GrantOfAccess),
  mcpOnly: Schema.Boolean.annotations({ description: "For an API token: true when it is accepted only at /mcp." }),
  until: Schema.NullOr(Timestamp).annotations({ description: "Time of expiry; null: it does not expire." }),
  lastUsedAt: Schema.NullOr(Timestamp).annotations({
    description:
      "For a person: their last read of a value there, by any credential. For others: their last use, anywhere."
  })
}).annotations({
  identifier: "WayIn",
  description: "One kind of access of a person or a credential to the environment."
})
export type WayIn = typeof WayIn.Type

export const EnvironmentAccess = Schema.Struct({
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  environmentId: EnvironmentIdOut,
  environment: Slug,
  readers: ReadersOut,
  visibility: VisibilityOut.annotations({ description: "Visibility of its project." }),
  items: Schema.Array(WayIn).annotations({ description: "People first, each with the role and all grants." }),
  hasMore: Schema.Boolean.annotations({
    description: "True when tokens, rules, logins and agents beyond 5,000 are left out."
  }),
  requests: Schema.Array(AccessRequest).annotations({ description: "Pending requests." })
}).annotations({ identifier: "EnvironmentAccess" })
export type EnvironmentAccess = typeof EnvironmentAccess.Type

const ada = { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607183", email: "ada@example.com" }
const grace = { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "grace@example.com" }

/** For owners and admins, with any credential of theirs. */
export class EnvironmentAccessApi extends HttpApiGroup.make("environmentAccess")
  .add(
    HttpApiEndpoint.get("ofEnvironment", "/environments/:envId/access")
      .setPath(Schema.Struct({ envId: EnvironmentId }))
      .addSuccess(answers(200, EnvironmentAccess))
      .addError(MayNotReadEnvironment)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Show who has access to an environment",
          description:
            "All people, API tokens, CI rules, CLI logins, connected agents and pending requests, with kind, level, expiry and last use. For owners and admins.",
          response: {
            teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
            projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
            environmentId: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071",
            environment: "production",
            readers: "granted",
            visibility: "team",
            items: [
              {
                way: "grant",
                id: "01980a5e-9f00-7a10-8b21-3c4d5e6f7081",
                name: null,
                person: grace,
                role: "member",
                level: "values",
                grant: { wholeProject: false, givenBy: ada, reason: "Incident 42" },
                mcpOnly: false,
                until: "2026-11-21T12:00:00.000Z",
                lastUsedAt: "2026-11-21T08:00:00.000Z"
              },
              {
                way: "api_token",
                id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6",
                name: "ci",
                person: ada,
                role: "owner",
                level: "values",
                grant: null,
                mcpOnly: false,
                until: "2027-02-19T08:00:00.000Z",
                lastUsedAt: null
              }
            ],
            hasMore: false,
            requests: []
          }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Access to an environment." })) {}
