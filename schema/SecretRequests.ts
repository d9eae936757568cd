/** Bodies, queries, paths and headers of the secret routes. Bodies and queries with an unknown member are refused. */
import * as Schema from "effect/Schema"
import { EnvironmentId, ProjectId, RunPlanId, SecretId } from "./Ids.ts"
import { atLeastOne, eachOnce, has, optional, strict } from "./Strict.ts"
import {
  boundedList,
  CalendarDay,
  Disposition,
  EnvironmentSlug,
  ExpectedVersion,
  IdempotencyKey,
  Instant,
  integer,
  name,
  Page,
  PageSize,
  Representation,
  SecretKey,
  SecretKind,
  SecretTag,
  SecretText,
  VersionNumber
} from "./Values.ts"

interface TextMembers {
  readonly kind?: SecretKind
  readonly value?: unknown
  readonly source?: unknown
}

/** Refuses combinations of kind, value and source that the contract excludes (docs/contract/secrets.md, "Kind"). */
const conflict = (body: TextMembers): Schema.FilterIssue | undefined => {
  if (body.value !== undefined && body.source !== undefined) {
    return { path: ["source"], message: "must not be given together with value" }
  }
  if (body.kind === "literal" && body.source !== undefined) {
    return { path: ["source"], message: "must not be given when kind is literal" }
  }
  return undefined
}
/** The same for the document. */
const sourceAlone = {
  if: { not: has({ source: {} }) },
  else: { not: { anyOf: [has({ value: {} }), has({ kind: { const: "literal" } })] } }
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
  }).pipe(Schema.filter(conflict, { jsonSchema: sourceAlone }))
).annotations({
  identifier: "CreateSecret",
  description:
    "Secret as written. An explicit kind wins. Without kind, source makes a template, and so does a value with ${KEY} or $${. Without value and source it is an empty literal."
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
      {
        jsonSchema: {
          minProperties: 1,
          ...sourceAlone,
          dependentSchemas: { expectedVersion: { minProperties: 2 } }
        }
      }
    )
  )
).annotations({
  identifier: "UpdateSecret",
  description: "At least one of kind, value and source. kind without them reinterprets the stored text."
})
export type UpdateSecret = typeof UpdateSecret.Type

export const BulkEntry = strict(Schema.Struct({ key: SecretKey, value: SecretText })).annotations({
  identifier: "BulkEntry"
})

/** Entries of one transaction: at most `max`, each key once. */
const bulkOf = (max: number) =>
  strict(
    Schema.Struct({
      projectId: ProjectId,
      environment: EnvironmentSlug,
      secrets: eachOnce(boundedList(BulkEntry, 1, max), ({ key }) => key, "must not repeat an earlier key", "key")
    })
  )

/** Limit of an import on a page, which is one transaction. */
export const maxImported = 500
export const ImportSecrets = bulkOf(maxImported)

export const CreateSecretsBulk = bulkOf(100).annotations({ identifier: "CreateSecretsBulk" })
export type CreateSecretsBulk = typeof CreateSecretsBulk.Type

export const DeleteSecretsBulk = strict(
  Schema.Struct({
    ids: eachOnce(boundedList(SecretId, 1, 100), (id) => id, "must not repeat an earlier id"),
    projectId: ProjectId,
    environment: EnvironmentSlug
  })
).annotations({ identifier: "DeleteSecretsBulk" })
export type DeleteSecretsBulk = typeof DeleteSecretsBulk.Type

export const RollbackSecret = strict(
  Schema.Struct({ version: VersionNumber, expectedVersion: optional(ExpectedVersion) })
).annotations({ identifier: "RollbackSecret" })
export type RollbackSecret = typeof RollbackSecret.Type

export const RenameSecret = strict(
  Schema.Struct({
    key: SecretKey,
    references: optional(
      Schema.Literal("rewrite").annotations({
        message: () => "must be rewrite",
        description:
          "rewrite: templates that refer to it are updated to the new key. Without it they prevent the rename."
      })
    ),
    expectedVersion: optional(ExpectedVersion)
  })
).annotations({ identifier: "RenameSecret" })
export type RenameSecret = typeof RenameSecret.Type

export const RestoreEnvironment = strict(
  Schema.Struct({
    at: Instant.annotations({ description: "Moment to restore, including its own writes." }),
    preview: optional(
      Schema.Boolean.annotations({ description: "Only return the changes, without writing; false by default." })
    ),
    expectedRevision: optional(
      ExpectedVersion.annotations({
        description: "Revision of the preview: refused if the environment has changed since."
      })
    )
  })
).annotations({ identifier: "RestoreEnvironment" })
export type RestoreEnvironment = typeof RestoreEnvironment.Type

