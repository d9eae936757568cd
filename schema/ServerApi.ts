/** What one server serves: the contract, the session routes, and the authorization server. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AccessApi } from "./AccessApi.ts"
import { AccessDecisionsApi } from "./AccessRequestsApi.ts"
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

/** The description of the session routes. */
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

/** What a signed-in person may call. Described by `/dashboard/openapi.json`. */
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
  const check = Schema.filter((given: unknown): Schema.FilterOutput => {
    const members = typeof given === "object" && given !== null ? Object.keys(given) : []
    if (members.length > 0)
      return { path: members.slice(0, 1), message: `is not accepted: this route takes no ${what}` }
    return given === null || typeof given === "object" || `must be empty: this route takes no ${what}`
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
 * A route that declares no query, or no body, refuses one: an unknown parameter or member is a 400 everywhere
 * (docs/contract/errors.md). It is said here and not in the groups, where it would make every client call pass
 * `urlParams: {}`.
 * DELETE is no exception: no route takes members with it, and what a client meant by them must not be lost in silence.
 * GET is: what comes with it has no meaning (RFC 9110 9.3.1) and may be gone before it is here, so that nobody reads
 * it.
 *
 * @effect/platform 0.97.2 has no operation that changes the endpoints of a group, so each group is built again from its
 * identifier, annotations and endpoints. Middleware and errors of a group itself would be lost; ours are declared at
 * the
 * endpoints (`test/openapi.test.ts` holds that). Look at it again with each upgrade.
 */
const closed = <A extends HttpApi.HttpApi.Any>(api: A): A => {
  // The types of the groups stay: what is added here is never seen by a handler, which HttpApi's types cannot say.
  const open = api as unknown as HttpApi.HttpApi.AnyWithProps
  const groups = Object.values(open.groups).map((group: HttpApiGroup.HttpApiGroup.AnyWithProps) => {
    const empty = HttpApiGroup.make(group.identifier).annotateContext(group.annotations) as unknown as typeof group
    return Object.values(group.endpoints).reduce((to, endpoint) => to.add(closedEndpoint(endpoint)), empty)
  })
  return groups.reduce((to, group) => to.add(group), open) as unknown as A
}

/** What one server serves: handlers are built against this, documents and clients against the two above. */
export class ServerApi extends closed(HttpApi.make("server").addHttpApi(Api).addHttpApi(DashboardApi)).add(OAuthApi) {}
