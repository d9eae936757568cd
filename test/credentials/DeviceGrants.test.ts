import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/TestClock"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import type { ApproveDevice } from "#schema/DeviceApi.ts"
import type { Role, Scope } from "#schema/Scopes.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { Authenticate } from "#src/credentials/Authenticate.ts"
import { DeviceGrants } from "#src/credentials/DeviceGrants.ts"
import { type DeviceSignal, lifetimeSeconds, maxStreamsEach } from "#src/credentials/DeviceRequests.ts"
import * as EndedCredentials from "#src/credentials/EndedCredentials.ts"
import { Revocation } from "#src/credentials/Revocation.ts"
import { RateLimits } from "#src/limits/RateLimiter.ts"
import { deviceLayer, otherProcess } from "#test/support/DeviceFixtures.ts"
import { world, type World } from "#test/support/Fixtures.ts"
import { freshAddress } from "#test/support/FreshAddress.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as Seals from "#test/support/Seals.ts"

const scopes: ReadonlyArray<Scope> = ["identity:read", "projects:read", "secrets:read", "secrets:run"]
const granting = (w: World, more: Partial<ApproveDevice> = {}): ApproveDevice => ({
  teams: [{ teamId: w.teamId, scopes: ["identity:read", "projects:read", "secrets:read", "secrets:run"] }],
  ...more
})
const as = (caller: Caller) => Effect.provideService(CurrentCaller, caller)
/** Limits count per address; a test that needs a fresh one says so. */
const from = (ip: string) =>
  Effect.provideService(RequestInfo, { id: "test", ip, userAgent: null, via: "rest" as const })
/** Lets what other fibers ask of the database come back: one round trip behind theirs. */
const settled = Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.repeatN(sql`SELECT 1`, 5)).pipe(Effect.orDie)
const fromFresh = () => from(freshAddress())

const begin = Effect.fnUntraced(function* (asked: Parameters<DeviceGrants["start"]>[0] = null) {
  const device = yield* DeviceGrants
  const started = yield* device.start(asked).pipe(fromFresh())
  return { ...started, code: Redacted.make(started.deviceCode), poll: device.poll(Redacted.make(started.deviceCode)) }
})

