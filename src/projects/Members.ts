/** Who belongs to a team, and what ends when they do not (interface 3 "creator …", decisions 9). */
import * as SqlClient from "@effect/sql/SqlClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { Forbidden, MemberNotFound } from "#schema/Errors.ts"
import type { TeamId, UserId } from "#schema/Ids.ts"
import type { Role } from "#schema/Scopes.ts"
import type { Member, UpdateMember } from "#schema/TeamsApi.ts"
import { days } from "#src/Days.ts"
import { Audit } from "#src/access/Audit.ts"
import { change } from "#src/access/Change.ts"
import type { TeamPermit } from "#src/access/Permit.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { issue } from "#src/credentials/Issue.ts"
import { Revocation, revocationEvents } from "#src/credentials/Revocation.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Plans from "#src/limits/Plans.ts"

interface MemberRow {
  readonly userId: UserId
  readonly email: string
  readonly name: string
  readonly role: Role
  readonly active: boolean
  readonly deactivatedAt: Date | null
}

/** A reset link opens an account: it waits for a day, not longer. */
const resetLife = days(1)

const memberOf = ({ active, email, name, role, userId }: MemberRow): Member => ({ userId, email, name, role, active })
const managers: ReadonlySet<Role> = new Set(["owner", "admin"])

