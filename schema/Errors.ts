/**
 * All error codes of the service, one line each (docs/contract/errors.md). For a new one, add a line here, then
 * `.addError` on the routes that return it.
 */
import * as Schema from "effect/Schema"
import { ApiError } from "./ApiError.ts"

const integer = (description?: string) =>
  Schema.Number.annotations({ jsonSchema: { type: "integer", ...(description === undefined ? {} : { description }) } })
const keys = (description: string) => Schema.Array(Schema.String).annotations({ description })

// 400
export class ValidationFailed extends ApiError<ValidationFailed>()(
  "VALIDATION_FAILED",
  400,
  "The request is not valid."
) {}
export class TemplateInvalid extends ApiError<TemplateInvalid>()(
  "TEMPLATE_INVALID",
  400,
  "The template has a ${ that is neither ${KEY} nor $${."
) {}
export class TemplateReferenceMissing extends ApiError<TemplateReferenceMissing>()(
  "TEMPLATE_REFERENCE_MISSING",
  400,
  "The template refers to a key that this environment does not have.",
  { references: keys("the missing keys.") }
) {}
export class TemplateTooDeep extends ApiError<TemplateTooDeep>()(
  "TEMPLATE_TOO_DEEP",
  400,
  "A path of references has more than 10 steps."
) {}
export class ValueTooLarge extends ApiError<ValueTooLarge>()(
  "VALUE_TOO_LARGE",
  400,
  "An expanded value would have more than 65536 characters."
) {}
export class SealedValueInvalid extends ApiError<SealedValueInvalid>()(
  "SEALED_VALUE_INVALID",
  400,
  "A sealed value was altered or does not belong here. Nothing was opened."
) {}
export class SealingKeyExpired extends ApiError<SealingKeyExpired>()(
  "SEALING_KEY_EXPIRED",
  400,
  "The sealing key was retired. Seal the file again with the active key."
) {}

// 401
export class Unauthenticated extends ApiError<Unauthenticated>()(
  "UNAUTHENTICATED",
  401,
  "This route needs a credential."
) {}
export class CredentialInvalid extends ApiError<CredentialInvalid>()(
  "CREDENTIAL_INVALID",
  401,
  "The credential is not known."
) {}
export class CredentialExpired extends ApiError<CredentialExpired>()(
  "CREDENTIAL_EXPIRED",
  401,
  "The credential has expired."
) {}
export class CredentialRevoked extends ApiError<CredentialRevoked>()(
  "CREDENTIAL_REVOKED",
  401,
  "The credential was revoked."
) {}
export class SignInFailed extends ApiError<SignInFailed>()(
  "SIGN_IN_FAILED",
  401,
  "The e-mail address or the password is wrong."
) {}
export class SecondFactorRequired extends ApiError<SecondFactorRequired>()(
  "SECOND_FACTOR_REQUIRED",
  401,
  "The password is right, and this account has a second factor: send its code with the password."
) {}
export class SecondFactorFailed extends ApiError<SecondFactorFailed>()(
  "SECOND_FACTOR_FAILED",
  401,
  "The code is wrong, or it was used before."
) {}
export class PasskeyCopied extends ApiError<PasskeyCopied>()(
  "PASSKEY_COPIED",
  401,
  "This passkey may be a copy: its counter is not ahead of the one of its last use. Sign in another way, and remove it."
) {}

// 403
export class SecondFactorMissing extends ApiError<SecondFactorMissing>()(
  "SECOND_FACTOR_MISSING",
  403,
  "A team of yours requires a second factor. Add one on the dashboard."
) {}
export class StepUpRequired extends ApiError<StepUpRequired>()(
  "STEP_UP_REQUIRED",
  403,
  "Confirm your identity on the dashboard: the last confirmation is too old for this."
) {}
export class Forbidden extends ApiError<Forbidden>()("FORBIDDEN", 403, "The role in this team does not allow this.") {}
export class ScopeMissing extends ApiError<ScopeMissing>()(
  "SCOPE_MISSING",
  403,
  "The credential lacks the scope that this needs.",
  { requiredScope: Schema.String }
) {}
export class ApiTokenReadOnly extends ApiError<ApiTokenReadOnly>()(
  "API_TOKEN_READ_ONLY",
  403,
  "The API token is read-only."
) {}
export class ApiTokenNotScopedToProtectedEnvironment extends ApiError<ApiTokenNotScopedToProtectedEnvironment>()(
  "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT",
  403,
  "This environment is protected, and the API token was not created for it by name."
) {}
export class RunNotPlanned extends ApiError<RunNotPlanned>()(
  "RUN_NOT_PLANNED",
  403,
  "No plan allows this read. A plan works once, within 15 minutes, for its keys and environment. Plan the run again."
) {}
export class EnvironmentNotGranted extends ApiError<EnvironmentNotGranted>()(
  "ENVIRONMENT_NOT_GRANTED",
  403,
  "This environment is read by those who were granted it. Ask for access, or ask an owner or admin."
) {}
export class CredentialKindNotAccepted extends ApiError<CredentialKindNotAccepted>()(
  "CREDENTIAL_KIND_NOT_ACCEPTED",
  403,
  "This route does not accept this kind of credential."
) {}
export class CrossSiteRequest extends ApiError<CrossSiteRequest>()(
  "CROSS_SITE_REQUEST",
  403,
  "The request came from another site."
) {}
export class PlanLimitReached extends ApiError<PlanLimitReached>()(
  "PLAN_LIMIT_REACHED",
  403,
  "A limit of the plan or of the service is reached."
) {}

