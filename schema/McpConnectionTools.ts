/** Tools about a connection's identity and access. */
import * as Schema from "effect/Schema"
import {
  environment,
  environmentList,
  location,
  next,
  nothing,
  projectId,
  reads,
  tool,
  writes
} from "./McpToolParts.ts"
import { integer, AuditCursor, Instant, SecretKey, Timestamp } from "./Values.ts"
import { AccessLevelOut, Integer, Key, openEnum, RoleOut, ScopeOut, Slug, Uuid } from "./Wire.ts"
import { optional, strict } from "./Strict.ts"
import { GrantLevel, Scope } from "./Scopes.ts"
import { AuditEntry } from "./Audit.ts"
import { ways } from "./ExposureWays.ts"
import { Capabilities } from "./CapabilitiesApi.ts"

const level = Schema.Literal(...GrantLevel.literals).annotations({
  message: () => "must be names, run, values or write"
})

export const connectionTools = {
  whoami: tool({
    title: "Who am I",
    description: "The credential of this connection: its kind, teams, scopes and restrictions.",
    scopes: ["identity:read"],
    input: nothing,
    output: Schema.Struct({
      credential: Schema.Struct({
        type: openEnum("api_token", "oauth_token"),
        id: Schema.String,
        name: optional(Schema.String),
        accessLevel: optional(AccessLevelOut),
        expiresAt: optional(Timestamp)
      }),
      user: optional(Schema.Struct({ id: Uuid, email: Schema.String, name: Schema.String })),
      teams: Schema.Array(Schema.Struct({ id: Uuid, name: Schema.String, role: RoleOut })),
      scopes: Schema.Array(ScopeOut),
      restrictions: Schema.Struct({
        projects: Schema.NullOr(Schema.Array(Uuid)),
        environments: Schema.NullOr(Schema.Array(Uuid)),
        named: optional(
          Schema.Struct({
            projects: Schema.Array(Schema.Struct({ id: Uuid, slug: Slug, name: Schema.String })),
            environments: Schema.Array(Schema.Struct({ id: Uuid, slug: Slug, project: Slug }))
          }).annotations({ description: "The first fifty of each, with projects:read." })
        )
      }).annotations({ description: "null: not restricted." })
    }),
    annotations: reads
  }),
  get_capabilities: tool({
    title: "Capabilities",
    description: "Features and limits of this server.",
    scopes: [],
    input: nothing,
    output: Schema.Struct({ features: Capabilities.fields.features, limits: Capabilities.fields.limits }),
    annotations: reads
  }),
  more_tools: tool({
    title: "More tools",
    description:
      "Asks the person for a scope whose tools this list does not have, and names those tools. List the tools again then. secrets:read_values: read values in plain text; prefer plan_run.",
    scopes: [],
    scopeIn: "scope",
    input: strict(Schema.Struct({ scope: Scope })),
    output: Schema.Struct({ tools: Schema.Array(Schema.String), next }),
    annotations: reads
  }),
  list_projects: tool({
    title: "List projects",
    description: "Projects that this connection reaches.",
    scopes: ["projects:read"],
    input: strict(
      Schema.Struct({
        cursor: optional(
          Schema.String.pipe(
            Schema.filter((s) => /^[A-Za-z0-9_-]{1,64}$/.test(s) || "must be the nextCursor of an earlier answer")
          ).annotations({
            jsonSchema: { type: "string", maxLength: 64, description: "nextCursor of an earlier answer." }
          })
        )
      })
    ),
    output: Schema.Struct({
      projects: Schema.Array(Schema.Struct({ id: Uuid, name: Schema.String, slug: Schema.String, teamId: Uuid })),
      nextCursor: optional(Schema.String)
    }),
    annotations: reads
  }),
  list_environments: tool({
    title: "List environments",
    description: "Environments of a project. Protected ones are changed by owners and admins only.",
    scopes: ["projects:read"],
    input: strict(Schema.Struct({ projectId })),
    output: Schema.Struct({ environments: environmentList }),
    annotations: reads
  }),
  request_access: tool({
    title: "Ask for access to an environment",
    description:
      "A signed-in person asks on a page, another decides. Answers granted, pending, declined, or needs_human with an address; call again to see.",
    scopes: ["secrets:read"],
    input: strict(Schema.Struct({ ...location, level, hours: optional(integer(1, 168, "2 by default.")) })),
    output: Schema.Struct({
      status: openEnum("granted", "pending", "needs_human", "declined"),
      id: optional(Uuid),
      url: optional(Schema.String),
      expiresAt: optional(Timestamp)
    }),
    annotations: { ...writes, idempotentHint: true }
  })
} as const

/** Short form of an entry: actor, action, time and keys. */
const ShortEntry = Schema.Struct({
  id: Uuid,
  at: Timestamp,
  actor: Schema.String,
  action: Schema.String,
  outcome: Schema.String,
  reason: optional(Schema.String),
  project: optional(Uuid),
  environment: optional(Slug),
  target: optional(Schema.String),
  keys: Schema.Array(Key).annotations({ description: "The first three." }),
  keyCount: Integer,
  via: Schema.String
})

export const auditTools = {
  list_audit_events: tool({
    title: "Read the audit trail",
    description: "Who did what and when, newest first. Key names, never values.",
    scopes: ["audit:read"],
    input: strict(
      Schema.Struct({
        projectId: optional(projectId),
        environment: optional(environment),
        key: optional(SecretKey),
        since: optional(Instant),
        until: optional(Instant),
        cursor: optional(AuditCursor),
        limit: optional(integer(1, 100, "50 by default.")),
        full: optional(Schema.Boolean.annotations({ description: "Whole entries; a short form by default." }))
      })
    ),
    output: Schema.Struct({
      events: Schema.Array(ShortEntry),
      entries: optional(Schema.Array(AuditEntry)),
      nextCursor: optional(Schema.String)
    }),
    annotations: reads
  }),
  get_exposure: tool({
    title: "Who has a secret",
    description:
      "Who was handed or typed each version of a secret, and who has no later one: counts, and names of the latest.",
    scopes: ["audit:read"],
    input: strict(Schema.Struct({ ...location, key: SecretKey })),
    output: Schema.Struct({
      upTo: Timestamp,
      formerly: optional(
        Schema.Array(Key).annotations({ description: "Keys it had before: each has an exposure of its own." })
      ),
      renamedTo: optional(
        Schema.Array(Key).annotations({ description: "What secrets are called now that had this key before." })
      ),
      versions: Schema.Array(
        Schema.Struct({ version: Schema.NullOr(Integer), handedTo: Schema.String, heldBy: Schema.String })
      ).annotations({ description: "Newest first; null is unknown." }),
      latest: Schema.Array(
        Schema.Struct({
          version: Schema.NullOr(Integer),
          type: Schema.String,
          name: Schema.String,
          way: openEnum(...ways),
          lastAt: Timestamp
        })
      ),
      total: Integer
    }),
    annotations: reads
  })
} as const
