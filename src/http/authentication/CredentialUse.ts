/** Counts the requests of an identified credential and records its refusals, for REST and `/mcp` alike. */
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { RateLimited } from "#schema/Errors.ts"
import type { Audit } from "#src/trail/Audit.ts"
import { credentialPolicy, type Policy, type RateLimiter } from "#src/limits/RateLimiter.ts"
import { CurrentExchange } from "#src/http/engine/RequestContext.ts"

/** Limit of recorded refusals per credential, so that no client can flood the audit trail. */
const recordedRefusals: Policy = [{ limit: 10, millis: 60_000 }]

/** Records a refused request of an identified credential; over `/mcp`, with the name of the tool. */
export const recordRefusal = Effect.fnUntraced(function* (
  { audit, limiter }: { readonly audit: Audit; readonly limiter: RateLimiter },
  caller: Caller,
  { reason, tool }: { readonly reason: string; readonly tool?: string }
) {
  const state = yield* limiter.count(`refusals:${caller.credentialId}`, recordedRefusals)
  if (state?.allowed === false) return
  yield* audit.record({
    actor: caller,
    action: "credential.refused",
    outcome: "denied",
    teamId: caller.teams.length === 1 ? caller.teams[0].id : null,
    reason,
    ...(tool === undefined ? {} : { target: { type: "tool", id: tool, name: tool } })
  })
})

/** Counts a request in the credential's bucket and puts the state of that bucket on the response. */
export const countUse = Effect.fnUntraced(function* (limiter: RateLimiter, caller: Caller) {
  const exchange = yield* CurrentExchange
  exchange.authenticated = true
  exchange.rateLimit = yield* limiter.count(`credential:${caller.credentialId}`, credentialPolicy)
  if (exchange.rateLimit?.allowed === false) {
    return yield* new RateLimited({ retryAfterSeconds: exchange.rateLimit.retryAfterSeconds })
  }
})