layer(deviceLayer)("device authorization", (it) => {
  it.effect("starts with a code pair that lives 10 minutes and is polled every 5 seconds", () =>
    Effect.gen(function* () {
      const started = yield* begin()
      assert.match(started.deviceCode, /^amp_dc_[0-9A-Za-z]{16}_[0-9A-Za-z]{49}$/)
      assert.match(started.userCode, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/)
      assert.strictEqual(started.verificationUri, "http://127.0.0.1:4400/device")
      assert.strictEqual(started.verificationUriComplete, `http://127.0.0.1:4400/device?code=${started.userCode}`)
      assert.strictEqual(started.expiresInSeconds, 600)
      assert.strictEqual(started.pollIntervalSeconds, 5)
    })
  )

  it.effect("keeps neither code in the database", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { deviceCode, userCode } = yield* begin({ host: { hostname: "laptop", os: "linux" } })
      const rows = yield* sql<{ readonly text: string }>`SELECT r::text AS text FROM device_requests r`
      const dump = rows.map((row) => row.text).join("\n")
      const secret = deviceCode.slice(-49, -6)
      for (const hidden of [secret, userCode, userCode.replace("-", "")]) {
        assert.notInclude(dump, hidden)
        assert.notInclude(dump, Buffer.from(hidden).toString("hex"))
      }
    })
  )

  it.effect(
    "answers pending until a person decides, and slow_down to a poll before its interval, which then grows by 5 s",
    () =>
      Effect.gen(function* () {
        const { poll } = yield* begin()
        const pending = { status: "pending" } as const
        const slowDown = { status: "pending", reason: "slow_down" } as const
        assert.deepStrictEqual(yield* poll, pending)
        yield* TestClock.adjust("4999 millis")
        assert.deepStrictEqual(yield* poll, slowDown)
        // 10 s from here on, counted from the last poll, whether it was too soon or not.
        yield* TestClock.adjust("9999 millis")
        assert.deepStrictEqual(yield* poll, slowDown)
        yield* TestClock.adjust("15 seconds")
        assert.deepStrictEqual(yield* poll, pending)
        yield* TestClock.adjust("15 seconds")
        assert.deepStrictEqual(yield* poll, pending)
        yield* TestClock.adjust("14 seconds")
        assert.deepStrictEqual(yield* poll, slowDown)
      })
  )

  it.effect("slows down also when rate limits are off", () =>
    Effect.gen(function* () {
      const { poll } = yield* begin()
      yield* poll
      assert.deepStrictEqual(yield* poll, { status: "pending", reason: "slow_down" })
    }).pipe(Effect.provideService(RateLimits, "off"))
  )

  it.effect("has room for a few streams of one code, and for another when one of them ends", () =>
    Effect.gen(function* () {
      const device = yield* DeviceGrants
      const { code } = yield* begin()
      const open = Effect.gen(function* () {
        const signals = yield* device.events(code)
        const begun = yield* Queue.unbounded<DeviceSignal>()
        const fiber = yield* Effect.forkScoped(Stream.runForEach(signals, (signal) => Queue.offer(begun, signal)))
        assert.deepStrictEqual(yield* Queue.take(begun), { event: "connected" })
        return fiber
      })
      const fibers = yield* Effect.replicateEffect(open, maxStreamsEach)
      assert.strictEqual((yield* Effect.flip(device.events(code)))._tag, "RATE_LIMITED")
      const other = yield* begin()
      yield* device.events(other.code)
      yield* Fiber.interrupt(fibers[0])
      yield* open
    }).pipe(Effect.scoped)
  )

  it.effect("takes no approval of a session that ended while it was on its way", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      const at = new Date(yield* Clock.currentTimeMillis)
      yield* sql`INSERT INTO sessions ${sql.insert({
        id: w.owner.credentialId,
        lookup_id: "0".repeat(16),
        salt: Buffer.alloc(16),
        hash: Buffer.alloc(32),
        user_id: w.userId,
        created_at: at,
        expires_at: at,
        last_used_at: at,
        revoked_at: at
      })}`
      const refused = yield* Effect.flip(device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh()))
      assert.strictEqual(refused._tag, "FORBIDDEN")
      assert.strictEqual((yield* poll).status, "pending")
    })
  )

  it.effect("answers a decided grant at once, whatever the pace", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      yield* poll
      yield* poll
      yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      assert.strictEqual((yield* poll).status, "granted")
    })
  )

  it.effect("delivers a working credential once, then says consumed", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const authenticate = yield* Authenticate
      const { poll, userCode } = yield* begin({ host: { hostname: "laptop" } })
      yield* device.approve(userCode.toLowerCase().replace("-", " "), granting(w)).pipe(as(w.owner), fromFresh())
      const granted = yield* poll
      const now = yield* Clock.currentTimeMillis
      assert.match(granted.credential ?? "", /^amp_cg_/)
      assert.deepStrictEqual(
        { ...granted, credential: "", grantId: "" },
        {
          status: "granted",
          credential: "",
          grantId: "",
          expiresAt: new Date(now + 180 * 86_400_000).toISOString(),
          user: { id: w.userId, email: w.owner.user?.email ?? "" },
          teams: [{ id: w.teamId, name: "Team", scopes }],
          restrictions: { projectIds: null, environmentIds: null }
        }
      )
      const { caller, life } = yield* authenticate.verify(granted.credential ?? "")
      assert.strictEqual(life, "live")
      assert.strictEqual(caller.credentialId, granted.grantId)
      assert.deepStrictEqual(caller.teams[0].scopes, scopes)
      assert.deepStrictEqual(yield* poll, { status: "failed", reason: "consumed" })
      yield* TestClock.adjust("11 minutes")
      assert.deepStrictEqual(yield* poll, { status: "failed", reason: "consumed" })
    })
  )

  it.effect("gives 100 concurrent polls one credential", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      for (let round = 0; round < 3; round++) {
        const { poll, userCode } = yield* begin()
        yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
        const answers = yield* Effect.all(
          Array.from({ length: 100 }, () => poll),
          { concurrency: "unbounded" }
        )
        const granted = answers.filter((answer) => answer.status === "granted")
        assert.lengthOf(granted, 1)
        assert.lengthOf(
          answers.filter((answer) => answer.status === "failed" && answer.reason === "consumed"),
          99
        )
        const [{ n }] = yield* sql<{
          readonly n: number
        }>`SELECT count(*)::int AS n FROM cli_grants WHERE user_id = ${w.userId}`
        assert.strictEqual(n, round + 1)
      }
    })
  )

  it.effect("answers polls that race the approval with pending, then one credential", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      const [answers] = yield* Effect.all(
        [
          Effect.all(
            Array.from({ length: 20 }, () => poll),
            { concurrency: "unbounded" }
          ),
          device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
        ],
        { concurrency: "unbounded" }
      )
      const late = yield* poll
      const granted = [...answers, late].filter((answer) => answer.credential !== undefined)
      assert.lengthOf(granted, 1)
    })
  )

  it.effect("is unattended only when the client asked and the approver left it on", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const outcome = Effect.fnUntraced(function* (asked: boolean, machine: boolean | undefined) {
        const { poll, userCode } = yield* begin(asked ? { machineCredential: "grant" } : {})
        yield* device
          .approve(userCode, granting(w, machine === undefined ? {} : { machine }))
          .pipe(as(w.owner), fromFresh())
        const { credential, status } = yield* poll
        const { caller } = yield* Effect.flatMap(Authenticate, (authenticate) => authenticate.verify(credential ?? ""))
        assert.strictEqual(caller.machine, status === "granted-machine")
        return status
      })
      assert.strictEqual(yield* outcome(true, true), "granted-machine")
      assert.strictEqual(yield* outcome(true, undefined), "granted-machine")
      assert.strictEqual(yield* outcome(true, false), "granted")
      assert.strictEqual(yield* outcome(false, true), "granted")
      assert.strictEqual(yield* outcome(false, undefined), "granted")
    })
  )

  it.effect("fails as denied, expired or unknown", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const denied = yield* begin()
      yield* device.deny(denied.userCode).pipe(as(w.owner), fromFresh())
      assert.deepStrictEqual(yield* denied.poll, { status: "failed", reason: "denied" })

      const expired = yield* begin()
      const approvedLate = yield* begin()
      yield* TestClock.adjust(`${lifetimeSeconds - 1} seconds`)
      yield* device.approve(approvedLate.userCode, granting(w)).pipe(as(w.owner), fromFresh())
      assert.deepStrictEqual(yield* expired.poll, { status: "pending" })
      yield* TestClock.adjust("1 seconds")
      assert.deepStrictEqual(yield* expired.poll, { status: "failed", reason: "expired" })
      assert.deepStrictEqual(yield* approvedLate.poll, { status: "failed", reason: "expired" })

      const { deviceCode } = yield* begin()
      const wrongSecret = deviceCode.slice(0, 30) + (deviceCode[30] === "a" ? "b" : "a") + deviceCode.slice(31)
      for (const text of ["", "nonsense", wrongSecret, deviceCode.replace("amp_dc", "amp_cg"), deviceCode + "x"]) {
        assert.deepStrictEqual(yield* device.poll(Redacted.make(text)), { status: "failed", reason: "unknown" })
      }
    })
  )

  it.effect("shows a person what asks, and says what became of it", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { userCode } = yield* begin({
        credentialProtection: "plaintext_local",
        machineCredential: "grant",
        host: { hostname: "build-7", os: "linux" }
      }).pipe(from("203.0.113.7"))
      const show = device.show(userCode).pipe(as(w.owner), fromFresh())
      const now = yield* Clock.currentTimeMillis
      const seen = yield* show
      assert.deepStrictEqual(
        { ...seen, ip: "" },
        {
          userCode,
          createdAt: new Date(now).toISOString(),
          expiresAt: new Date(now + 600_000).toISOString(),
          ip: "",
          host: { hostname: "build-7", os: "linux" },
          credentialProtection: "plaintext_local",
          machineRequested: true,
          status: "pending"
        }
      )
      assert.match(seen.ip, /^198\.18\./)
      yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      assert.strictEqual((yield* show).status, "approved")
    })
  )

  it.effect("is decided once", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      const decisions = yield* Effect.all(
        [
          ...Array.from({ length: 4 }, () =>
            Effect.either(device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh()))
          ),
          ...Array.from({ length: 4 }, () => Effect.either(device.deny(userCode).pipe(as(w.owner), fromFresh())))
        ],
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        decisions.filter((decision) => decision._tag === "Right"),
        1
      )
      for (const decision of decisions) {
        if (decision._tag === "Left") assert.strictEqual(decision.left._tag, "GRANT_ALREADY_DECIDED")
      }
      const won = decisions.find((decision) => decision._tag === "Right")
      const status = won?._tag === "Right" ? won.right.status : undefined
      assert.strictEqual((yield* poll).status, status === "approved" ? "granted" : "failed")
    })
  )

  it.effect("cannot be decided after it expired", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { userCode } = yield* begin()
      yield* TestClock.adjust("10 minutes")
      const approve = device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      assert.strictEqual((yield* Effect.flip(approve))._tag, "GRANT_NOT_FOUND")
      assert.strictEqual(
        (yield* Effect.flip(device.deny(userCode).pipe(as(w.owner), fromFresh())))._tag,
        "GRANT_NOT_FOUND"
      )
      assert.strictEqual((yield* device.show(userCode).pipe(as(w.owner), fromFresh())).status, "expired")
    })
  )

  it.effect("gives away only what the person may do, in teams and on projects that the person sees", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const other = yield* world()
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      const attempt = (role: Role, body: ApproveDevice) =>
        Effect.map(Effect.either(device.approve(userCode, body).pipe(as(w.person(role)), fromFresh())), (tried) =>
          tried._tag === "Left" ? tried.left._tag : "OK"
        )
      const one = (scope: "secrets:write" | "secrets:run" | "secrets:read_values") => ({
        teams: [{ teamId: w.teamId, scopes: [scope] }]
      })
      for (const scope of ["secrets:write", "secrets:run", "secrets:read_values"] as const) {
        assert.strictEqual(yield* attempt("viewer", one(scope)), "FORBIDDEN")
      }
      const both = { teams: [...granting(w).teams, ...granting(other).teams] }
      assert.strictEqual(yield* attempt("owner", both), "TEAM_NOT_FOUND")
      assert.strictEqual(
        yield* attempt("owner", granting(w, { projectIds: [w.projectId, other.projectId] })),
        "PROJECT_NOT_FOUND"
      )
      assert.strictEqual(
        yield* attempt("owner", granting(w, { environmentIds: [w.developmentId, other.developmentId] })),
        "ENVIRONMENT_NOT_FOUND"
      )
      assert.strictEqual(
        yield* attempt("owner", { teams: [...granting(w).teams, ...granting(w).teams] }),
        "VALIDATION_FAILED"
      )
      assert.deepStrictEqual(yield* poll, { status: "pending" })
      assert.strictEqual(yield* attempt("viewer", { teams: [{ teamId: w.teamId, scopes: ["secrets:read"] }] }), "OK")
    })
  )

  it.effect("carries its restrictions into the credential", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      const body = granting(w, { projectIds: [w.projectId, w.projectId], environmentIds: [w.developmentId] })
      yield* device.approve(userCode, body).pipe(as(w.owner), fromFresh())
      const restrictions = { projectIds: [w.projectId], environmentIds: [w.developmentId] }
      const granted = yield* poll
      assert.deepStrictEqual(granted.restrictions, restrictions)
      const { caller } = yield* Effect.flatMap(Authenticate, (a) => a.verify(granted.credential ?? ""))
      assert.deepStrictEqual(caller.restrictions, restrictions)
    })
  )

  it.effect("takes 10 wrong codes per session in 10 minutes, whatever the address; right ones do not count", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { userCode } = yield* begin()
      const enter = (code: string) =>
        Effect.map(Effect.either(device.show(code).pipe(as(w.owner), fromFresh())), (tried) =>
          tried._tag === "Left" ? tried.left._tag : "OK"
        )
      for (let i = 0; i < 12; i++) assert.strictEqual(yield* enter(userCode), "OK")
      for (let i = 0; i < 10; i++) assert.strictEqual(yield* enter("BBBB-BBBB"), "GRANT_NOT_FOUND")
      assert.strictEqual(yield* enter("BBBB-BBBB"), "RATE_LIMITED")
      // Otherwise guessing would go on unhindered.
      assert.strictEqual(yield* enter(userCode), "RATE_LIMITED")
      const approve = device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      assert.strictEqual((yield* Effect.flip(approve))._tag, "RATE_LIMITED")
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(yield* enter("BBBB-BBBB"), "GRANT_NOT_FOUND")
    })
  )

  it.effect(
    "takes 10 wrong codes per address in 10 minutes, whatever the session, also when they come all at once",
    () =>
      Effect.gen(function* () {
        const device = yield* DeviceGrants
        const tried = yield* Effect.forEach(
          Array.from({ length: 30 }, (_, i) => i),
          (i) =>
            Effect.flatMap(world(), (w) =>
              Effect.flip(device.deny(i % 2 === 0 ? "BBBBBBBB" : "not a code").pipe(as(w.owner), from("198.51.100.9")))
            ),
          { concurrency: "unbounded" }
        )
        assert.lengthOf(
          tried.filter((error) => error._tag === "GRANT_NOT_FOUND"),
          10
        )
        assert.lengthOf(
          tried.filter((error) => error._tag === "RATE_LIMITED"),
          20
        )
      })
  )

  it.effect("takes no approval of a person who lost the team, or the role, while it was on its way", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      // Signed in as owner; what the database says since is what counts.
      const approve = device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh(), Effect.flip)
      const become = (change: { readonly active: boolean; readonly role: Role }) =>
        Seals.after("memberships", sql`UPDATE memberships SET ${sql.update(change)} WHERE user_id = ${w.userId}`)
      yield* become({ active: false, role: "owner" })
      assert.strictEqual((yield* approve)._tag, "TEAM_NOT_FOUND")
      yield* become({ active: true, role: "viewer" })
      assert.strictEqual((yield* approve)._tag, "FORBIDDEN")
      const [denied] = yield* sql<{ readonly body: string }>`
        SELECT body FROM audit_entries WHERE team_id = ${w.teamId} ORDER BY id DESC LIMIT 1`
      assert.deepInclude(auditEntry(denied), {
        action: "device.approve",
        outcome: "denied",
        reason: "FORBIDDEN"
      })
      yield* become({ active: true, role: "owner" })
      assert.deepStrictEqual(yield* poll, { status: "pending" }, "nothing was approved")
    })
  )

  it.effect("loses the teams that the approver left before the delivery, and fails with the last", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const revocation = yield* Revocation
      const { poll, userCode } = yield* begin()
      yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* sql.withTransaction(revocation.grantsInTeam(w.userId, w.teamId))
      assert.deepStrictEqual(yield* poll, { status: "failed", reason: "denied" })

      const second = yield* begin()
      yield* device.approve(second.userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* Seals.after("memberships", sql`UPDATE memberships SET active = false WHERE user_id = ${w.userId}`)
      assert.deepStrictEqual(yield* second.poll, { status: "failed", reason: "denied" })
    })
  )

  it.effect("is void when the approver's password was reset before the delivery", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const revocation = yield* Revocation
      const { poll, userCode } = yield* begin()
      yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* sql.withTransaction(revocation.loginsOf(w.userId))
      assert.deepStrictEqual(yield* poll, { status: "failed", reason: "denied" })
    })
  )

  it.effect("racing a loss of the team leaves no working credential behind, in either order", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const revocation = yield* Revocation
      for (let round = 0; round < 10; round++) {
        const w = yield* world()
        const { poll, userCode } = yield* begin()
        yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
        const [answer] = yield* Effect.all([poll, sql.withTransaction(revocation.grantsInTeam(w.userId, w.teamId))], {
          concurrency: "unbounded"
        })
        if (answer.credential === undefined) {
          assert.deepStrictEqual(answer, { status: "failed", reason: "denied" })
        } else {
          const verified = yield* Effect.flatMap(Authenticate, (a) => a.verify(answer.credential ?? ""))
          assert.strictEqual(verified.life, "revoked")
        }
      }
    })
  )

  it.effect("is in the trail of each team: approved by the person, issued for the person", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const { poll, userCode } = yield* begin()
      yield* Effect.flip(
        device
          .approve(userCode, { teams: [{ teamId: w.teamId, scopes: ["secrets:write"] }] })
          .pipe(as(w.person("viewer")), fromFresh())
      )
      yield* device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* poll
      const rows = yield* sql<{
        readonly body: string
      }>`SELECT body FROM audit_entries WHERE team_id = ${w.teamId} ORDER BY id`
      const entries = rows.map(auditEntry)
      assert.deepStrictEqual(
        entries.map((entry) => [entry.action, entry.outcome, entry.actor.id]),
        [
          ["device.approve", "denied", w.userId],
          ["device.approve", "allowed", w.userId],
          ["grant.issue", "allowed", w.userId]
        ]
      )
    })
  )

  it.effect("is forgotten a day after it expired", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const sql = yield* SqlClient.SqlClient
      const device = yield* DeviceGrants
      const delivered = yield* begin()
      const pending = yield* begin()
      yield* device.approve(delivered.userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* delivered.poll
      const now = yield* Clock.currentTimeMillis
      const expire = (at: number) =>
        Seals.after("device_requests", sql`UPDATE device_requests SET expires_at = ${new Date(at)}`)
      yield* expire(now - 86_400_000)
      yield* EndedCredentials.purge(sql)
      assert.deepStrictEqual(yield* pending.poll, { status: "failed", reason: "expired" })
      yield* expire(now - 86_400_001)
      yield* EndedCredentials.purge(sql)
      assert.deepStrictEqual(yield* pending.poll, { status: "failed", reason: "unknown" })
      assert.deepStrictEqual(yield* delivered.poll, { status: "failed", reason: "unknown" })
      const [{ n }] = yield* sql<{
        readonly n: number
      }>`SELECT count(*)::int AS n FROM cli_grants WHERE user_id = ${w.userId}`
      assert.strictEqual(n, 1)
    })
  )
})

