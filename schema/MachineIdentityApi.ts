/** Trust rules: JWTs of a CI issuer that are exchanged for a short-lived token, and its access (RFC 8693). */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { SessionCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { ProjectId, RuleId, RuleIdOut, TeamId, TeamIdOut } from "./Ids.ts"
import { PersonRef } from "./IdentityApi.ts"
import { operation } from "./Operation.ts"
import { EnvironmentRef, ProjectRef } from "./ProjectsApi.ts"
import { BadBody, MayNotManageTeam } from "./RouteErrors.ts"
import { AccessLevel } from "./Scopes.ts"
import { optional, strict } from "./Strict.ts"
import { boundedList, EnvironmentSlug, MemberName, Name, Timestamp } from "./Values.ts"
import { AccessLevelOut, answers, DeletedAck, Integer, openEnum } from "./Wire.ts"

/** Printable ASCII: text that is compared byte by byte must not contain look-alikes. */
const ascii = (max: number, description: string) =>
  Schema.String.pipe(
    Schema.filter((s) => (s.length <= max && /^[\x21-\x7e]+$/.test(s)) || `must be 1 to ${max} ASCII characters`)
  ).annotations({ jsonSchema: { type: "string", minLength: 1, maxLength: max, pattern: "^[!-~]+$" }, description })

const Issuer = ascii(500, "Exact iss of the JWT; its keys are found through OpenID discovery.")
const Audience = ascii(500, "Exact aud of the JWT; default: this server's public address.")

/** Claims about time and audience, which do not identify the presenter. */
const reservedClaims = new Set(["iss", "aud", "exp", "nbf", "iat", "jti"])
const claimName = /^[A-Za-z][A-Za-z0-9_.:/-]{0,99}$/
// Without control characters and asterisks, so that a name looks like what it is.
const claimPattern = /^[^\p{Cc}*]{1,255}\*?$/u

const claimsProblem = (claims: Readonly<Record<string, string>>): Schema.FilterOutput => {
  const names = Object.keys(claims)
  if (names.length < 1 || names.length > 10) return "must name 1 to 10 claims"
  for (const name of names) {
    if (!claimName.test(name)) return "must have names of claims as members"
    if (reservedClaims.has(name)) return { path: [name], message: "must not be iss, aud, exp, nbf, iat or jti" }
    if (!claims[name].isWellFormed() || !claimPattern.test(claims[name])) {
      return { path: [name], message: "must be 1 to 255 characters, with an asterisk at the end only, after others" }
    }
  }
  return true
}

const Claims = Schema.Record({ key: MemberName, value: Schema.String }).pipe(
  Schema.filter(claimsProblem, {
    jsonSchema: {
      type: "object",
      minProperties: 1,
      maxProperties: 10,
      propertyNames: { pattern: claimName.source, not: { enum: [...reservedClaims] } },
      additionalProperties: {
        type: "string",
        minLength: 1,
        maxLength: 256,
        pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f*]{1,255}\\*?$"
      }
    },
    description: "All of them must match exactly; an asterisk at the end matches any rest."
  })
)

const LifetimeSeconds = Schema.Number.pipe(
  Schema.filter((n) => (Number.isInteger(n) && n >= 300 && n <= 3600) || "must be an integer from 300 to 3600")
).annotations({
  jsonSchema: { type: "integer", minimum: 300, maximum: 3600 },
  description: "Lifetime of the tokens in seconds; 900 by default."
})

export const CreateMachineRule = strict(
  Schema.Struct({
    name: Name,
    issuer: Issuer,
    audience: optional(Audience),
    claims: Claims,
    accessLevel: optional(AccessLevel),
    projects: optional(boundedList(ProjectId, 1, 1_000)),
    environments: optional(boundedList(EnvironmentSlug, 1, 100)),
    lifetimeSeconds: optional(LifetimeSeconds)
  })
).annotations({
  identifier: "CreateMachineRule",
  description:
    "accessLevel: read by default. environments: resolved now; later environments with the same slug are not included."
})
export type CreateMachineRule = typeof CreateMachineRule.Type

export const MachineRule = Schema.Struct({
  id: RuleIdOut,
  teamId: TeamIdOut,
  name: Schema.String,
  issuer: Schema.String,
  audience: Schema.String,
  claims: Schema.Record({ key: Schema.String, value: Schema.String }),
  accessLevel: AccessLevelOut,
  projects: Schema.NullOr(Schema.Array(ProjectRef)),
  environments: Schema.NullOr(Schema.Array(EnvironmentRef)),
  lifetimeSeconds: Integer,
  state: openEnum("active", "stopped").annotations({
    description: "stopped: its creator left, changed roles or was deactivated for more than 7 days."
  }),
  createdBy: PersonRef,
  createdAt: Timestamp,
  lastUsedAt: Schema.NullOr(Timestamp)
}).annotations({
  identifier: "MachineRule",
  description: "projects and environments: null = not restricted. A rule cannot be changed; create another one instead."
})
export type MachineRule = typeof MachineRule.Type

const MachineRuleList = Schema.Struct({ items: Schema.Array(MachineRule) }).annotations({
  identifier: "MachineRuleList"
})

const rule = {
  id: "01980a64-8f90-7192-a3b4-d5e6f7081920",
  teamId: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
  name: "shop deploys",
  issuer: "https://token.actions.githubusercontent.com",
  audience: "https://ampoule.example.com",
  claims: { repository: "acme/shop", environment: "production" },
  accessLevel: "read",
  projects: [{ id: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e", name: "Shop" }],
  environments: [
    {
      id: "01980a5f-1b22-7c4d-8e65-7f3f9b2d1c8f",
      slug: "production",
      projectId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
    }
  ],
  lifetimeSeconds: 900,
  state: "active",
  createdBy: { id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", email: "ada@example.com" },
  createdAt: "2026-11-21T08:00:00.000Z",
  lastUsedAt: null
}

/** Trust rules of a team, for owners and admins in a session. The exchange itself is `POST /auth/token-exchange`. */
export class MachineRulesApi extends HttpApiGroup.make("machineRules")
  .add(
    HttpApiEndpoint.post("create", "/teams/:teamId/machine-rules")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .setPayload(CreateMachineRule)
      .addSuccess(answers(201, MachineRule))
      .addError(
        Schema.Union(
          MayNotManageTeam,
          Errors.ProjectNotFound,
          Errors.EnvironmentNotGranted,
          Errors.PlanLimitReached,
          BadBody
        )
      )
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Trust a CI issuer",
          description:
            "A JWT of the issuer with this audience and these claims is exchanged for a short-lived API token with this access. The rule stops with its creator's role, like API tokens.",
          request: {
            name: "shop deploys",
            issuer: "https://token.actions.githubusercontent.com",
            claims: { repository: "acme/shop", environment: "production" },
            projects: ["01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"],
            environments: ["production"]
          },
          response: rule
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/machine-rules")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .addSuccess(answers(200, MachineRuleList))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "List trust rules",
          description: "Newest first, with creator and last use.",
          response: { items: [rule] }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/teams/:teamId/machine-rules/:ruleId")
      .setPath(Schema.Struct({ teamId: TeamId, ruleId: RuleId }))
      .addSuccess(answers(200, DeletedAck))
      .addError(Schema.Union(MayNotManageTeam, Errors.GrantNotFound))
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Delete a trust rule",
          description: "Also revokes the tokens that were issued by it.",
          response: { deleted: true }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Machine identity: CI jobs without a stored secret." })) {}
