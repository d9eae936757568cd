/** Errors by kind of route. A resource that the caller does not see is not found: both refusals are one set. */
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

export const MayNotReadTeam = Schema.Union(Errors.TeamNotFound, Errors.Forbidden, Errors.ScopeMissing)
export const MayNotReadProject = Schema.Union(Errors.ProjectNotFound, Errors.Forbidden, Errors.ScopeMissing)
export const MayNotReadEnvironment = Schema.Union(Errors.EnvironmentNotFound, Errors.Forbidden, Errors.ScopeMissing)
/** For sessions, which have no scopes. */
export const MayNotManageTeam = Schema.Union(Errors.TeamNotFound, Errors.Forbidden)
export const MayNotManageProject = Schema.Union(Errors.ProjectNotFound, Errors.Forbidden)
export const MayNotManageEnvironment = Schema.Union(Errors.EnvironmentNotFound, Errors.Forbidden)
export const MayNotDecide = Schema.Union(Errors.GrantNotFound, Errors.Forbidden, Errors.GrantAlreadyDecided)
