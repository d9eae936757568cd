import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Schema from "effect/Schema"
import { AnyCredential } from "./Authentication.ts"
import * as Errors from "./Errors.ts"
import { ProjectId, ProjectIdOut, SecretId, SecretIdOut } from "./Ids.ts"
import { operation } from "./Operation.ts"
import { optional, strict } from "./Strict.ts"
import {
  boundedList,
  Disposition,
  EnvironmentSlug,
  ExpectedVersion,
  IdempotencyKey,
  Page,
  PageSize,
  Representation,
  SecretKey,
  SecretKind,
  SecretText,
  Timestamp,
  VersionNumber
} from "./Values.ts"
import { Actor, answers, Integer, Key, KindOut, openEnum, pageFields, RepresentationOut, Slug } from "./Wire.ts"

// --- responses (decisions 4 "Response bodies") ---

const refFields = {
  id: SecretIdOut,
  projectId: ProjectIdOut,
  environment: Slug,
  key: Key,
  kind: KindOut,
  version: Integer,
  createdAt: Timestamp,
  updatedAt: Timestamp
} as const

export const SecretRef = Schema.Struct(refFields).annotations({
  identifier: "SecretRef",
  description: "A secret without its value."
})
export type SecretRef = typeof SecretRef.Type

export const SecretListItem = Schema.Struct({
  ...refFields,
  references: Schema.Array(Key).annotations({ description: "Keys that its template uses." }),
  updatedBy: Actor
}).annotations({ identifier: "SecretListItem" })
export type SecretListItem = typeof SecretListItem.Type

export const ListSecretsResponse = Schema.Struct({ items: Schema.Array(SecretListItem), ...pageFields }).annotations({
  identifier: "ListSecretsResponse",
  description: "Keys and metadata, ordered by key in byte order. Never values."
})
export type ListSecretsResponse = typeof ListSecretsResponse.Type

export const SecretWithValue = Schema.Struct({
  ...refFields,
  value: Schema.String,
  representation: RepresentationOut
}).annotations({ identifier: "SecretWithValue" })
export type SecretWithValue = typeof SecretWithValue.Type

export const SecretWithValueList = Schema.Struct({
  items: Schema.Array(SecretWithValue),
  ...pageFields
}).annotations({ identifier: "SecretWithValueList" })
export type SecretWithValueList = typeof SecretWithValueList.Type

export const InjectedSecrets = Schema.Struct({
  projectId: ProjectIdOut,
  environment: Slug,
  representation: RepresentationOut,
  values: Schema.Record({ key: Schema.String, value: Schema.String }),
  ...pageFields,
  revision: Integer.annotations({
    jsonSchema: { type: "integer" },
    description: "Grows with every change of the environment."
  })
}).annotations({
  identifier: "InjectedSecrets",
  description: "The environment, resolved. Without page and pageSize it holds everything."
})
export type InjectedSecrets = typeof InjectedSecrets.Type

const DiffEntry = Schema.Struct({ key: Key }).annotations({ identifier: "SecretDiffEntry" })
export const SecretDiff = Schema.Struct({
  projectId: ProjectIdOut,
  sourceEnv: Slug,
  targetEnv: Slug,
  added: Schema.Array(DiffEntry).annotations({ description: "Keys that only the target has." }),
  removed: Schema.Array(DiffEntry).annotations({ description: "Keys that only the source has." }),
  changed: Schema.Array(DiffEntry).annotations({ description: "Keys whose materialized values differ." })
}).annotations({ identifier: "SecretDiff" })
export type SecretDiff = typeof SecretDiff.Type

export const DeleteSecretResult = Schema.Struct({
  id: SecretIdOut,
  key: Key,
  deleted: Schema.Boolean,
  flattened: Schema.Array(Key),
  cascaded: Schema.Array(Key)
}).annotations({ identifier: "DeleteSecretResult" })
export type DeleteSecretResult = typeof DeleteSecretResult.Type

export const BulkCreateItem = Schema.Struct({
  ...refFields,
  outcome: openEnum("created", "updated", "unchanged")
}).annotations({ identifier: "BulkCreateItem" })
export type BulkCreateItem = typeof BulkCreateItem.Type

export const BulkCreateResult = Schema.Struct({
  created: Integer,
  updated: Integer,
  unchanged: Integer,
  items: Schema.Array(BulkCreateItem)
}).annotations({ identifier: "BulkCreateResult" })
export type BulkCreateResult = typeof BulkCreateResult.Type

