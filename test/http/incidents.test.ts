/** A bad day: what somebody was handed is listed, ended and replaced, and the burn-down is a note that a trail proves. */
import { assert, describe, it as unit, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as fs from "node:fs"
import * as path from "node:path"
import { IncidentReport } from "#schema/IncidentApi.ts"
import { vaultKeys } from "#src/trail/TrailVerification.ts"
import * as Note from "#src/audit/Incident.ts"
import { IncidentProof } from "#src/audit/IncidentProof.ts"
import { Problems } from "#src/audit/Problems.ts"
import * as SignedNote from "#src/audit/SignedNote.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import { parsed } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app } from "../cli/ProjectFolder.ts"
import { exported, keysOf, scene, sealed, sessionOf } from "./BadDay.ts"

layer(Layer.merge(app, Crypto.Default), { excludeTestServices: true, timeout: "120 seconds" })("a bad day", (it) => {
  it.scoped("ends a person, lists what they were handed and what not, and burns down by what is replaced", () =>
    Effect.gen(function* () {
      const { bob, home, ids, incidents, login, owner, run, session, team } = yield* scene
      const opened = yield* TestApp.post(incidents, { session: owner, json: { person: bob.email, deactivate: true } })
      assert.strictEqual(opened.status, 201, opened.text)
      assert.strictEqual((yield* TestApp.get("/me", { session })).status, 401)
      assert.strictEqual((yield* TestApp.get("/me/cli", { bearer: login.text })).status, 401)
      const { exposed, id, kept, keptCount, subject } = opened.json
      assert.deepStrictEqual([subject.type, subject.id, subject.name], ["person", bob.id, bob.email])
      // Protected first, then those that were read most.
      assert.deepStrictEqual(keysOf(exposed).slice(0, 2), ["PROD", "API_KEY"])
      assert.sameMembers(keysOf(exposed), ["PROD", "API_KEY", "DB_PASSWORD", "DB_URL"])
      assert.isTrue(exposed.every(({ certain, out }) => certain && out))
      assert.deepStrictEqual(
        kept.map(({ environment, keys }) => [environment, keys]),
        [["development", ["NEVER", "OLD"]]]
      )
      assert.strictEqual(keptCount, 2)

      const here = `${incidents}/${id}` as const
      const replaced = yield* TestApp.post(`${here}/replace`, {
        session: owner,
        json: { secretId: ids.api, length: 40 }
      })
      const api = replaced.json.exposed.find(({ key }) => key === "API_KEY")
      assert.deepStrictEqual([api?.out, api?.replaced?.version, api?.replaced?.by.id], [false, 2, team.owner.id])
      const again = yield* TestApp.post(`${here}/replace`, { session: owner, json: { secretId: ids.api } })
      assert.deepStrictEqual(TestApp.codeOf(again), [409, "SECRET_VERSION_CONFLICT"])
      const not = yield* TestApp.post(`${here}/replace`, { session: owner, json: { secretId: ids.old } })
      assert.deepStrictEqual(TestApp.codeOf(not), [404, "SECRET_NOT_FOUND"])
      const admin = yield* World.member(team, "admin")
      const question = yield* TestApp.post(`${here}/ask`, {
        session: owner,
        json: { secretId: ids.db, userId: admin.id }
      })
      assert.strictEqual(question.status, 201, question.text)
      const page = new URL(question.json.url).pathname as `/app/provide/${string}`
      const theirs = yield* sessionOf(admin)
      assert.strictEqual((yield* TestApp.get(page, { session: owner })).status, 404)
      assert.include((yield* TestApp.get(page, { session: theirs })).text, "A person of your team asks")
      // The write of the person's page: a composition of it follows by itself.
      yield* TestApp.patch(`/secrets/${ids.db}`, { session: theirs, json: { value: "d2" } })
      yield* TestApp.del(`/secrets/${ids.prod}`, { session: owner })
      const incident = (yield* TestApp.get(here, { session: owner })).json
      assert.deepStrictEqual(
        incident.exposed.map(({ key, out, replaced: by }) => [key, out, by?.version, by?.by.name]),
        incident.exposed.map(({ key }) => {
          if (key === "PROD") return [key, false, null, team.owner.email]
          if (key === "API_KEY") return [key, false, 2, team.owner.email]
          if (key === "DB_PASSWORD") return [key, false, 2, admin.email]
          return [key, false, undefined, undefined]
        })
      )
      const listed = (yield* TestApp.get(incidents, { session: owner })).json.items
      assert.deepStrictEqual(
        listed.map((one) => [one.id, one.exposed, one.out]),
        [[id, 4, 0]]
      )

      const { note } = (yield* TestApp.get(`${here}/note`, { session: owner })).json
      const keys = yield* vaultKeys(yield* Vault)
      const burnDown = Either.getOrThrow(Note.open(note, keys))
      const sql = yield* SqlClient.SqlClient
      const bodies = yield* sql<{ body: string }>`SELECT body FROM audit_entries WHERE team_id = ${team.id} ORDER BY id`
      const problemsOf = (one: Note.BurnDown) => {
        const check = new IncidentProof([one])
        for (const { body } of bodies) check.add(body)
        const problems = new Problems()
        check.finish(problems, { since: null, until: null })
        return problems.count
      }
      assert.strictEqual(problemsOf(burnDown), 0)
      const lying = burnDown.exposed.map((one) =>
        one.replaced === null ? one : { ...one, replaced: { ...one.replaced, at: burnDown.head.openedAt } }
      )
      assert.strictEqual(problemsOf({ ...burnDown, exposed: lying }), 3)
      assert.deepStrictEqual(Note.open(note.replace("DB_URL", "DB_URI"), keys), Either.left("has a wrong signature"))

      const AMPOULE_API_TOKEN = (yield* World.grant({
        person: team.owner,
        teams: [{ team, scopes: ["identity:read", "secrets:read"] }]
      })).text
      const printed = yield* run(["incident", "--id", id], { env: { AMPOULE_API_TOKEN } })
      assert.strictEqual(printed.code, 0, printed.stderr)
      assert.match(printed.stdout, /API_KEY +v1 .*replaced by v2/)
      assert.include(printed.stderr, "0 of 4 have not been replaced yet.")
      fs.writeFileSync(
        path.join(home, "note"),
        (yield* run(["incident", "--id", id, "--note"], { env: { AMPOULE_API_TOKEN } })).stdout
      )

      // Offline: the trail as a file, the public keys, and the note.
      const lines = yield* exported
      const file = (name: string, content: string) => {
        fs.writeFileSync(path.join(home, name), content)
        return path.join(home, name)
      }
      const signed = fs.readFileSync(path.join(home, "note"), "utf8")
      const verify = (note: string) =>
        run([
          "audit",
          "verify",
          file("trail.jsonl", lines),
          "--public-key",
          file("audit.pub", keys.map((key) => `${SignedNote.printKey(key)}\n`).join("")),
          "--incident",
          file("checked", note)
        ])
      const whole = yield* verify(signed)
      assert.strictEqual(whole.code, 2, whole.stderr)
      assert.include(whole.stdout, `Burn-down of ${bob.email}: 4 values were handed out, 0 still out`)
      const forged = yield* verify(signed.replace("DB_URL", "DB_URI"))
      assert.strictEqual(forged.code, 1)
      assert.include(forged.stdout, "has a wrong signature")

      // Nobody who writes to the database changes the list.
      yield* sql`UPDATE incidents SET note = replace(note, 'DB_URL', 'DB_URI') WHERE id = ${id}`
      assert.deepStrictEqual(TestApp.codeOf(yield* TestApp.get(here, { session: owner })), [500, "INTEGRITY_FAILURE"])
    })
  )

  it.scoped("counts a text that came back under another version or key as handed out", () =>
    Effect.gen(function* () {
      const { bob, ids, owner, team } = yield* scene
      const as = { session: owner }
      const reported = Effect.gen(function* () {
        yield* sealed
        const query = new URLSearchParams({ person: bob.email })
        const { json } = yield* TestApp.get(`/teams/${team.id}/incident-report?${query}`, as)
        return new Map(json.exposed.map(({ certain, key }) => [key, certain]))
      })
      assert.deepStrictEqual([...(yield* reported)].map(([key]) => key).sort(), [
        "API_KEY",
        "DB_PASSWORD",
        "DB_URL",
        "PROD"
      ])
      const rolled = yield* TestApp.post(`/secrets/${ids.old}/rollback`, { ...as, json: { version: 1 } })
      assert.strictEqual(rolled.status, 200, rolled.text)
      for (const key of ["API_NAME", "API_TOKEN"]) {
        const renamed = yield* TestApp.post(`/secrets/${ids.api}/rename`, { ...as, json: { key } })
        assert.strictEqual(renamed.status, 200, renamed.text)
      }
      const after = yield* reported
      assert.deepStrictEqual([after.get("OLD"), after.get("API_TOKEN"), after.get("DB_PASSWORD")], [false, false, true])
      assert.strictEqual(after.size, 5)
      // Another text ends it, under whatever key.
      yield* TestApp.patch(`/secrets/${ids.api}`, { ...as, json: { value: "a2" } })
      yield* TestApp.patch(`/secrets/${ids.old}`, { ...as, json: { value: "o3" } })
      assert.deepStrictEqual([...(yield* reported).keys()].sort(), ["DB_PASSWORD", "DB_URL", "PROD"])
    })
  )

  it.scoped("is about a token or a login too, since a time, for owners and admins of the whole team alone", () =>
    Effect.gen(function* () {
      const { bob, incidents, login, owner, project, reads, run, team } = yield* scene
      const token = yield* World.token({ team, name: "nightly" })
      yield* reads("development", { bearer: token.text })
      yield* sealed
      const report = `/teams/${team.id}/incident-report` as const
      const of = (query: Record<string, string>, as: Parameters<typeof TestApp.get>[1] = { session: owner }) =>
        TestApp.get(`${report}?${new URLSearchParams(query)}`, as)
      assert.deepStrictEqual(keysOf((yield* of({ grant: login.id })).json.exposed), ["API_KEY"])
      assert.lengthOf((yield* of({ token: "nightly" })).json.exposed, 5)
      assert.lengthOf((yield* of({ token: token.id, since: "2999-01-01T00:00:00.000Z" })).json.exposed, 0)
      const refused = (query: Record<string, string>) => Effect.map(of(query), TestApp.codeOf)
      assert.deepStrictEqual(yield* refused({ person: "nobody@example.com" }), [404, "MEMBER_NOT_FOUND"])
      assert.deepStrictEqual(yield* refused({ token: "none" }), [404, "TOKEN_NOT_FOUND"])
      assert.deepStrictEqual(yield* refused({ grant: team.id }), [404, "GRANT_NOT_FOUND"])
      assert.deepStrictEqual(yield* refused({ grant: login.id, token: "nightly" }), [400, "VALIDATION_FAILED"])
      const narrowed = yield* World.grant({
        person: team.owner,
        teams: [{ team, scopes: ["secrets:read"] }],
        projects: [project]
      })
      assert.deepStrictEqual(TestApp.codeOf(yield* of({ token: "nightly" }, { bearer: narrowed.text })), [
        403,
        "FORBIDDEN"
      ])
      const member = yield* World.grant({ person: bob, teams: [{ team, scopes: ["secrets:read"] }] })
      assert.deepStrictEqual(TestApp.codeOf(yield* of({ token: "nightly" }, { bearer: member.text })), [
        403,
        "FORBIDDEN"
      ])

      const AMPOULE_API_TOKEN = (yield* World.grant({
        person: team.owner,
        teams: [{ team, scopes: ["identity:read", "secrets:read"] }]
      })).text
      const cli = (...words: ReadonlyArray<string>) => run(["incident", ...words], { env: { AMPOULE_API_TOKEN } })
      const printed = yield* cli("--token", "nightly", "--no-browser")
      assert.strictEqual(printed.code, 0, printed.stderr)
      assert.match(printed.stdout, /DB_URL +v1 .*follows DB_PASSWORD/)
      assert.include(printed.stdout, `/app/teams/${team.id}/incidents/new?token=nightly`)
      assert.include(printed.stderr, "Nothing was revoked yet.")
      assert.lengthOf(parsed(IncidentReport)((yield* cli("--grant", login.id, "--json")).stdout).exposed, 1)
      assert.strictEqual((yield* cli("--token", "a", "--grant", "b")).code, 2)
      const preview = yield* TestApp.get(`/app/teams/${team.id}/incidents/new?token=nightly`, { session: owner })
      assert.include(preview.text, "Values that the token nightly received")

      for (const json of [{ token: "nightly" }, { grant: login.id }]) {
        assert.strictEqual((yield* TestApp.post(incidents, { session: owner, json })).status, 201)
      }
      assert.strictEqual((yield* TestApp.get("/me/verify", { bearer: token.text })).status, 401)
      assert.strictEqual((yield* TestApp.get("/me/cli", { bearer: login.text })).status, 401)
      const pages = yield* TestApp.get(`/app/teams/${team.id}/incidents`, { session: owner })
      assert.include(pages.text, "the token nightly")
    })
  )
})

describe("what is still out", () => {
  const value = (key: string, more: Partial<Note.ExposedLine> = {}): Note.ExposedLine => ({
    projectId: "p",
    project: "Shop",
    environmentId: "e",
    environment: "production",
    protected: true,
    secretId: key,
    key,
    version: 1,
    uses: [],
    count: 1,
    firstAt: "2026-11-01T08:00:00.000Z",
    lastAt: "2026-11-01T08:00:00.000Z",
    certain: true,
    replaced: null,
    ...more
  })
  const by = { type: "user", id: "u", name: "ada@example.com" }
  const replaced = { version: 2, at: "2026-11-02T08:00:00.000Z", by, entry: "x" }

  unit("is a composed value as long as one that it uses is", () => {
    const out = (values: ReadonlyArray<Note.ExposedLine>) => Note.stillExposed(values).map(({ key }) => key)
    const chain = [value("TOP", { uses: ["MID"] }), value("MID", { uses: ["A", "B"] }), value("A"), value("B")]
    assert.deepStrictEqual(out(chain), ["TOP", "MID", "A", "B"])
    const half = chain.map((one) => (one.key === "A" ? { ...one, replaced } : one))
    assert.deepStrictEqual(out(half), ["TOP", "MID", "B"])
    const all = half.map((one) => (one.key === "B" ? { ...one, replaced } : one))
    assert.deepStrictEqual(out(all), [])
    // Its reference was not handed out in its current version: it was replaced before.
    assert.deepStrictEqual(out([value("TOP", { uses: ["GONE"] })]), [])
  })
})
