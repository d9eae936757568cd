/**
 * Exchange of a CI issuer's JWT for a short-lived API token, by a trust rule (RFC 8693). The request names the rule's
 * id: in a search by claims, one team's rule could catch another team's jobs.
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
 * "unacceptable": one response for every reason, even for an unknown rule. The trail of the rule's team has the reason.
 */
export class ExchangeRefused extends Data.TaggedError("ExchangeRefused")<{
  readonly reason: "unacceptable" | "scope" | "issuer"
}> {}

export interface ExchangeRequest {
  readonly ruleId: RuleId
  readonly jwt: string
  /** Narrows the access of a rule with write access. */
  readonly scope: AccessLevel | undefined
}

const perAddress: Policy = [{ limit: 60, millis: 60_000 }]
/** Counts only JWTs that the issuer signed, so that others cannot use it up. */
const perRule: Policy = [
  { limit: 20, millis: 1_000 },
  { limit: 120, millis: 60_000 }
]
/** Limits the entries of refusals in the trail, since anyone can write a JWT for a rule. */
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
/** Name of a token. Characters of the issuer's subject that a name may not have become question marks. */
export const tokenName = (rule: string, subject: string): string => {
  const chars = [...`${rule}: ${subject}`].map((c) => (c === " " || isPlainName(c) ? c : "?"))
  return codePoints(chars.join("")) <= maxName ? chars.join("") : `${chars.slice(0, maxName - 3).join("")}...`
}

/**
 * Digest of the signed part. It omits the signature: some schemes let anyone make a second valid signature, and base64
 * has several spellings of one.
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

const deny = Effect.fnUntraced(function* ({ audit, limiter }: Needs, rule: RuleRow, reason: string) {
  const limit = yield* limiter.count(`machine-denials:${rule.id}`, recordedDenials)
  if (limit?.allowed !== false) yield* audit.record({ ...eventOf(rule), outcome: "denied", reason })
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

/** Returns whether this is the JWT's first use. */
const useUp = ({ sql }: Needs, jwt: VerifiedJwt) =>
  Rows.exists(sql`
    INSERT INTO machine_assertions (digest, expires_at)
    VALUES (${digestOf(jwt.text)}, ${new Date(jwt.endsAt + 2 * leeway * 1_000)})
    ON CONFLICT (digest) DO NOTHING RETURNING 1 AS one`)

/** One transaction uses up the JWT, creates the token and adds the entry. */
const mint = function* (needs: Needs, verified: RuleRow, accessLevel: AccessLevel, jwt: VerifiedJwt) {
  const { audit, sql, tokens } = needs
  // Locked until the token exists: a change that stops the rule either precedes this, or sees the token.
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

/** Stores the rule's last use, to the minute, outside the transaction, since parallel exchanges share the row. */
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
  const unverified = peek(jwt)
  if (Option.isNone(unverified)) return yield* unacceptable
  const rule = yield* Rows.findOne(RuleRow, sql`SELECT ${columns(sql)} WHERE r.id = ${ruleId}`)
  // No fetch and no entry for a JWT that was never meant for this rule.
  if (rule === undefined) return yield* unacceptable
  if (rule.revokedAt === null && !(yield* needs.rowSeal.ready).isAuthentic("machine_rules", rule))
    return yield* unacceptable
  if (unverified.value.issuer !== rule.issuer || unverified.value.audience !== rule.audience) return yield* unacceptable
  if (Liveness.ofRule(rule, yield* Clock.currentTimeMillis) !== "live") return yield* deny(needs, rule, "RULE_STOPPED")
  const { endsAt, payload, subject } = yield* Effect.catchTag(issuers.verify(rule, jwt), "JwtRefused", ({ reason }) =>
    deny(needs, rule, reason)
  )
  const mismatch = firstMismatch(rule.claims, payload)
  if (mismatch !== undefined) return yield* deny(needs, rule, `CLAIM_MISMATCH ${mismatch}`)
  if (scope === "write" && rule.accessLevel === "read") return yield* new ExchangeRefused({ reason: "scope" })
  yield* limiter.take(`machine-rule:${rule.id}`, perRule)
  const accessLevel = scope ?? rule.accessLevel
  const token = yield* change(needs, eventOf(rule), () =>
    mint(needs, rule, accessLevel, { text: jwt, subject, endsAt })
  )
  if (typeof token === "string") return yield* deny(needs, rule, token)
  yield* recordUse(needs, rule.id)
  return token
})

export class Exchange extends Effect.Service<Exchange>()("machines/Exchange", {
  effect: Effect.map(services, (needs) => methods(needs, { exchange }))
}) {}
