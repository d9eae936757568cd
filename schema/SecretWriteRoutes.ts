/** Routes that create, change, delete and restore secrets. */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import { ChangeRequest, changeRequestExample } from "./ChangeRequestsApi.ts"
import * as Errors from "./Errors.ts"
import { operation } from "./Operation.ts"
import * as Example from "./SecretExamples.ts"
import {
  CreateSecret,
  CreateSecretsBulk,
  DeleteQuery,
  DeleteSecretsBulk,
  DescribeSecret,
  EnvironmentPath,
  IdempotencyHeaders,
  RenameSecret,
  ReportRun,
  RestoreEnvironment,
  RollbackSecret,
  SecretPath,
  UpdateSecret
} from "./SecretRequests.ts"
import {
  BulkCreateResult,
  BulkDeleteResult,
  DeleteSecretResult,
  DescribedSecret,
  EnvironmentRestoration,
  RenamedSecret,
  RunReported,
  SecretRef
} from "./SecretResponses.ts"
import { BadBody, BreaksTheEnvironment, EnvironmentMissing, MayNotReadValues, MayNotWrite } from "./RouteErrors.ts"
import { answers } from "./Wire.ts"

/** Response of a write that waits for an approval, if the environment requires one (docs/contract/access.md). */
const waits = answers(202, ChangeRequest)

export const create = HttpApiEndpoint.post("create", "/secrets")
  .setPayload(CreateSecret)
  .setHeaders(IdempotencyHeaders)
  .addSuccess(answers(201, SecretRef))
  .addSuccess(waits)
  .addError(
    Schema.Union(
      EnvironmentMissing,
      MayNotWrite,
      BreaksTheEnvironment,
      Errors.SecretAlreadyExists,
      Errors.SecretVersionConflict,
      Errors.IdempotencyKeyReused,
      BadBody
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Create a secret",
      description: "Fails rather than overwrites when the key already exists.",
      request: {
        projectId: Example.projectId,
        environment: "development",
        key: "DATABASE_URL",
        source: "postgres://app:${DB_PASSWORD}@db.internal/app"
      },
      response: Example.secret
    })
  )

export const reportRun = HttpApiEndpoint.post("reportRun", "/secrets/run-results")
  .setPayload(ReportRun)
  .addSuccess(answers(201, RunReported))
  .addError(Schema.Union(EnvironmentMissing, MayNotReadValues, Errors.IntegrityFailure, BadBody))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:run",
      summary: "Report a planned run",
      description: "Result of a run that an agent planned, reported once, with the credential of the run.",
      request: {
        projectId: Example.projectId,
        environment: "development",
        plan: "01980a60-1f7c-7d52-a6b1-5c3e9d0f8a11",
        exitCode: 1,
        durationMillis: 1840,
        output: "connecting as app:[redacted]\nconnection refused\n"
      },
      response: { plan: "01980a60-1f7c-7d52-a6b1-5c3e9d0f8a11", outputKept: true }
    })
  )

export const createBulk = HttpApiEndpoint.post("createBulk", "/secrets/bulk")
  .setPayload(CreateSecretsBulk)
  .setHeaders(IdempotencyHeaders)
  .addSuccess(answers(201, BulkCreateResult))
  .addSuccess(waits)
  .addError(Schema.Union(EnvironmentMissing, MayNotWrite, BreaksTheEnvironment, Errors.IdempotencyKeyReused, BadBody))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Create or update many secrets",
      description: "Creates or updates 1 to 100 secrets in a single transaction: all or none.",
      request: {
        projectId: Example.projectId,
        environment: "development",
        secrets: [
          { key: "DB_PASSWORD", value: "correct horse battery staple" },
          { key: "DATABASE_URL", value: "postgres://app:${DB_PASSWORD}@db.internal/app" }
        ]
      },
      response: { created: 1, updated: 0, unchanged: 0, items: [{ ...Example.secret, outcome: "created" }] }
    })
  )

export const remove = HttpApiEndpoint.del("remove", "/secrets/:secretId")
  .setPath(SecretPath)
  .setUrlParams(DeleteQuery)
  .addSuccess(answers(200, DeleteSecretResult))
  .addSuccess(waits)
  .addError(
    Schema.Union(
      Errors.SecretNotFound,
      MayNotWrite,
      Errors.SecretHasDependents,
      Errors.PlanLimitReached,
      Errors.IntegrityFailure
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Delete a secret",
      description:
        "A secret that others refer to needs a disposition: flatten keeps the current text of the others, cascade deletes them too. One transaction.",
      response: { id: Example.secretId, key: "DB_PASSWORD", deleted: true, flattened: ["DATABASE_URL"], cascaded: [] }
    })
  )

