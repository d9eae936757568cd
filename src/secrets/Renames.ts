/** A secret gets another key. Its id, versions and metadata stay (docs/contract/secrets.md, "Rename"). */
import * as Effect from "effect/Effect"
import { Forbidden, SecretAlreadyExists, SecretHasDependents, ValueTooLarge } from "#schema/Errors.ts"
import type { SecretId } from "#schema/Ids.ts"
import type { RenameSecret } from "#schema/SecretRequests.ts"
import type { RenamedSecret } from "#schema/SecretResponses.ts"
import * as Composition from "./Composition.ts"
import * as LockedEnvironment from "./LockedEnvironment.ts"
import type { Transaction } from "./LockedEnvironment.ts"
import type { Change } from "./SecretChanges.ts"
import { metadataOf, refOf } from "./SecretMetadata.ts"
import type { Needs } from "./SourcedWrites.ts"
import * as EnvironmentWrite from "./EnvironmentWrite.ts"
import type { Outcome } from "./WriteRequest.ts"

const waitsForNoApproval = () =>
  new Forbidden({
    message: "Changes of this environment wait for an approval. A rename does not: owners and admins do it."
  })

const inUse = (dependents: ReadonlyArray<string>) =>
  new SecretHasDependents({
    dependents,
    message: "Other secrets refer to this one. Set references to rewrite: they get the new key, in a new version each."
  })

/** The templates that refer to it, with the new key. */
const rewritten = Effect.fnUntraced(function* (state: Composition.State, from: string, to: string) {
  const changes: Array<readonly [string, Change]> = []
  for (const { key, text } of Composition.rekeyed(state, from, to)) {
    if (text === undefined) return yield* new ValueTooLarge({ field: "references" })
    changes.push([key, { kind: "template", pinned: false, text, from: "server" }])
  }
  return changes
})

/** The key before, and the keys of the templates that were written with the new one. */
const renameOf = ({ changes, results }: Outcome, key: string) => {
  const change = changes.get(key)
  const formerKey = change !== undefined && change !== null && "continued" in change ? change.continued.key : key
  return { formerKey, rewritten: [...results.keys()].filter((one) => one !== key).sort() }
}

export const rename = Effect.fnUntraced(function* (needs: Needs, id: SecretId, body: RenameSecret) {
  const { expectedVersion, key, references } = body
  const permit = yield* needs.access.environmentOfSecret("secrets:write", id, { audit: "secret.rename", keys: [key] })
  const changes = Effect.fnUntraced(function* (transaction: Transaction) {
    if (permit.proposes) return yield* waitsForNoApproval()
    const secret = yield* LockedEnvironment.expectedSecret(transaction, id, expectedVersion)
    if (transaction.live.has(key)) return yield* new SecretAlreadyExists({ field: "key" })
    const state = yield* transaction.stored
    const stored = state.get(secret.key)
    if (stored === undefined) return yield* Effect.dieMessage("a live secret was not opened")
    const dependents = Composition.dependents(state, secret.key)
    if (dependents.length > 0 && references !== "rewrite") return yield* inUse(dependents)
    const { kind, pinned } = secret
    const write = { kind, pinned, text: Composition.sourceOf(stored), from: "stored" } as const
    return new Map<string, Change>([
      [key, { continued: metadataOf(secret), write }],
      ...(yield* rewritten(state, secret.key, key))
    ])
  })
  const entries = (outcome: Outcome) => {
    const { formerKey, rewritten } = renameOf(outcome, key)
    return [
      permit.event({ keys: [formerKey, key] }),
      ...(rewritten.length > 0 ? [permit.event({ audit: "secret.update", keys: rewritten })] : [])
    ]
  }
  const answer = (outcome: Outcome) =>
    Effect.map(Effect.orDie(Effect.fromNullable(outcome.results.get(key))), ({ secret }): RenamedSecret => ({
      ...refOf(permit.target, secret),
      ...renameOf(outcome, key)
    }))
  const options = { keys: [key], ids: [id], entries, answer, field: "references" }
  return yield* EnvironmentWrite.ofSecret(
    Effect.catchTag(EnvironmentWrite.write(needs, permit, changes, options), "Proposed", Effect.die)
  )
})
