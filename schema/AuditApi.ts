import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AuditAction, AuditEntry } from "./Audit.ts"
import { SessionCredential } from "./Authentication.ts"
import { ProjectId, TeamId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { MayNotManageTeam } from "./RouteErrors.ts"
import { optional, strict } from "./Strict.ts"
import { AuditCursor, EnvironmentSlug, Instant, name, queryInteger, SecretKey, ActorId } from "./Values.ts"
import { answers } from "./Wire.ts"

export const AuditPage = Schema.Struct({
  items: Schema.Array(AuditEntry),
  nextCursor: Schema.NullOr(Schema.String)
}).annotations({ identifier: "AuditPage", description: "Newest first." })
export type AuditPage = typeof AuditPage.Type

export const AuditQuery = strict(
  Schema.Struct({
    cursor: optional(AuditCursor),
    limit: optional(queryInteger(1, 200, "Entries per answer, 1 to 200; 50 by default.")),
    action: optional(
      AuditAction.annotations({
        identifier: "AuditAction",
        message: () => "must be an action of the audit trail",
        description: "Every action of the audit trail."
      })
    ),
    actor: optional(ActorId),
    projectId: optional(ProjectId),
    environment: optional(EnvironmentSlug),
    key: optional(SecretKey),
    since: optional(Instant),
    until: optional(Instant)
  })
)
export type AuditQuery = typeof AuditQuery.Type

/** Filters of a search. */
export const AuditFilter = strict(AuditQuery.pipe(Schema.omit("cursor", "limit")))
export type AuditFilter = typeof AuditFilter.Type

/** Saved filter of a person; `shared`: visible to everyone who reads the team's trail. */
export const SaveAuditView = strict(
  Schema.Struct({ name: name(60, "Name, 1 to 60 characters."), shared: Schema.Boolean, filter: AuditFilter })
)
export type SaveAuditView = typeof SaveAuditView.Type

export class AuditApi extends HttpApiGroup.make("audit")
  .add(
    HttpApiEndpoint.get("list", "/teams/:teamId/audit")
      .setPath(Schema.Struct({ teamId: TeamId }))
      .setUrlParams(AuditQuery)
      .addSuccess(answers(200, AuditPage))
      .addError(MayNotManageTeam)
      .middleware(SessionCredential)
      .annotateContext(
        operation({
          summary: "Read the audit trail",
          description: "Entries of a team, newest first. For owners and admins.",
          response: {
            items: [
              {
                id: "01980a63-7e8f-7091-a2b3-c4d5e6f70819",
                stream: "01980a5c-0001-7000-8000-000000000001",
                seq: 42,
                at: "2026-11-21T08:00:00.000Z",
                requestId: "01980a63-7e8e-7000-8000-1a2b3c4d5e6f",
                actor: { type: "api_token", id: "01980a60-4b5c-7d6e-9f70-8192a3b4c5d6", name: "ci" },
                action: "secret.inject",
                outcome: "allowed",
                team: "01980a5d-0f3a-7c10-8e2b-9a7c6d5e4f30",
                project: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e",
                environment: "development",
                keys: ["DATABASE_URL", "DB_PASSWORD"],
                ip: "203.0.113.7",
                userAgent: "ampoule/1.0.0",
                via: "cli"
              }
            ],
            nextCursor: null
          }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "The audit trail of a team." })) {}
