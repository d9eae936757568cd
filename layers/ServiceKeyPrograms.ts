/** Programs about service keys (`src/cli/operator/ServerSide.ts`). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { AppConfig } from "#src/AppConfig.ts"
import type { ServiceKeyPlan, VaultPrograms } from "#src/cli/operator/ServerSide.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as OldCredentials from "#src/credentials/OldCredentials.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Instance from "#src/crypto/Instance.ts"
import { bindTo } from "#src/crypto/RewrapKeys.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as ServiceKeyRotation from "#src/trail/ServiceKeyRotation.ts"
import { asOperator, withCliFailures, writing } from "./MaintenancePrograms.ts"

const services = Effect.all({
  sql: SqlClient.SqlClient,
  vault: Vault,
  crypto: Crypto,
  keys: ServiceKeys,
  audit: Audit
})
type Needs = Effect.Effect.Success<typeof services>

type Generations = ReadonlyArray<ServiceKeyRotation.KeyGeneration>

const newestOf = (all: Generations) => Math.max(1, ...all.map(({ generation }) => generation))
const newestPepper = (all: Generations) =>
  Math.max(
    1,
    ...all.filter(({ name, use }) => name === "credential-pepper" && use === "writes").map((one) => one.generation)
  )

export const serviceKeys: VaultPrograms["serviceKeys"] = Effect.gen(function* () {
  const { sql } = yield* services
  const generations = yield* ServiceKeyRotation.generations({ sql })
  const { counts, listed } = yield* OldCredentials.find(sql, newestPepper(generations))
  return { generations, counts, listed }
}).pipe(Effect.provide(writing), withCliFailures)

const planOf = Effect.fnUntraced(function* (needs: Needs, alone: boolean, revokeRemaining: boolean) {
  const generations = yield* ServiceKeyRotation.generations(needs)
  const unfinished = ServiceKeyRotation.isUnfinished(generations)
  const plan: ServiceKeyPlan = {
    action: revokeRemaining ? "end" : unfinished ? "finish" : "begin",
    generation: newestOf(generations) + (revokeRemaining || unfinished ? 0 : 1),
    rows: yield* ServiceKeyRotation.rowCount(needs),
    agents: yield* OldCredentials.derivedCount(needs.sql),
    counts: (yield* OldCredentials.find(needs.sql, newestPepper(generations))).counts,
    alone
  }
  return plan
})

const nothingRemains = new CliFailure({
  message: "No credential needs an older generation of the pepper.",
  hint: "`ampoule vault rotate --service-keys` creates a new generation."
})
const unfinishedFirst = new CliFailure({
  message: "A rotation of the service keys is not finished.",
  hint: "Run `ampoule vault rotate --service-keys` first; it goes on where it stopped."
})

const rotated = Effect.fnUntraced(function* (
  needs: Needs,
  { alone }: ServiceKeyPlan,
  onProgress: (done: number, total: number) => Effect.Effect<void>
) {
  const progress = ({ done, total }: { readonly done: number; readonly total: number }) => onProgress(done, total)
  yield* ServiceKeyRotation.begin(needs, alone)
  const agents = yield* OldCredentials.endDerived(needs)
  const instance = yield* Instance.stored(needs.sql)
  if (instance !== undefined) yield* bindTo(needs, { condition: needs.sql`NOT bound`, from: undefined, to: instance })
  const first = yield* ServiceKeyRotation.reseal(needs, progress)
  yield* ServiceKeyRotation.rest(needs, alone)
  // Rows that a server wrote before it had seen the new generation.
  const second = yield* ServiceKeyRotation.reseal(needs, () => Effect.void)
  return { rows: first.done + second.done, agents, refused: second.refused }
})

export const rotateServiceKeys: VaultPrograms["rotateServiceKeys"] = ({ revokeRemaining }, decide, onProgress) =>
  Effect.gen(function* () {
    const needs = yield* services
    const { databaseUrl } = yield* AppConfig
    const alone = Option.isNone(databaseUrl)
    const plan = yield* planOf(needs, alone, revokeRemaining)
    if (plan.action === "end" && ServiceKeyRotation.isUnfinished(yield* ServiceKeyRotation.generations(needs)))
      return yield* unfinishedFirst
    if (plan.action === "end" && plan.counts.length === 0) return yield* nothingRemains
    if (!(yield* decide(plan))) return Option.none()
    const result = plan.action === "end" ? { rows: 0, agents: 0, refused: [] } : yield* rotated(needs, plan, onProgress)
    const ended = plan.action === "end" ? yield* OldCredentials.endAll(needs, plan.generation) : 0
    const removed = yield* ServiceKeyRotation.removeUnused(needs, { alone, refused: result.refused })
    const generations = yield* ServiceKeyRotation.generations(needs)
    const remaining = yield* OldCredentials.find(needs.sql, plan.generation)
    return Option.some({
      generation: plan.generation,
      ...result,
      refused: result.refused.map(({ name, table }) => `${table} ${name}`),
      unfinished: ServiceKeyRotation.isUnfinished(generations),
      ended,
      removed,
      unboundDataKeys: yield* Instance.unboundDataKeys(needs.sql),
      older: generations.filter(({ use }) => use === "verifies"),
      remaining: remaining.counts
    })
  }).pipe(asOperator, Effect.provide(writing), withCliFailures)
