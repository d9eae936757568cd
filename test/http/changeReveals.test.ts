/** Approvals decide about content: names with warnings, texts by a recorded reveal, and a digest that goes back. */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ChangeRequest, RevealedChanges } from "#schema/ChangeRequestsApi.ts"
import { SecretExposure } from "#schema/ExposureApi.ts"
import { cliScopes } from "#schema/Scopes.ts"
import { verifyFile } from "#src/cli/operator/AuditFile.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import { Seal } from "#src/trail/Seal.ts"
import { exportTrail } from "#src/trail/TrailExport.ts"
import * as MovableClock from "#test/support/MovableClock.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const codeOf = TestApp.refusalOf
const app = Layer.provideMerge(
  TestApp.server.pipe(Layer.provideMerge(Layer.merge(TestApp.backends, TestApp.config()))),
  Layer.merge(MovableClock.layer, Crypto.Default)
)

/** A protected environment that takes proposals, with BASE, a template on it, and NODE_OPTIONS as a template. */
const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const people = {
    owner: team.owner,
    admin: yield* World.member(team, "admin"),
    author: yield* World.member(team, "member"),
    approver: yield* World.member(team, "member"),
    other: yield* World.member(team, "member")
  }
  const sessionOf = (person: World.Person) => Effect.map(World.session(person), ({ text }) => text)
  const sessions = yield* Effect.all({
    owner: sessionOf(people.owner),
    admin: sessionOf(people.admin),
    author: sessionOf(people.author),
    approver: sessionOf(people.approver),
    other: sessionOf(people.other)
  })
  const at = { projectId: project.id, environment: "production" }
  const create = (session: string, key: string, value: string) =>
    TestApp.post("/secrets", { session, json: { ...at, key, value } })
  const base = yield* create(sessions.owner, "BASE", "first")
  yield* create(sessions.owner, "HEAP", "512")
  yield* create(sessions.owner, "NODE_OPTIONS", "--max-old-space-size=${HEAP}")
  yield* TestApp.patch(`/environments/${project.production.id}`, {
    session: sessions.owner,
    json: { changes: "proposed", readers: "team", approvers: [people.approver.id] }
  })
  const propose = (entries: ReadonlyArray<object>, reason?: string) =>
    Effect.map(
      TestApp.post(`/projects/${project.id}/changes`, {
        session: sessions.author,
        json: {
          entries: entries.map((one) => ({ environment: "production", ...one })),
          ...(reason === undefined ? {} : { reason })
        }
      }),
      (answer) => {
        const request = answer.json.environments[0].request
        return request === null ? assert.fail(answer.text) : request
      }
    )
  const reveal = (session: string, id: string) => TestApp.post(`/change-requests/${id}/reveal`, { session })
  const approve = (session: string, id: string, json?: object) =>
    TestApp.post(`/change-requests/${id}/approve`, { session, ...(json === undefined ? {} : { json }) })
  const trailOf = (id: string) =>
    Effect.map(TestApp.get(`/teams/${team.id}/audit?limit=200`, { session: sessions.owner }), ({ json }) =>
      json.items.filter(({ target }) => target?.id === id)
    )
  return { project, people, sessions, at, create, base: base.json, propose, reveal, approve, trailOf }
})

/** The row and the box of one literal, as the release before stored them. */
const storedBefore = Effect.fnUntraced(function* (id: string, author: string, project: World.Project) {
  const sql = yield* SqlClient.SqlClient
  const dataKeys = yield* DataKeys
  const place = { teamId: project.team.id, projectId: project.id, environmentId: project.production.id }
  const key = yield* dataKeys.active(place)
  const change = { key: "LD_PRELOAD", change: "create", version: 0 }
  const written = { kind: "literal", pinned: false, text: "v", from: "caller" }
  const box = JSON.stringify({ author, withoutValues: false, changes: [{ ...change, written }] })
  const context = {
    ...place,
    secretId: id,
    key: "",
    kind: "changes",
    version: 0,
    dataKeyId: key.id,
    instance: key.instance
  }
  const salt = new Uint8Array(Envelope.saltLength).fill(7)
  yield* sql`
    UPDATE change_requests SET changes = ${JSON.stringify([change])}::jsonb, data_key_id = ${key.id},
      sealed = ${Envelope.sealValue(key.key, context, box, salt)} WHERE id = ${id}`
})

