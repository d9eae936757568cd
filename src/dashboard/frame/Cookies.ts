/** The cookies of pages that a visitor without a session may send forms from. */
import * as Effect from "effect/Effect"
import { AppConfig } from "#src/AppConfig.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import * as SessionCookie from "#src/http/authentication/SessionCookie.ts"
import { anyone, within } from "./Routes.ts"

export const cookie = Effect.zipWith(AppConfig, Authenticate, SessionCookie.make)

/** A form for a visitor without a session changes who the browser is: no other site may send it. */
export const sameSite = within(anyone, () =>
  Effect.as(
    Effect.flatMap(cookie, ({ refuseCrossSite }) => refuseCrossSite),
    {}
  )
)
