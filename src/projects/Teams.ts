/** Teams own projects; a person may belong to several (decisions 9). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import type { Caller } from "#schema/Caller.ts"
import { PlanLimitReached } from "#schema/Errors.ts"
import type { MyTeam } from "#schema/IdentityApi.ts"
import { TeamIdOut } from "#schema/Ids.ts"
import type { Plan } from "#schema/Scopes.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import * as Policy from "#src/access/Policy.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"

export class Teams extends Effect.Service<Teams>()("projects/Teams", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const audit = yield* Audit
    const services = { sql, audit }

    /** On the plan `developer`; whoever creates a team is its owner. */
    const create = Effect.fn("Teams.create")(function* (caller: Caller, name: string) {
      const { user } = caller
      if (user === null) return yield* Effect.dieMessage("only a person creates a team")
      const id = TeamIdOut.make(yield* crypto.uuid)
      return yield* change(
        services,
        { actor: caller, action: "team.create", outcome: "allowed", teamId: null },
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          // The person's row is the lock: two requests at once cannot both pass the count.
          yield* sql`SELECT id FROM users WHERE id = ${user.id} FOR NO KEY UPDATE`
          const owned = yield* sql`
            SELECT 1 FROM memberships WHERE user_id = ${user.id} AND role = 'owner' LIMIT ${Plans.teamsPerPerson}`
          if (owned.length >= Plans.teamsPerPerson) return yield* new PlanLimitReached()
          yield* sql`INSERT INTO teams ${sql.insert({ id, name, plan: "developer", created_at: now, updated_at: now })}`
          yield* sql`INSERT INTO memberships ${sql.insert({
            team_id: id,
            user_id: user.id,
            role: "owner",
            created_at: now,
            updated_at: now
          })}`
          yield* audit.append({ actor: caller, action: "team.create", outcome: "allowed", teamId: id })
          const team: MyTeam = { id, name, role: "owner", plan: "developer" }
          return team
        })
      )
    })

    /** The plan needs a permit of its own: only owners change it. Tokens that exist keep their dates on a smaller plan. */
    const update = Effect.fn("Teams.update")(function* (
      permit: TeamPermit<"team:manage">,
      to: { readonly name?: string; readonly plan?: { readonly permit: TeamPermit<"plan:manage">; readonly to: Plan } }
    ) {
      const { teamId } = permit.target
      return yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const now = yield* DateTime.nowAsDate
          const name = to.name ?? null
          const plan = to.plan?.permit.target.teamId === teamId ? to.plan.to : null
          const rows = yield* sql<{ readonly name: string; readonly plan: Plan }>`
            UPDATE teams SET name = coalesce(${name}, name), plan = coalesce(${plan}, plan), updated_at = ${now}
            WHERE id = ${teamId} RETURNING name, plan`
          if (plan === "developer") {
            // Only the current version is kept on this plan (decisions 4), from now on as after each write.
            yield* sql`
              DELETE FROM secret_versions v USING secrets s JOIN environments e ON e.id = s.environment_id
              WHERE s.id = v.secret_id AND v.version < s.version AND e.team_id = ${teamId}`
          }
          yield* audit.append(permit.event())
          const role = Policy.teamOf(permit.caller, teamId)?.role ?? "viewer"
          const team: MyTeam = { id: teamId, name: rows[0].name, role, plan: rows[0].plan }
          return team
        })
      )
    })

    return { create, update } as const
  })
}) {}
