import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import type { Scope } from "#schema/Scopes.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { CliGrants, type NewGrant } from "#src/credentials/CliGrants.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { deviceLayer } from "#test/support/DeviceFixtures.ts"
import { world, type World } from "#test/support/Fixtures.ts"
import * as Seals from "#test/support/Seals.ts"
import { auditEntry } from "#test/support/Json.ts"

const day = 86_400_000
const scopes: ReadonlyArray<Scope> = ["identity:read", "secrets:run"]
const as = (caller: Caller) => Effect.provideService(CurrentCaller, caller)

const granted = Effect.fnUntraced(function* (w: World, more: Partial<NewGrant> = {}) {
  const sql = yield* SqlClient.SqlClient
  const grants = yield* CliGrants
  const grant = yield* sql.withTransaction(
    grants.mint({
      userId: w.userId,
      machine: false,
      factorAt: null,
      teams: [{ id: w.teamId, name: "Team", scopes }],
      projectIds: null,
      environmentIds: null,
      hostname: "laptop",
      os: null,
      installationId: null,
      credentialProtection: "os_keychain",
      ...more
    })
  )
  const verify = Effect.flatMap(Authenticate, (authenticate) => authenticate.verify(Redacted.value(grant.text)))
  return { ...grant, verify, life: Effect.map(verify, ({ life }) => life) }
})

/** A second team of the same person. */
const secondTeam = Effect.fnUntraced(function* (w: World) {
  const sql = yield* SqlClient.SqlClient
  const other = yield* world()
  yield* sql`INSERT INTO memberships (team_id, user_id, role, created_at, updated_at)
    VALUES (${other.teamId}, ${w.userId}, 'viewer', ${new Date(0)}, ${new Date(0)})`
  yield* Seals.give("memberships")
  return other
})

