/** Cookies of the dashboard: the session, the device, the steps of a sign-in, and the flow at an issuer. */
import * as Cookies from "@effect/platform/Cookies"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { CrossSiteRequest } from "#schema/Errors.ts"
import type { Settings } from "#src/AppConfig.ts"
import { deviceLife, type OpenedSession } from "#src/credentials/Accounts.ts"
import type { Authenticate } from "#src/credentials/Authenticate.ts"
import { sessionLife } from "#src/credentials/Liveness.ts"
import { ceremonyMillis } from "#src/credentials/PasskeyProof.ts"
import type { PresentedCookies } from "#src/credentials/Sessions.ts"
import { stepLife } from "#src/credentials/SignInSteps.ts"
import { flowLife } from "#src/openid/Flow.ts"
import { deviceCookie, flowCookie, isCrossSite, passkeyCookie, sessionCookie, stepCookie } from "./Authentication.ts"
import { CurrentExchange } from "#src/http/engine/RequestContext.ts"

export const make = ({ baseUrl }: Settings, authenticate: Authenticate) => {
  const session = sessionCookie(baseUrl)
  const device = deviceCookie(baseUrl)
  const step = stepCookie(baseUrl)
  const passkey = passkeyCookie(baseUrl)
  const flow = flowCookie(baseUrl)
  const { origin, protocol } = new URL(baseUrl)
  const attributes = { httpOnly: true, path: "/", sameSite: "lax", secure: protocol === "https:" } as const

  /** Setup, sign-in and accepting an invitation change the browser's identity, which no other site may do. */
  const refuseCrossSite = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
    isCrossSite(request, origin) ? new CrossSiteRequest() : Effect.void
  )

  /** Cookies of the request, valid or not. */
  const presented = Effect.map(HttpServerRequest.HttpServerRequest, ({ cookies }): PresentedCookies => {
    const read = (name: string) => (cookies[name] === undefined ? null : Redacted.make(cookies[name]))
    return { session: read(session), device: read(device), step: read(step), passkey: read(passkey) }
  })

  /** The caller of a live session; null otherwise. */
  const signedIn = Effect.flatMap(presented, ({ session: text }) =>
    text === null
      ? Effect.succeed(null)
      : authenticate.authenticate(Redacted.value(text)).pipe(
          Effect.map(({ caller }) => (caller.kind === "session" ? caller : null)),
          Effect.catchAll(() => Effect.succeed(null))
        )
  )

  const line = (name: string, value: string, maxAge: number) =>
    Cookies.serializeCookie(Cookies.unsafeMakeCookie(name, value, { ...attributes, maxAge }))

  const set = (texts: OpenedSession) =>
    Effect.map(CurrentExchange, ({ cookies }) => {
      cookies.push(
        line(session, Redacted.value(texts.text), sessionLife),
        line(device, Redacted.value(texts.device), deviceLife)
      )
    })

  /**
   * Makes the browser forget the session and its stored pages; the device cookie stays. `Clear-Site-Data` leaves out
   * `"cookies"`, which would end sessions of other services under the same registrable domain.
   */
  const clear = Effect.map(CurrentExchange, (exchange) => {
    exchange.cookies.push(line(session, "", 0))
    exchange.forgets = true
  })

  /** Links the password to the second factor that follows; grants no access alone. */
  const setStep = (text: Redacted.Redacted) =>
    Effect.map(CurrentExchange, ({ cookies }) => {
      cookies.push(line(step, Redacted.value(text), stepLife))
    })
  const clearStep = Effect.map(CurrentExchange, ({ cookies }) => {
    cookies.push(line(step, "", 0))
  })

  /** Links a passkey's response to its challenge; grants no access alone. */
  const setPasskey = (text: Redacted.Redacted) =>
    Effect.map(CurrentExchange, ({ cookies }) => {
      cookies.push(line(passkey, Redacted.value(text), ceremonyMillis))
    })

  /** Links an issuer's callback to the browser that began the sign-in. */
  const flowText = Effect.map(HttpServerRequest.HttpServerRequest, ({ cookies }) =>
    cookies[flow] === undefined ? null : Redacted.make(cookies[flow])
  )
  const setFlow = (text: Redacted.Redacted) =>
    Effect.map(CurrentExchange, ({ cookies }) => {
      cookies.push(line(flow, Redacted.value(text), flowLife))
    })
  const clearFlow = Effect.map(CurrentExchange, ({ cookies }) => {
    cookies.push(line(flow, "", 0))
  })

  const steps = { setStep, clearStep, setPasskey, flowText, setFlow, clearFlow } as const
  return { refuseCrossSite, presented, signedIn, set, ...steps, clear } as const
}
