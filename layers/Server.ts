/** The server, as a table of contents: routes, services, and the choices it runs on. */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/ServerApi.ts"
import * as Dashboard from "#src/dashboard/Dashboard.ts"
import * as Incidents from "#src/http/Incidents.ts"
import * as PersonAccess from "#src/http/PersonAccess.ts"
import * as AccessGrants from "#src/http/AccessGrants.ts"
import * as AccessRequests from "#src/http/AccessRequests.ts"
import * as ChangeRequests from "#src/http/ChangeRequests.ts"
import * as MySessions from "#src/http/MySessions.ts"
import * as ApiTokens from "#src/http/ApiTokens.ts"
import * as AuditTrail from "#src/http/AuditTrail.ts"
import * as Authentication from "#src/http/Authentication.ts"
import * as Capabilities from "#src/http/Capabilities.ts"
import * as Device from "#src/http/Device.ts"
import * as DeviceApproval from "#src/http/DeviceApproval.ts"
import * as Discovery from "#src/http/Discovery.ts"
import * as Activity from "#src/http/Activity.ts"
import * as Exposure from "#src/http/Exposure.ts"
import * as Identity from "#src/http/Identity.ts"
import * as LeakReports from "#src/http/LeakReports.ts"
import * as MachineIdentity from "#src/http/MachineIdentity.ts"
import * as HttpSignIn from "#src/http/SignIn.ts"
import * as ManageProjects from "#src/http/ManageProjects.ts"
import * as Members from "#src/http/Members.ts"
import * as Metadata from "#src/http/Metadata.ts"
import * as MyGrants from "#src/http/MyGrants.ts"
import * as OAuth from "#src/http/OAuth.ts"
import * as Projects from "#src/http/Projects.ts"
import * as Sealed from "#src/http/Sealed.ts"
import * as SealingKeys from "#src/http/SealingKeys.ts"
import * as Secrets from "#src/http/Secrets.ts"
import * as Server from "#src/http/Server.ts"
import * as Sessions from "#src/http/Sessions.ts"
import * as Setup from "#src/http/Setup.ts"
import * as Shutdown from "#src/http/Shutdown.ts"
import * as Teams from "#src/http/Teams.ts"
import * as TokenExchange from "#src/http/TokenExchange.ts"
import * as Webhooks from "#src/http/Webhooks.ts"
import * as Mcp from "#src/mcp/Http.ts"
import * as Services from "./Services.ts"

/** One line per group of `schema/Api.ts`. */
const routes = Layer.mergeAll(
  AccessGrants.layer,
  PersonAccess.layer,
  Incidents.layer,
  Incidents.workLayer,
  AccessRequests.layer,
  ChangeRequests.layer,
  MySessions.layer,
  ApiTokens.layer,
  AuditTrail.layer,
  Capabilities.layer,
  Device.layer,
  DeviceApproval.layer,
  Discovery.layer,
  Activity.layer,
  Exposure.layer,
  Identity.layer,
  LeakReports.layer,
  MachineIdentity.layer,
  HttpSignIn.teamLayer,
  HttpSignIn.ownLayer,
  ManageProjects.layer,
  Members.layer,
  Metadata.layer,
  MyGrants.layer,
  OAuth.layer,
  Projects.layer,
  Sealed.layer,
  SealingKeys.layer,
  Secrets.layer,
  Sessions.layer,
  Setup.layer,
  Teams.layer,
  Webhooks.layer
)

/** Everything but the choices: see `Services.ts` for those. */
export const layer = (options: Server.Options) =>
  Server.layer(options).pipe(
    Layer.provide(HttpApiBuilder.api(ServerApi)),
    Layer.provide([routes, Dashboard.layer, Mcp.layer, TokenExchange.layer]),
    Layer.provide(Authentication.layer),
    Layer.provide(Shutdown.layer),
    Layer.provideMerge(Services.layer)
  )