layer(deviceLayer)("CLI grants", (it) => {
  it.effect("stop 180 days after their issue, used or not, and after 90 days unused", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const w = yield* world()
      const grant = yield* granted(w)
      const now = yield* Clock.currentTimeMillis
      // The rows move into the past instead of the clock into the future: 180 days of ticking background work are slow.
      const lived = (created: number, used: number | null) =>
        Effect.zipRight(
          Seals.after(
            "cli_grants",
            sql`UPDATE cli_grants SET created_at = ${new Date(now - created)}, expires_at = ${new Date(now - created + 180 * day)},
            last_used_at = ${used === null ? null : new Date(now - used)} WHERE id = ${grant.id}`
          ),
          grant.life
        )
      assert.strictEqual(grant.expiresAt.getTime(), now + 180 * day)
      assert.strictEqual(yield* grant.life, "live")
      assert.strictEqual(yield* lived(180 * day - 1, 0), "live")
      assert.strictEqual(yield* lived(180 * day, 0), "expired")
      assert.strictEqual(yield* lived(90 * day - 1, null), "live")
      assert.strictEqual(yield* lived(90 * day, null), "expired")
      assert.strictEqual(yield* lived(100 * day, 90 * day - 1), "live")
      assert.strictEqual(yield* lived(100 * day, 90 * day), "expired")
    })
  )

  it.effect("are listed to their holder alone, while they work", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const grants = yield* CliGrants
      const w = yield* world()
      const stranger = yield* world()
      const now = yield* Clock.currentTimeMillis
      const idle = yield* granted(w)
      yield* Seals.after(
        "cli_grants",
        sql`UPDATE cli_grants SET created_at = ${new Date(now - 90 * day)} WHERE id = ${idle.id}`
      )
      const revoked = yield* granted(w)
      yield* grants.revokeOwn(revoked.id).pipe(as(w.owner))
      const first = yield* granted(w, { machine: true, environmentIds: [w.developmentId] })
      const second = yield* granted(w)
      const listed = yield* grants.list().pipe(as(w.owner))
      assert.deepStrictEqual(
        listed.map((grant) => grant.id),
        [second.id, first.id]
      )
      assert.deepStrictEqual(listed[1], {
        id: first.id,
        machine: true,
        teams: [{ id: w.teamId, name: "Team", scopes }],
        restrictions: { projectIds: null, environmentIds: [w.developmentId] },
        host: { hostname: "laptop" },
        installationId: null,
        credentialProtection: "os_keychain",
        createdAt: new Date(now).toISOString(),
        expiresAt: new Date(now + 180 * day).toISOString(),
        lastUsedAt: null,
        lastUsedIp: null,
        lastUsedUserAgent: null
      })
      assert.deepStrictEqual(yield* grants.list().pipe(as(stranger.owner)), [])
    })
  )

  it.effect("are revoked by their holder alone, from the next request on", () =>
    Effect.gen(function* () {
      const grants = yield* CliGrants
      const w = yield* world()
      const stranger = yield* world()
      const grant = yield* granted(w)
      const other = yield* granted(w)
      assert.strictEqual(
        (yield* Effect.flip(grants.revokeOwn(grant.id).pipe(as(stranger.owner))))._tag,
        "GRANT_NOT_FOUND"
      )
      assert.strictEqual(yield* grant.life, "live")
      yield* grants.revokeOwn(grant.id).pipe(as(w.owner))
      assert.strictEqual(yield* grant.life, "revoked")
      assert.strictEqual(yield* other.life, "live")
      assert.strictEqual((yield* Effect.flip(grants.revokeOwn(grant.id).pipe(as(w.owner))))._tag, "GRANT_NOT_FOUND")
    })
  )

  it.effect("end themselves at logout; two logouts at once both succeed and are recorded once", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const grants = yield* CliGrants
      const w = yield* world()
      const grant = yield* granted(w)
      const { caller } = yield* grant.verify
      yield* Effect.all([grants.logout(), grants.logout()], { concurrency: "unbounded" }).pipe(as(caller))
      assert.strictEqual(yield* grant.life, "revoked")
      const rows = yield* sql<{ readonly body: string }>`SELECT body FROM audit_entries WHERE team_id = ${w.teamId}`
      const entries = rows.map(auditEntry)
      assert.lengthOf(entries, 1)
      assert.strictEqual(entries[0].action, "grant.revoke")
      assert.deepStrictEqual(entries[0].actor, { type: "cli_grant", id: grant.id, name: w.owner.user?.email ?? null })
    })
  )

  it.effect("lose a team when the person does, for good, and die with the last", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const revocation = yield* Revocation
      const w = yield* world()
      const other = yield* secondTeam(w)
      const both = yield* granted(w, {
        teams: [
          { id: w.teamId, name: "Team", scopes },
          { id: other.teamId, name: "Team", scopes: ["identity:read"] }
        ]
      })
      const one = yield* granted(w)
      const bystander = yield* granted(other)
      assert.lengthOf((yield* both.verify).caller.teams, 2)

      // Switched off, the team is out of reach at once, whatever happens to the grant's rows.
      yield* Seals.after(
        "memberships",
        sql`UPDATE memberships SET active = false WHERE user_id = ${w.userId} AND team_id = ${w.teamId}`
      )
      assert.deepStrictEqual(
        (yield* both.verify).caller.teams.map((team) => team.id),
        [other.teamId]
      )
      assert.strictEqual(yield* one.life, "revoked")
      yield* sql.withTransaction(revocation.grantsInTeam(w.userId, w.teamId))

      // Back in the team, the person signs in anew: the old grants do not come back.
      yield* Seals.after(
        "memberships",
        sql`UPDATE memberships SET active = true WHERE user_id = ${w.userId} AND team_id = ${w.teamId}`
      )
      assert.deepStrictEqual(
        (yield* both.verify).caller.teams.map((team) => team.id),
        [other.teamId]
      )
      assert.strictEqual(yield* both.life, "live")
      assert.strictEqual(yield* one.life, "revoked")
      yield* sql.withTransaction(revocation.grantsInTeam(w.userId, other.teamId))
      assert.strictEqual(yield* both.life, "revoked")
      assert.strictEqual(yield* bystander.life, "live")
    })
  )

  it.effect("carry the role of now beside their scopes, so that they never do more than the person", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const w = yield* world()
      const grant = yield* granted(w)
      assert.strictEqual((yield* grant.verify).caller.teams[0].role, "owner")
      yield* Seals.after("memberships", sql`UPDATE memberships SET role = 'viewer' WHERE user_id = ${w.userId}`)
      assert.strictEqual((yield* grant.verify).caller.teams[0].role, "viewer")
    })
  )

  it.effect("all end at a password reset", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const revocation = yield* Revocation
      const w = yield* world()
      const other = yield* world()
      const mine = [yield* granted(w), yield* granted(w, { machine: true })]
      const theirs = yield* granted(other)
      yield* sql.withTransaction(revocation.loginsOf(w.userId))
      for (const grant of mine) assert.strictEqual(yield* grant.life, "revoked")
      assert.strictEqual(yield* theirs.life, "live")
    })
  )
})
