/**
 * A JWT of a CI issuer for a short-lived API token, by a trust rule (RFC 8693). The rule is named by its id: found by
 * claims alone, a rule of one team could draw the jobs of another one to itself.
 */
import { createHash } from "node:crypto"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { RuleId } from "#schema/Ids.ts"
import type { AccessLevel } from "#schema/Scopes.ts"
import { codePoints, isPlainName } from "#schema/Values.ts"
import { Audit } from "#src/trail/Audit.ts"
import type { AuditEvent } from "#src/trail/Entry.ts"
import { change } from "#src/access/Change.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import * as Liveness from "#src/credentials/Liveness.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Plans from "#src/limits/Plans.ts"
import { type Policy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"
import { firstMismatch } from "./Claims.ts"
import { Issuers, leeway, peek } from "./Issuers.ts"
import { columns, RuleRow } from "./Rules.ts"

/**
 * "unacceptable": the token, for this rule; one answer for every reason, also for a rule that does not exist. The audit
 * trail of the team that owns the rule has the reason.
 */
export class ExchangeRefused extends Data.TaggedError("ExchangeRefused")<{
  readonly reason: "unacceptable" | "scope" | "issuer"
}> {}

export interface ExchangeRequest {
  readonly ruleId: RuleId
  readonly jwt: string
  /** Narrows a rule that writes. */
  readonly scope: AccessLevel | undefined
}

const perAddress: Policy = [{ limit: 60, millis: 60_000 }]
/** What an issuer vouched for: others cannot use this up. */
const perRule: Policy = [
  { limit: 20, millis: 1_000 },
  { limit: 120, millis: 60_000 }
]
/** Anybody can write a JWT that claims to be for a rule: the trail gets at most so many of them. */
const recordedDenials: Policy = [{ limit: 10, millis: 60_000 }]

const services = Effect.all({
  sql: SqlClient.SqlClient,
  audit: Audit,
  tokens: Tokens,
  issuers: Issuers,
  limiter: RateLimiter,
  rowSeal: RowSeal
})
type Needs = Effect.Effect.Success<typeof services>

const maxName = 100
/** A subject is text of an issuer: what a name may not hold is shown as a question mark. */
export const tokenName = (rule: string, subject: string): string => {
  const shown = [...`${rule}: ${subject}`].map((c) => (c === " " || isPlainName(c) ? c : "?"))
  return codePoints(shown.join("")) <= maxName ? shown.join("") : `${shown.slice(0, maxName - 3).join("")}...`
}

/**
 * What was signed, without the signature: some signature schemes let anybody make a second valid signature of the same
 * text, and base64 has more than one spelling of it.
 */
const digestOf = (jwt: string): Buffer =>
  createHash("sha256")
    .update(jwt.slice(0, jwt.lastIndexOf(".")))
    .digest()

const eventOf = (rule: RuleRow): AuditEvent => ({
  actor: "system",
  action: "machine.exchange",
  outcome: "allowed",
  teamId: rule.teamId,
  target: { type: "machine_rule", id: rule.id, name: rule.name }
})

const denied = Effect.fnUntraced(function* ({ audit, limiter }: Needs, rule: RuleRow, reason: string) {
  const taken = yield* limiter.count(`machine-denials:${rule.id}`, recordedDenials)
  if (taken?.allowed !== false) yield* audit.record({ ...eventOf(rule), outcome: "denied", reason })
  return yield* new ExchangeRefused({ reason: reason === "ISSUER_UNAVAILABLE" ? "issuer" : "unacceptable" })
})

interface VerifiedJwt {
  readonly text: string
  readonly subject: string
  /** Milliseconds. */
  readonly endsAt: number
}

const activeTokensOf = ({ sql }: Needs, { teamId }: RuleRow, now: Date) =>
  Rows.count(sql`
    SELECT count(*) AS n FROM api_tokens
    WHERE team_id = ${teamId} AND rule_id IS NOT NULL AND revoked_at IS NULL AND expires_at > ${now}`)

/** Whether the JWT is presented for the first time. */
const useUp = ({ sql }: Needs, jwt: VerifiedJwt) =>
  Rows.exists(sql`
    INSERT INTO machine_assertions (digest, expires_at)
    VALUES (${digestOf(jwt.text)}, ${new Date(jwt.endsAt + 2 * leeway * 1_000)})
    ON CONFLICT (digest) DO NOTHING RETURNING 1 AS one`)

/** One transaction: the JWT is used up, the token exists and the entry says so, or none of it. */
const mint = function* (needs: Needs, verified: RuleRow, accessLevel: AccessLevel, jwt: VerifiedJwt) {
  const { audit, sql, tokens } = needs
  // Held until the token exists: a change that stops the rule finds its token, or comes before it.
  const rule = yield* Rows.findOne(RuleRow, sql`SELECT ${columns(sql)} WHERE r.id = ${verified.id} FOR SHARE OF r`)
  const now = yield* Clock.currentTimeMillis
  if (rule === undefined || Liveness.ofRule(rule, now) !== "live") return "RULE_STOPPED" as const
  if (!(yield* needs.rowSeal.ready).isAuthentic("machine_rules", rule)) return "RULE_STOPPED" as const
  const active = yield* activeTokensOf(needs, rule, new Date(now))
  if (active >= Plans.plans[rule.plan].activeTokens) return "PLAN_LIMIT_REACHED" as const
  if (!(yield* useUp(needs, jwt))) return "JWT_REPLAYED" as const
  const name = tokenName(rule.name, jwt.subject)
  const { id, text } = yield* tokens.mint({
    teamId: rule.teamId,
    name,
    accessLevel,
    projectIds: rule.projectIds,
    environmentIds: rule.environmentIds,
    mcpScopes: [],
    createdBy: rule.createdBy,
    expiresAt: new Date(now + rule.lifetimeSeconds * 1_000),
    ruleId: rule.id
  })
  yield* audit.append({ ...eventOf(rule), actor: { tokenId: id, name } })
  return { text, expiresIn: rule.lifetimeSeconds, accessLevel }
}

/** When a rule was last used, to the minute; on its own, since exchanges of one rule share it. */
const recordUse = ({ sql }: Needs, id: RuleId) =>
  Effect.flatMap(
    Clock.currentTimeMillis,
    (now) => sql`
      UPDATE machine_rules SET last_used_at = ${new Date(now)}
      WHERE id = ${id} AND (last_used_at IS NULL OR last_used_at < ${new Date(now - 60_000)})`
  ).pipe(Effect.catchAllCause(() => Effect.void))

const exchange = Effect.fn("Exchange.exchange")(function* (needs: Needs, { jwt, ruleId, scope }: ExchangeRequest) {
  const { issuers, limiter, sql } = needs
  const { ip } = yield* RequestInfo
  yield* limiter.take(`machine-${addressBucket(ip)}`, perAddress)
  const unacceptable = new ExchangeRefused({ reason: "unacceptable" })
  const claimed = peek(jwt)
  if (Option.isNone(claimed)) return yield* unacceptable
  const rule = yield* Rows.findOne(RuleRow, sql`SELECT ${columns(sql)} WHERE r.id = ${ruleId}`)
  // Nothing is fetched, and nothing is recorded, for a JWT that was never meant for this rule.
  if (rule === undefined) return yield* unacceptable
  if (rule.revokedAt === null && !(yield* needs.rowSeal.ready).isAuthentic("machine_rules", rule))
    return yield* unacceptable
  if (claimed.value.issuer !== rule.issuer || claimed.value.audience !== rule.audience) return yield* unacceptable
  if (Liveness.ofRule(rule, yield* Clock.currentTimeMillis) !== "live")
    return yield* denied(needs, rule, "RULE_STOPPED")
  const { endsAt, payload, subject } = yield* Effect.catchTag(issuers.verify(rule, jwt), "JwtRefused", ({ reason }) =>
    denied(needs, rule, reason)
  )
  const mismatch = firstMismatch(rule.claims, payload)
  if (mismatch !== undefined) return yield* denied(needs, rule, `CLAIM_MISMATCH ${mismatch}`)
  if (scope === "write" && rule.accessLevel === "read") return yield* new ExchangeRefused({ reason: "scope" })
  yield* limiter.take(`machine-rule:${rule.id}`, perRule)
  const granted = scope ?? rule.accessLevel
  const minted = yield* change(needs, eventOf(rule), () => mint(needs, rule, granted, { text: jwt, subject, endsAt }))
  if (typeof minted === "string") return yield* denied(needs, rule, minted)
  yield* recordUse(needs, rule.id)
  return minted
})

export class Exchange extends Effect.Service<Exchange>()("machines/Exchange", {
  effect: Effect.map(services, (needs) => methods(needs, { exchange }))
}) {}
