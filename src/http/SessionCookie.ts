/** The session cookie (decisions 2), and the routes that open a session without having one. */
import * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { CrossSiteRequest } from "#schema/Errors.ts"
import type { Settings } from "#src/AppConfig.ts"
import type { Authenticate } from "#src/credentials/Authenticate.ts"
import { sessionLife } from "#src/credentials/Liveness.ts"
import type { OpenedSession } from "#src/credentials/Sessions.ts"
import { isCrossSite, sessionCookie } from "./Authentication.ts"

export const make = ({ baseUrl }: Settings, authenticate: Authenticate) => {
  const name = sessionCookie(baseUrl)
  const { origin, protocol } = new URL(baseUrl)
  const attributes = { httpOnly: true, path: "/", sameSite: "lax", secure: protocol === "https:" } as const

  /** Setting up, signing in and accepting an invitation change who the browser is: no other site may do that. */
  const refuseCrossSite = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
    isCrossSite(request, origin) ? new CrossSiteRequest() : Effect.void
  )

  /** What the browser presents, good or not. */
  const presented = Effect.map(HttpServerRequest.HttpServerRequest, ({ cookies }) =>
    cookies[name] === undefined ? null : Redacted.make(cookies[name])
  )

  /** The person whom a living session names; null for anything else. */
  const signedIn = Effect.flatMap(presented, (text) =>
    text === null
      ? Effect.succeed(null)
      : authenticate.authenticate(Redacted.value(text)).pipe(
          Effect.map(({ caller }) => (caller.kind === "session" ? caller : null)),
          Effect.catchAll(() => Effect.succeed(null))
        )
  )

  const set = (session: OpenedSession) =>
    HttpApp.appendPreResponseHandler((_request, response) =>
      Effect.orDie(
        HttpServerResponse.setCookie(response, name, Redacted.value(session.text), {
          ...attributes,
          maxAge: sessionLife
        })
      )
    )

  /**
   * The browser forgets the session and what it kept of the pages. `"cookies"` is not said: it would sign the person out
   * of everything else under the same registrable domain.
   */
  const clear = HttpApp.appendPreResponseHandler((_request, response) =>
    Effect.orDie(HttpServerResponse.setCookie(response, name, "", { ...attributes, maxAge: 0 })).pipe(
      Effect.map(HttpServerResponse.setHeader("clear-site-data", '"cache", "storage"'))
    )
  )

  return { refuseCrossSite, presented, signedIn, set, clear } as const
}
