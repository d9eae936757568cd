/** A secret without its value. */
import type { SecretId } from "#schema/Ids.ts"
import type { SecretRef } from "#schema/SecretResponses.ts"
import type { SecretKind } from "#schema/Values.ts"
import type { EnvironmentTarget } from "#src/access/Target.ts"

export interface SecretMetadata {
  readonly id: SecretId
  readonly key: string
  readonly kind: SecretKind
  readonly version: number
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** Only the metadata of a row or record. */
export const metadataOf = ({ createdAt, id, key, kind, updatedAt, version }: SecretMetadata): SecretMetadata => ({
  id,
  key,
  kind,
  version,
  createdAt,
  updatedAt
})

export const refOf = (target: EnvironmentTarget, secret: SecretMetadata): SecretRef => ({
  id: secret.id,
  projectId: target.projectId,
  environment: target.slug,
  key: secret.key,
  kind: secret.kind,
  version: secret.version,
  createdAt: secret.createdAt.toISOString(),
  updatedAt: secret.updatedAt.toISOString()
})

/** Metadata that people write: owner, note, the day by which the value should be replaced, and tags. */
export interface About {
  readonly owner: string | null
  readonly note: string | null
  readonly rotateBy: string | null
  readonly alias: string | null
  readonly tags: ReadonlyArray<string>
}
export const aboutOf = ({ alias, note, owner, rotateBy, tags }: About): About => ({
  owner,
  note,
  rotateBy,
  alias,
  tags
})

/** A live secret with its text as written. */
export interface OpenSecret extends SecretMetadata {
  readonly text: string
}
