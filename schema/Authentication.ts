/**
 * Credentials that a route accepts (docs/contract/endpoints.md). One tag per set of credentials;
 * `src/http/authentication/Authentication.ts` implements them.
 */
import * as HttpApiMiddleware from "@effect/platform/HttpApiMiddleware"
import * as Context from "effect/Context"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { CurrentCaller } from "./Caller.ts"
import * as Errors from "./Errors.ts"
import type { CredentialKind } from "./Scopes.ts"

const failure = Schema.Union(
  Errors.Unauthenticated,
  Errors.CredentialInvalid,
  Errors.CredentialExpired,
  Errors.CredentialRevoked,
  Errors.RateLimited,
  Errors.CredentialKindNotAccepted,
  Errors.CrossSiteRequest,
  Errors.ValidationFailed
)
const options = { failure, provides: CurrentCaller } as const
/** Additional failures of sessions: a missing second factor, and one that must be confirmed again. */
const withSessions = {
  ...options,
  failure: Schema.Union(...failure.members, Errors.SecondFactorMissing, Errors.StepUpRequired)
} as const

/** API token, CLI grant or session: most routes. */
export class AnyCredential extends HttpApiMiddleware.Tag<AnyCredential>()("AnyCredential", withSessions) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["api_token", "cli_grant", "session"]
}
/** CLI grant or session, not an API token: `GET /me`. */
export class PersonCredential extends HttpApiMiddleware.Tag<PersonCredential>()("PersonCredential", withSessions) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["cli_grant", "session"]
}
/** CLI grant only: `GET /me/cli`, `POST /auth/cli/logout`. */
export class GrantCredential extends HttpApiMiddleware.Tag<GrantCredential>()("GrantCredential", options) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["cli_grant"]
}
/** API token or session; also a revoked token: `DELETE /me/token` (docs/contract/credentials.md). */
export class OwnTokenCredential extends HttpApiMiddleware.Tag<OwnTokenCredential>()(
  "OwnTokenCredential",
  withSessions
) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["api_token", "session"]
}
/** Routes for people: a dashboard session, or a management session of a command line (docs/contract/management.md). */
export class ManagingCredential extends HttpApiMiddleware.Tag<ManagingCredential>()(
  "ManagingCredential",
  withSessions
) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["session", "management"]
}
/** A management session only: `DELETE /auth/cli/management`. */
export class ManagementCredential extends HttpApiMiddleware.Tag<ManagementCredential>()(
  "ManagementCredential",
  options
) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["management"]
}
/** Dashboard session only (docs/contract/session-routes.md). */
export class SessionCredential extends HttpApiMiddleware.Tag<SessionCredential>()("SessionCredential", withSessions) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["session"]
}

/**
 * Dashboard session only, including one that must add a second factor first. For signing out, the password, and the
 * pages that lead to the factor.
 */
export class OwnSessionCredential extends HttpApiMiddleware.Tag<OwnSessionCredential>()(
  "OwnSessionCredential",
  options
) {
  static readonly kinds: ReadonlyArray<CredentialKind> = ["session"]
}

/** Device code of `Authorization: Bearer` on the events route; the handler looks it up. */
export class PresentedDeviceCode extends Context.Tag("schema/PresentedDeviceCode")<
  PresentedDeviceCode,
  Redacted.Redacted
>() {}
export class DeviceCodeCredential extends HttpApiMiddleware.Tag<DeviceCodeCredential>()("DeviceCodeCredential", {
  failure: Schema.Union(
    Errors.Unauthenticated,
    Errors.CredentialInvalid,
    Errors.CredentialExpired,
    Errors.CredentialRevoked,
    Errors.RateLimited,
    Errors.CredentialKindNotAccepted,
    Errors.ValidationFailed
  ),
  provides: PresentedDeviceCode
}) {
  static readonly kinds: ReadonlyArray<"device_code"> = ["device_code"]
}
