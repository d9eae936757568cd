import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import { operation } from "./Operation.ts"
import { optional } from "./Strict.ts"
import { answers, Integer, openEnum, PlanOut } from "./Wire.ts"

const PlanLimits = Schema.Struct({
  longestTokenLifetimeDays: Integer,
  activeTokensPerTeam: Integer
}).annotations({ identifier: "PlanLimits" })

const CapabilityLimits = Schema.Struct({
  environmentSlugLength: Integer,
  secretKeyLength: Integer,
  secretValueLength: Integer,
  bulkCreateEntries: Integer,
  bulkDeleteIds: Integer,
  page: Integer,
  pageSize: Integer,
  hostTextLength: Integer,
  apiTokenNameLength: Integer,
  expectedVersion: Integer,
  tokenLifetimes: Schema.Array(Schema.String),
  tokenIdleDays: Integer,
  cliGrantDays: Integer,
  cliGrantIdleDays: Integer,
  creatorGraceDays: Integer,
  requestsPerSecond: Integer,
  requestsPerTenSeconds: Integer,
  requestsPerMinute: Integer,
  diffsPerMinute: Integer,
  secretsPerEnvironment: Integer,
  resolvedEnvironmentBytes: Integer,
  environmentsPerProject: Integer,
  projectsPerTeam: Integer,
  sealedEntries: Integer,
  templateReferencesOnPath: Integer,
  deletedSecretDays: Integer,
  plans: Schema.Struct({ developer: PlanLimits, team: PlanLimits }).annotations({ identifier: "LimitsByPlan" })
}).annotations({ identifier: "CapabilityLimits" })
type CapabilityLimits = typeof CapabilityLimits.Type

/**
 * Limits of docs/contract/limits.md and docs/contract/rate-limits.md. They belong to the contract, the same in each
 * deployment.
 */
export const limits: CapabilityLimits = {
  environmentSlugLength: 50,
  secretKeyLength: 255,
  secretValueLength: 65_536,
  bulkCreateEntries: 100,
  bulkDeleteIds: 100,
  page: 10_000,
  pageSize: 500,
  hostTextLength: 256,
  apiTokenNameLength: 100,
  expectedVersion: Number.MAX_SAFE_INTEGER,
  tokenLifetimes: ["1d", "7d", "30d", "90d", "1y"],
  tokenIdleDays: 90,
  cliGrantDays: 180,
  cliGrantIdleDays: 90,
  creatorGraceDays: 7,
  requestsPerSecond: 50,
  requestsPerTenSeconds: 250,
  requestsPerMinute: 1_000,
  diffsPerMinute: 30,
  secretsPerEnvironment: 5_000,
  resolvedEnvironmentBytes: 16 * 1024 * 1024,
  environmentsPerProject: 100,
  projectsPerTeam: 1_000,
  sealedEntries: 500,
  templateReferencesOnPath: 10,
  deletedSecretDays: 30,
  plans: {
    developer: { longestTokenLifetimeDays: 90, activeTokensPerTeam: 500 },
    team: { longestTokenLifetimeDays: 365, activeTokensPerTeam: 2_000 }
  }
}

export const Capabilities = Schema.Struct({
  version: Schema.String.annotations({ description: "Release of the server." }),
  commit: optional(Schema.String).annotations({ description: "What the server was built from, where it knows it." }),
  plan: optional(PlanOut),
  features: Schema.Struct({
    mcp: Schema.Boolean,
    mcpReveal: Schema.Boolean,
    sealedValues: Schema.Boolean,
    deviceAuthorization: Schema.Boolean,
    templates: Schema.Boolean,
    versions: Schema.Boolean,
    idempotency: Schema.Boolean
  }).annotations({ identifier: "CapabilityFeatures" }),
  limits: CapabilityLimits,
  durability: openEnum("process-crash", "power-loss").annotations({
    description: "Failure that an acknowledged write survives."
  }),
  clientAddress: optional(openEnum("unreadable")).annotations({
    description: "Present when a trusted proxy reported the address of this request in a form that cannot be read."
  }),
  mcpProtocolVersions: Schema.Array(Schema.String),
  mcpUrl: Schema.String.annotations({ description: "Address for AI agents, in preference to the REST routes." })
}).annotations({
  identifier: "Capabilities",
  description: "Features and limits of this deployment. plan is present when the credential reaches a single team."
})
export type Capabilities = typeof Capabilities.Type

export class CapabilitiesApi extends HttpApiGroup.make("capabilities")
  .add(
    HttpApiEndpoint.get("read", "/capabilities")
      .addSuccess(answers(200, Capabilities))
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "none",
          summary: "Read features and limits",
          description:
            "Features and limits that this deployment supports. AI agents: use mcpUrl in preference to the REST routes.",
          response: {
            version: "1.1.0",
            commit: "0123456789ab",
            plan: "team",
            features: {
              mcp: true,
              mcpReveal: true,
              sealedValues: true,
              deviceAuthorization: true,
              templates: true,
              versions: true,
              idempotency: true
            },
            limits,
            durability: "power-loss",
            mcpProtocolVersions: ["2026-07-28", "2025-11-25"],
            mcpUrl: "https://ampoule.example.com/mcp"
          }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Features and limits of this deployment." })) {}