export const BulkDeleteResult = Schema.Struct({
  deleted: Integer,
  ids: Schema.Array(SecretIdOut)
}).annotations({ identifier: "BulkDeleteResult" })
export type BulkDeleteResult = typeof BulkDeleteResult.Type

export const SecretCompositionGraph = Schema.Struct({
  projectId: ProjectIdOut,
  environment: Slug,
  nodes: Schema.Array(
    Schema.Struct({ id: SecretIdOut, key: Key, kind: KindOut }).annotations({ identifier: "SecretCompositionNode" })
  ),
  edges: Schema.Array(
    Schema.Struct({ from: Key, to: Key }).annotations({ identifier: "SecretCompositionEdge" })
  ).annotations({ description: "From the template to what it uses." })
}).annotations({ identifier: "SecretCompositionGraph" })
export type SecretCompositionGraph = typeof SecretCompositionGraph.Type

export const SecretVersionItem = Schema.Struct({
  version: Integer,
  kind: KindOut,
  createdAt: Timestamp,
  createdBy: Actor,
  deleted: Schema.Boolean
}).annotations({ identifier: "SecretVersion" })
export const SecretVersionList = Schema.Struct({ items: Schema.Array(SecretVersionItem) }).annotations({
  identifier: "SecretVersionList"
})
export type SecretVersionList = typeof SecretVersionList.Type

export const DeletedSecret = Schema.Struct({ ...refFields, deletedAt: Timestamp, purgeAt: Timestamp }).annotations({
  identifier: "DeletedSecret"
})
export const DeletedSecretList = Schema.Struct({ items: Schema.Array(DeletedSecret) }).annotations({
  identifier: "DeletedSecretList"
})
export type DeletedSecretList = typeof DeletedSecretList.Type

// --- requests (strict) ---

interface TextMembers {
  readonly kind?: SecretKind
  readonly value?: unknown
  readonly source?: unknown
}

/** What kind, value and source may say together, as far as the shape goes (decisions 4 "Kind"). */
const conflict = (body: TextMembers): Schema.FilterIssue | undefined => {
  if (body.value !== undefined && body.source !== undefined) {
    return { path: ["source"], message: "must not be given together with value" }
  }
  if (body.kind === "literal" && body.source !== undefined) {
    return { path: ["source"], message: "must not be given when kind is literal" }
  }
  return undefined
}

export const CreateSecret = strict(
  Schema.Struct({
    projectId: ProjectId,
    environment: EnvironmentSlug,
    key: SecretKey,
    kind: optional(SecretKind),
    value: optional(SecretText),
    source: optional(SecretText),
    expectedVersion: optional(ExpectedVersion)
  }).pipe(Schema.filter(conflict, { jsonSchema: {} }))
).annotations({
  identifier: "CreateSecret",
  description:
    "Secret as written. An explicit kind wins; without it, source makes a template, and so does a value that holds ${KEY} or $${. Neither value nor source: an empty literal."
})
export type CreateSecret = typeof CreateSecret.Type

export const UpdateSecret = strict(
  Schema.Struct({
    kind: optional(SecretKind),
    value: optional(SecretText),
    source: optional(SecretText),
    expectedVersion: optional(ExpectedVersion)
  }).pipe(
    Schema.filter(
      (body) =>
        body.kind === undefined && body.value === undefined && body.source === undefined
          ? { path: ["value"], message: "must be given when there is neither kind nor source" }
          : conflict(body),
      { jsonSchema: {} }
    )
  )
).annotations({
  identifier: "UpdateSecret",
  description: "At least one of kind, value and source. kind alone reinterprets the stored text."
})
export type UpdateSecret = typeof UpdateSecret.Type

export const BulkEntry = strict(Schema.Struct({ key: SecretKey, value: SecretText })).annotations({
  identifier: "BulkEntry"
})

const repeated = (values: ReadonlyArray<string>): number => {
  const seen = new Set<string>()
  return values.findIndex((value) => seen.size === seen.add(value).size)
}

export const CreateSecretsBulk = strict(
  Schema.Struct({
    projectId: ProjectId,
    environment: EnvironmentSlug,
    secrets: boundedList(BulkEntry, 1, 100).pipe(
      Schema.filter(
        (entries): Schema.FilterOutput => {
          const at = repeated(entries.map((entry) => entry.key))
          return at < 0 ? undefined : { path: [at, "key"], message: "must not repeat an earlier key" }
        },
        { jsonSchema: {} }
      )
    )
  })
).annotations({ identifier: "CreateSecretsBulk" })
export type CreateSecretsBulk = typeof CreateSecretsBulk.Type

