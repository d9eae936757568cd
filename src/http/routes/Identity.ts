import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { Identity } from "#src/credentials/Identity.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"

export const layer = Endpoints.group(ServerApi, "identity", (handlers) =>
  Effect.gen(function* () {
    const identity = yield* Identity
    const sessions = yield* Sessions
    const tokens = yield* Tokens
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    return handlers
      .handle("verify", () => identity.verify())
      .handle("revokeOwnToken", () =>
        Effect.gen(function* () {
          const caller = yield* CurrentCaller
          if (caller.kind === "session") {
            yield* sessions.end(caller)
            yield* cookie.clear
          } else {
            yield* tokens.revokeOwn(caller)
          }
          return { revoked: true }
        })
      )
      .handle("me", () => identity.me())
      .handle("meCli", () => identity.grant())
  })
)
