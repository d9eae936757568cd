/**
 * Access grants of projects and environments to people (docs/contract/access.md). A grant is deleted at its end; the
 * trail keeps its entries. `credentials/CredentialRows.ts` reads grants with each credential.
 */
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CreateAccessGrant } from "#schema/AccessApi.ts"
import type { AuditAction } from "#schema/Audit.ts"
import type { CurrentCaller } from "#schema/Caller.ts"
import {
  type EnvironmentNotFound,
  type Forbidden,
  GrantNotFound,
  MemberNotFound,
  PlanLimitReached,
  type ProjectNotFound,
  type StepUpRequired,
  ValidationFailed
} from "#schema/Errors.ts"
import {
  type AccessGrantId,
  AccessGrantIdOut,
  type EnvironmentId,
  EnvironmentIdOut,
  type ProjectId,
  ProjectIdOut,
  type TeamId,
  type UserId,
  UserIdOut
} from "#schema/Ids.ts"
import { GrantLevel, Role } from "#schema/Scopes.ts"
import { Access } from "#src/access/Access.ts"
import { Audit } from "#src/trail/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { Permit } from "#src/access/Permit.ts"
import * as Actions from "#src/access/Actions.ts"
import * as Policy from "#src/access/Policy.ts"
import { orWaits, SecondPerson } from "#src/access/SecondPerson.ts"
import * as RowJournal from "#src/rows/RowJournal.ts"
import { RowSeal } from "#src/rows/RowSeal.ts"
import type { EnvironmentTarget, ProjectTarget } from "#src/access/Target.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { methods } from "#src/Methods.ts"
import * as Rows from "#src/database/Rows.ts"

const services = Effect.all({
  access: Access,
  sql: SqlClient.SqlClient,
  crypto: Crypto,
  audit: Audit,
  rowSeal: RowSeal,
  secondPerson: SecondPerson
})
type Needs = Effect.Effect.Success<typeof services>
type Manage = Permit<"access:manage" | "access:grant", ProjectTarget | EnvironmentTarget>

/** Services for giving a grant, by an admin or by the approval of a request. */
type GrantNeeds = Pick<Needs, "sql" | "crypto" | "audit" | "rowSeal">
type At = Permit<Actions.Action, ProjectTarget | EnvironmentTarget>
interface NewGrant {
  readonly user: { readonly id: UserId; readonly email: string }
  readonly level: GrantLevel
  readonly until: Date | null
  readonly reason: string | null
  readonly createdBy: UserId
}

/** An abuse limit: every request of the person reads them. */
const grantsPerPerson = 200
/** An abuse limit; a list shows all. */
const grantsPerProject = 2_000

