import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Liveness from "#src/credentials/Liveness.ts"

const day = 86_400_000
const now = Date.parse("2026-11-21T08:00:00.000Z")
const at = (millis: number) => new Date(now + millis)

const token = {
  createdAt: at(-10 * day),
  expiresAt: at(10 * day),
  lastUsedAt: null,
  revokedAt: null,
  creatorActive: true,
  creatorDeactivatedAt: null
} as const
const grant = { createdAt: at(0), expiresAt: at(180 * day), lastUsedAt: null, revokedAt: null, teams: 1 } as const
const session = { expiresAt: at(7 * day), lastUsedAt: at(0), revokedAt: null } as const

describe("the life of an API token", () => {
  it("ends at the millisecond of its expiry", () => {
    assert.strictEqual(Liveness.ofToken({ ...token, expiresAt: at(1) }, now), "live")
    assert.strictEqual(Liveness.ofToken({ ...token, expiresAt: at(0) }, now), "expired")
  })

  it("without expiry ends after 90 days unused, counted from the last use or from its creation", () => {
    const old = { ...token, expiresAt: null }
    assert.strictEqual(Liveness.ofToken({ ...old, createdAt: at(-90 * day + 1) }, now), "live")
    assert.strictEqual(Liveness.ofToken({ ...old, createdAt: at(-90 * day) }, now), "expired")
    assert.strictEqual(
      Liveness.ofToken({ ...old, createdAt: at(-900 * day), lastUsedAt: at(-90 * day + 1) }, now),
      "live"
    )
    assert.strictEqual(
      Liveness.ofToken({ ...old, createdAt: at(-900 * day), lastUsedAt: at(-90 * day) }, now),
      "expired"
    )
  })

  it("with an expiry does not end for want of use", () => {
    assert.strictEqual(Liveness.ofToken({ ...token, createdAt: at(-300 * day), expiresAt: at(65 * day) }, now), "live")
  })

  it("outlives its deactivated creator by 7 days, not by more", () => {
    const stateAfterLeave = (since: number) =>
      Liveness.ofToken({ ...token, creatorActive: false, creatorDeactivatedAt: at(since) }, now)
    assert.strictEqual(stateAfterLeave(-7 * day + 1), "live")
    assert.strictEqual(stateAfterLeave(-7 * day), "expired")
    const unknown = { ...token, creatorActive: false, creatorDeactivatedAt: null }
    assert.strictEqual(Liveness.ofToken(unknown, now), "expired", "nobody knows since when")
  })

  it("ends with its creator's membership", () => {
    assert.strictEqual(Liveness.ofToken({ ...token, creatorActive: null }, now), "revoked")
  })

  it.prop(
    "never begins again: what is revoked or expired stays so as time passes",
    [
      FastCheck.record({
        created: FastCheck.integer({ min: -400 * day, max: 0 }),
        expires: FastCheck.option(FastCheck.integer({ min: -400 * day, max: 400 * day })),
        used: FastCheck.option(FastCheck.integer({ min: -400 * day, max: 0 })),
        revoked: FastCheck.option(FastCheck.integer({ min: -400 * day, max: 0 })),
        creatorActive: FastCheck.constantFrom(true, false, null),
        deactivated: FastCheck.option(FastCheck.integer({ min: -20 * day, max: 0 }))
      }),
      FastCheck.nat(400 * day)
    ],
    ([row, later]) => {
      const tokenRow = {
        createdAt: at(row.created),
        expiresAt: row.expires === null ? null : at(row.expires),
        lastUsedAt: row.used === null ? null : at(row.used),
        revokedAt: row.revoked === null ? null : at(row.revoked),
        creatorActive: row.creatorActive,
        creatorDeactivatedAt: row.deactivated === null ? null : at(row.deactivated)
      }
      const before = Liveness.ofToken(tokenRow, now)
      const after = Liveness.ofToken(tokenRow, now + later)
      if (before !== "live") assert.strictEqual(after, before)
      if (row.revoked !== null) assert.strictEqual(before, "revoked")
    }
  )
})

describe("the life of a CLI grant", () => {
  it("ends 180 days after its issue, or after 90 days unused, or with its last team", () => {
    assert.strictEqual(Liveness.ofGrant(grant, now + 90 * day - 1), "live")
    assert.strictEqual(Liveness.ofGrant(grant, now + 90 * day), "expired")
    const used = { ...grant, lastUsedAt: at(179 * day) }
    assert.strictEqual(Liveness.ofGrant(used, now + 180 * day - 1), "live")
    assert.strictEqual(Liveness.ofGrant(used, now + 180 * day), "expired")
    assert.strictEqual(Liveness.ofGrant({ ...grant, teams: 0 }, now), "revoked")
    assert.strictEqual(Liveness.ofGrant({ ...grant, revokedAt: at(0) }, now), "revoked")
  })

  it("ends with whichever comes first: its date, or 180 days, whatever its date says", () => {
    assert.strictEqual(Liveness.ofGrant({ ...grant, expiresAt: at(day) }, now + day), "expired")
    const used = { ...grant, lastUsedAt: at(179 * day), expiresAt: at(400 * day) }
    assert.strictEqual(Liveness.ofGrant(used, now + 180 * day - 1), "live")
    assert.strictEqual(Liveness.ofGrant(used, now + 180 * day), "expired")
  })
})

describe("the life of a session", () => {
  it("ends after 12 hours unused and after 7 days in use", () => {
    assert.strictEqual(Liveness.ofSession(session, now + day / 2 - 1), "live")
    assert.strictEqual(Liveness.ofSession(session, now + day / 2), "expired")
    const used = { ...session, lastUsedAt: at(7 * day - 1) }
    assert.strictEqual(Liveness.ofSession(used, now + 7 * day - 1), "live")
    assert.strictEqual(Liveness.ofSession(used, now + 7 * day), "expired")
    assert.strictEqual(Liveness.ofSession({ ...session, revokedAt: at(-1) }, now), "revoked")
  })
})

describe("the life of a management session", () => {
  it("is that of a session, while the login that asked for it lives and its person is in the team", () => {
    const managing = { ...session, loginLives: true, teams: 1 }
    assert.strictEqual(Liveness.managementLife, 600_000)
    assert.strictEqual(Liveness.ofManagement(managing, now), "live")
    assert.strictEqual(Liveness.ofManagement({ ...managing, expiresAt: at(0) }, now), "expired")
    assert.strictEqual(Liveness.ofManagement({ ...managing, loginLives: false }, now), "revoked")
    assert.strictEqual(Liveness.ofManagement({ ...managing, teams: 0 }, now), "revoked")
  })
})

describe("the life of an OAuth access token", () => {
  it("ends at its date, with its consent, or with the last team of its person", () => {
    const access = { expiresAt: at(1), revokedAt: null, teams: 1 }
    assert.strictEqual(Liveness.ofAccessToken(access, now), "live")
    assert.strictEqual(Liveness.ofAccessToken(access, now + 1), "expired")
    assert.strictEqual(Liveness.ofAccessToken({ ...access, revokedAt: at(0) }, now), "revoked")
    assert.strictEqual(Liveness.ofAccessToken({ ...access, teams: 0 }, now), "revoked")
  })
})
