/** Cookies of forms that a visitor without a session may send. */
import * as Effect from "effect/Effect"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"
import { anyone, within } from "./Routes.ts"

export const cookie = Effect.zipWith(AppConfig, Authenticate, SessionCookie.make)

/** Refuses forms from other sites, because forms without a session change the browser's identity. */
export const sameSite = within(anyone, () =>
  Effect.as(
    Effect.flatMap(cookie, ({ refuseCrossSite }) => refuseCrossSite),
    {}
  )
)
