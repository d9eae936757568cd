/** Light, dark, or as the system has it: kept in a cookie, so that the page comes in its colours and never flashes. */
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

/** The answer, with the choice in the browser from now on. It holds nothing of the person, and no script reads it. */
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

/** Where a form of any page leads back to: the page that it was on, of this origin alone. */
export const pageBefore = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) =>
  (headers["referer"] ?? "").replace(/^https?:\/\/[^/]*/, "")
)
