/** Device authorization (RFC 8628): start, poll, the event stream, and a person's decision. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { Audit } from "#src/access/Audit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { EventBus } from "#src/events/EventBus.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import { CliGrants } from "./CliGrants.ts"
import { approve, deny, progress, show } from "./DeviceApproval.ts"
import { poll } from "./DeviceDelivery.ts"
import { events, openStreams } from "./DeviceEvents.ts"
import { live, purge, start } from "./DeviceRequests.ts"

export class DeviceGrants extends Effect.Service<DeviceGrants>()("credentials/DeviceGrants", {
  scoped: Effect.gen(function* () {
    const needs = {
      sql: yield* SqlClient.SqlClient,
      crypto: yield* Crypto,
      audit: yield* Audit,
      bus: yield* EventBus,
      limiter: yield* RateLimiter,
      grants: yield* CliGrants,
      baseUrl: (yield* AppConfig).baseUrl,
      streams: openStreams()
    }
    // A failed purge is tried again an hour later; it never fails a request.
    yield* Housekeeping.every("1 hour", purge(needs))

    return {
      ...methods(needs, { start, poll, live, events, show, progress, approve, deny }),
      purge: Effect.orDie(purge(needs))
    } as const
  })
}) {}
