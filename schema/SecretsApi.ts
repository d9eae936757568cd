/**
 * Secret routes of docs/contract/endpoints.md, then the additions of docs/contract/secrets.md, in the order of the
 * OpenAPI document.
 */
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Changes from "./ProjectChangesApi.ts"
import * as Reads from "./SecretReadRoutes.ts"
import * as Writes from "./SecretWriteRoutes.ts"

export class SecretsApi extends HttpApiGroup.make("secrets")
  .add(Writes.create)
  .add(Reads.list)
  .add(Writes.createBulk)
  .add(Reads.listWithValues)
  .add(Reads.readValue)
  .add(Reads.inject)
  .add(Writes.reportRun)
  .add(Reads.diff)
  .add(Writes.remove)
  .add(Writes.deleteBulk)
  .add(Reads.composition)
  .add(Writes.update)
  .add(Writes.rollback)
  .add(Writes.restore)
  .add(Reads.versions)
  .add(Reads.listDeleted)
  .add(Changes.change)
  .add(Reads.described)
  .add(Writes.describe)
  .add(Writes.rename)
  .add(Writes.restoreEnvironment)
  .annotateContext(OpenApi.annotations({ description: "Secrets of an environment." })) {}