/** Text such as an address, a team or a phone number. It gives no rights. */
export const SecretOwner = name(200, "Person or team responsible for the secret, 1 to 200 characters.")
/** Readable by everyone who can read names, so it must not hold a value. */
export const SecretNote = name(1_000, "Purpose of the secret, 1 to 1000 characters. Never a value.")

/** Limit of tags per secret. */
export const maxTags = 10
/** The name that another program has for it, which `run` and files give back. */
const SecretAlias = Schema.String.pipe(
  Schema.pattern(/^[A-Za-z_][A-Za-z0-9_.:-]{0,254}$/, {
    title: "SecretAlias",
    message: () => "must be 1 to 255 letters, digits and _ . : -, starting with a letter or _"
  })
).annotations({ description: "Name of it in another program, like ConnectionStrings__Default." })

const SecretTags = eachOnce(boundedList(SecretTag, 0, maxTags), String, "must not repeat a tag").annotations({
  description: "Words that group secrets, at most 10. The list replaces all tags; an empty list removes them."
})

export const DescribeSecret = strict(
  atLeastOne(
    Schema.Struct({
      owner: optional(Schema.NullOr(SecretOwner)),
      note: optional(Schema.NullOr(SecretNote)),
      rotateBy: optional(Schema.NullOr(CalendarDay)),
      alias: optional(Schema.NullOr(SecretAlias)),
      tags: optional(SecretTags)
    }),
    "owner",
    "note",
    "rotateBy",
    "alias",
    "tags"
  )
).annotations({
  identifier: "DescribeSecret",
  description: "null clears a member; an absent member is unchanged."
})
export type DescribeSecret = typeof DescribeSecret.Type

/** Adds a tag to several secrets, or removes it. Keys that an environment lacks are skipped. */
export const TagSecrets = strict(
  Schema.Struct({
    environments: eachOnce(boundedList(EnvironmentSlug, 1, 12), String, "must not repeat an environment"),
    keys: eachOnce(boundedList(SecretKey, 1, 500), String, "must not repeat a key"),
    tag: SecretTag,
    op: Schema.Literal("add", "remove")
  })
)
export type TagSecrets = typeof TagSecrets.Type

export const EnvironmentQuery = strict(Schema.Struct({ projectId: ProjectId, environment: EnvironmentSlug }))
export type EnvironmentQuery = typeof EnvironmentQuery.Type

const pagedFields = {
  projectId: ProjectId,
  environment: EnvironmentSlug,
  page: optional(Page),
  pageSize: optional(PageSize),
  representation: optional(Representation)
}
export const PagedQuery = strict(Schema.Struct(pagedFields))
export type PagedQuery = typeof PagedQuery.Type

export const ListQuery = strict(
  Schema.Struct({
    ...pagedFields,
    lastRead: optional(
      Schema.Literal("true", "false").annotations({
        identifier: "TrueOrFalse",
        message: () => "must be true or false",
        description: "true: include the last read of each secret. For owners, admins, and API tokens with audit:read."
      })
    )
  })
)
export type ListQuery = typeof ListQuery.Type

const keyPattern = "[A-Z][A-Z0-9_]*"

/** Keys of a query, separated by commas (docs/contract/secrets.md, "Bound reads"). */
const KeyList = Schema.transform(
  Schema.String.annotations({
    jsonSchema: { type: "string", pattern: `^${keyPattern}(,${keyPattern})*$` },
    description: "1 to 500 keys, separated by commas: only these leave, and the entry names them."
  }),
  eachOnce(boundedList(Schema.typeSchema(SecretKey), 1, 500), String, "must not repeat a key"),
  { strict: false, decode: (text) => text.split(","), encode: (keys) => keys.join(",") }
)

export const InjectQuery = strict(
  Schema.Struct({
    ...pagedFields,
    keys: optional(KeyList),
    plan: optional(
      RunPlanId.annotations({
        description: "Id of the plan that this run carries out. It bounds the keys, and works once, for 15 minutes."
      })
    )
  })
)
export type InjectQuery = typeof InjectQuery.Type

export const ReportRun = strict(
  Schema.Struct({
    projectId: ProjectId,
    environment: EnvironmentSlug,
    plan: RunPlanId,
    exitCode: integer(0, 255, "Exit code of the program, 128+N when signal N ended it."),
    durationMillis: integer(0, 86_400_000, "How long the program ran, in milliseconds."),
    output: optional(
      SecretText.annotations({
        description: "End of the program's output with masked values; the last 4096 characters are stored."
      })
    )
  })
).annotations({ identifier: "ReportRun" })
export type ReportRun = typeof ReportRun.Type

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

export const IdempotencyHeaders = Schema.Struct({ "idempotency-key": optional(IdempotencyKey) })
export const SecretPath = Schema.Struct({ secretId: SecretId })
export const EnvironmentPath = Schema.Struct({ envId: EnvironmentId })
