/** Values after an incident: a value follows its secret under any key, until another text replaces it. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { vaultKeys } from "#src/trail/TrailVerification.ts"
import * as Export from "#src/audit/Export.ts"
import * as Note from "#src/audit/Incident.ts"
import { IncidentProof } from "#src/audit/IncidentProof.ts"
import { Problems } from "#src/audit/Problems.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Statements from "#test/support/Statements.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app } from "../cli/ProjectFolder.ts"
import { exported, scene, sealed, sessionOf } from "./BadDay.ts"

/** Opened about Bob, with what each value is since then. */
const opened = Effect.gen(function* () {
  const stage = yield* scene
  const { bob, incidents, owner } = stage
  const as = { session: owner }
  const { json, status, text } = yield* TestApp.post(incidents, { ...as, json: { person: bob.email } })
  assert.strictEqual(status, 201, text)
  const here = `${incidents}/${json.id}` as const
  /** By the key of then: the key of now, the version that replaced it, whether it is out. */
  const state = Effect.map(
    TestApp.get(here, as),
    ({ json }) =>
      new Map(json.exposed.map(({ key, out, renamedTo, replaced }) => [key, [renamedTo, replaced?.version, out]]))
  )
  const burnDown = Effect.gen(function* () {
    const { note } = (yield* TestApp.get(`${here}/note`, as)).json
    return Either.getOrThrow(Note.open(note, yield* vaultKeys(yield* Vault)))
  })
  const rename = (secretId: string, json: object) =>
    Effect.map(TestApp.post(`/secrets/${secretId}/rename`, { ...as, json }), ({ status, text }) =>
      assert.strictEqual(status, 200, text)
    )
  return { ...stage, as, here, state, burnDown, rename }
})

const problemsOf = (trail: string, ...notes: ReadonlyArray<Note.BurnDown>) => {
  const proof = new IncidentProof(notes)
  for (const text of trail.trim().split("\n")) {
    const line = Export.parse(text)
    if (line?.type === "keys") proof.addList(line.hash, line.keys)
    if (line?.type === "entry") proof.add(line.body)
  }
  const problems = new Problems()
  proof.finish(problems, { since: null, until: null })
  return problems.listed.map(({ what }) => what)
}

