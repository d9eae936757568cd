/** Authors hold the values that they typed: reproductions of the review of 26 November, H2, each with its twin. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import { ChangeRequest } from "#schema/ChangeRequestsApi.ts"
import { vaultKeys } from "#src/trail/TrailVerification.ts"
import * as Export from "#src/audit/Export.ts"
import * as Note from "#src/audit/Incident.ts"
import { IncidentProof } from "#src/audit/IncidentProof.ts"
import { Problems } from "#src/audit/Problems.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"
import { app } from "../cli/ProjectFolder.ts"
import { exported, keysOf, scene, sealed, sessionOf } from "./BadDay.ts"

/** The bad day of Bob, who also wrote: what an incident about somebody lists, and who holds a secret. */
const bench = Effect.gen(function* () {
  const day = yield* scene
  const { owner, project, session, team } = day
  const as = { session: owner }
  const at = { projectId: project.id, environment: "development" }
  const write = (key: string, json: object, by = session, environment = "development") =>
    TestApp.post("/secrets", { session: by, json: { ...at, environment, key, ...json } })
  const created = ({ json, status, text }: Effect.Effect.Success<ReturnType<typeof write>>) => {
    assert.strictEqual(status, 201, text)
    return json.id
  }
  const report = (person: World.Person) =>
    Effect.gen(function* () {
      yield* sealed
      const query = new URLSearchParams({ person: person.email })
      const { json, status, text } = yield* TestApp.get(`/teams/${team.id}/incident-report?${query}`, as)
      assert.strictEqual(status, 200, text)
      const kept = new Set(json.kept.flatMap(({ keys }) => keys))
      const exposed = new Map(json.exposed.map((one) => [one.key, one]))
      return { kept, exposed, waysOf: (key: string) => exposed.get(key)?.ways }
    })
  const holders = (id: string) =>
    Effect.gen(function* () {
      yield* sealed
      const { json, status, text } = yield* TestApp.get(`/secrets/${id}/exposure`, as)
      assert.strictEqual(status, 200, text)
      return json.items.map(({ holder, version, way }) => [holder.name, version, way])
    })
  return { ...day, as, at, write, created, report, holders }
})

const problemsOf = (trail: string, note: Note.BurnDown) => {
  const proof = new IncidentProof([note])
  for (const text of trail.trim().split("\n")) {
    const line = Export.parse(text)
    if (line?.type === "keys") proof.addList(line.hash, line.keys)
    if (line?.type === "entry") proof.add(line.body)
  }
  const problems = new Problems()
  proof.finish(problems, { since: null, until: null })
  return problems.listed.map(({ what }) => what)
}

