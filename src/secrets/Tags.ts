/** A tag for several secrets of a project at once, in several environments: all of the named secrets, or none. */
import * as Effect from "effect/Effect"
import { EnvironmentNotFound, ValidationFailed } from "#schema/Errors.ts"
import type { ProjectId } from "#schema/Ids.ts"
import { maxTags, type TagSecrets } from "#schema/SecretRequests.ts"
import type * as SqlClient from "@effect/sql/SqlClient"
import type { Access } from "#src/access/Access.ts"
import type { Audit } from "#src/trail/Audit.ts"
import { recordDenials } from "#src/access/Change.ts"
import type { EnvironmentPermit } from "#src/access/Permit.ts"
import * as Rows from "#src/database/Rows.ts"
import { tagsTarget, waitsForNoApproval, writeTag } from "./SecretAbout.ts"

interface Needs {
  readonly access: Access
  readonly audit: Audit
  readonly sql: SqlClient.SqlClient
}
type WritePermit = EnvironmentPermit<"secrets:write">

/** All environments are found before a right to any is decided, as for changes of several environments. */
const permitsOf = Effect.fnUntraced(function* (
  { access, audit }: Needs,
  projectId: ProjectId,
  { environments, keys }: TagSecrets
) {
  for (const environment of environments) yield* access.visibleEnvironment({ projectId, environment })
  const permits: Array<WritePermit> = []
  for (const environment of environments) {
    const intent = { audit: "secret.describe", keys } as const
    const permit = yield* access.environment("secrets:write", { projectId, environment }, intent)
    if (permit.proposes) yield* recordDenials(audit, permit.event({ keys }), waitsForNoApproval())
    permits.push(permit)
  }
  // Always locked in the same order.
  return permits.sort((a, b) => (a.target.environmentId < b.target.environmentId ? -1 : 1))
})

/** Returns the number of changed secrets. It makes no version, and needs no approval. */
export const tag = Effect.fnUntraced(function* (needs: Needs, projectId: ProjectId, body: TagSecrets) {
  const { audit, sql } = needs
  const permits = yield* permitsOf(needs, projectId, body)
  const sign = body.op === "add" ? "+" : "-"
  return yield* Rows.transaction(sql, function* () {
    let changed = 0
    for (const permit of permits) {
      const { environmentId } = permit.target
      const isLive = yield* Rows.exists(sql`
        UPDATE environments SET described = described + 1 WHERE id = ${environmentId} AND deleted_at IS NULL
        RETURNING id`)
      if (!isLive) return yield* new EnvironmentNotFound()
      const rows = yield* writeTag(sql, permit, body)
      const full = rows.find(({ tags }) => tags > maxTags)
      if (full !== undefined) {
        return yield* new ValidationFailed({ field: "tag", message: `${full.key} has ${maxTags} tags already` })
      }
      changed += rows.length
      const keys = rows.map(({ key }) => key).sort()
      if (keys.length > 0) {
        yield* audit.append(permit.event({ keys, target: tagsTarget(environmentId, `${sign}${body.tag}`) }))
      }
    }
    return changed
  })
})
