/**
 * Pages for people, rendered on the server over the same use cases as the API. No page reads the database directly,
 * needs a script for its task, or loads a file from another origin.
 */
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { RouteNotFound } from "#schema/Errors.ts"
import * as AccessPages from "./requests/AccessPages.tsx"
import * as AccountPages from "./account/Pages.tsx"
import * as AddressPages from "./account/AddressPages.tsx"
import * as ActivityPages from "./secrets/ActivityPages.tsx"
import * as AuditEntryPages from "./audit/EntryPages.tsx"
import * as AuditPages from "./audit/Pages.tsx"
import * as AuthPages from "./account/AuthPages.tsx"
import * as ComparePages from "./secrets/ComparePages.tsx"
import * as ConnectPages from "./credentials/ConnectPages.tsx"
import * as DevicePages from "./credentials/DevicePages.tsx"
import * as EnvironmentPages from "./secrets/EnvironmentPages.tsx"
import * as ExposurePages from "./secrets/ExposurePages.tsx"
import * as FactorPages from "./account/FactorPages.tsx"
import * as Html from "./frame/Html.ts"
import * as IncidentPages from "./audit/IncidentPages.tsx"
import * as MatrixPages from "./secrets/MatrixPages.tsx"
import * as MemberPages from "./team/MemberPages.tsx"
import * as OpenIdPages from "./account/OpenIdPages.tsx"
import * as Pages from "./frame/Pages.ts"
import * as PasskeyPages from "./account/PasskeyPages.tsx"
import * as RecoveryPages from "./account/RecoveryPages.tsx"
import * as PersonPages from "./team/PersonPages.tsx"
import * as ProjectPages from "./home/ProjectPages.tsx"
import * as ProvidePages from "./secrets/ProvidePages.tsx"
import { type OpenNeeds, person } from "./frame/Routes.ts"
import * as RestorePages from "./secrets/RestorePages.tsx"
import * as RulePages from "./credentials/RulePages.tsx"
import * as SealingPages from "./secrets/SealingPages.tsx"
import * as SessionPages from "./account/SessionPages.tsx"
import * as SearchPages from "./home/SearchPages.tsx"
import * as SecretPages from "./secrets/Pages.tsx"
import * as SecretVersions from "./secrets/Versions.tsx"
import * as TeamAccessPages from "./team/AccessPages.tsx"
import * as TeamPages from "./team/Pages.tsx"
import * as TeamSignInPages from "./team/SignInPages.tsx"
import * as TokenPages from "./credentials/TokenPages.tsx"
import * as ViewPages from "./secrets/ViewPages.tsx"
import * as WaitingPages from "./requests/WaitingPages.tsx"
import * as WebhookPages from "./team/WebhookPages.tsx"

/** Routes of all pages. */
export const pages = HttpRouter.concatAll(
  AuthPages.routes,
  AccountPages.routes,
  AddressPages.routes,
  FactorPages.routes,
  PasskeyPages.routes,
  RecoveryPages.routes,
  OpenIdPages.routes,
  SessionPages.routes,
  ProjectPages.routes,
  MatrixPages.routes,
  ActivityPages.routes,
  SearchPages.routes,
  EnvironmentPages.routes,
  SecretPages.routes,
  RestorePages.routes,
  ExposurePages.routes,
  SecretVersions.routes,
  AccessPages.routes,
  WaitingPages.routes,
  ViewPages.routes,
  ComparePages.routes,
  SealingPages.routes,
  TokenPages.routes,
  MemberPages.routes,
  PersonPages.routes,
  IncidentPages.routes,
  TeamPages.routes,
  TeamAccessPages.routes,
  TeamSignInPages.routes,
  RulePages.routes,
  WebhookPages.routes,
  AuditPages.routes,
  AuditEntryPages.routes,
  ConnectPages.routes,
  DevicePages.routes,
  ProvidePages.routes
).pipe(
  // A wrong address below the pages gets a page too; routes of the API keep their envelope.
  HttpRouter.get(
    "/app/*",
    person(() => new RouteNotFound())
  )
)

export const layer = HttpApiBuilder.Router.use((router) =>
  Effect.gen(function* () {
    const services = yield* Effect.context<Exclude<OpenNeeds, HttpRouter.HttpRouter.Provided>>()
    const { assets } = yield* Pages.Pages
    const files = HttpRouter.empty.pipe(
      HttpRouter.get(assets.style.href as `/${string}`, Html.compressed(assets.style.response)),
      HttpRouter.get(assets.script.href as `/${string}`, Html.compressed(assets.script.response)),
      HttpRouter.get(assets.islands.href as `/${string}`, Html.compressed(assets.islands.response)),
      HttpRouter.get(assets.formats.href as `/${string}`, Html.compressed(assets.formats.response)),
      HttpRouter.get(assets.docsStyle.href as `/${string}`, Html.compressed(assets.docsStyle.response)),
      HttpRouter.get(assets.docs.href as `/${string}`, Html.compressed(assets.docs.response)),
      HttpRouter.get(assets.icon.href as `/${string}`, Effect.succeed(assets.icon.response))
    )
    yield* router.concat(HttpRouter.concatAll(files, HttpRouter.use(pages, Effect.provide(services))))
  })
).pipe(Layer.provide(Pages.layer))