// 404
export class RouteNotFound extends ApiError<RouteNotFound>()("ROUTE_NOT_FOUND", 404, "No such route.") {}
export class TeamNotFound extends ApiError<TeamNotFound>()("TEAM_NOT_FOUND", 404, "No such team.") {}
export class ProjectNotFound extends ApiError<ProjectNotFound>()("PROJECT_NOT_FOUND", 404, "No such project.") {}
export class EnvironmentNotFound extends ApiError<EnvironmentNotFound>()(
  "ENVIRONMENT_NOT_FOUND",
  404,
  "No such environment."
) {}
export class SecretNotFound extends ApiError<SecretNotFound>()("SECRET_NOT_FOUND", 404, "No such secret.") {}
export class SecretVersionNotFound extends ApiError<SecretVersionNotFound>()(
  "SECRET_VERSION_NOT_FOUND",
  404,
  "The secret has no such version."
) {}
export class SealingKeyNotFound extends ApiError<SealingKeyNotFound>()(
  "SEALING_KEY_NOT_FOUND",
  404,
  "This environment has no such sealing key."
) {}
export class TokenNotFound extends ApiError<TokenNotFound>()("TOKEN_NOT_FOUND", 404, "No such API token.") {}
export class GrantNotFound extends ApiError<GrantNotFound>()("GRANT_NOT_FOUND", 404, "No such grant.") {}
export class MemberNotFound extends ApiError<MemberNotFound>()("MEMBER_NOT_FOUND", 404, "No such member.") {}

// 409
export class SecretAlreadyExists extends ApiError<SecretAlreadyExists>()(
  "SECRET_ALREADY_EXISTS",
  409,
  "The environment has a secret with this key."
) {}
export class SecretVersionConflict extends ApiError<SecretVersionConflict>()(
  "SECRET_VERSION_CONFLICT",
  409,
  "The secret is at another version than expected.",
  { currentVersion: integer() }
) {}
/** For a request with several secrets: entries that were not changed stay valid in the form. */
export class SecretsChanged extends ApiError<SecretsChanged>()(
  "SECRETS_CHANGED",
  409,
  "Some secrets are at another version than expected. Nothing was written.",
  {
    conflicts: Schema.Array(
      Schema.Struct({ environment: Schema.String, key: Schema.String, currentVersion: integer() }).annotations({
        identifier: "SecretConflict"
      })
    ).annotations({ description: "Each secret with its current version; 0: it does not exist." })
  }
) {}
export class ChangesDiffer extends ApiError<ChangesDiffer>()(
  "CHANGES_DIFFER",
  409,
  "The change is not the one that was revealed. Reveal it again, then decide."
) {}
export class SecretHasDependents extends ApiError<SecretHasDependents>()(
  "SECRET_HAS_DEPENDENTS",
  409,
  "Other secrets use this one. Set disposition to flatten or cascade.",
  { dependents: keys("keys that refer to this one directly.") }
) {}
export class TemplateCycle extends ApiError<TemplateCycle>()("TEMPLATE_CYCLE", 409, "The references form a cycle.", {
  cycle: keys("its keys.")
}) {}
export class NameTaken extends ApiError<NameTaken>()("NAME_TAKEN", 409, "The name is taken.") {}
export class SetupAlreadyDone extends ApiError<SetupAlreadyDone>()(
  "SETUP_ALREADY_DONE",
  409,
  "This server is already set up."
) {}
export class GrantAlreadyDecided extends ApiError<GrantAlreadyDecided>()(
  "GRANT_ALREADY_DECIDED",
  409,
  "The request was already decided."
) {}
export class IdempotencyKeyReused extends ApiError<IdempotencyKeyReused>()(
  "IDEMPOTENCY_KEY_REUSED",
  409,
  "The idempotency key was used with another body."
) {}

// 413, 415, 429
export class PayloadTooLarge extends ApiError<PayloadTooLarge>()(
  "PAYLOAD_TOO_LARGE",
  413,
  "The request body is too large."
) {}
export class UnsupportedMediaType extends ApiError<UnsupportedMediaType>()(
  "UNSUPPORTED_MEDIA_TYPE",
  415,
  "The request body must be JSON (content-type application/json)."
) {}
export class RateLimited extends ApiError<RateLimited>()(
  "RATE_LIMITED",
  429,
  "Too many requests. Try again after the time in retryAfterSeconds.",
  { retryAfterSeconds: integer("the same number as Retry-After.") }
) {}
export class ServerBusy extends ApiError<ServerBusy>()(
  "SERVER_BUSY",
  429,
  "The server has too much to do. Nothing was changed. Try again shortly."
) {}

// 500
export class InternalError extends ApiError<InternalError>()(
  "INTERNAL_ERROR",
  500,
  "An unexpected error happened. The request id identifies it in the server's log."
) {}
export class DependencyUnavailable extends ApiError<DependencyUnavailable>()(
  "DEPENDENCY_UNAVAILABLE",
  500,
  "A dependency of the service is unavailable. Try again shortly."
) {}
export class IntegrityFailure extends ApiError<IntegrityFailure>()(
  "INTEGRITY_FAILURE",
  500,
  "A stored value failed its integrity check and was not used."
) {}
