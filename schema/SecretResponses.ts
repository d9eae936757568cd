/** Response bodies of the secret routes (docs/contract/secrets.md). */
import * as Schema from "effect/Schema"
import { EnvironmentIdOut, ProjectIdOut, SecretIdOut } from "./Ids.ts"
import { LastRead } from "./ExposureApi.ts"
import { optional } from "./Strict.ts"
import { Timestamp } from "./Values.ts"
import { Actor, Integer, Key, KindOut, openEnum, pageFields, RepresentationOut, Slug, Uuid } from "./Wire.ts"

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

export const RenamedSecret = Schema.Struct({
  ...refFields,
  formerKey: Key,
  rewritten: Schema.Array(Key).annotations({ description: "Keys of the templates that were updated to the new key." })
}).annotations({ identifier: "RenamedSecret" })
export type RenamedSecret = typeof RenamedSecret.Type

export const EnvironmentRestoration = Schema.Struct({
  environmentId: EnvironmentIdOut,
  environment: Slug,
  at: Timestamp,
  preview: Schema.Boolean,
  revision: Integer.annotations({
    jsonSchema: { type: "integer" },
    description: "Revision of the environment: present for a preview, else after the restore."
  }),
  created: Schema.Array(Key).annotations({ description: "Keys that are restored." }),
  updated: Schema.Array(Key).annotations({ description: "Keys that receive an earlier version." }),
  deleted: Schema.Array(Key).annotations({ description: "Keys that did not exist then." }),
  renamed: Schema.Array(Schema.Struct({ from: Key, to: Key }).annotations({ identifier: "RenamedKey" })).annotations({
    description: "Keys that receive their earlier names."
  }),
  lost: Schema.Array(Key).annotations({
    description: "Keys that existed then, but whose version the plan did not keep. They are unchanged."
  }),
  unknown: Schema.Array(Key).annotations({
    description: "Keys that were purged since, and may have existed then. At most 1000."
  })
}).annotations({ identifier: "EnvironmentRestoration", description: "Changes by name. Never a value." })
export type EnvironmentRestoration = typeof EnvironmentRestoration.Type

/** Metadata that people write: not sealed, and readable by everyone who can read the key. */
const aboutFields = {
  owner: Schema.NullOr(Schema.String).annotations({ description: "Person or team responsible for it." }),
  note: Schema.NullOr(Schema.String),
  rotateBy: Schema.NullOr(Schema.String).annotations({ description: "Day by which its value should be replaced." }),
  alias: Schema.NullOr(Schema.String).annotations({ description: "Name of it in another program." }),
  tags: Schema.Array(Schema.String).annotations({ description: "Words that group secrets, sorted." })
} as const

export const DescribedSecret = Schema.Struct({ ...refFields, ...aboutFields }).annotations({
  identifier: "DescribedSecret",
  description: "A secret without its value, with the metadata that people write."
})
export type DescribedSecret = typeof DescribedSecret.Type

export const SecretListItem = Schema.Struct({
  ...refFields,
  ...aboutFields,
  references: Schema.Array(Key).annotations({ description: "Keys that its template uses." }),
  updatedBy: Actor,
  lastRead: optional(
    Schema.NullOr(LastRead).annotations({
      description: "Only if the query requests it. Null: no read in the trail."
    })
  ),
  notReadFor90Days: optional(
    Schema.Boolean.annotations({
      description: "With `lastRead`, for a secret older than 90 days, if the trail goes back that far."
    })
  )
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

const ContainedValue = Schema.Struct({ start: Integer, end: Integer }).annotations({
  identifier: "ContainedValue",
  description: "From start up to, not including, end, in UTF-16 code units."
})

export const InjectedSecrets = Schema.Struct({
  projectId: ProjectIdOut,
  environment: Slug,
  representation: RepresentationOut,
  values: Schema.Record({ key: Schema.String, value: Schema.String }),
  ...pageFields,
  revision: Integer.annotations({
    jsonSchema: { type: "integer" },
    description: "Increases with every change of the environment."
  }),
  contained: optional(
    Schema.Record({ key: Schema.String, value: Schema.Array(ContainedValue) }).annotations({
      description: "Only with keys or a plan: where a value holds values of other keys."
    })
  )
}).annotations({
  identifier: "InjectedSecrets",
  description: "The resolved environment. Without page, pageSize, keys and plan it has everything."
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

const BulkCreateItem = Schema.Struct({
  ...refFields,
  outcome: openEnum("created", "updated", "unchanged")
}).annotations({ identifier: "BulkCreateItem" })

export const BulkCreateResult = Schema.Struct({
  created: Integer,
  updated: Integer,
  unchanged: Integer,
  items: Schema.Array(BulkCreateItem)
}).annotations({ identifier: "BulkCreateResult" })
export type BulkCreateResult = typeof BulkCreateResult.Type

export const RunReported = Schema.Struct({
  plan: Uuid,
  outputKept: Schema.Boolean.annotations({
    description: "Stored for one hour, for the person or the credential that planned the run."
  })
}).annotations({ identifier: "RunReported" })
export type RunReported = typeof RunReported.Type

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
  ).annotations({ description: "From a template to a key that it uses." })
}).annotations({ identifier: "SecretCompositionGraph" })
export type SecretCompositionGraph = typeof SecretCompositionGraph.Type

const SecretVersionItem = Schema.Struct({
  version: Integer,
  key: Key.annotations({ description: "Key of the secret at that version." }),
  kind: KindOut,
  createdAt: Timestamp,
  createdBy: Actor,
  deleted: Schema.Boolean
}).annotations({ identifier: "SecretVersion" })
export const SecretVersionList = Schema.Struct({ items: Schema.Array(SecretVersionItem) }).annotations({
  identifier: "SecretVersionList"
})
export type SecretVersionList = typeof SecretVersionList.Type

const DeletedSecret = Schema.Struct({ ...refFields, deletedAt: Timestamp, purgeAt: Timestamp }).annotations({
  identifier: "DeletedSecret"
})
export const DeletedSecretList = Schema.Struct({ items: Schema.Array(DeletedSecret) }).annotations({
  identifier: "DeletedSecretList"
})
export type DeletedSecretList = typeof DeletedSecretList.Type