layer(Layer.merge(app, Crypto.Default), { excludeTestServices: true, timeout: "120 seconds" })("an incident", (it) => {
  it.scoped(
    "follows a secret that is renamed, and counts no rename and no template that it rewrote as a replacement",
    () =>
      Effect.gen(function* () {
        const { as, burnDown, here, ids, project, rename, state } = yield* opened
        yield* rename(ids.db, { key: "PG_PASSWORD", references: "rewrite" })
        yield* rename(ids.db, { key: "PG_PASS", references: "rewrite" })
        const at = { projectId: project.id, environment: "development" }
        // Another secret under the key of then.
        yield* TestApp.post("/secrets", { ...as, json: { ...at, key: "DB_PASSWORD", value: "other" } })
        const renamed = yield* state
        assert.deepStrictEqual(renamed.get("DB_PASSWORD"), ["PG_PASS", undefined, true])
        assert.deepStrictEqual(renamed.get("DB_URL"), [null, undefined, true])
        const replaced = yield* TestApp.post(`${here}/replace`, { ...as, json: { secretId: ids.db } })
        assert.strictEqual(replaced.status, 200, replaced.text)
        const after = yield* state
        assert.deepStrictEqual(after.get("DB_PASSWORD"), ["PG_PASS", 4, false])
        assert.deepStrictEqual(after.get("DB_URL"), [null, undefined, false])

        const note = yield* burnDown
        const trail = yield* exported
        assert.deepStrictEqual(problemsOf(trail, note), [])
        const lying = note.exposed.map((one) => ({ ...one, renames: one.renames?.slice(1) }))
        assert.lengthOf(problemsOf(trail, { ...note, exposed: lying }), 1)
      })
  )

  it.scoped("is open again when a rollback or a restore brings an earlier text back", () =>
    Effect.gen(function* () {
      const { as, burnDown, ids, state } = yield* opened
      yield* TestApp.patch(`/secrets/${ids.api}`, { ...as, json: { value: "a2" } })
      yield* TestApp.del(`/secrets/${ids.prod}`, as)
      assert.deepStrictEqual((yield* state).get("API_KEY"), [null, 2, false])
      assert.deepStrictEqual((yield* state).get("PROD"), [null, null, false])
      const early = yield* burnDown
      yield* TestApp.post(`/secrets/${ids.api}/rollback`, { ...as, json: { version: 1 } })
      yield* TestApp.post(`/secrets/${ids.prod}/restore`, as)
      assert.deepStrictEqual((yield* state).get("API_KEY"), [null, undefined, true])
      assert.deepStrictEqual((yield* state).get("PROD"), [null, undefined, true])
      // A note of then is true of then; one that says it of a minute later is not.
      const trail = yield* exported
      assert.deepStrictEqual(problemsOf(trail, early), [])
      const later = new Date(Date.parse(early.head.at) + 60_000).toISOString()
      assert.lengthOf(problemsOf(trail, { ...early, head: { ...early.head, at: later } }), 2)
      yield* TestApp.patch(`/secrets/${ids.api}`, { ...as, json: { value: "a4" } })
      assert.deepStrictEqual((yield* state).get("API_KEY"), [null, 4, false])
    })
  )

  it.scoped(
    "is open while a version has an earlier text, also as another kind, or out of a moment of the environment",
    () =>
      Effect.gen(function* () {
        const { as, burnDown, ids, project, state } = yield* opened
        const moment = new Date().toISOString()
        yield* Effect.sleep("5 millis")
        // Another kind of the same text: a version, and no replacement.
        const kind = yield* TestApp.patch(`/secrets/${ids.db}`, { ...as, json: { kind: "template" } })
        assert.strictEqual(kind.json.version, 2, kind.text)
        assert.deepStrictEqual((yield* state).get("DB_PASSWORD"), [null, undefined, true])
        // Deleted at a later version, then back as it was.
        yield* TestApp.patch(`/secrets/${ids.api}`, { ...as, json: { value: "a2" } })
        yield* TestApp.del(`/secrets/${ids.api}`, as)
        assert.deepStrictEqual((yield* state).get("API_KEY"), [null, 2, false])
        const restored = yield* TestApp.post(`/environments/${project.development.id}/restore`, {
          ...as,
          json: { at: moment }
        })
        assert.strictEqual(restored.status, 200, restored.text)
        assert.deepStrictEqual((yield* state).get("API_KEY"), [null, undefined, true])
        assert.deepStrictEqual(problemsOf(yield* exported, yield* burnDown), [])
        yield* TestApp.patch(`/secrets/${ids.api}`, { ...as, json: { value: "a5" } })
        assert.strictEqual((yield* state).get("API_KEY")?.[2], false)
        // The same kind again makes no version, and brings nothing back.
        const same = yield* TestApp.patch(`/secrets/${ids.api}`, { ...as, json: { kind: "literal" } })
        assert.strictEqual(same.status, 200, same.text)
        assert.strictEqual((yield* state).get("API_KEY")?.[2], false)
      })
  )

  it.scoped("is proven line by line by the exported trail", () =>
    Effect.gen(function* () {
      const { burnDown } = yield* opened
      const note = yield* burnDown
      // As if all of it had happened an hour ago: then a list without a read of then is a lie.
      const trail = yield* exported
      const upTo = new Date(Date.parse(note.head.upTo) + 3_600_000).toISOString()
      const moved = { ...note, head: { ...note.head, upTo } }
      assert.deepStrictEqual(problemsOf(trail, moved), [])
      const altered = (change: (one: Note.ExposedLine) => Note.ExposedLine) =>
        problemsOf(trail, { ...moved, exposed: moved.exposed.map(change) }).length
      const all = note.exposed.length
      assert.strictEqual(
        altered((one) => ({ ...one, count: one.count + 1 })),
        all
      )
      assert.strictEqual(
        altered((one) => ({ ...one, count: one.count - 1 })),
        all
      )
      assert.strictEqual(
        altered((one) => ({ ...one, version: one.version + 1 })),
        all
      )
      assert.strictEqual(
        altered((one) => ({ ...one, firstAt: note.head.openedAt })),
        all
      )
      assert.strictEqual(
        altered((one) => ({ ...one, key: "NEVER" })),
        all
      )
      const [first, ...rest] = moved.exposed
      const hidden = [{ ...first, keys: [first.key] }]
      assert.deepStrictEqual(problemsOf(trail, { ...moved, exposed: rest, kept: hidden }), [
        `The burn-down says that ${first.key} in ${first.environment} was not handed out: the trail says it was.`
      ])
      const nobody = { ...moved.head, subject: { ...moved.head.subject, id: note.head.team } }
      assert.lengthOf(problemsOf(trail, { ...moved, head: nobody }), all)
    })
  )

  it.scoped("is listed with the others by as many statements as one", () =>
    Effect.gen(function* () {
      const { incidents, owner, reads, team } = yield* opened
      const as = { session: owner }
      const count = Effect.map(
        Statements.during(TestApp.get(incidents, as)),
        (all) => all.filter(({ text }) => /audit_entries|FROM incidents/.test(text) && !/INSERT/.test(text)).length
      )
      yield* TestApp.get(incidents, as)
      const before = yield* count
      for (let i = 0; i < 3; i++) {
        const person = yield* World.member(team, "member")
        yield* reads("development", { session: yield* sessionOf(person) })
        yield* sealed
        const incident = yield* TestApp.post(incidents, { ...as, json: { person: person.email } })
        assert.lengthOf(incident.json.exposed, 5)
      }
      const { items } = (yield* TestApp.get(incidents, as)).json
      assert.deepStrictEqual(
        items.map(({ exposed, out }) => [exposed, out]),
        [
          [5, 5],
          [5, 5],
          [5, 5],
          [4, 4]
        ]
      )
      assert.strictEqual(yield* count, before)
      assert.strictEqual(before, 2)
    })
  )
})
