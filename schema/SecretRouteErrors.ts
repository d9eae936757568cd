/** Errors that several secret routes share. */
import * as Schema from "effect/Schema"
import * as Errors from "./Errors.ts"

export const EnvironmentMissing = Schema.Union(Errors.ProjectNotFound, Errors.EnvironmentNotFound)
export const MayNotRead = Schema.Union(Errors.Forbidden, Errors.ScopeMissing)
export const MayNotReadValues = Schema.Union(Errors.Forbidden, Errors.ScopeMissing, Errors.EnvironmentNotGranted)
export const MayNotWrite = Schema.Union(
  Errors.Forbidden,
  Errors.ScopeMissing,
  Errors.EnvironmentNotGranted,
  Errors.ApiTokenReadOnly,
  Errors.ApiTokenNotScopedToProtectedEnvironment
)
/**
 * Errors of a write that breaks a template rule or a size limit of the environment (docs/contract/secrets.md,
 * "Templates", "Limits").
 */
export const BreaksTheEnvironment = Schema.Union(
  Errors.TemplateInvalid,
  Errors.TemplateReferenceMissing,
  Errors.TemplateTooDeep,
  Errors.ValueTooLarge,
  Errors.TemplateCycle,
  Errors.PlanLimitReached,
  Errors.IntegrityFailure
)
export const BadBody = Schema.Union(Errors.PayloadTooLarge, Errors.UnsupportedMediaType)