export const DeleteSecretsBulk = strict(
  Schema.Struct({
    ids: boundedList(SecretId, 1, 100).pipe(
      Schema.filter(
        (ids): Schema.FilterOutput => {
          const at = repeated(ids)
          return at < 0 ? undefined : { path: [at], message: "must not repeat an earlier id" }
        },
        { jsonSchema: {} }
      )
    ),
    projectId: ProjectId,
    environment: EnvironmentSlug
  })
).annotations({ identifier: "DeleteSecretsBulk" })
export type DeleteSecretsBulk = typeof DeleteSecretsBulk.Type

export const RollbackSecret = strict(
  Schema.Struct({ version: VersionNumber, expectedVersion: optional(ExpectedVersion) })
).annotations({ identifier: "RollbackSecret" })
export type RollbackSecret = typeof RollbackSecret.Type

export const EnvironmentQuery = strict(Schema.Struct({ projectId: ProjectId, environment: EnvironmentSlug }))
export type EnvironmentQuery = typeof EnvironmentQuery.Type

export const PagedQuery = strict(
  Schema.Struct({
    projectId: ProjectId,
    environment: EnvironmentSlug,
    page: optional(Page),
    pageSize: optional(PageSize),
    representation: optional(Representation)
  })
)
export type PagedQuery = typeof PagedQuery.Type

export const ValueQuery = strict(
  Schema.Struct({
    projectId: ProjectId,
    environment: EnvironmentSlug,
    key: SecretKey,
    representation: optional(Representation)
  })
)
export type ValueQuery = typeof ValueQuery.Type

export const DiffQuery = strict(
  Schema.Struct({ projectId: ProjectId, sourceEnv: EnvironmentSlug, targetEnv: EnvironmentSlug })
)
export type DiffQuery = typeof DiffQuery.Type

export const DeleteQuery = strict(Schema.Struct({ disposition: optional(Disposition) }))

const IdempotencyHeaders = Schema.Struct({ "idempotency-key": optional(IdempotencyKey) })
const SecretPath = Schema.Struct({ secretId: SecretId })

// --- errors ---

const EnvironmentMissing = Schema.Union(Errors.ProjectNotFound, Errors.EnvironmentNotFound)
const MayNotRead = Schema.Union(Errors.Forbidden, Errors.ScopeMissing)
const MayNotWrite = Schema.Union(
  Errors.Forbidden,
  Errors.ScopeMissing,
  Errors.ApiTokenReadOnly,
  Errors.ApiTokenNotScopedToProtectedEnvironment
)
/** What the template rules and the sizes of the environment can say to any write (decisions 4 "Templates", "Limits"). */
const BreaksTheEnvironment = Schema.Union(
  Errors.TemplateInvalid,
  Errors.TemplateReferenceMissing,
  Errors.TemplateTooDeep,
  Errors.ValueTooLarge,
  Errors.TemplateCycle,
  Errors.PlanLimitReached,
  Errors.IntegrityFailure
)
const BadBody = Schema.Union(Errors.PayloadTooLarge, Errors.UnsupportedMediaType)

// --- examples ---

const projectId = "01980a5e-7c11-7b3a-9d54-6f2f8a1c0b7e"
const secretId = "01980a5f-02d4-7e61-8c3b-1d9e5f7a2b44"
const ref = {
  id: secretId,
  projectId,
  environment: "development",
  key: "DATABASE_URL",
  kind: "template",
  version: 1,
  createdAt: "2026-11-21T08:00:00.000Z",
  updatedAt: "2026-11-21T08:00:00.000Z"
}
const user = { type: "user", id: "01980a5d-11aa-7f00-b1c2-3d4e5f607182", name: "ada@example.com" }
const onePage = { page: 1, pageSize: 100, total: 1, hasMore: false }

