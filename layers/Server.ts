/** The server as a table of contents: routes, services, and the chosen backends. */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/ServerApi.ts"
import * as Dashboard from "#src/dashboard/Dashboard.ts"
import * as Docs from "#src/docs/Docs.ts"
import * as Incidents from "#src/http/routes/Incidents.ts"
import * as PersonAccess from "#src/http/routes/PersonAccess.ts"
import * as AccessGrants from "#src/http/routes/AccessGrants.ts"
import * as AccessRequests from "#src/http/routes/AccessRequests.ts"
import * as SecondPerson from "#src/http/routes/SecondPerson.ts"
import * as ChangeRequests from "#src/http/routes/ChangeRequests.ts"
import * as MySessions from "#src/http/routes/MySessions.ts"
import * as ApiTokens from "#src/http/routes/ApiTokens.ts"
import * as AuditTrail from "#src/http/routes/AuditTrail.ts"
import * as Authentication from "#src/http/authentication/Authentication.ts"
import * as Capabilities from "#src/http/routes/Capabilities.ts"
import * as Device from "#src/http/routes/Device.ts"
import * as DeviceApproval from "#src/http/routes/DeviceApproval.ts"
import * as Discovery from "#src/http/routes/Discovery.ts"
import * as Activity from "#src/http/routes/Activity.ts"
import * as Exposure from "#src/http/routes/Exposure.ts"
import * as Identity from "#src/http/routes/Identity.ts"
import * as LeakReports from "#src/http/routes/LeakReports.ts"
import * as MachineIdentity from "#src/http/routes/MachineIdentity.ts"
import * as HttpSignIn from "#src/http/routes/SignIn.ts"
import * as ManageProjects from "#src/http/routes/ManageProjects.ts"
import * as Members from "#src/http/routes/Members.ts"
import * as Metadata from "#src/http/routes/Metadata.ts"
import * as MyGrants from "#src/http/routes/MyGrants.ts"
import * as OAuth from "#src/http/routes/OAuth.ts"
import * as Projects from "#src/http/routes/Projects.ts"
import * as Sealed from "#src/http/routes/Sealed.ts"
import * as SealingKeys from "#src/http/routes/SealingKeys.ts"
import * as Secrets from "#src/http/routes/Secrets.ts"
import * as Server from "#src/http/engine/Server.ts"
import * as Sessions from "#src/http/routes/Sessions.ts"
import * as Setup from "#src/http/routes/Setup.ts"
import * as Shutdown from "#src/http/engine/Shutdown.ts"
import * as Teams from "#src/http/routes/Teams.ts"
import * as TokenExchange from "#src/http/routes/TokenExchange.ts"
import * as Webhooks from "#src/http/routes/Webhooks.ts"
import * as Mcp from "#src/mcp/Http.ts"
import * as Services from "./Services.ts"

/** One line per group of `schema/Api.ts`. */
const routes = Layer.mergeAll(
  AccessGrants.layer,
  PersonAccess.layer,
  Incidents.layer,
  Incidents.workLayer,
  AccessRequests.layer,
  SecondPerson.layer,
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

/** All layers except the backends, which `Services.ts` lists. */
export const layer = (options: Server.Options) =>
  Server.layer(options).pipe(
    Layer.provide(HttpApiBuilder.api(ServerApi)),
    Layer.provide([routes, Dashboard.layer, Docs.layer, Mcp.layer, TokenExchange.layer]),
    Layer.provide(Authentication.layer),
    Layer.provide(Shutdown.layer),
    Layer.provideMerge(Services.layer)
  )
