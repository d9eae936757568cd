/**
 * The pages for people (decisions 9): rendered here, over the same services and the same permits as the API. No page
 * reads the database by itself, none needs script to do its work, and none loads anything from elsewhere.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { RouteNotFound } from "#schema/Errors.ts"
import * as AuditPages from "./AuditPages.tsx"
import * as ConnectPages from "./ConnectPages.tsx"
import * as DevicePages from "./DevicePages.tsx"
import * as Doors from "./Doors.tsx"
import * as EnvironmentPages from "./EnvironmentPages.tsx"
import * as MemberPages from "./MemberPages.tsx"
import * as Pages from "./Pages.ts"
import * as ProjectPages from "./ProjectPages.tsx"
import * as ProvidePages from "./ProvidePages.tsx"
import type { OpenNeeds } from "./Routes.ts"
import * as RulePages from "./RulePages.tsx"
import * as SealingPages from "./SealingPages.tsx"
import * as SecretPages from "./SecretPages.tsx"
import * as TeamPages from "./TeamPages.tsx"
import * as TokenPages from "./TokenPages.tsx"
import * as ViewPages from "./ViewPages.tsx"
import * as WebhookPages from "./WebhookPages.tsx"

export const layer = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const pages = yield* Pages.Pages
    const { script, style } = pages.assets
    const found = yield* Effect.all([
      Doors.routes(pages),
      ProjectPages.routes(pages),
      EnvironmentPages.routes(pages),
      SecretPages.routes(pages),
      ViewPages.routes(pages),
      SealingPages.routes(pages),
      TokenPages.routes(pages),
      MemberPages.routes(pages),
      TeamPages.routes(pages),
      RulePages.routes(pages),
      AuditPages.routes(pages),
      DevicePages.routes(pages),
      ConnectPages.routes(pages),
      ProvidePages.routes(pages)
    ])
    const own = HttpRouter.empty.pipe(
      HttpRouter.get(style.href as `/${string}`, Effect.succeed(style.response)),
      HttpRouter.get(script.href as `/${string}`, Effect.succeed(script.response)),
      // Below the pages a wrong address is a page as well; the API's own routes keep their envelope.
      HttpRouter.get(
        "/app/*",
        pages.person(() => new RouteNotFound())
      )
    )
    const context = yield* Effect.context<Exclude<OpenNeeds, HttpRouter.HttpRouter.Provided>>()
    const routes = HttpRouter.use(WebhookPages.routes, Effect.provide(context))
    yield* router.concat(HttpRouter.concatAll(own, routes, ...found))
  })
).pipe(Layer.provide(Pages.layer))
