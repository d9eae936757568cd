/** Trust rules of a team (schema/MachineIdentityApi.ts): owners and admins make them, nothing changes them afterwards. */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import { GrantNotFound, PlanLimitReached, ValidationFailed } from "#schema/Errors.ts"
import {
  type EnvironmentId,
  type ProjectId,
  type RuleId,
  RuleIdOut,
  type TeamId,
  type TokenId,
  type UserId
} from "#schema/Ids.ts"
import type { CreateMachineRule, MachineRule } from "#schema/MachineIdentityApi.ts"
import type { AccessLevel } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { creatorGrace } from "#src/credentials/Liveness.ts"
import { Tokens } from "#src/credentials/Tokens.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Outbound } from "#src/outbound/Outbound.ts"
import { weaknessOf } from "./Claims.ts"

type Manage = TeamPermit<"tokens:manage">

/** An abuse limit; a list shows all. */
export const rulesPerTeam = 200
const defaultLifetime = 900

export interface RuleStanding {
  readonly revokedAt: Date | null
  /** Null: the creator is not in the team any more. */
  readonly creatorActive: boolean | null
  readonly creatorDeactivatedAt: Date | null
}

/** A rule stands as long as a token of its creator would (interface 3), but does not age. */
export const stands = (rule: RuleStanding, now: number): boolean =>
  rule.revokedAt === null &&
  (rule.creatorActive === true ||
    (rule.creatorActive === false &&
      rule.creatorDeactivatedAt !== null &&
      rule.creatorDeactivatedAt.getTime() + creatorGrace > now))

interface RuleRow extends RuleStanding {
  readonly id: RuleId
  readonly teamId: TeamId
  readonly name: string
  readonly issuer: string
  readonly audience: string
  readonly claims: Readonly<Record<string, string>>
  readonly accessLevel: AccessLevel
  readonly projectIds: ReadonlyArray<ProjectId> | null
  readonly environmentIds: ReadonlyArray<EnvironmentId> | null
  readonly lifetimeSeconds: number
  readonly createdBy: UserId
  readonly email: string
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
}

export class Rules extends Effect.Service<Rules>()("machines/Rules", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const tokens = yield* Tokens
    const outbound = yield* Outbound
    const { baseUrl } = yield* AppConfig
    const services = { sql, audit }

    const columns = sql.literal(`
      r.id, r.team_id, r.name, r.issuer, r.audience, r.claims, r.access_level, r.project_ids, r.environment_ids,
      r.lifetime_seconds, r.created_by, u.email, r.created_at, r.last_used_at, r.revoked_at,
      m.active AS creator_active, m.deactivated_at AS creator_deactivated_at
      FROM machine_rules r
      JOIN users u ON u.id = r.created_by
      LEFT JOIN memberships m ON m.team_id = r.team_id AND m.user_id = r.created_by`)

    const records = Effect.fnUntraced(function* (rows: ReadonlyArray<RuleRow>) {
      const reaches = yield* tokens.reachOf(rows)
      const now = yield* Clock.currentTimeMillis
      return rows.map((row, i): MachineRule => ({
        id: row.id,
        teamId: row.teamId,
        name: row.name,
        issuer: row.issuer,
        audience: row.audience,
        claims: row.claims,
        accessLevel: row.accessLevel,
        ...reaches[i],
        lifetimeSeconds: row.lifetimeSeconds,
        state: stands(row, now) ? "active" : "stopped",
        createdBy: { id: row.createdBy, email: row.email },
        createdAt: row.createdAt.toISOString(),
        lastUsedAt: row.lastUsedAt?.toISOString() ?? null
      }))
    })

    /** VALIDATION_FAILED for a rule that nobody can mean: an issuer out of reach, or one that would let in strangers. */
    const check = Effect.fnUntraced(function* ({ claims, issuer }: Pick<CreateMachineRule, "claims" | "issuer">) {
      if (!outbound.allows(issuer) || issuer.includes("?")) {
        return yield* new ValidationFailed({
          field: "issuer",
          message: "The issuer must be a public https address, without query, fragment or credentials."
        })
      }
      const weakness = weaknessOf(issuer, claims)
      if (weakness?.problem === "open-name") {
        return yield* new ValidationFailed({
          field: `claims.${weakness.claim}`,
          message: "In this claim an asterisk must follow a slash or a colon: else it matches longer names of others."
        })
      }
      if (weakness !== undefined) {
        return yield* new ValidationFailed({
          field: "claims",
          message:
            "This issuer signs for everybody: bind the owner of the job (repository or project, or sub with the full path)."
        })
      }
    })

    const create = Effect.fn("Rules.create")(function* (permit: Manage, input: CreateMachineRule) {
      const { teamId } = permit.target
      const { claims, issuer } = input
      yield* check(input)
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const user = yield* tokens.stillManages(permit)
          const projectIds = yield* tokens.projectsOf(teamId, input.projects)
          const environmentIds = yield* tokens.environmentsOf(teamId, projectIds, input.environments)
          const [{ n }] = yield* sql<{ readonly n: number }>`
            SELECT count(*)::int AS n FROM machine_rules WHERE team_id = ${teamId}`
          if (n >= rulesPerTeam) return yield* new PlanLimitReached()
          const id = RuleIdOut.make(yield* crypto.uuid)
          yield* sql`
            INSERT INTO machine_rules (id, team_id, name, issuer, audience, claims, access_level, project_ids,
              environment_ids, lifetime_seconds, created_by, created_at)
            VALUES (${id}, ${teamId}, ${input.name}, ${issuer}, ${input.audience ?? baseUrl},
              ${JSON.stringify(claims)}::jsonb, ${input.accessLevel ?? "read"}, ${projectIds}::uuid[],
              ${environmentIds}::uuid[], ${input.lifetimeSeconds ?? defaultLifetime}, ${user.id},
              ${yield* DateTime.nowAsDate})`
          yield* audit.append(permit.event({ target: { type: "machine_rule", id, name: input.name } }))
          const [made] = yield* records(yield* sql<RuleRow>`SELECT ${columns} WHERE r.id = ${id}`)
          return made
        })
      )
    })

    const list = Effect.fn("Rules.list")(function* (permit: Manage) {
      const rows = yield* sql<RuleRow>`
        SELECT ${columns} WHERE r.team_id = ${permit.target.teamId} ORDER BY r.id DESC LIMIT ${rulesPerTeam}`
      return yield* records(rows)
    }, Effect.orDie)

    /** The rule and what machines got by it. */
    const remove = Effect.fn("Rules.remove")(function* (permit: Manage, ruleId: RuleId) {
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          yield* tokens.stillManages(permit)
          const rows = yield* sql<{ readonly name: string }>`
            DELETE FROM machine_rules WHERE id = ${ruleId} AND team_id = ${permit.target.teamId} RETURNING name`
          if (rows.length === 0) return yield* new GrantNotFound({ message: "No such trust rule." })
          // An exchange holds its rule until its token is there: none comes after this.
          const fell = yield* sql<{ readonly id: TokenId; readonly name: string }>`
            UPDATE api_tokens SET revoked_at = ${yield* DateTime.nowAsDate}
            WHERE rule_id = ${ruleId} AND revoked_at IS NULL AND expires_at > ${yield* DateTime.nowAsDate}
            RETURNING id, name`
          yield* audit.append(
            permit.event({ target: { type: "machine_rule", id: ruleId, name: rows[0].name } }),
            ...fell.map(({ id, name }) =>
              permit.event({ audit: "token.revoke", target: { type: "api_token", id, name } })
            )
          )
        })
      )
    })

    return { check, create, list, remove } as const
  })
}) {}