export class Members extends Effect.Service<Members>()("projects/Members", {
  effect: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const crypto = yield* Crypto
    const config = yield* AppConfig
    const audit = yield* Audit
    const revocation = yield* Revocation
    const services = { sql, audit }

    const rowsOf = (teamId: TeamId) => sql<MemberRow>`
      SELECT m.user_id, u.email, u.name, m.role, m.active, m.deactivated_at
      FROM memberships m JOIN users u ON u.id = m.user_id
      WHERE m.team_id = ${teamId} ORDER BY u.email LIMIT ${Plans.membersPerTeam + 1}`

    const list = Effect.fn("Members.list")(function* (permit: TeamPermit<"members:read">) {
      return (yield* rowsOf(permit.target.teamId)).map(memberOf)
    }, Effect.orDie)

    /** The team's members under its lock: changes of members wait for one another, so an owner is always left. */
    const locked = Effect.fnUntraced(function* (teamId: TeamId) {
      yield* sql`SELECT id FROM teams WHERE id = ${teamId} FOR NO KEY UPDATE`
      return yield* rowsOf(teamId)
    })

    /** The acting person as the lock shows them: a role that was lost on the way here does not count. */
    const acting = Effect.fnUntraced(function* (
      permit: TeamPermit<"members:manage">,
      members: ReadonlyArray<MemberRow>
    ) {
      const self = members.find((m) => m.userId === permit.caller.user?.id)
      if (self === undefined || !self.active || !managers.has(self.role)) return yield* new Forbidden()
      return self
    })

    const memberNamed = Effect.fnUntraced(function* (members: ReadonlyArray<MemberRow>, userId: UserId) {
      const member = members.find((m) => m.userId === userId)
      if (member === undefined) return yield* new MemberNotFound()
      return member
    })

    /** "A team keeps at least one active owner" (decisions 9). */
    const keepsAnOwner = (members: ReadonlyArray<MemberRow>, without: UserId) =>
      members.some((m) => m.role === "owner" && m.active && m.userId !== without)
        ? Effect.void
        : new Forbidden({ message: "A team keeps at least one active owner." })

    const onlyOwnersManageOwners = () => new Forbidden({ message: "Only owners manage owners." })

    const update = Effect.fn("Members.update")(function* (
      permit: TeamPermit<"members:manage">,
      userId: UserId,
      input: UpdateMember
    ) {
      const { teamId } = permit.target
      return yield* change(
        services,
        permit.event({ target: { type: "user", id: userId, name: "" } }),
        Effect.gen(function* () {
          const members = yield* locked(teamId)
          const member = yield* memberNamed(members, userId)
          const self = yield* acting(permit, members)
          const role = input.role ?? member.role
          const active = input.active ?? member.active
          if ((member.role === "owner" || role === "owner") && self.role !== "owner")
            return yield* onlyOwnersManageOwners()
          if (role === member.role && active === member.active) return memberOf(member)
          if (role !== "owner" || !active) yield* keepsAnOwner(members, userId)
          const now = yield* DateTime.nowAsDate
          const deactivatedAt = active ? null : (member.deactivatedAt ?? now)
          yield* sql`
            UPDATE memberships SET role = ${role}, active = ${active}, deactivated_at = ${deactivatedAt}, updated_at = ${now}
            WHERE team_id = ${teamId} AND user_id = ${userId}`
          const shutOut = !active && member.active
          yield* revocation.linksBy(userId, teamId)
          if (shutOut) yield* revocation.sessionsWithoutTeam(userId)
          const revoked =
            role !== member.role
              ? yield* revocation.tokensOf(userId, teamId)
              : active && !member.active
                ? yield* revocation.tokensPastGrace(userId, teamId, member.deactivatedAt)
                : []
          if (shutOut) yield* revocation.grantsInTeam(userId, teamId)
          yield* audit.append(
            permit.event({ target: { type: "user", id: userId, name: member.email } }),
            ...revocationEvents(permit.caller, revoked)
          )
          return memberOf({ ...member, role, active })
        })
      )
    })

    /** Takes the person out of the team, in the caller's transaction; answers the entries of what fell with it. */
    const takeOut = Effect.fnUntraced(function* (
      permit: TeamPermit<"members:manage" | "members:read">,
      member: MemberRow,
      options: { readonly signOut: boolean }
    ) {
      const { teamId } = permit.target
      const now = yield* DateTime.nowAsDate
      yield* sql`DELETE FROM memberships WHERE team_id = ${teamId} AND user_id = ${member.userId}`
      // An invitation that still waits for the person would let them in again.
      yield* sql`
        UPDATE invitations SET revoked_at = ${now}
        WHERE team_id = ${teamId} AND email = ${member.email} AND accepted_at IS NULL AND revoked_at IS NULL`
      yield* revocation.linksBy(member.userId, teamId)
      if (options.signOut) yield* revocation.sessionsWithoutTeam(member.userId)
      const revoked = yield* revocation.tokensOf(member.userId, teamId)
      yield* revocation.grantsInTeam(member.userId, teamId)
      return revocationEvents(permit.caller, revoked)
    })

    const remove = Effect.fn("Members.remove")(function* (permit: TeamPermit<"members:manage">, userId: UserId) {
      const { teamId } = permit.target
      yield* change(
        services,
        permit.event({ target: { type: "user", id: userId, name: "" } }),
        Effect.gen(function* () {
          const members = yield* locked(teamId)
          const member = yield* memberNamed(members, userId)
          const self = yield* acting(permit, members)
          if (member.role === "owner" && self.role !== "owner") return yield* onlyOwnersManageOwners()
          yield* keepsAnOwner(members, userId)
          const fell = yield* takeOut(permit, member, { signOut: true })
          yield* audit.append(permit.event({ target: { type: "user", id: userId, name: member.email } }), ...fell)
        })
      )
    })

    /** The person stays signed in, also without a team: they may make one or accept an invitation. */
    const leave = Effect.fn("Members.leave")(function* (permit: TeamPermit<"members:read">) {
      yield* change(
        services,
        permit.event(),
        Effect.gen(function* () {
          const members = yield* locked(permit.target.teamId)
          const self = members.find((m) => m.userId === permit.caller.user?.id)
          if (self === undefined) return yield* new Forbidden()
          yield* keepsAnOwner(members, self.userId)
          const fell = yield* takeOut(permit, self, { signOut: false })
          yield* audit.append(permit.event(), ...fell)
        })
      )
    })

    /**
     * A link that sets the person's password. It opens the whole account, so whoever makes it must manage the person in
     * every team that they belong to; earlier links stop working.
     */
    const passwordResetLink = Effect.fn("Members.passwordResetLink")(function* (
      permit: TeamPermit<"members:manage">,
      userId: UserId
    ) {
      const { teamId } = permit.target
      return yield* change(
        services,
        permit.event({ target: { type: "user", id: userId, name: "" } }),
        Effect.gen(function* () {
          const members = yield* locked(teamId)
          const member = yield* memberNamed(members, userId)
          const self = yield* acting(permit, members)
          if (!(yield* revocation.manages(self.userId, userId))) {
            return yield* new Forbidden({
              message: "A reset link needs whoever makes it to manage the person in all of their teams."
            })
          }
          const now = yield* DateTime.nowAsDate
          const { proof, text } = yield* issue(crypto, "pr")
          yield* revocation.resetLinksOf(userId)
          yield* sql`INSERT INTO password_resets ${sql.insert({
            id: yield* crypto.uuid,
            lookup_id: proof.lookupId,
            salt: proof.salt,
            hash: proof.hash,
            user_id: userId,
            created_by: self.userId,
            created_at: now,
            expires_at: new Date(now.getTime() + resetLife)
          })}`
          yield* audit.append(permit.event({ target: { type: "user", id: userId, name: member.email } }))
          return Redacted.make(`${config.baseUrl}/reset?code=${Redacted.value(text)}`)
        })
      )
    })

    return { list, update, remove, leave, passwordResetLink } as const
  })
}) {}