/** Reads a stream as a client does: what has come so far, and whether it is closed. */
const listen = Effect.fnUntraced(function* (code: Redacted.Redacted, device?: DeviceGrants) {
  const { events } = device ?? (yield* DeviceGrants)
  const inbox = yield* Queue.unbounded<DeviceSignal | "closed">()
  const signals = yield* events(code)
  yield* Stream.runForEach(signals, (signal) => Queue.offer(inbox, signal)).pipe(
    Effect.zipRight(Queue.offer(inbox, "closed" as const)),
    Effect.forkScoped
  )
  return inbox
})

layer(deviceLayer)("events of a device authorization", (it) => {
  it.scoped("are connected at once, then the decision with who took it, then the end", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      for (const status of ["approved", "denied"] as const) {
        const { code, userCode } = yield* begin()
        const inbox = yield* listen(code)
        assert.deepStrictEqual(yield* Queue.take(inbox), { event: "connected" })
        yield* status === "approved"
          ? Effect.asVoid(device.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh()))
          : Effect.asVoid(device.deny(userCode).pipe(as(w.owner), fromFresh()))
        assert.deepStrictEqual(yield* Queue.take(inbox), { event: status, email: w.owner.user?.email ?? "" })
        assert.strictEqual(yield* Queue.take(inbox), "closed")
      }
    })
  )

  it.scoped("come to a late listener too: connected, the decision, the end", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const { code, userCode } = yield* begin()
      yield* device.deny(userCode).pipe(as(w.owner), fromFresh())
      const signals = yield* Stream.runCollect(yield* device.events(code))
      assert.deepStrictEqual(Chunk.toReadonlyArray(signals), [
        { event: "connected" },
        { event: "denied", email: w.owner.user?.email ?? "" }
      ])
    })
  )

  it.scoped("hold the line with a comment every 15 s, and end without a word when the code expires", () =>
    Effect.gen(function* () {
      const { code } = yield* begin()
      const inbox = yield* listen(code)
      assert.deepStrictEqual(yield* Queue.take(inbox), { event: "connected" })
      for (let i = 0; i < 3; i++) {
        // The backstop's look at the database takes real time.
        yield* settled
        yield* TestClock.adjust("14 seconds")
        assert.strictEqual(yield* Queue.size(inbox), 0)
        yield* TestClock.adjust("1 seconds")
        assert.strictEqual(yield* Queue.take(inbox), "heartbeat")
      }
      yield* TestClock.adjust("555 seconds")
      const rest = yield* Stream.fromQueue(inbox).pipe(
        Stream.takeUntil((signal) => signal === "closed"),
        Stream.runCollect
      )
      assert.isTrue(Chunk.toReadonlyArray(rest).every((signal) => signal === "heartbeat" || signal === "closed"))
      assert.strictEqual(Chunk.toReadonlyArray(rest).at(-1), "closed")
    })
  )

  it.scoped("arrive from another process, at the latest when the stream looks for itself", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const { code, userCode } = yield* begin()
      const inbox = yield* listen(code)
      assert.deepStrictEqual(yield* Queue.take(inbox), { event: "connected" })
      const elsewhere = Context.get(yield* otherProcess, DeviceGrants)
      yield* elsewhere.approve(userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* settled
      assert.strictEqual(yield* Queue.size(inbox), 0)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* Queue.take(inbox), { event: "approved", email: w.owner.user?.email ?? "" })
      assert.strictEqual(yield* Queue.take(inbox), "closed")
      // The credential can be fetched from either.
      assert.strictEqual((yield* elsewhere.poll(code)).status, "granted")
    })
  )

  it.scoped("are refused to an unknown, a consumed and an expired code", () =>
    Effect.gen(function* () {
      const w = yield* world()
      const device = yield* DeviceGrants
      const consumed = yield* begin()
      yield* device.approve(consumed.userCode, granting(w)).pipe(as(w.owner), fromFresh())
      yield* consumed.poll
      assert.strictEqual((yield* Effect.flip(device.events(consumed.code)))._tag, "CREDENTIAL_INVALID")
      const unknown = Redacted.make(consumed.deviceCode.replace("amp_dc_", "amp_dc_0"))
      assert.strictEqual((yield* Effect.flip(device.events(unknown)))._tag, "CREDENTIAL_INVALID")
      const expired = yield* begin()
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* Effect.flip(device.events(expired.code)))._tag, "CREDENTIAL_EXPIRED")
    })
  )
})
