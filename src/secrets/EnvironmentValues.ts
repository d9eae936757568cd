/** All values of an environment, from the cached snapshot where one exists. */
import * as Effect from "effect/Effect"
import type { Representation } from "#schema/Values.ts"
import * as OpenSecrets from "./OpenSecrets.ts"
import type { ReadPermit } from "./SecretRows.ts"
import type { Snapshots } from "./Snapshots.ts"
import * as ValuePieces from "./ValuePieces.ts"

export interface Needs extends OpenSecrets.Openers {
  readonly snapshots: Snapshots
}

export const all = (needs: Needs, permit: ReadPermit, representation: Representation) => {
  const { environmentId, revision } = permit.target
  const source = OpenSecrets.source(needs, permit, representation)
  return needs.snapshots.values(environmentId, revision, representation, source)
}

export const byKey = (needs: Needs, permit: ReadPermit) =>
  Effect.flatMap(
    all(needs, permit, "materialized"),
    Effect.fnUntraced(function* ({ members, revision }) {
      return { revision, values: yield* ValuePieces.values(members) }
    })
  )
