/** Who and what reaches an environment, by which way (docs/contract/access.md, "All that reaches an environment"). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AccessRequest } from "./AccessRequestsApi.ts"
import { PersonCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { EnvironmentId, EnvironmentIdOut, ProjectIdOut, TeamIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { Timestamp } from "./Values.ts"
import { answers, GrantLevelOut, openEnum, ReadersOut, RoleOut, Slug, VisibilityOut } from "./Wire.ts"

const GivenGrant = Schema.Struct({
  wholeProject: Schema.Boolean,
  givenBy: PersonRef,
  reason: Schema.NullOr(Schema.String)
}).annotations({ identifier: "GivenGrant" })

export const WayIn = Schema.Struct({
  way: openEnum("role", "grant", "api_token", "machine_rule", "cli_grant", "oauth_grant").annotations({
    description: "By what: a person's role or grant, an API token, a CI rule, a CLI login, a connected agent."
  }),
  id: Schema.String.annotations({
    description: "Of the grant, token, rule, login or agent; of the person, by a role."
  }),
  name: Schema.NullOr(Schema.String).annotations({
    description: "Of the token, rule, host or agent; null: it has none."
  }),
  /** Who it is, or who made the token or rule. */
  person: PersonRef,
  role: RoleOut.annotations({ description: "Of the person in the team." }),
  level: GrantLevelOut.annotations({
    description: "The most that it does there. Of a login or an agent: as far as its person may."
  }),
  grant: Schema.NullOr(GivenGrant),
  mcpOnly: Schema.Boolean.annotations({ description: "Of an API token: it is refused outside of /mcp." }),
  until: Schema.NullOr(Timestamp).annotations({ description: "When it ends by itself; null: somebody ends it." }),
  lastUsedAt: Schema.NullOr(Timestamp).annotations({
    description:
      "Of a person: when they were last handed a value there, by any way. Of others: their last use, anywhere."
  })
}).annotations({ identifier: "WayIn", description: "One way by which somebody or something reaches the environment." })
export type WayIn = typeof WayIn.Type

export const EnvironmentAccess = Schema.Struct({
  teamId: TeamIdOut,
  projectId: ProjectIdOut,
  environmentId: EnvironmentIdOut,
  environment: Slug,
  readers: ReadersOut,
  visibility: VisibilityOut.annotations({ description: "Of its project." }),
  items: Schema.Array(WayIn).annotations({ description: "People first, each by the role and by every grant." }),
  hasMore: Schema.Boolean.annotations({
    description: "More than 5,000 tokens, rules, logins and agents are not named."
  }),
  requests: Schema.Array(AccessRequest).annotations({ description: "Pending ones." })
}).annotations({ identifier: "EnvironmentAccess" })
export type EnvironmentAccess = typeof EnvironmentAccess.Type

const ada = { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607183", email: "ada@example.com" }
const grace = { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "grace@example.com" }

/** For owners and admins, from anywhere. */
export class EnvironmentAccessApi extends HttpApiGroup.make("environmentAccess")
  .add(
    HttpApiEndpoint.get("ofEnvironment", "/environments/:envId/access")
      .setPath(Schema.Struct({ envId: EnvironmentId }))
      .addSuccess(answers(200, EnvironmentAccess))
      .addError(Errors.EnvironmentNotFound)
      .addError(Errors.Forbidden)
      .addError(Errors.ScopeMissing)
      .middleware(PersonCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Who reaches an environment",
          description:
            "Every person, API token, CI rule, CLI login, connected agent and pending request: by which way, how far, until when, used last. For owners and admins.",
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
  .annotateContext(OpenApi.annotations({ description: "Who and what reaches an environment." })) {}
