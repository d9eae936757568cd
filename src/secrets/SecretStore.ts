/**
 * The secrets of environments, for routes, pages, tools and jobs. Each method asks `Access` itself, and its
 * errors are in its type. A read records its audit entry before a value leaves. A write ends in the pipeline of
 * `Commit.ts`; where changes wait for an approval, it fails with `Proposed`.
 */
import * as Effect from "effect/Effect"
import * as SecretReads from "./SecretReads.ts"
import * as SecretWrites from "./SecretWrites.ts"

export { Proposed } from "./ProposedChanges.ts"
export { maxColumns as maxMatrixColumns } from "./SecretMatrix.ts"

export class SecretStore extends Effect.Service<SecretStore>()("secrets/SecretStore", {
  effect: Effect.all({ reads: SecretReads.make, writes: SecretWrites.make })
}) {}
