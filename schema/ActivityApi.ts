import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AuditPage, AuditQuery } from "./AuditApi.ts"
import { AnyCredential } from "./Authentication.ts"
import { ProjectId } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { MayNotReadProject } from "./RouteErrors.ts"
import { strict } from "./Strict.ts"
import { answers } from "./Wire.ts"

/** Same as the query of a team's trail, for one project. */
export const ActivityQuery = strict(AuditQuery.pipe(Schema.omit("projectId")))
export type ActivityQuery = typeof ActivityQuery.Type

/** Activity of a project, for readers of its trail. */
export class ActivityApi extends HttpApiGroup.make("activity")
  .add(
    HttpApiEndpoint.get("list", "/projects/:projectId/activity")
      .setPath(Schema.Struct({ projectId: ProjectId }))
      .setUrlParams(ActivityQuery)
      .addSuccess(answers(200, AuditPage))
      .addError(MayNotReadProject)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Read the activity of a project",
          description:
            "Entries of the audit trail about a project, newest first. For owners, admins, and API tokens with audit:read. A credential that is restricted to environments reads only their entries.",
          response: { items: [], nextCursor: null }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Activity of a project." })) {}