/** Notes of `ampoule audit verify` about an export of the whole trail. */
const notesOfExport = Effect.gen(function* () {
  const lines: Array<string> = []
  yield* exportTrail({
    since: null,
    until: null,
    format: "jsonl",
    now: yield* Clock.currentTimeMillis,
    write: (text) => Effect.sync(() => void lines.push(text)),
    progress: () => Effect.void
  })
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ampoule-decisions-"))
  const file = path.join(folder, "trail.jsonl")
  fs.writeFileSync(file, lines.join(""))
  const { notes, problemCount } = yield* verifyFile(file, { checkpoints: [], keys: [] })
  fs.rmSync(folder, { recursive: true })
  assert.strictEqual(problemCount, 0)
  return notes
}).pipe(Effect.provide(NodeContext.layer))

layer(app, { excludeTestServices: true })("the content of a change that waits", (it) => {
  it.effect("is named in lists: reason, kinds, references, and names that run code, without a value", () =>
    Effect.gen(function* () {
      const { propose, sessions } = yield* setUp
      const proposed = yield* propose(
        [
          { op: "set", key: "BASE", value: "canary-1" },
          { op: "set", key: "HEAP", value: "canary-2" },
          { op: "set", key: "LD_PRELOAD", value: "canary-3" },
          { op: "set", key: "URL", value: "canary-4 ${BASE}" },
          { op: "delete", key: "NODE_OPTIONS" }
        ],
        "asked for by support"
      )
      const listed = yield* TestApp.get("/change-requests", { session: sessions.admin })
      assert.notInclude(listed.text, "canary")
      const [item] = listed.json.items
      assert.deepStrictEqual(item, { ...proposed, mayDecide: true })
      assert.strictEqual(item?.reason, "asked for by support")
      const runs = "decides which libraries are loaded"
      assert.deepStrictEqual(item?.changes, [
        { key: "BASE", change: "update", kind: "literal", references: [], warnings: [], conflict: false },
        {
          key: "HEAP",
          change: "update",
          kind: "literal",
          references: [],
          warnings: [
            "NODE_OPTIONS builds on HEAP: it decides which code Node.js, Bun or Deno loads, or where packages come from"
          ],
          conflict: false
        },
        {
          key: "LD_PRELOAD",
          change: "create",
          kind: "literal",
          references: [],
          warnings: [`LD_PRELOAD ${runs}`],
          conflict: false
        },
        { key: "NODE_OPTIONS", change: "delete", kind: null, references: [], warnings: [], conflict: false },
        { key: "URL", change: "create", kind: "template", references: ["BASE"], warnings: [], conflict: false }
      ])
    })
  )

  it.effect("is revealed to those who may decide, after its entries are committed, and counts as their read", () =>
    Effect.gen(function* () {
      const { approve, base, people, project, propose, reveal, sessions, trailOf } = yield* setUp
      const { id } = yield* propose([
        { op: "set", key: "BASE", value: "second" },
        { op: "set", key: "NEW", value: "new" }
      ])
      const admin = yield* reveal(sessions.admin, id)
      const { changes, digest } = admin.as(RevealedChanges)
      assert.deepStrictEqual(changes, [
        { key: "BASE", before: "first", after: "second" },
        { key: "NEW", before: null, after: "new" }
      ])
      assert.strictEqual((yield* reveal(sessions.approver, id)).as(RevealedChanges).digest, digest)
      assert.deepStrictEqual(codeOf(yield* reveal(sessions.author, id)), [403, "FORBIDDEN", undefined])
      assert.deepStrictEqual(codeOf(yield* reveal(sessions.other, id)), [404, "GRANT_NOT_FOUND", undefined])
      const cli = yield* World.grant({ person: people.admin, teams: [{ team: project.team, scopes: cliScopes }] })
      const refused = yield* TestApp.post(`/change-requests/${id}/reveal`, { bearer: cli.text })
      assert.deepStrictEqual(codeOf(refused).slice(0, 2), [403, "CREDENTIAL_KIND_NOT_ACCEPTED"])
      assert.strictEqual((yield* approve(sessions.owner, id, { digest })).status, 200)

      const words = (yield* trailOf(id)).map(({ action, actor, keys, outcome, versions }) =>
        [action, actor.id, outcome, ...keys.map((key, i) => `${key}@${String(versions?.[i] ?? "")}`)].join(" ")
      )
      const { admin: a, approver: b, author, owner } = people
      assert.sameMembers(words, [
        `change.request ${author.id} allowed BASE@ NEW@`,
        `change.reveal ${a.id} allowed BASE@ NEW@`,
        `secret.read ${a.id} allowed BASE@1`,
        `change.reveal ${b.id} allowed BASE@ NEW@`,
        `secret.read ${b.id} allowed BASE@1`,
        `change.approve ${owner.id} allowed BASE@2 NEW@1`,
        `secret.create ${owner.id} allowed NEW@1`,
        `secret.update ${owner.id} allowed BASE@2`,
        // The texts that two people saw before are the versions that the approval wrote.
        `secret.read ${a.id} allowed BASE@2 NEW@1`,
        `secret.read ${b.id} allowed BASE@2 NEW@1`
      ])
      // Reveals and approval name the content; the reads beside them do not.
      const named = (yield* trailOf(id)).filter((entry) => entry.digest !== undefined)
      assert.deepStrictEqual([...new Set(named.map((entry) => entry.digest))], [digest])
      assert.sameMembers(
        named.map(({ action, actor }) => `${action} ${actor.id}`),
        [`change.reveal ${a.id}`, `change.reveal ${b.id}`, `change.approve ${owner.id}`]
      )
      yield* Effect.flatMap(Seal, (seal) => seal.now)
      const exposure = (yield* TestApp.get(`/secrets/${base.id}/exposure`, { session: sessions.owner })).as(
        SecretExposure
      )
      const readers = exposure.items
        .filter(({ way }) => way === "read")
        .map(({ holder, version }) => `${holder.id} ${String(version)}`)
      assert.sameMembers(readers, [`${a.id} 1`, `${a.id} 2`, `${b.id} 1`, `${b.id} 2`])
    })
  )

  it.effect("is named by its digest in the entry of an approval that sends none", () =>
    Effect.gen(function* () {
      const { approve, propose, reveal, sessions, trailOf } = yield* setUp
      const { id } = yield* propose([{ op: "set", key: "NEW", value: "new" }])
      const { digest } = (yield* reveal(sessions.approver, id)).as(RevealedChanges)
      assert.strictEqual((yield* approve(sessions.owner, id)).status, 200)
      const approval = (yield* trailOf(id)).find(({ action }) => action === "change.approve")
      assert.strictEqual(approval?.digest, digest)
    })
  )

  it.effect("is compared offline: an export says which content each approval wrote, and whether its giver saw it", () =>
    Effect.gen(function* () {
      const { approve, people, propose, reveal, sessions } = yield* setUp
      const seen = yield* propose([{ op: "set", key: "NEW", value: "canary-seen" }])
      const unseen = yield* propose([{ op: "set", key: "OTHER", value: "canary-unseen" }])
      const digests = yield* Effect.forEach([seen, unseen], ({ id }) =>
        Effect.map(reveal(sessions.approver, id), (answer) => answer.as(RevealedChanges).digest)
      )
      assert.strictEqual((yield* approve(sessions.approver, seen.id)).status, 200)
      assert.strictEqual((yield* approve(sessions.admin, unseen.id)).status, 200)
      const notes = yield* notesOfExport
      const noteOf = (id: string) => notes.find((note) => note.includes(id)) ?? assert.fail(notes.join("\n"))
      assert.include(noteOf(seen.id), `approved by ${people.approver.email} at `)
      assert.include(noteOf(seen.id), `content ${digests[0]}, as revealed to the approver.`)
      assert.include(noteOf(unseen.id), `content ${digests[1]}, not revealed to the approver in this file.`)
      assert.notInclude(notes.join("\n"), "canary")
    })
  )

  it.effect("leaves no read of a version that never was: a denied change stays with its reveal", () =>
    Effect.gen(function* () {
      const { propose, reveal, sessions, trailOf } = yield* setUp
      const { id } = yield* propose([{ op: "set", key: "NEW", value: "new" }])
      yield* reveal(sessions.admin, id)
      yield* TestApp.post(`/change-requests/${id}/deny`, { session: sessions.admin })
      assert.deepStrictEqual(codeOf(yield* reveal(sessions.admin, id)), [409, "GRANT_ALREADY_DECIDED", undefined])
      assert.sameMembers(
        (yield* trailOf(id)).map(({ action, outcome }) => `${action} ${outcome}`),
        ["change.request allowed", "change.reveal allowed", "change.deny allowed"]
      )
    })
  )

  it.effect("is what is written: the digest of another content is refused and decides nothing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { approve, propose, reveal, sessions } = yield* setUp
      const first = yield* propose([{ op: "set", key: "NEW", value: "same" }], "one")
      const second = yield* propose([{ op: "set", key: "NEW", value: "same" }], "one")
      const digests = yield* Effect.forEach([first, second], ({ id }) =>
        Effect.map(reveal(sessions.admin, id), (answer) => answer.as(RevealedChanges).digest)
      )
      // Equal content in two requests has two digests: a digest tests no guess at a value.
      assert.notStrictEqual(digests[0], digests[1])
      const refused = yield* approve(sessions.admin, first.id, { digest: digests[1] })
      assert.deepStrictEqual(codeOf(refused), [409, "CHANGES_DIFFER", undefined])
      for (const digest of ["", "short", `${digests[0] ?? ""}A`]) {
        const invalid = yield* approve(sessions.admin, first.id, { digest })
        assert.deepStrictEqual(codeOf(invalid), [400, "VALIDATION_FAILED", "digest"])
      }
      const [row] = yield* sql<{ readonly status: string }>`SELECT status FROM change_requests WHERE id = ${first.id}`
      assert.strictEqual(row?.status, "pending")
      assert.strictEqual((yield* approve(sessions.admin, first.id, { digest: digests[0] })).status, 200)
      assert.deepStrictEqual(codeOf(yield* approve(sessions.admin, second.id)).slice(0, 2), [
        409,
        "SECRET_VERSION_CONFLICT"
      ])
    })
  )

  it.effect("differs when the secret that it restores has another text by now", () =>
    Effect.gen(function* () {
      const { approve, base, reveal, sessions } = yield* setUp
      yield* TestApp.del(`/secrets/${base.id}`, { session: sessions.owner })
      const restoration = yield* TestApp.post(`/secrets/${base.id}/restore`, { session: sessions.author })
      const { id } = restoration.as(ChangeRequest)
      const revealed = (yield* reveal(sessions.admin, id)).as(RevealedChanges)
      assert.deepStrictEqual(revealed.changes, [{ key: "BASE", before: null, after: "first" }])
      yield* TestApp.post(`/secrets/${base.id}/restore`, { session: sessions.owner })
      yield* TestApp.patch(`/secrets/${base.id}`, { session: sessions.owner, json: { value: "another" } })
      yield* TestApp.del(`/secrets/${base.id}`, { session: sessions.owner })
      const { digest } = revealed
      assert.deepStrictEqual(codeOf(yield* approve(sessions.admin, id, { digest })), [409, "CHANGES_DIFFER", undefined])
      const again = (yield* reveal(sessions.admin, id)).as(RevealedChanges)
      assert.strictEqual(again.changes[0]?.after, "another")
      assert.strictEqual((yield* approve(sessions.admin, id, { digest: again.digest })).status, 200)
    })
  )

  it.effect("adds reads for the people to whom a server revealed it, whatever the database names beside them", () =>
    Effect.gen(function* () {
      const { approve, people, propose, reveal, sessions, trailOf } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const first = yield* propose([{ op: "set", key: "NEW", value: "new" }])
      const other = yield* propose([{ op: "set", key: "ELSE", value: "new" }])
      yield* reveal(sessions.admin, first.id)
      const seenBy = (id: string) =>
        Effect.map(
          sql<{ readonly seenBy: ReadonlyArray<object> }>`SELECT seen_by FROM change_requests WHERE id = ${id}`,
          (rows) => rows[0]?.seenBy ?? assert.fail("no request")
        )
      const store = (id: string, seen: unknown) =>
        sql`UPDATE change_requests SET seen_by = ${JSON.stringify(seen)}::jsonb WHERE id = ${id}`
      const [own = {}] = yield* seenBy(first.id)
      const { email, id: userId } = people.other
      const { mac: _mac, ...earlier } = own as Record<string, unknown>
      const forged = [{ ...own, userId, email }, { ...earlier, userId, email }, earlier, { userId }, 7, null]
      // The entry of another request, and what no server writes.
      yield* store(other.id, [own, ...forged])
      yield* store(first.id, [...forged, own])
      yield* reveal(sessions.approver, first.id)
      assert.lengthOf(yield* seenBy(first.id), 2)
      yield* store(first.id, [...forged, ...(yield* seenBy(first.id))])
      const readers = (id: string) =>
        Effect.map(trailOf(id), (entries) =>
          entries.filter(({ action }) => action === "secret.read").map(({ actor }) => actor.id)
        )
      assert.strictEqual((yield* approve(sessions.owner, first.id)).status, 200)
      assert.sameMembers(yield* readers(first.id), [people.admin.id, people.approver.id])
      assert.strictEqual((yield* approve(sessions.owner, other.id)).status, 200)
      assert.deepStrictEqual(yield* readers(other.id), [])
      for (const malformed of [{}, "text", 1, null]) {
        const { id } = yield* propose([{ op: "set", key: "NEW", value: JSON.stringify(malformed) }])
        yield* store(id, malformed)
        assert.strictEqual((yield* approve(sessions.owner, id)).status, 200)
      }
    })
  )

  it.effect("of an earlier release is revealed and approved, without kinds", () =>
    Effect.gen(function* () {
      const { approve, at, create, people, project, propose, reveal, sessions } = yield* setUp
      const { id } = yield* propose([{ op: "set", key: "LD_PRELOAD", value: "v" }])
      yield* storedBefore(id, people.author.id, project)
      const [item] = (yield* TestApp.get("/change-requests", { session: sessions.admin })).json.items
      assert.deepStrictEqual(item?.changes, [
        {
          key: "LD_PRELOAD",
          change: "create",
          kind: null,
          references: [],
          warnings: ["LD_PRELOAD decides which libraries are loaded"],
          conflict: false
        }
      ])
      const { digest } = (yield* reveal(sessions.admin, id)).as(RevealedChanges)
      assert.strictEqual((yield* approve(sessions.admin, id, { digest })).status, 200)
      const query = new URLSearchParams({ ...at, key: "LD_PRELOAD" })
      const written = yield* TestApp.get(`/secrets/value?${query}`, { session: sessions.owner })
      assert.strictEqual(written.json.value, "v")
      assert.strictEqual((yield* create(sessions.owner, "LD_PRELOAD", "v")).status, 409)
    })
  )
})
