import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"

export const layer = Endpoints.group(ServerApi, "deviceApproval", (handlers) =>
  Effect.map(DeviceGrants, (device) =>
    handlers
      .handle("show", ({ path }) => device.show(path.userCode))
      .handle("approve", ({ path, payload }) => device.approve(path.userCode, payload))
      .handle("approveManagement", ({ path }) => device.approveManagement(path.userCode))
      .handle("deny", ({ path }) => device.deny(path.userCode))
  )
)
