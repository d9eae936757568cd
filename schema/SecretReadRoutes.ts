/** Routes that read secrets, their metadata or their values. */
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { operation } from "./Operation.ts"
import * as Example from "./SecretExamples.ts"
import {
  DiffQuery,
  EnvironmentQuery,
  InjectQuery,
  ListQuery,
  PagedQuery,
  SecretPath,
  ValueQuery
} from "./SecretRequests.ts"
import {
  DeletedSecretList,
  DescribedSecret,
  InjectedSecrets,
  ListSecretsResponse,
  SecretCompositionGraph,
  SecretDiff,
  SecretVersionList,
  SecretWithValue,
  SecretWithValueList
} from "./SecretResponses.ts"
import { EnvironmentMissing, MayNotRead, MayNotReadValues } from "./RouteErrors.ts"
import { optional } from "./Strict.ts"
import { answers } from "./Wire.ts"

export const list = HttpApiEndpoint.get("list", "/secrets")
  .setUrlParams(ListQuery)
  .addSuccess(answers(200, ListSecretsResponse))
  .addError(Schema.Union(EnvironmentMissing, MayNotRead, Errors.IntegrityFailure))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read",
      summary: "List secrets",
      description: "Keys and metadata of an environment, never values.",
      response: {
        items: [{ ...Example.secret, ...Example.about, references: ["DB_PASSWORD"], updatedBy: Example.user }],
        ...Example.onePage
      }
    })
  )

export const listWithValues = HttpApiEndpoint.get("listWithValues", "/secrets/with-values")
  .setUrlParams(PagedQuery)
  .addSuccess(answers(200, SecretWithValueList))
  .addError(Schema.Union(EnvironmentMissing, MayNotReadValues, Errors.IntegrityFailure))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read_values",
      summary: "List secrets with their values",
      description: "Decrypted values of an environment. Every call is recorded in the audit trail.",
      response: {
        items: [
          {
            ...Example.secret,
            value: "postgres://app:correct horse battery staple@db.internal/app",
            representation: "materialized"
          }
        ],
        ...Example.onePage
      }
    })
  )

export const readValue = HttpApiEndpoint.get("readValue", "/secrets/value")
  .setUrlParams(ValueQuery)
  .addSuccess(answers(200, SecretWithValue))
  .addError(Schema.Union(EnvironmentMissing, MayNotReadValues, Errors.SecretNotFound, Errors.IntegrityFailure))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read_values",
      summary: "Read one value",
      description: "One decrypted value. Every call is recorded in the audit trail.",
      response: {
        ...Example.secret,
        value: "postgres://app:correct horse battery staple@db.internal/app",
        representation: "materialized"
      }
    })
  )

export const inject = HttpApiEndpoint.get("inject", "/secrets/inject")
  .setUrlParams(InjectQuery)
  .setHeaders(
    Schema.Struct({
      "if-none-match": optional(Schema.String.annotations({ description: "ETag of an earlier response." }))
    })
  )
  .addSuccess(answers(200, InjectedSecrets))
  .addError(
    Schema.Union(
      EnvironmentMissing,
      MayNotReadValues,
      Errors.RunNotPlanned,
      Errors.SecretNotFound,
      Errors.IntegrityFailure
    )
  )
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:run",
      summary: "Resolve an environment for injection",
      description:
        "All keys with resolved values; templates are expanded. Without page and pageSize it returns everything, with keys those alone, with plan what was planned. An unchanged If-None-Match returns 304 without a body, and reads no value.",
      response: {
        projectId: Example.projectId,
        environment: "development",
        representation: "materialized",
        values: {
          DATABASE_URL: "postgres://app:correct horse battery staple@db.internal/app",
          DB_PASSWORD: "correct horse battery staple"
        },
        page: 1,
        pageSize: 2,
        total: 2,
        hasMore: false,
        revision: 7
      }
    })
  )

export const diff = HttpApiEndpoint.get("diff", "/secrets/diff")
  .setUrlParams(DiffQuery)
  .addSuccess(answers(200, SecretDiff))
  .addError(Schema.Union(EnvironmentMissing, MayNotRead, Errors.IntegrityFailure))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read",
      summary: "Compare two environments",
      description:
        "Keys added, removed or changed from the source to the target environment. Values are compared inside the server and not returned. At most 30 calls per minute.",
      response: {
        projectId: Example.projectId,
        sourceEnv: "development",
        targetEnv: "production",
        added: [{ key: "SENTRY_DSN" }],
        removed: [],
        changed: [{ key: "DATABASE_URL" }]
      }
    })
  )

export const composition = HttpApiEndpoint.get("composition", "/secrets/composition")
  .setUrlParams(EnvironmentQuery)
  .addSuccess(answers(200, SecretCompositionGraph))
  .addError(Schema.Union(EnvironmentMissing, MayNotRead))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read",
      summary: "Show the references between secrets",
      description: "The composition graph of an environment, without values.",
      response: {
        projectId: Example.projectId,
        environment: "development",
        nodes: [
          { id: Example.secretId, key: "DATABASE_URL", kind: "template" },
          { id: "01980a5f-02d4-7e61-8c3b-1d9e5f7a2b45", key: "DB_PASSWORD", kind: "literal" }
        ],
        edges: [{ from: "DATABASE_URL", to: "DB_PASSWORD" }]
      }
    })
  )

export const versions = HttpApiEndpoint.get("versions", "/secrets/:secretId/versions")
  .setPath(SecretPath)
  .addSuccess(answers(200, SecretVersionList))
  .addError(Schema.Union(Errors.SecretNotFound, MayNotRead))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read",
      summary: "List the versions of a secret",
      description: "History without values, newest first. Includes deleted secrets.",
      response: {
        items: [
          {
            version: 1,
            key: "DATABASE_URL",
            kind: "template",
            createdAt: "2026-11-21T08:00:00.000Z",
            createdBy: Example.user,
            deleted: false
          }
        ]
      }
    })
  )

export const listDeleted = HttpApiEndpoint.get("listDeleted", "/secrets/deleted")
  .setUrlParams(EnvironmentQuery)
  .addSuccess(answers(200, DeletedSecretList))
  .addError(Schema.Union(EnvironmentMissing, MayNotRead))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read",
      summary: "List deleted secrets",
      description: "Deleted secrets that can still be restored, without values.",
      response: {
        items: [{ ...Example.secret, deletedAt: "2026-11-21T09:00:00.000Z", purgeAt: "2026-12-21T09:00:00.000Z" }]
      }
    })
  )

export const described = HttpApiEndpoint.get("described", "/secrets/:secretId/metadata")
  .setPath(SecretPath)
  .addSuccess(answers(200, DescribedSecret))
  .addError(Schema.Union(Errors.SecretNotFound, MayNotRead))
  .middleware(AnyCredential)
  .annotateContext(
    operation({
      scope: "secrets:read",
      summary: "Show the metadata of a secret",
      description: "Metadata with owner, note, rotation date and tags. Never a value.",
      response: { ...Example.secret, ...Example.about }
    })
  )
