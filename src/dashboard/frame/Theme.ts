/**
 * Theme: light, dark, or the system's. A cookie stores it, so that pages arrive in the right colours and never flash.
 */
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { AppConfig } from "#src/AppConfig.ts"
import type { Theme } from "./Visit.ts"

const name = "ampoule_theme"
const aYear = 31_536_000

export const themeOf = (text: string | undefined): Theme | undefined =>
  text === "light" || text === "dark" ? text : undefined
export const themeIn = (cookies: Readonly<Record<string, string | undefined>>) => themeOf(cookies[name])

/** Stores the choice in the browser. The cookie holds no personal data, and no script can read it. */
export const remember = (answer: HttpServerResponse.HttpServerResponse, theme: Theme | undefined) =>
  Effect.flatMap(AppConfig, ({ baseUrl }) =>
    Effect.orDie(
      HttpServerResponse.setCookie(answer, name, theme ?? "", {
        path: "/",
        maxAge: theme === undefined ? 0 : aYear * 1_000,
        httpOnly: true,
        sameSite: "lax",
        secure: baseUrl.startsWith("https:")
      })
    )
  )

/** Page of the sent form, by its referrer, without the origin. */
export const pageBefore = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) =>
  (headers["referer"] ?? "").replace(/^https?:\/\/[^/]*/, "")
)