/** The secret routes of interface 4, then the additions of decisions 4. */
export class SecretsApi extends HttpApiGroup.make("secrets")
  .add(
    HttpApiEndpoint.post("create", "/secrets")
      .setPayload(CreateSecret)
      .setHeaders(IdempotencyHeaders)
      .addSuccess(answers(201, SecretRef))
      .addError(EnvironmentMissing)
      .addError(MayNotWrite)
      .addError(BreaksTheEnvironment)
      .addError(Errors.SecretAlreadyExists)
      .addError(Errors.SecretVersionConflict)
      .addError(Errors.IdempotencyKeyReused)
      .addError(BadBody)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Create a secret",
          description: "Fails rather than overwrites when the key already exists.",
          request: {
            projectId,
            environment: "development",
            key: "DATABASE_URL",
            source: "postgres://app:${DB_PASSWORD}@db.internal/app"
          },
          response: ref
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/secrets")
      .setUrlParams(PagedQuery)
      .addSuccess(answers(200, ListSecretsResponse))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List secrets",
          description: "Keys and metadata of an environment, never values.",
          response: { items: [{ ...ref, references: ["DB_PASSWORD"], updatedBy: user }], ...onePage }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("createBulk", "/secrets/bulk")
      .setPayload(CreateSecretsBulk)
      .setHeaders(IdempotencyHeaders)
      .addSuccess(answers(201, BulkCreateResult))
      .addError(EnvironmentMissing)
      .addError(MayNotWrite)
      .addError(BreaksTheEnvironment)
      .addError(Errors.IdempotencyKeyReused)
      .addError(BadBody)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Create or update many secrets",
          description: "Creates or updates 1 to 100 secrets in a single transaction: all or none.",
          request: {
            projectId,
            environment: "development",
            secrets: [
              { key: "DB_PASSWORD", value: "correct horse battery staple" },
              { key: "DATABASE_URL", value: "postgres://app:${DB_PASSWORD}@db.internal/app" }
            ]
          },
          response: { created: 1, updated: 0, unchanged: 0, items: [{ ...ref, outcome: "created" }] }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("listWithValues", "/secrets/with-values")
      .setUrlParams(PagedQuery)
      .addSuccess(answers(200, SecretWithValueList))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .addError(Errors.IntegrityFailure)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read_values",
          summary: "List secrets with their values",
          description: "Decrypted values of an environment. Every call is recorded in the audit trail.",
          response: {
            items: [
              {
                ...ref,
                value: "postgres://app:correct horse battery staple@db.internal/app",
                representation: "materialized"
              }
            ],
            ...onePage
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("readValue", "/secrets/value")
      .setUrlParams(ValueQuery)
      .addSuccess(answers(200, SecretWithValue))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .addError(Errors.SecretNotFound)
      .addError(Errors.IntegrityFailure)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read_values",
          summary: "Read one value",
          description: "One decrypted value, at the moment it is needed. Every call is recorded in the audit trail.",
          response: {
            ...ref,
            value: "postgres://app:correct horse battery staple@db.internal/app",
            representation: "materialized"
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("inject", "/secrets/inject")
      .setUrlParams(PagedQuery)
      .setHeaders(Schema.Struct({ "if-none-match": optional(Schema.String) }))
      .addSuccess(answers(200, InjectedSecrets))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .addError(Errors.IntegrityFailure)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:run",
          summary: "Resolve an environment for injection",
          description:
            "The fully resolved set of keys and values, composed secrets expanded. Without page and pageSize it holds everything. With If-None-Match and nothing changed: 304 without a body, which reads no value.",
          response: {
            projectId,
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
  )
  .add(
    HttpApiEndpoint.get("diff", "/secrets/diff")
      .setUrlParams(DiffQuery)
      .addSuccess(answers(200, SecretDiff))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .addError(Errors.IntegrityFailure)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Compare two environments",
          description:
            "Keys added, removed or changed from the source to the target environment. Values are compared inside the server; none leaves it. At most 30 calls per minute.",
          response: {
            projectId,
            sourceEnv: "development",
            targetEnv: "production",
            added: [{ key: "SENTRY_DSN" }],
            removed: [],
            changed: [{ key: "DATABASE_URL" }]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/secrets/:secretId")
      .setPath(SecretPath)
      .setUrlParams(DeleteQuery)
      .addSuccess(answers(200, DeleteSecretResult))
      .addError(Errors.SecretNotFound)
      .addError(MayNotWrite)
      .addError(Errors.SecretHasDependents)
      .addError(Errors.PlanLimitReached)
      .addError(Errors.IntegrityFailure)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Delete a secret",
          description:
            "A secret that others refer to is deleted only with a disposition: flatten keeps the current text of the others, cascade deletes them too. One transaction.",
          response: { id: secretId, key: "DB_PASSWORD", deleted: true, flattened: ["DATABASE_URL"], cascaded: [] }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("deleteBulk", "/secrets/delete-bulk")
      .setPayload(DeleteSecretsBulk)
      .setHeaders(IdempotencyHeaders)
      .addSuccess(answers(201, BulkDeleteResult))
      .addError(EnvironmentMissing)
      .addError(MayNotWrite)
      .addError(Errors.SecretNotFound)
      .addError(Errors.SecretHasDependents)
      .addError(Errors.IntegrityFailure)
      .addError(Errors.IdempotencyKeyReused)
      .addError(BadBody)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Delete many secrets",
          description: "Deletes 1 to 100 secrets of one environment in a single transaction: all or none.",
          request: { ids: [secretId], projectId, environment: "development" },
          response: { deleted: 1, ids: [secretId] }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("composition", "/secrets/composition")
      .setUrlParams(EnvironmentQuery)
      .addSuccess(answers(200, SecretCompositionGraph))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "Show which secrets use which",
          description: "The composition graph of an environment, without values.",
          response: {
            projectId,
            environment: "development",
            nodes: [
              { id: secretId, key: "DATABASE_URL", kind: "template" },
              { id: "01980a5f-02d4-7e61-8c3b-1d9e5f7a2b45", key: "DB_PASSWORD", kind: "literal" }
            ],
            edges: [{ from: "DATABASE_URL", to: "DB_PASSWORD" }]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.patch("update", "/secrets/:secretId")
      .setPath(SecretPath)
      .setPayload(UpdateSecret)
      .addSuccess(answers(200, SecretRef))
      .addError(Errors.SecretNotFound)
      .addError(MayNotWrite)
      .addError(BreaksTheEnvironment)
      .addError(Errors.SecretVersionConflict)
      .addError(BadBody)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Update a secret",
          description: "Writes a new version; an equal value of equal kind makes none.",
          request: { value: "a better password", expectedVersion: 1 },
          response: { ...ref, key: "DB_PASSWORD", kind: "literal", version: 2 }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("rollback", "/secrets/:secretId/rollback")
      .setPath(SecretPath)
      .setPayload(RollbackSecret)
      .addSuccess(answers(200, SecretRef))
      .addError(Errors.SecretNotFound)
      .addError(Errors.SecretVersionNotFound)
      .addError(MayNotWrite)
      .addError(BreaksTheEnvironment)
      .addError(Errors.SecretVersionConflict)
      .addError(BadBody)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Roll a secret back",
          description: "Writes the text of an earlier version as a new version, or keeps the current one when equal.",
          request: { version: 1 },
          response: { ...ref, version: 3 }
        })
      )
  )
  .add(
    HttpApiEndpoint.post("restore", "/secrets/:secretId/restore")
      .setPath(SecretPath)
      .addSuccess(answers(200, SecretRef))
      .addError(Errors.SecretNotFound)
      .addError(MayNotWrite)
      .addError(BreaksTheEnvironment)
      .addError(Errors.SecretAlreadyExists)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:write",
          summary: "Restore a deleted secret",
          description: "Brings a deleted secret back at its version, up to 30 days after it was deleted.",
          response: ref
        })
      )
  )
  .add(
    HttpApiEndpoint.get("versions", "/secrets/:secretId/versions")
      .setPath(SecretPath)
      .addSuccess(answers(200, SecretVersionList))
      .addError(Errors.SecretNotFound)
      .addError(MayNotRead)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List the versions of a secret",
          description: "History without values, newest first, also of a deleted secret.",
          response: {
            items: [
              { version: 1, kind: "template", createdAt: "2026-11-21T08:00:00.000Z", createdBy: user, deleted: false }
            ]
          }
        })
      )
  )
  .add(
    HttpApiEndpoint.get("listDeleted", "/secrets/deleted")
      .setUrlParams(EnvironmentQuery)
      .addSuccess(answers(200, DeletedSecretList))
      .addError(EnvironmentMissing)
      .addError(MayNotRead)
      .middleware(AnyCredential)
      .annotateContext(
        operation({
          scope: "secrets:read",
          summary: "List deleted secrets",
          description: "Deleted secrets that can still be restored, without values.",
          response: {
            items: [{ ...ref, deletedAt: "2026-11-21T09:00:00.000Z", purgeAt: "2026-12-21T09:00:00.000Z" }]
          }
        })
      )
  )
  .annotateContext(OpenApi.annotations({ description: "Secrets of an environment." })) {}
