/**
 * Open invitations, as the dashboard lists them and takes them back: the contract has no route for it, the rules hold.
 */
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { CurrentCaller } from "#schema/Caller.ts"
import type { Role } from "#schema/Scopes.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import { Invitations } from "#src/projects/Invitations.ts"
import * as Rooms from "#test/dashboard/Rooms.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.layer.pipe(Layer.provideMerge(MovableClock.layer))
const week = 7 * 86_400_000

const hand = (team: World.Team, person: World.Person) =>
  Effect.gen(function* () {
    const caller = yield* Rooms.callerOf(yield* World.session(person))
    const invitations = yield* Invitations
    const as = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.provideService(work, CurrentCaller, caller)
    return {
      invite: (email: string, role: Role) => as(invitations.invite(team.id, { email, role })),
      open: as(invitations.list(team.id)),
      withdraw: (id: string) => Effect.either(as(invitations.withdraw(team.id, id))),
      trail: as(
        Effect.gen(function* () {
          const trail = yield* AuditTrail
          const { items } = yield* trail.list(team.id, { action: "member.invite_withdraw" })
          return items.map(({ outcome, reason, target }) => [outcome, target?.name, reason])
        })
      )
    }
  })

const codeIn = (url: string) => new URL(url).searchParams.get("code") ?? ""
const tagOf = (result: Either.Either<unknown, { readonly _tag: string }>) =>
  Either.isLeft(result) ? result.left._tag : "done"
const accept = (code: string) =>
  TestApp.post("/invitations/accept", { json: { code, name: "Grace", password: "vial of thirty drops" } })

layer(app, { excludeTestServices: true })("open invitations", (it) => {
  it.effect("are those that wait: not accepted, replaced, withdrawn or past their week", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const owner = yield* hand(team, team.owner)
      const joined = yield* owner.invite(`joined.${team.id}@example.com`, "viewer")
      assert.strictEqual((yield* accept(codeIn(joined.inviteUrl))).status, 200)
      yield* owner.invite("twice@example.com", "viewer")
      const second = yield* owner.invite("twice@example.com", "member")
      const other = yield* owner.invite("other@example.com", "admin")
      const open = yield* owner.open
      assert.deepStrictEqual(
        open.map(({ email, expiresAt, id, invitedBy, role }) => [id, email, role, invitedBy, expiresAt]),
        [
          [other.id, "other@example.com", "admin", team.owner.email, other.expiresAt],
          [second.id, "twice@example.com", "member", team.owner.email, second.expiresAt]
        ]
      )
      yield* MovableClock.advance(week)
      assert.deepStrictEqual(yield* owner.open, [])
      assert.strictEqual(tagOf(yield* owner.withdraw(other.id)), "GRANT_NOT_FOUND")
    })
  )

  it.effect("are taken back with an entry, and leave a link that is as unknown as one that never was", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const owner = yield* hand(team, team.owner)
      const invitation = yield* owner.invite("grace@example.com", "member")
      const code = codeIn(invitation.inviteUrl)
      assert.strictEqual(tagOf(yield* owner.withdraw(invitation.id)), "done")
      assert.deepStrictEqual(yield* owner.open, [])
      assert.deepStrictEqual(yield* owner.trail, [["allowed", "grace@example.com", undefined]])

      const never = code.replace(/^amp_iv_./, (start) => `${start.slice(0, -1)}${start.endsWith("0") ? "1" : "0"}`)
      const [theirs, unknown] = [yield* accept(code), yield* accept(never)]
      assert.deepStrictEqual([theirs.status, theirs.text], [unknown.status, unknown.text])
      assert.strictEqual(theirs.error.code, "CREDENTIAL_INVALID")
      const seen = yield* Effect.either(
        Effect.flatMap(Invitations, (invitations) => invitations.preview(Redacted.make(code)))
      )
      assert.strictEqual(tagOf(seen), "CREDENTIAL_INVALID")

      assert.strictEqual(tagOf(yield* owner.withdraw(invitation.id)), "GRANT_NOT_FOUND")
      // The place is free again.
      assert.lengthOf([yield* owner.invite("grace@example.com", "viewer")], 1)
      assert.lengthOf(yield* owner.open, 1)
    })
  )

  it.effect("of an owner are an owner's to take back or replace, and no other team's at all", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const owner = yield* hand(team, team.owner)
      const admin = yield* hand(team, yield* World.member(team, "admin"))
      const second = yield* owner.invite("second@example.com", "owner")
      const third = yield* owner.invite("third@example.com", "admin")
      assert.lengthOf(yield* admin.open, 2)
      assert.strictEqual(tagOf(yield* admin.withdraw(second.id)), "FORBIDDEN")
      assert.strictEqual(tagOf(yield* Effect.either(admin.invite("second@example.com", "viewer"))), "FORBIDDEN")
      assert.strictEqual(tagOf(yield* admin.withdraw(third.id)), "done")
      assert.deepStrictEqual(
        (yield* owner.open).map(({ email }) => email),
        ["second@example.com"]
      )
      assert.deepStrictEqual(yield* owner.trail, [
        ["allowed", "third@example.com", undefined],
        ["denied", "", "FORBIDDEN"]
      ])

      for (const role of ["member", "viewer"] as const) {
        const person = yield* hand(team, yield* World.member(team, role))
        assert.strictEqual(tagOf(yield* person.withdraw(second.id)), "FORBIDDEN")
        assert.strictEqual(tagOf(yield* Effect.either(person.open)), "FORBIDDEN")
      }
      const elsewhere = yield* World.team()
      const stranger = yield* hand(elsewhere, elsewhere.owner)
      assert.strictEqual(tagOf(yield* stranger.withdraw(second.id)), "GRANT_NOT_FOUND")
      assert.lengthOf(yield* owner.open, 1)
    })
  )

  it.effect("taken back and accepted at the same moment end one way or the other, never both", () =>
    Effect.gen(function* () {
      const team = yield* World.team()
      const sql = yield* SqlClient.SqlClient
      const owner = yield* hand(team, team.owner)
      for (let i = 0; i < 5; i++) {
        const email = `race.${i}.${team.id}@example.com`
        const invitation = yield* owner.invite(email, "viewer")
        const [withdrawn, joined] = yield* Effect.all(
          [owner.withdraw(invitation.id), accept(codeIn(invitation.inviteUrl))],
          {
            concurrency: "unbounded"
          }
        )
        const members = yield* sql`
          SELECT 1 AS one FROM memberships m JOIN users u ON u.id = m.user_id
          WHERE m.team_id = ${team.id} AND u.email = ${email}`
        assert.strictEqual(members.length, joined.status === 200 ? 1 : 0)
        assert.strictEqual(tagOf(withdrawn), joined.status === 200 ? "GRANT_NOT_FOUND" : "done")
      }
    })
  )
})
