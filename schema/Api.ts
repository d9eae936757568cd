/** The contract: routes for API tokens, CLI grants and agents. Routes that are missing here do not exist yet. */
import * as HttpApi from "@effect/platform/HttpApi"
import * as Schema from "effect/Schema"
import { AccessRequestsApi } from "./AccessRequestsApi.ts"
import { ChangeRequestsApi } from "./ChangeRequestsApi.ts"
import { ActivityApi } from "./ActivityApi.ts"
import { CapabilitiesApi } from "./CapabilitiesApi.ts"
import { DeviceApi } from "./DeviceApi.ts"
import { DiscoveryApi, MetadataApi } from "./DiscoveryApi.ts"
import { EnvironmentAccessApi } from "./EnvironmentAccessApi.ts"
import * as Errors from "./Errors.ts"
import { ExposureApi } from "./ExposureApi.ts"
import { IncidentsApi } from "./IncidentApi.ts"
import { IdentityApi } from "./IdentityApi.ts"
import { LeakReportsApi } from "./LeakReportsApi.ts"
import { MySessionsApi } from "./MySessionsApi.ts"
import { ProjectsApi } from "./ProjectsApi.ts"
import { SealedApi } from "./SealedApi.ts"
import { SecretsApi } from "./SecretsApi.ts"

/**
 * Errors of any route (docs/contract/endpoints.md: "failure statuses for every operation include 400, 404, 429 and
 * 500").
 */
export const AnyRoute = Schema.Union(
  Errors.ValidationFailed,
  Errors.RouteNotFound,
  Errors.RateLimited,
  Errors.ServerBusy,
  Errors.InternalError,
  Errors.DependencyUnavailable
)

/** Version of the contract (docs/contract/README.md). */
export const version = "1.0.0"

/** `/mcp` is served beside the HttpApi, so the document adds it. */
export const servesMcp = true

/** Routes for API tokens, CLI grants and agents. Described by `/openapi.json`. */
export class Api extends HttpApi.make("ampoule")
  .add(DiscoveryApi)
  .add(IdentityApi)
  .add(ProjectsApi)
  .add(SecretsApi)
  .add(ExposureApi)
  .add(ActivityApi)
  .add(CapabilitiesApi)
  .add(DeviceApi)
  .add(SealedApi)
  .add(EnvironmentAccessApi)
  .add(AccessRequestsApi)
  .add(ChangeRequestsApi)
  .add(IncidentsApi)
  .add(LeakReportsApi)
  .add(MySessionsApi)
  .add(MetadataApi)
  .addError(AnyRoute) {}
