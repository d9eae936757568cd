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
import type { EnvironmentId, ProjectId, RuleId, TeamId, UserId } from "#schema/Ids.ts"
import type { AccessLevel, Plan } from "#schema/Scopes.ts"
import { codePoints, isPlainName } from "#schema/Values.ts"
import { days } from "#src/Days.ts"
import { Audit, type AuditEvent } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import { RequestInfo } from "#src/access/RequestInfo.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import * as Housekeeping from "#src/Housekeeping.ts"
import { addressBucket } from "#src/limits/AddressBucket.ts"
import * as Plans from "#src/limits/Plans.ts"
import { type Policy, RateLimiter } from "#src/limits/RateLimiter.ts"
import { firstMismatch } from "./Claims.ts"
import { Issuers, leeway, peek } from "./Issuers.ts"
import { type RuleStanding, stands } from "./Rules.ts"

/**
 * "unacceptable": the token, for this rule; one answer for every reason, also for a rule that is not there. The reason
 * stands in the team's audit trail.
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

/** Expired tokens of machines stay this long, so that they are told apart from unknown ones. */
const keptAfterExpiry = days(1)

interface RuleRow extends RuleStanding {
  readonly id: RuleId
  readonly teamId: TeamId
  readonly plan: Plan
  readonly name: string
  readonly issuer: string
  readonly audience: string
  readonly claims: Readonly<Record<string, string>>
  readonly accessLevel: AccessLevel
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly lifetimeSeconds: number
  readonly createdBy: UserId
}

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

export class Exchange extends Effect.Service<Exchange>()("machines/Exchange", {
  scoped: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* Audit
    const tokens = yield* Tokens
    const issuers = yield* Issuers
    const limiter = yield* RateLimiter
    const services = { sql, audit }

    const columns = sql.literal(`
      r.id, r.team_id, t.plan, r.name, r.issuer, r.audience, r.claims, r.access_level, r.project_ids, r.environment_ids,
      r.lifetime_seconds, r.created_by, r.revoked_at, m.active AS creator_active,
      m.deactivated_at AS creator_deactivated_at
      FROM machine_rules r
      JOIN teams t ON t.id = r.team_id
      LEFT JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.created_by`)

    const eventOf = (rule: RuleRow): AuditEvent => ({
      actor: "system",
      action: "machine.exchange",
      outcome: "allowed",
      teamId: rule.teamId,
      target: { type: "machine_rule", id: rule.id, name: rule.name }
    })

    const denied = Effect.fnUntraced(function* (rule: RuleRow, reason: string) {
      const taken = yield* limiter.count(`machine-denials:${rule.id}`, recordedDenials)
      if (taken?.allowed !== false) yield* audit.record({ ...eventOf(rule), outcome: "denied", reason })
      return yield* new ExchangeRefused({ reason: reason === "ISSUER_UNAVAILABLE" ? "issuer" : "unacceptable" })
    })

    /** One transaction: the JWT is used up, the token is there and the entry says so, or none of it. */
    const mint = Effect.fnUntraced(function* (
      seen: RuleRow,
      accessLevel: AccessLevel,
      jwt: { readonly text: string; readonly subject: string; readonly endsAt: number }
    ) {
      // Held until the token is there: whoever stops the rule finds its token, or comes before it.
      const [rule] = yield* sql<RuleRow>`SELECT ${columns} WHERE r.id = ${seen.id} FOR SHARE OF r`
      const now = yield* Clock.currentTimeMillis
      if (rule === undefined || !stands(rule, now)) return "RULE_STOPPED" as const
      const [{ n }] = yield* sql<{ readonly n: number }>`
        SELECT count(*)::int AS n FROM api_tokens
        WHERE team_id = ${rule.teamId} AND rule_id IS NOT NULL AND revoked_at IS NULL AND expires_at > ${new Date(now)}`
      if (n >= Plans.plans[rule.plan].activeTokens) return "PLAN_LIMIT_REACHED" as const
      const first = yield* sql`
        INSERT INTO machine_assertions (digest, expires_at)
        VALUES (${digestOf(jwt.text)}, ${new Date(jwt.endsAt + 2 * leeway * 1_000)})
        ON CONFLICT (digest) DO NOTHING RETURNING 1 AS one`
      if (first.length === 0) return "JWT_REPLAYED" as const
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
    })

    const exchange = Effect.fn("Exchange.exchange")(function* ({ jwt, ruleId, scope }: ExchangeRequest) {
      const { ip } = yield* RequestInfo
      yield* limiter.take(`machine-${addressBucket(ip)}`, perAddress)
      const unacceptable = new ExchangeRefused({ reason: "unacceptable" })
      const claimed = peek(jwt)
      if (Option.isNone(claimed)) return yield* unacceptable
      const [rule] = yield* Effect.orDie(sql<RuleRow>`SELECT ${columns} WHERE r.id = ${ruleId}`)
      // Nothing is fetched, and no trail is written to, for a JWT that was never meant for this rule.
      if (rule === undefined) return yield* unacceptable
      if (claimed.value.issuer !== rule.issuer || claimed.value.audience !== rule.audience) return yield* unacceptable
      if (!stands(rule, yield* Clock.currentTimeMillis)) return yield* denied(rule, "RULE_STOPPED")
      const { endsAt, payload, subject } = yield* Effect.catchTag(
        issuers.verify(rule, jwt),
        "JwtRefused",
        ({ reason }) => denied(rule, reason)
      )
      const mismatch = firstMismatch(rule.claims, payload)
      if (mismatch !== undefined) return yield* denied(rule, `CLAIM_MISMATCH ${mismatch}`)
      if (scope === "write" && rule.accessLevel === "read") return yield* new ExchangeRefused({ reason: "scope" })
      yield* limiter.take(`machine-rule:${rule.id}`, perRule)
      const made = yield* change(
        services,
        eventOf(rule),
        mint(rule, scope ?? rule.accessLevel, { text: jwt, subject, endsAt })
      )
      if (typeof made === "string") return yield* denied(rule, made)
      yield* used(rule.id)
      return made
    })

    /** When a rule was last used, to the minute; on its own, since exchanges of one rule share it. */
    const used = (id: RuleId) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => sql`
          UPDATE machine_rules SET last_used_at = ${new Date(now)}
          WHERE id = ${id} AND (last_used_at IS NULL OR last_used_at < ${new Date(now - 60_000)})`
      ).pipe(Effect.catchAllCause(() => Effect.void))

    /** JWTs that could not be presented any more, and tokens that ended. */
    const purge = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      yield* sql`DELETE FROM machine_assertions WHERE expires_at < ${new Date(now)}`
      yield* sql`
        DELETE FROM api_tokens WHERE rule_id IS NOT NULL AND expires_at < ${new Date(now - keptAfterExpiry)}`
    })
    yield* Housekeeping.every("5 minutes", purge, "purge of machine tokens")

    return { exchange, purge: Effect.orDie(purge) } as const
  })
}) {}
