import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Setup } from "#src/credentials/Setup.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"

export const layer = Endpoints.group(ServerApi, "setup", (handlers) =>
  Effect.gen(function* () {
    const setup = yield* Setup
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    return handlers.handle("complete", ({ payload }) =>
      Effect.gen(function* () {
        yield* cookie.refuseCrossSite
        const { session, team, user } = yield* setup.complete(payload)
        yield* cookie.set(session)
        return { user, team }
      })
    )
  })
)
