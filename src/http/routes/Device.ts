import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ServerApi } from "#schema/ServerApi.ts"
import { PresentedDeviceCode } from "#schema/Authentication.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { DeviceEvent } from "#schema/DeviceApi.ts"
import { CliGrants } from "#src/credentials/CliGrants.ts"
import type { DeviceSignal } from "#src/credentials/DeviceRequests.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import { Shutdown } from "#src/http/engine/Shutdown.ts"

const encodeEvent = Schema.encodeSync(Schema.parseJson(DeviceEvent))
const frame = (signal: DeviceSignal): string =>
  signal === "heartbeat" ? ": heartbeat\n\n" : `event: ${signal.event}\ndata: ${encodeEvent(signal)}\n\n`

const eventStream = {
  contentType: "text/event-stream",
  headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
}

export const layer = Endpoints.group(ServerApi, "device", (handlers) =>
  Effect.gen(function* () {
    const device = yield* DeviceGrants
    const grants = yield* CliGrants
    const sessions = yield* Sessions
    const shutdown = yield* Shutdown
    return handlers
      .handle("start", ({ payload }) => device.start(payload))
      .handle("token", ({ payload }) => device.poll(payload.deviceCode))
      .handle("events", () =>
        Effect.gen(function* () {
          const signals = yield* device.events(yield* PresentedDeviceCode)
          // An open stream would keep the server from closing.
          const open = Stream.interruptWhenDeferred(signals, shutdown.deferred)
          return HttpServerResponse.stream(Stream.encodeText(Stream.map(open, frame)), eventStream)
        })
      )
      .handle("startManagement", ({ payload }) => device.startManagement(payload))
      .handle("endManagement", () =>
        Effect.as(
          Effect.flatMap(CurrentCaller, (caller) => sessions.end(caller)),
          { revoked: true }
        )
      )
      .handle("logout", () => Effect.as(grants.logout(), { revoked: true }))
  })
)
