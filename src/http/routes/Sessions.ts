import * as Effect from "effect/Effect"
import { ServerApi } from "#schema/ServerApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { EmailAddress } from "#src/credentials/EmailAddress.ts"
import { Profile } from "#src/credentials/Profile.ts"
import { Sessions } from "#src/credentials/Sessions.ts"
import * as Endpoints from "#src/http/engine/Endpoints.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"

export const layer = Endpoints.group(ServerApi, "session", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const profile = yield* Profile
    const emailAddress = yield* EmailAddress
    const cookie = SessionCookie.make(yield* AppConfig, yield* Authenticate)

    return handlers
      .handle("signIn", ({ payload }) =>
        Effect.gen(function* () {
          yield* cookie.refuseCrossSite
          const { session, teams, user } = yield* sessions.signIn(payload, yield* cookie.presented)
          yield* cookie.set(session)
          return { user, teams }
        })
      )
      .handle("signOut", () =>
        Effect.gen(function* () {
          yield* sessions.end(yield* CurrentCaller)
          yield* cookie.clear
          return { deleted: true }
        })
      )
      .handle("changeMe", ({ payload }) => profile.change(payload))
      .handle("changeEmail", ({ payload }) =>
        Effect.gen(function* () {
          const { session, user } = yield* emailAddress.change(payload, yield* cookie.presented)
          yield* cookie.set(session)
          return user
        })
      )
      .handle("changePassword", ({ payload }) =>
        Effect.gen(function* () {
          const { ended, session } = yield* sessions.changePassword(yield* CurrentCaller, payload)
          yield* cookie.set(session)
          return { changed: true, waysIn: ended }
        })
      )
      .handle("resetPassword", ({ payload }) =>
        Effect.gen(function* () {
          yield* cookie.refuseCrossSite
          const { ended } = yield* sessions.resetPassword(payload)
          return { changed: true, waysIn: ended }
        })
      )
  })
)
