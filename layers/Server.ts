/** The server, as a table of contents: routes, services, and the choices it runs on. */
import type * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Layer from "effect/Layer"
import { ServerApi } from "#schema/Api.ts"
import * as Authentication from "#src/http/Authentication.ts"
import * as Capabilities from "#src/http/Capabilities.ts"
import * as Device from "#src/http/Device.ts"
import * as DeviceApproval from "#src/http/DeviceApproval.ts"
import * as Discovery from "#src/http/Discovery.ts"
import * as ErrorEnvelope from "#src/http/ErrorEnvelope.ts"
import * as MyGrants from "#src/http/MyGrants.ts"
import * as Secrets from "#src/http/Secrets.ts"
import * as Server from "#src/http/Server.ts"
import * as Shutdown from "#src/http/Shutdown.ts"
import * as Services from "./Services.ts"

/** One line per group of `schema/Api.ts`. */
const routes = Layer.mergeAll(
  Capabilities.layer,
  Device.layer,
  DeviceApproval.layer,
  Discovery.layer,
  MyGrants.layer,
  Secrets.layer
)

/** Everything but the choices: see `Services.ts` for those. */
export const layer = (options: Server.Options) =>
  Server.layer(options).pipe(
    Layer.provide(HttpApiBuilder.api(ServerApi) as unknown as Layer.Layer<HttpApi.Api>),
    Layer.provide(ErrorEnvelope.layer),
    Layer.provide(routes),
    Layer.provide(Authentication.layer),
    Layer.provide(Shutdown.layer),
    Layer.provideMerge(Services.layer)
  )