const GrantRow = Schema.Struct({
  id: AccessGrantIdOut,
  userId: UserIdOut,
  email: Schema.String,
  projectId: ProjectIdOut,
  environmentId: Schema.NullOr(EnvironmentIdOut),
  environment: Schema.NullOr(Schema.String),
  level: GrantLevel,
  until: Schema.NullOr(Rows.Iso),
  reason: Schema.NullOr(Schema.String),
  createdBy: Schema.Struct({ id: UserIdOut, email: Schema.String }),
  createdAt: Rows.Iso
})
const MemberRow = Schema.Struct({ email: Schema.String, role: Role })
const LimitsRow = Schema.Struct({ ofPerson: Schema.Number, ofProject: Schema.Number })

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    g.id, g.user_id, u.email, g.project_id, g.environment_id, e.slug AS environment, g.level, g.until, g.reason,
    json_build_object('id', c.id, 'email', c.email) AS created_by, g.created_at
    FROM access_grants g
    JOIN users u ON u.id = g.user_id
    JOIN users c ON c.id = g.created_by
    LEFT JOIN environments e ON e.id = g.environment_id`)

const ofProject = ({ access }: Needs, id: ProjectId, audit: AuditAction) =>
  access.project("access:manage", id, { audit })
const ofEnvironment = ({ access }: Needs, id: EnvironmentId, audit: AuditAction) =>
  access.environmentWithId("access:manage", id, { audit })
/** The permit for giving a grant there. */
const toGrant = {
  project: ({ access }: Needs, id: ProjectId) => access.project("access:grant", id, { audit: "access.grant" }),
  environment: ({ access }: Needs, id: EnvironmentId) =>
    access.environmentWithId("access:grant", id, { audit: "access.grant" })
}

/**
 * Grants in force that reach the target: an environment's own and its project's, or all within a project. For a use
 * case that has its permit.
 */
export const reachingTarget = (sql: SqlClient.SqlClient, target: ProjectTarget | EnvironmentTarget, now: Date) => {
  const environmentId = target.type === "environment" ? target.environmentId : null
  return Rows.findAll(
    GrantRow,
    sql`
      SELECT ${columns(sql)}
      WHERE g.project_id = ${target.projectId} AND (g.until IS NULL OR g.until > ${now})
        AND (${environmentId}::uuid IS NULL OR g.environment_id IS NULL OR g.environment_id = ${environmentId})
      ORDER BY u.email, g.id LIMIT ${grantsPerProject}`
  )
}

const inForce = Effect.fnUntraced(function* ({ sql }: Needs, { target }: Manage) {
  return { items: yield* reachingTarget(sql, target, new Date(yield* Clock.currentTimeMillis)) }
})

const listOfProject = Effect.fn("AccessGrants.listOfProject")(function* (needs: Needs, id: ProjectId) {
  return yield* inForce(needs, yield* ofProject(needs, id, "access.list"))
})
const listOfEnvironment = Effect.fn("AccessGrants.listOfEnvironment")(function* (needs: Needs, id: EnvironmentId) {
  return yield* inForce(needs, yield* ofEnvironment(needs, id, "access.list"))
})

/** Grants in force of one person in a team, for a use case that has its permit. */
export const ofPerson = (sql: SqlClient.SqlClient, teamId: TeamId, userId: UserId, now: Date) =>
  Rows.findAll(
    GrantRow,
    sql`
      SELECT ${columns(sql)}
      WHERE g.team_id = ${teamId} AND g.user_id = ${userId} AND (g.until IS NULL OR g.until > ${now})
      ORDER BY g.id LIMIT ${grantsPerPerson}`
  )

/** The person as an active member, locked to the end of the transaction. */
const memberOf = ({ sql }: Needs, { target }: Manage, input: CreateAccessGrant) =>
  Effect.filterOrFail(
    Rows.findOne(
      MemberRow,
      sql`
        SELECT u.email, m.role FROM memberships m JOIN users u ON u.id = m.user_id
        WHERE m.team_id = ${target.teamId} AND m.user_id = ${input.userId} AND m.active FOR SHARE OF m`
    ),
    (row) => row !== undefined,
    () => new MemberNotFound()
  )

const checkLimits = Effect.fnUntraced(function* ({ sql }: GrantNeeds, { target }: At, userId: UserId, now: Date) {
  yield* RowJournal.remove(sql, "access_grants", sql`user_id = ${userId} AND until <= ${now}`)
  const { ofPerson, ofProject } = yield* Rows.single(
    LimitsRow,
    sql`
      SELECT count(*) FILTER (WHERE user_id = ${userId}) AS of_person,
        count(*) FILTER (WHERE project_id = ${target.projectId}) AS of_project
      FROM access_grants WHERE user_id = ${userId} OR project_id = ${target.projectId}`
  )
  if (ofPerson >= grantsPerPerson || ofProject >= grantsPerProject) return yield* new PlanLimitReached()
})

/**
 * Part of a transaction that has checked the member and that the role allows the level. Inserts the grant and its
 * entry; returns the grant's id.
 */
export const give = Effect.fnUntraced(function* (needs: GrantNeeds, permit: At, grant: NewGrant) {
  const { audit, crypto, rowSeal, sql } = needs
  const { target } = permit
  const { createdBy, level, reason, until, user } = grant
  const now = new Date(yield* Clock.currentTimeMillis)
  yield* checkLimits(needs, permit, user.id, now)
  const id = AccessGrantIdOut.make(yield* crypto.uuid)
  const { projectId, teamId } = target
  const environmentId = target.type === "environment" ? target.environmentId : null
  const row = yield* rowSeal.values(
    "access_grants",
    { id, teamId, userId: user.id, projectId, environmentId, level, until },
    { reason, created_by: createdBy, created_at: now }
  )
  yield* Rows.run(sql`INSERT INTO access_grants ${row}`)
  const event = permit.event({ audit: "access.grant", target: targetOf(id, level, user.email) })
  yield* audit.append({ ...event, ...(reason === null ? {} : { reason }) })
  return id
})

const add = (needs: Needs, permit: Manage, input: CreateAccessGrant) =>
  orWaits(
    change(needs, permit.event(), function* () {
      const { sql } = needs
      const creator = permit.caller.user
      if (creator === null) return yield* Effect.dieMessage("only a person gives grants")
      const { email, role } = yield* memberOf(needs, permit, input)
      if (!Policy.levelWithin(role, input.level)) {
        return yield* new ValidationFailed({ field: "level", message: `A ${role} cannot be granted this level.` })
      }
      const now = yield* Clock.currentTimeMillis
      const until = input.until === undefined || input.until === null ? null : new Date(input.until)
      if (until !== null && until.getTime() <= now) {
        return yield* new ValidationFailed({ field: "until", message: "The end must lie in the future." })
      }
      const { level, reason = null, userId } = input
      const { target } = permit
      const waits =
        userId === creator.id
          ? yield* needs.secondPerson.check(
              permit,
              target.type === "environment"
                ? { kind: "environment_grant", environmentId: target.environmentId, input }
                : { kind: "project_grant", projectId: target.projectId, input },
              `a grant of ${level} to oneself`
            )
          : undefined
      if (waits !== undefined) return waits
      const id = yield* give(needs, permit, {
        user: { id: userId, email },
        level,
        until,
        reason,
        createdBy: creator.id
      })
      return yield* Rows.single(GrantRow, sql`SELECT ${columns(sql)} WHERE g.id = ${id}`)
    })
  )

const targetOf = (id: AccessGrantId, level: GrantLevel, email: string) => ({
  type: "access_grant",
  id,
  name: `${level}: ${email}`
})

const grantProject = Effect.fn("AccessGrants.grantProject")(function* (
  needs: Needs,
  id: ProjectId,
  input: CreateAccessGrant
) {
  return yield* add(needs, yield* toGrant.project(needs, id), input)
})
const grantEnvironment = Effect.fn("AccessGrants.grantEnvironment")(function* (
  needs: Needs,
  id: EnvironmentId,
  input: CreateAccessGrant
) {
  return yield* add(needs, yield* toGrant.environment(needs, id), input)
})

const noGrant = () => new GrantNotFound({ message: "No such grant of access." })

/** Ends a grant. GRANT_NOT_FOUND without a visible project, and for a grant that has ended. */
const end = Effect.fn("AccessGrants.end")(function* (needs: Needs, id: AccessGrantId) {
  const { audit, sql } = needs
  const find = Rows.findOne(GrantRow, sql`SELECT ${columns(sql)} WHERE g.id = ${id}`)
  const grant = yield* Effect.filterOrFail(find, (row) => row !== undefined, noGrant)
  const where: Effect.Effect<
    Manage,
    EnvironmentNotFound | Forbidden | ProjectNotFound | StepUpRequired,
    CurrentCaller
  > =
    grant.environmentId === null
      ? ofProject(needs, grant.projectId, "access.end")
      : ofEnvironment(needs, grant.environmentId, "access.end")
  const permit = yield* Effect.catchTags(where, {
    PROJECT_NOT_FOUND: noGrant,
    ENVIRONMENT_NOT_FOUND: noGrant
  })
  yield* change(needs, permit.event(), function* () {
    const isDeleted = yield* Rows.exists(
      RowJournal.noteEnds(sql, "access_grants")`DELETE FROM access_grants WHERE id = ${id} RETURNING id`
    )
    if (!isDeleted) return yield* noGrant()
    yield* audit.append(permit.event({ target: targetOf(id, grant.level, grant.email) }))
  })
})

export class AccessGrants extends Effect.Service<AccessGrants>()("projects/AccessGrants", {
  effect: Effect.map(services, (needs) =>
    methods(needs, { listOfProject, listOfEnvironment, grantProject, grantEnvironment, end })
  )
}) {}
