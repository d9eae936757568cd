/** All declared routes of a server: the contract, the session routes, and the authorization server. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AccessApi } from "./AccessApi.ts"
import { AccessDecisionsApi } from "./AccessRequestsApi.ts"
import { SecondPersonApi } from "./SecondPersonApi.ts"
import { ChangeDecisionsApi } from "./ChangeRequestsApi.ts"
import { ApiTokensApi } from "./ApiTokensApi.ts"
import { AuditApi } from "./AuditApi.ts"
import { DeviceApprovalApi, MyGrantsApi } from "./DeviceApi.ts"
import { OpenApiDocument } from "./DiscoveryApi.ts"
import { MachineRulesApi } from "./MachineIdentityApi.ts"
import { ManageProjectsApi } from "./ManageProjectsApi.ts"
import { operation } from "./Operation.ts"
import { IncidentWorkApi } from "./IncidentApi.ts"
import { PersonAccessApi } from "./PersonAccessApi.ts"
import { OAuthApi } from "./OAuthApi.ts"
import { SealingKeysApi } from "./SealedApi.ts"
import { SessionApi, SetupApi } from "./SessionApi.ts"
import { MySignInsApi, TeamSignInApi } from "./SignInApi.ts"
import { MembersApi, TeamsApi } from "./TeamsApi.ts"
import { WebhooksApi } from "./WebhooksApi.ts"
import { answers } from "./Wire.ts"
import { AnyRoute, Api } from "./Api.ts"

/** Description of the session routes. */
class DashboardDocumentApi extends HttpApiGroup.make("dashboardDocument")
  .add(
    HttpApiEndpoint.get("openApi", "/dashboard/openapi.json")
      .addSuccess(answers(200, OpenApiDocument))
      .annotateContext(
        operation({
          summary: "This description",
          description: "The OpenAPI 3.1.0 description of the session routes.",
          response: { openapi: "3.1.0", info: { title: "Ampoule dashboard", version: "1.0.0" }, paths: {} }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Description of the session routes." })) {}

/** Routes of a signed-in person. Described by `/dashboard/openapi.json`. */
export class DashboardApi extends HttpApi.make("dashboard")
  .add(DashboardDocumentApi)
  .add(SetupApi)
  .add(SessionApi)
  .add(TeamsApi)
  .add(MembersApi)
  .add(TeamSignInApi)
  .add(MySignInsApi)
  .add(PersonAccessApi)
  .add(IncidentWorkApi)
  .add(ManageProjectsApi)
  .add(AccessApi)
  .add(AccessDecisionsApi)
  .add(SecondPersonApi)
  .add(ChangeDecisionsApi)
  .add(ApiTokensApi)
  .add(MachineRulesApi)
  .add(WebhooksApi)
  .add(AuditApi)
  .add(DeviceApprovalApi)
  .add(MyGrantsApi)
  .add(SealingKeysApi)
  .addError(AnyRoute) {}

const nothing = (what: string) => {
  const check = Schema.filter((input: unknown): Schema.FilterOutput => {
    const members = typeof input === "object" && input !== null ? Object.keys(input) : []
    if (members.length > 0)
      return { path: members.slice(0, 1), message: `is not accepted: this route takes no ${what}` }
    return input === null || typeof input === "object" || `must be empty: this route takes no ${what}`
  })
  return Schema.make<unknown, { readonly [name: string]: string | undefined }>(Schema.Unknown.pipe(check).ast)
}
const noQuery = nothing("query")
const noBody = nothing("body")

const closedEndpoint = (endpoint: HttpApiEndpoint.HttpApiEndpoint.AnyWithProps) => {
  const queried = Option.isSome(endpoint.urlParamsSchema) ? endpoint : endpoint.setUrlParams(noQuery)
  return endpoint.method === "GET" || Option.isSome(endpoint.payloadSchema) ? queried : queried.setPayload(noBody)
}

/**
 * Refuses a query or a body on routes that declare none: an unknown parameter or member is a 400 everywhere
 * (docs/contract/errors.md). It applies here and not in the groups, where each client call would have to pass
 * `urlParams: {}`.
 * DELETE is included: no route takes members with it, and unknown ones must not be dropped silently. A GET body is
 * ignored, since it has no meaning (RFC 9110 9.3.1) and proxies may remove it.
 *
 * @effect/platform 0.97.2 cannot change the endpoints of a group. So each group is built again from its identifier,
 * annotations and endpoints, without middleware and errors of the group itself. Ours are declared at the endpoints
 * (`test/openapi.test.ts` checks that). Check this again at each upgrade.
 */
const closed = <A extends HttpApi.HttpApi.Any>(api: A): A => {
  // The types of the groups stay the same, because no handler sees the addition. HttpApi's types cannot express that.
  const open = api as unknown as HttpApi.HttpApi.AnyWithProps
  const groups = Object.values(open.groups).map((group: HttpApiGroup.HttpApiGroup.AnyWithProps) => {
    const empty = HttpApiGroup.make(group.identifier).annotateContext(group.annotations) as unknown as typeof group
    return Object.values(group.endpoints).reduce((to, endpoint) => to.add(closedEndpoint(endpoint)), empty)
  })
  return groups.reduce((to, group) => to.add(group), open) as unknown as A
}

/** All declared routes of a server. Handlers are built against this, documents and clients against the two above. */
export class ServerApi extends closed(HttpApi.make("server").addHttpApi(Api).addHttpApi(DashboardApi)).add(OAuthApi) {}