export const deleteBulk = HttpApiEndpoint.post("deleteBulk", "/secrets/delete-bulk")
  .setPayload(DeleteSecretsBulk)
  .setHeaders(IdempotencyHeaders)
  .addSuccess(answers(201, BulkDeleteResult))
  .addSuccess(waits)
  .addError(
    Schema.Union(
      EnvironmentMissing,
      MayNotWrite,
      Errors.SecretNotFound,
      Errors.SecretHasDependents,
      Errors.PlanLimitReached,
      Errors.IntegrityFailure,
      Errors.IdempotencyKeyReused,
      BadBody
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Delete many secrets",
      description: "Deletes 1 to 100 secrets of one environment in a single transaction: all or none.",
      request: { ids: [Example.secretId], projectId: Example.projectId, environment: "development" },
      response: { deleted: 1, ids: [Example.secretId] }
    })
  )

export const update = HttpApiEndpoint.patch("update", "/secrets/:secretId")
  .setPath(SecretPath)
  .setPayload(UpdateSecret)
  .addSuccess(answers(200, SecretRef))
  .addSuccess(waits)
  .addError(
    Schema.Union(Errors.SecretNotFound, MayNotWrite, BreaksTheEnvironment, Errors.SecretVersionConflict, BadBody)
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Update a secret",
      description: "Writes a new version, unless value and kind are unchanged.",
      request: { value: "a better password", expectedVersion: 1 },
      response: { ...Example.secret, key: "DB_PASSWORD", kind: "literal", version: 2 }
    })
  )

export const rollback = HttpApiEndpoint.post("rollback", "/secrets/:secretId/rollback")
  .setPath(SecretPath)
  .setPayload(RollbackSecret)
  .addSuccess(answers(200, SecretRef))
  .addSuccess(waits)
  .addError(
    Schema.Union(
      Errors.SecretNotFound,
      Errors.SecretVersionNotFound,
      MayNotWrite,
      BreaksTheEnvironment,
      Errors.SecretVersionConflict,
      BadBody
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Roll a secret back",
      description: "Writes the text of an earlier version as a new version, unless it equals the current one.",
      request: { version: 1 },
      response: { ...Example.secret, version: 3 }
    })
  )

export const restore = HttpApiEndpoint.post("restore", "/secrets/:secretId/restore")
  .setPath(SecretPath)
  .addSuccess(answers(200, SecretRef))
  .addSuccess(waits)
  .addError(Schema.Union(Errors.SecretNotFound, MayNotWrite, BreaksTheEnvironment, Errors.SecretAlreadyExists))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Restore a deleted secret",
      description: "Restores a deleted secret at its last version, up to 30 days after its deletion.",
      response: Example.secret
    })
  )

export const describe = HttpApiEndpoint.patch("describe", "/secrets/:secretId/metadata")
  .setPath(SecretPath)
  .setPayload(DescribeSecret)
  .addSuccess(answers(200, DescribedSecret))
  .addError(Schema.Union(Errors.SecretNotFound, MayNotWrite, BadBody))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      summary: "Change the metadata of a secret",
      description:
        "Owner, note, rotation date and tags. Value and version are unchanged. It never waits for an approval: in environments that require them, only owners and admins may.",
      request: Example.about,
      response: { ...Example.secret, ...Example.about }
    })
  )

export const rename = HttpApiEndpoint.post("rename", "/secrets/:secretId/rename")
  .setPath(SecretPath)
  .setPayload(RenameSecret)
  .addSuccess(answers(200, RenamedSecret))
  .addError(
    Schema.Union(
      Errors.SecretNotFound,
      MayNotWrite,
      BreaksTheEnvironment,
      Errors.SecretAlreadyExists,
      Errors.SecretHasDependents,
      Errors.SecretVersionConflict,
      BadBody
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      summary: "Rename a secret",
      description:
        "It keeps its id, versions and metadata. The text is written again, as the first version with the new key. It never waits for an approval: in environments that require them, only owners and admins may.",
      request: { key: "DATABASE_PASSWORD", references: "rewrite" },
      response: {
        ...Example.secret,
        key: "DATABASE_PASSWORD",
        kind: "literal",
        version: 4,
        formerKey: "DB_PASSWORD",
        rewritten: ["DATABASE_URL"]
      }
    })
  )

export const restoreEnvironment = HttpApiEndpoint.post("restoreEnvironment", "/environments/:envId/restore")
  .setPath(EnvironmentPath)
  .setPayload(RestoreEnvironment)
  .addSuccess(answers(200, EnvironmentRestoration))
  .addSuccess(waits)
  .addError(
    Schema.Union(Errors.EnvironmentNotFound, MayNotWrite, BreaksTheEnvironment, Errors.SecretVersionConflict, BadBody)
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:write",
      accepted: changeRequestExample,
      summary: "Restore an environment to a moment",
      description:
        "Each key receives its text of that moment, and newer keys are deleted, in one transaction. With preview it only returns the changes, by name.",
      request: { at: "2026-11-21T08:00:00.000Z", preview: true },
      response: {
        environmentId: "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7f",
        environment: "development",
        at: "2026-11-21T08:00:00.000Z",
        preview: true,
        revision: 41,
        created: ["OLD_TOKEN"],
        updated: ["DATABASE_URL"],
        deleted: ["TRIAL"],
        renamed: [],
        lost: [],
        unknown: []
      }
    })
  )
