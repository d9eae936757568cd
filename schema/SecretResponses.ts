/** Response bodies of the secret routes (docs/contract/secrets.md, "Response bodies"). */
import * as Schema from "effect/Schema"
import { ProjectIdOut, SecretIdOut } from "./Ids.ts"
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
    description: "The output is kept for an hour: the same person, or the same credential, planned the run."
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
  ).annotations({ description: "From the template to what it uses." })
}).annotations({ identifier: "SecretCompositionGraph" })
export type SecretCompositionGraph = typeof SecretCompositionGraph.Type

const SecretVersionItem = Schema.Struct({
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

const DeletedSecret = Schema.Struct({ ...refFields, deletedAt: Timestamp, purgeAt: Timestamp }).annotations({
  identifier: "DeletedSecret"
})
export const DeletedSecretList = Schema.Struct({ items: Schema.Array(DeletedSecret) }).annotations({
  identifier: "DeletedSecretList"
})
export type DeletedSecretList = typeof DeletedSecretList.Type