layer(Layer.merge(app, Crypto.Default), { excludeTestServices: true, timeout: "120 seconds" })("an author", (it) => {
  it.scoped("who leaves has the value that they typed, in the list, the ledger, the note and the offline proof", () =>
    Effect.gen(function* () {
      const { as, bob, created, holders, home, incidents, report, run, team, write } = yield* bench
      const id = created(yield* write("TYPED", { value: "sk-live" }))
      const { kept, waysOf } = yield* report(bob)
      assert.deepStrictEqual([waysOf("TYPED"), kept.has("TYPED")], [["wrote"], false])
      assert.deepStrictEqual(yield* holders(id), [[bob.email, 1, "wrote"]])

      const opened = yield* TestApp.post(incidents, { ...as, json: { person: bob.email } })
      const line = opened.json.exposed.find(({ key }) => key === "TYPED")
      assert.deepStrictEqual([line?.ways, line?.count, line?.certain, line?.out], [["wrote"], 1, true, true])
      const { note } = (yield* TestApp.get(`${incidents}/${opened.json.id}/note`, as)).json
      const burnDown = Either.getOrThrow(Note.open(note, yield* vaultKeys(yield* Vault)))
      const trail = yield* exported
      assert.deepStrictEqual(problemsOf(trail, burnDown), [])
      // As if it were an hour later: then each author must be in the note, by the right way.
      const head = { ...burnDown.head, upTo: new Date(Date.parse(burnDown.head.upTo) + 3_600_000).toISOString() }
      assert.deepStrictEqual(problemsOf(trail, { ...burnDown, head }), [])
      const [typed] = burnDown.exposed.filter(({ key }) => key === "TYPED")
      const others = burnDown.exposed.filter((one) => one !== typed)
      const { environment = "", environmentId = "", project = "" } = typed ?? {}
      const hidden = {
        head,
        exposed: others,
        kept: [...burnDown.kept, { environment, environmentId, project, keys: ["TYPED"] }]
      }
      assert.lengthOf(problemsOf(trail, hidden), 1)
      const asRead = { ...burnDown, head, exposed: burnDown.exposed.map((one) => ({ ...one, ways: ["read"] })) }
      assert.deepStrictEqual(problemsOf(trail, asRead).length, 1)
      // A note of the release before counted no authors, and stays what it was.
      const { countsAuthors: _counts, ...before } = head
      assert.deepStrictEqual(problemsOf(trail, { ...hidden, head: before }), [])

      const AMPOULE_API_TOKEN = (yield* World.grant({
        person: team.owner,
        teams: [{ team, scopes: ["identity:read", "projects:read", "secrets:read"] }]
      })).text
      const cli = (...words: ReadonlyArray<string>) => run(words, { env: { AMPOULE_API_TOKEN }, cwd: home })
      assert.match((yield* cli("incident", "--id", opened.json.id)).stdout, /TYPED +v1 .*typed it .*TO REPLACE/)
      const page = yield* TestApp.get(`/app/teams/${team.id}/incidents/${opened.json.id}`, as)
      assert.include(page.text, "typed it")
      assert.match((yield* cli("exposed", "TYPED", "--env", "development")).stdout, /TYPED +v1 .*typed it/)

      yield* TestApp.post(`${incidents}/${opened.json.id}/replace`, { ...as, json: { secretId: id } })
      const after = (yield* TestApp.get(`${incidents}/${opened.json.id}`, as)).json
      assert.isFalse(after.exposed.find(({ key }) => key === "TYPED")?.out)
    })
  )

  it.scoped("is the one who proposed a value, once it is written; not the one who approved it", () =>
    Effect.gen(function* () {
      const { as, bob, holders, project, report, session, team, write } = yield* bench
      const admin = yield* World.member(team, "admin")
      const theirs = yield* sessionOf(admin)
      const json = { changes: "proposed" }
      assert.strictEqual((yield* TestApp.patch(`/environments/${project.production.id}`, { ...as, json })).status, 200)
      const propose = (key: string) =>
        Effect.map(write(key, { value: `proposed ${key}` }, session, "production"), (answer) => {
          assert.strictEqual(answer.status, 202, answer.text)
          return answer.as(ChangeRequest).id
        })
      const decide = (id: string, how: "approve" | "deny") =>
        TestApp.post(`/change-requests/${id}/${how}`, { session: theirs })
      const approved = yield* propose("APPROVED")
      const denied = yield* propose("DENIED")
      // No version has the text yet: there is nothing to replace.
      assert.isFalse((yield* report(bob)).exposed.has("APPROVED"))
      assert.deepStrictEqual((yield* decide(approved, "approve")).json, { status: "approved" })
      yield* decide(denied, "deny")
      // Somebody else's text under the key of a denied proposal.
      yield* write("DENIED", { value: "another" }, theirs, "production")
      const ofAuthor = yield* report(bob)
      assert.deepStrictEqual([ofAuthor.waysOf("APPROVED"), ofAuthor.waysOf("DENIED")], [["wrote"], undefined])
      const ofApprover = yield* report(admin)
      assert.deepStrictEqual([ofApprover.waysOf("APPROVED"), ofApprover.waysOf("DENIED")], [undefined, ["wrote"]])
      assert.isTrue(ofAuthor.kept.has("DENIED") && ofApprover.kept.has("APPROVED"))
      const { items } = (yield* TestApp.get(`/secrets?projectId=${project.id}&environment=production`, as)).json
      const id = items.find(({ key }) => key === "APPROVED")?.id ?? ""
      assert.deepStrictEqual(yield* holders(id), [[bob.email, 1, "wrote"]])
    })
  )

  it.scoped("is nobody of a value that the server made or moved, and typing is counted by each entrance", () =>
    Effect.gen(function* () {
      const { as, at, bob, created, project, report, session, write } = yield* bench
      const change = (entries: ReadonlyArray<object>) =>
        TestApp.post(`/projects/${project.id}/changes`, {
          session,
          json: { entries: entries.map((entry) => ({ op: "set", environment: "staging", ...entry })) }
        })
      const changed = yield* change([
        { key: "GENERATED", generate: { length: 32 } },
        { key: "COPIED", copyFrom: { environment: "development", key: "NEVER" } },
        { key: "MIXED", value: "typed" }
      ])
      assert.strictEqual(changed.status, 200, changed.text)
      const bulk = yield* TestApp.post("/secrets/bulk", {
        session,
        json: { ...at, environment: "staging", secrets: [{ key: "BULK", value: "1" }] }
      })
      assert.strictEqual(bulk.status, 201, bulk.text)
      const id = created(yield* write("ROLLED", { value: "theirs" }, as.session, "staging"))
      yield* TestApp.patch(`/secrets/${id}`, { ...as, json: { value: "theirs too" } })
      yield* TestApp.post(`/secrets/${id}/rollback`, { session, json: { version: 1 } })
      const { kept, waysOf } = yield* report(bob)
      for (const key of ["GENERATED", "COPIED", "ROLLED"]) {
        assert.deepStrictEqual([key, waysOf(key), kept.has(key)], [key, undefined, true])
      }
      // A text that the secret has already: the sender holds it too, and it makes no version.
      const again = yield* TestApp.post("/secrets/bulk", {
        session,
        json: {
          ...at,
          environment: "development",
          secrets: [
            { key: "NEVER", value: "n1" },
            { key: "OLD", value: "other" }
          ]
        }
      })
      assert.deepInclude(again.json, { created: 0, updated: 1, unchanged: 1 })
      const sent = yield* report(bob)
      // The copy above handed it out as such.
      assert.deepStrictEqual([sent.waysOf("NEVER"), sent.exposed.get("NEVER")?.version], [["copy", "wrote"], 1])
      for (const key of ["MIXED", "BULK"]) assert.deepStrictEqual([key, waysOf(key)], [key, ["wrote"]])
    })
  )

  it.scoped("of a template holds its own text; a reader of the composed value holds all that is in it", () =>
    Effect.gen(function* () {
      const { as, bob, incidents, project, report, session, team, write, created } = yield* bench
      const carol = yield* World.member(team, "member")
      const theirs = yield* sessionOf(carol)
      const set = (key: string, value: string) => Effect.map(write(key, { value }, as.session, "staging"), created)
      const inner = yield* set("INNER", "1")
      yield* set("MIDDLE", "<${INNER}>")
      yield* set("BESIDE", "2")
      created(yield* write("OUTER", { value: "s3cret ${MIDDLE}" }, session, "staging"))
      yield* TestApp.get(`/secrets/value?projectId=${project.id}&environment=staging&key=OUTER`, { session: theirs })
      const ofReader = yield* report(carol)
      assert.sameMembers([...ofReader.exposed.keys()], ["OUTER", "MIDDLE", "INNER"])
      assert.isTrue([...ofReader.exposed.values()].every(({ certain, ways }) => certain && ways?.join() === "read"))
      assert.isTrue(ofReader.kept.has("BESIDE"))
      // The version as it was: a later text of a part is not what the reader has.
      yield* TestApp.patch(`/secrets/${inner}`, { ...as, json: { value: "3" } })
      assert.sameMembers([...(yield* report(carol)).exposed.keys()], ["OUTER", "MIDDLE"])

      const opened = yield* TestApp.post(incidents, { ...as, json: { person: bob.email } })
      const of = (key: string) => opened.json.exposed.find((one) => one.key === key)
      assert.deepStrictEqual([of("OUTER")?.ways, of("OUTER")?.out, of("MIDDLE")], [["wrote"], true, undefined])
      const outer = of("OUTER")?.secretId ?? ""
      yield* TestApp.patch(`/secrets/${outer}`, { ...as, json: { value: "other ${MIDDLE}" } })
      const after = (yield* TestApp.get(`${incidents}/${opened.json.id}`, as)).json
      assert.isFalse(after.exposed.find(({ key }) => key === "OUTER")?.out)
      assert.includeMembers(keysOf(after.exposed), ["OUTER"])
    })
  )

  it.scoped("counts beside the reader of a sealed file, who holds the parts of its values in an unknown version", () =>
    Effect.gen(function* () {
      const { as, incidents, project, report, team } = yield* bench
      const carol = yield* World.member(team, "member")
      const session = yield* sessionOf(carol)
      const keypair = (yield* TestApp.get(`/environments/${project.development.id}/keypair`, as)).json
      const key = yield* SealedEnv.parsePublicKey(keypair.publicKey)
      const recipient = yield* SealedEnv.recipient(project.development.id, key)
      const entry = yield* SealedEnv.sealEntry(recipient, "DB_URL", Redacted.make("postgres://d1@db"))
      const manifest = yield* SealedEnv.sealManifest(recipient, new Map([["DB_URL", entry]]))
      const opened = yield* TestApp.post(`/environments/${project.development.id}/sealed-values/open`, {
        session,
        json: { keyId: keypair.keyId, entries: { DB_URL: entry, _manifest: manifest } }
      })
      assert.strictEqual(opened.status, 200, opened.text)
      const { exposed } = yield* report(carol)
      assert.deepStrictEqual([...exposed].map(([name, { certain, ways }]) => [name, certain, ways]).sort(), [
        ["DB_PASSWORD", false, ["opened"]],
        ["DB_URL", false, ["opened"]]
      ])
      const incident = yield* TestApp.post(incidents, { ...as, json: { person: carol.email } })
      const { note } = (yield* TestApp.get(`${incidents}/${incident.json.id}/note`, as)).json
      const burnDown = Either.getOrThrow(Note.open(note, yield* vaultKeys(yield* Vault)))
      const upTo = new Date(Date.parse(burnDown.head.upTo) + 3_600_000).toISOString()
      assert.deepStrictEqual(problemsOf(yield* exported, { ...burnDown, head: { ...burnDown.head, upTo } }), [])
    })
  )
})
