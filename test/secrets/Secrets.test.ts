import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { type Caller, CurrentCaller } from "#schema/Caller.ts"
import type { SecretId } from "#schema/Ids.ts"
import type { CreateSecret, UpdateSecret } from "#schema/SecretRequests.ts"
import { InjectedSecrets } from "#schema/SecretResponses.ts"
import { type SecretKind, SecretKey } from "#schema/Values.ts"
import { Maintenance } from "#src/secrets/Maintenance.ts"
import { secrets as fixtureSecrets, secretsLayer, world, type World } from "#test/support/Fixtures.ts"
import { auditEntry, parsed } from "#test/support/Json.ts"

const key = (text: string) => SecretKey.make(text)
const as = (caller: Caller) => Effect.provideService(CurrentCaller, caller)

/** Verbs of the tests, in the development environment of a world. */
const actor = (w: World, caller: Caller = w.owner) =>
  Effect.map(fixtureSecrets, (secrets) => {
    const at = { projectId: w.projectId, environment: w.development }
    const body = (text: { readonly value?: string; readonly source?: string; readonly kind?: SecretKind }) => ({
      ...(text.kind === undefined ? {} : { kind: text.kind }),
      ...(text.value === undefined ? {} : { value: Redacted.make(text.value) }),
      ...(text.source === undefined ? {} : { source: Redacted.make(text.source) })
    })
    return {
      at,
      create: (
        name: string,
        text: Parameters<typeof body>[0] | string,
        more: Partial<CreateSecret> = {},
        idempotency?: string
      ) =>
        secrets
          .create(
            { ...at, key: key(name), ...body(typeof text === "string" ? { value: text } : text), ...more },
            idempotency
          )
          .pipe(as(caller)),
      update: (id: SecretId, text: Parameters<typeof body>[0], more: Partial<UpdateSecret> = {}) =>
        secrets.update(id, { ...body(text), ...more }).pipe(as(caller)),
      bulk: (entries: Record<string, string>, idempotency?: string) =>
        secrets
          .createBulk(
            {
              ...at,
              secrets: Object.entries(entries).map(([name, value]) => ({ key: key(name), value: Redacted.make(value) }))
            },
            idempotency
          )
          .pipe(as(caller)),
      values: (representation: "materialized" | "source" = "materialized") =>
        secrets.inject({ ...at, representation }).pipe(
          as(caller),
          Effect.map(({ answer }) => answer?.value().values ?? {})
        ),
      inject: (page: { readonly page?: number; readonly pageSize?: number }, ifNoneMatch?: string) =>
        secrets.inject({ ...at, ...page }, ifNoneMatch).pipe(
          as(caller),
          // The bytes are what a client gets; the value beside them must say the same.
          Effect.map(({ answer, etag }) => {
            const body = answer && parsed(InjectedSecrets)(new TextDecoder().decode(answer.bytes))
            assert.deepStrictEqual(answer?.value(), body)
            return { etag, body }
          })
        ),
      value: (name: string) =>
        secrets.value({ ...at, key: key(name) }).pipe(
          as(caller),
          Effect.map((answer) => answer.value().value)
        ),
      remove: (id: SecretId, disposition?: "flatten" | "cascade") => secrets.remove(id, disposition).pipe(as(caller)),
      deleteBulk: (ids: ReadonlyArray<SecretId>) => secrets.deleteBulk({ ...at, ids }).pipe(as(caller)),
      restore: (id: SecretId) => secrets.restore(id).pipe(as(caller)),
      rollback: (id: SecretId, version: number) => secrets.rollback(id, { version }).pipe(as(caller)),
      versions: (id: SecretId) => Effect.map(secrets.versions(id).pipe(as(caller)), (list) => list.items),
      deleted: Effect.map(secrets.deleted(at).pipe(as(caller)), (list) => list.items),
      list: secrets.list(at).pipe(as(caller)),
      graph: secrets.composition(at).pipe(as(caller))
    }
  })

const code = (error: { readonly _tag: string }) => error._tag

describe("Secrets", () => {
  layer(secretsLayer, { timeout: 60_000 })((it) => {
    it.effect("a created secret is read back, composed and listed without its value", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const ref = yield* me.create("PASSWORD", "p@ss${")
        assert.deepInclude(ref, { key: "PASSWORD", kind: "literal", version: 1, environment: "development" })
        const url = yield* me.create("URL", "pg://u:${PASSWORD}@h")
        assert.strictEqual(url.kind, "template")
        assert.deepStrictEqual(yield* me.values(), { PASSWORD: "p@ss${", URL: "pg://u:p@ss${@h" })
        assert.deepStrictEqual(yield* me.values("source"), { PASSWORD: "p@ss${", URL: "pg://u:${PASSWORD}@h" })
        assert.strictEqual(yield* me.value("URL"), "pg://u:p@ss${@h")
        const list = yield* me.list
        assert.deepStrictEqual(
          list.items.map((item) => [item.key, item.references]),
          [
            ["PASSWORD", []],
            ["URL", ["PASSWORD"]]
          ]
        )
        assert.notInclude(JSON.stringify(list), "p@ss")
        assert.deepStrictEqual((yield* me.graph).edges, [{ from: "URL", to: "PASSWORD" }])
      })
    )

    it.effect("creating a live key is refused; a deleted one counts its versions on, under a new id", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const first = yield* me.create("A", "1")
        assert.strictEqual(code(yield* Effect.flip(me.create("A", "2"))), "SECRET_ALREADY_EXISTS")
        assert.strictEqual(
          code(yield* Effect.flip(me.create("A", "2", { expectedVersion: 1 }))),
          "SECRET_ALREADY_EXISTS"
        )
        yield* me.remove(first.id)
        const conflict = yield* Effect.flip(me.create("A", "2", { expectedVersion: 7 }))
        assert.deepInclude(conflict, { _tag: "SECRET_VERSION_CONFLICT", currentVersion: 1 })
        const never = yield* Effect.flip(me.create("NEVER", "2", { expectedVersion: 7 }))
        assert.deepInclude(never, { _tag: "SECRET_VERSION_CONFLICT", currentVersion: 0 })
        const second = yield* me.create("A", "2", { expectedVersion: 1 })
        assert.strictEqual(second.version, 2)
        assert.notStrictEqual(second.id, first.id)
      })
    )

    it.effect("an equal text of equal kind makes no version; a pinned literal stays one", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const secret = yield* me.create("A", { value: "${B}", kind: "literal" })
        assert.strictEqual(secret.kind, "literal")
        assert.strictEqual((yield* me.update(secret.id, { value: "${B}" })).version, 1)
        const later = yield* me.update(secret.id, { value: "${C}" })
        assert.deepInclude(later, { version: 2, kind: "literal" })
        const bulk = yield* me.bulk({ A: "${D}" })
        assert.deepInclude(bulk, { created: 0, updated: 1, unchanged: 0 })
        assert.deepStrictEqual(yield* me.values(), { A: "${D}" })
        const missing = yield* Effect.flip(me.update(secret.id, { kind: "template" }))
        assert.deepInclude(missing, { _tag: "TEMPLATE_REFERENCE_MISSING", references: ["D"], field: "kind" })
      })
    )

    it.effect("kind alone reinterprets the stored text", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        yield* me.create("B", "b")
        const a = yield* me.create("A", { value: "x${B}", kind: "literal" })
        assert.deepInclude(yield* me.update(a.id, { kind: "template" }), { version: 2, kind: "template" })
        assert.strictEqual(yield* me.value("A"), "xb")
        assert.deepInclude(yield* me.update(a.id, { kind: "literal" }), { version: 3, kind: "literal" })
        assert.strictEqual(yield* me.value("A"), "x${B}")
      })
    )

    it.effect("templates are checked against the state after the whole request", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        assert.deepInclude(yield* Effect.flip(me.create("A", "${B}")), {
          _tag: "TEMPLATE_REFERENCE_MISSING",
          references: ["B"],
          field: "value"
        })
        assert.deepInclude(yield* Effect.flip(me.create("A", { source: "${b}" })), {
          _tag: "TEMPLATE_INVALID",
          field: "source"
        })
        yield* me.bulk({ A: "${B}", B: "b" })
        const cycle = yield* Effect.flip(me.bulk({ B: "${A}" }))
        assert.deepInclude(cycle, { _tag: "TEMPLATE_CYCLE", cycle: ["A", "B"], field: "secrets.0.value" })
        assert.deepStrictEqual(yield* me.values(), { A: "b", B: "b" })
        yield* me.bulk({ BASE: "x".repeat(60_000), TWICE: "${BASE}" })
        assert.deepInclude(yield* Effect.flip(me.bulk({ MORE: "${BASE}${TWICE}" })), { _tag: "VALUE_TOO_LARGE" })
        yield* me.bulk({ SUM: "y".repeat(5_000) + "${BASE}" })
        assert.deepInclude(yield* Effect.flip(me.bulk({ BASE: "x".repeat(61_000) })), { _tag: "VALUE_TOO_LARGE" })
      })
    )

    it.effect("deleting what others use needs a disposition; flatten keeps every value, cascade takes them along", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        yield* me.bulk({ A: "a${B}$${", B: "$", C: "${A}${D}", D: "d" })
        const ids = new Map((yield* me.list).items.map((item) => [item.key, item.id]))
        const b = ids.get("B")
        const d = ids.get("D")
        if (b === undefined || d === undefined) return assert.fail("created above")
        const before = yield* me.values()
        assert.deepInclude(yield* Effect.flip(me.remove(b)), { _tag: "SECRET_HAS_DEPENDENTS", dependents: ["A"] })
        assert.deepInclude(yield* Effect.flip(me.deleteBulk([b])), { _tag: "SECRET_HAS_DEPENDENTS", dependents: ["A"] })
        const flat = yield* me.remove(b, "flatten")
        assert.deepStrictEqual([flat.flattened, flat.cascaded], [["A"], []])
        const { B: _, ...rest } = before
        assert.deepStrictEqual(yield* me.values(), rest)
        const gone = yield* me.remove(d, "cascade")
        assert.deepStrictEqual([gone.flattened, gone.cascaded], [[], ["C"]])
        assert.deepStrictEqual(Object.keys(yield* me.values()), ["A"])
      })
    )

    it.effect("bulk deletion is all or nothing, and allowed when every dependent goes too", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const { items } = yield* me.bulk({ A: "${B}", B: "b", C: "c" })
        const ids = items.map((item) => item.id)
        const foreign = yield* (yield* actor(yield* world())).create("X", "x")
        assert.strictEqual(code(yield* Effect.flip(me.deleteBulk([ids[2], foreign.id]))), "SECRET_NOT_FOUND")
        assert.strictEqual((yield* me.list).total, 3)
        assert.strictEqual((yield* me.deleteBulk(ids.slice(0, 2))).deleted, 2)
        assert.deepStrictEqual(Object.keys(yield* me.values()), ["C"])
      })
    )

    it.effect("history, rollback, deletion, restore; purge ends it after 30 days", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const a = yield* me.create("A", "1")
        yield* me.update(a.id, { value: "2" })
        assert.strictEqual((yield* me.rollback(a.id, 1)).version, 3)
        assert.strictEqual((yield* me.rollback(a.id, 1)).version, 3)
        assert.strictEqual(yield* me.value("A"), "1")
        assert.strictEqual(code(yield* Effect.flip(me.rollback(a.id, 9))), "SECRET_VERSION_NOT_FOUND")
        assert.deepStrictEqual(
          (yield* me.versions(a.id)).map((v) => [v.version, v.deleted]),
          [
            [3, false],
            [2, false],
            [1, false]
          ]
        )
        yield* me.remove(a.id)
        assert.strictEqual(code(yield* Effect.flip(me.value("A"))), "SECRET_NOT_FOUND")
        assert.strictEqual((yield* me.versions(a.id))[0].deleted, true)
        assert.deepStrictEqual(
          (yield* me.deleted).map((item) => item.id),
          [a.id]
        )
        assert.strictEqual((yield* me.restore(a.id)).version, 3)
        assert.strictEqual(yield* me.value("A"), "1")
        assert.strictEqual(code(yield* Effect.flip(me.restore(a.id))), "SECRET_ALREADY_EXISTS")
        yield* me.remove(a.id)
        yield* TestClock.adjust("30 days")
        assert.deepStrictEqual(yield* me.deleted, [])
        assert.strictEqual(code(yield* Effect.flip(me.restore(a.id))), "SECRET_NOT_FOUND")
        yield* (yield* Maintenance).purge
        assert.strictEqual(code(yield* Effect.flip(me.versions(a.id))), "SECRET_NOT_FOUND")
        const again = yield* me.create("A", "5", { expectedVersion: 3 })
        assert.strictEqual(again.version, 4)
      })
    )

    it.effect("the developer plan keeps the current version only, still restorable", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world({ plan: "developer" }))
        const a = yield* me.create("A", "1")
        yield* me.update(a.id, { value: "2" })
        assert.deepStrictEqual(
          (yield* me.versions(a.id)).map((v) => v.version),
          [2]
        )
        yield* me.remove(a.id)
        assert.strictEqual((yield* me.restore(a.id)).version, 2)
        assert.strictEqual(yield* me.value("A"), "2")
      })
    )

    it.effect("the ETag of inject holds until the next change, and paging has its own", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        yield* me.bulk({ A: "1", B: "2", C: "3" })
        const first = yield* me.inject({})
        assert.deepInclude(first.body, { page: 1, pageSize: 3, total: 3, hasMore: false })
        assert.strictEqual((yield* me.inject({}, first.etag)).body, undefined)
        const page = yield* me.inject({ page: 2, pageSize: 2 })
        assert.deepInclude(page.body, { page: 2, pageSize: 2, total: 3, hasMore: false, values: { C: "3" } })
        assert.notStrictEqual(page.etag, first.etag)
        yield* me.bulk({ A: "4" })
        const second = yield* me.inject({}, first.etag)
        assert.deepStrictEqual(second.body?.values, { A: "4", B: "2", C: "3" })
        assert.isAbove(second.body?.revision ?? 0, first.body?.revision ?? 0)
      })
    )

    it.effect("an idempotency key repeats the stored answer, refuses another body, and is forgotten after a day", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const first = yield* me.create("A", "1", {}, "k1")
        assert.deepStrictEqual(yield* me.create("A", "1", {}, "k1"), first)
        assert.strictEqual(code(yield* Effect.flip(me.create("A", "2", {}, "k1"))), "IDEMPOTENCY_KEY_REUSED")
        const twins = yield* Effect.all(
          Array.from({ length: 8 }, () => me.bulk({ B: "b" }, "k2")),
          { concurrency: "unbounded" }
        )
        for (const twin of twins) assert.deepStrictEqual(twin, twins[0])
        assert.strictEqual(twins[0].created, 1)
        yield* TestClock.adjust("24 hours")
        assert.strictEqual(code(yield* Effect.flip(me.create("A", "1", {}, "k1"))), "SECRET_ALREADY_EXISTS")
      })
    )

    it.effect("of 20 racing writers with the same expected version exactly one wins", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const a = yield* me.create("A", "0")
        const outcomes = yield* Effect.all(
          Array.from({ length: 20 }, (_, i) =>
            Effect.either(me.update(a.id, { value: `${i + 1}` }, { expectedVersion: 1 }))
          ),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(outcomes.filter((o) => o._tag === "Right").length, 1)
        for (const o of outcomes)
          if (o._tag === "Left") assert.deepInclude(o.left, { _tag: "SECRET_VERSION_CONFLICT", currentVersion: 2 })
        const creators = yield* Effect.all(
          Array.from({ length: 20 }, () => Effect.either(me.create("NEW", "x"))),
          { concurrency: "unbounded" }
        )
        assert.strictEqual(creators.filter((o) => o._tag === "Right").length, 1)
      })
    )

    it.effect("every reveal commits its entry with the key names first; a revalidation leaves none", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const sql = yield* SqlClient.SqlClient
        yield* me.bulk({ A: "1", B: "2" })
        const { etag } = yield* me.inject({})
        yield* me.inject({}, etag)
        yield* me.value("B")
        const entries = yield* sql<{ readonly body: string }>`
          SELECT body FROM audit_entries WHERE team_id = ${w.teamId} ORDER BY id`
        assert.deepStrictEqual(
          entries.map((row) => {
            const { action, keys, outcome } = auditEntry(row)
            return [action, outcome, keys]
          }),
          [
            ["secret.create", "allowed", ["A", "B"]],
            ["secret.inject", "allowed", ["A", "B"]],
            ["secret.read", "allowed", ["B"]]
          ]
        )
      })
    )

    it.effect("no value leaves when its entry cannot be committed", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const sql = yield* SqlClient.SqlClient
        yield* me.bulk({ A: "1" })
        yield* me.values()
        yield* sql`ALTER TABLE audit_entries RENAME TO audit_entries_away`
        const failed = yield* Effect.exit(me.values())
        const write = yield* Effect.exit(me.bulk({ A: "2" }))
        yield* sql`ALTER TABLE audit_entries_away RENAME TO audit_entries`
        assert.strictEqual(failed._tag, "Failure")
        assert.strictEqual(write._tag, "Failure")
        assert.deepStrictEqual(yield* me.values(), { A: "1" })
      })
    )

    it.effect("a row that was altered or moved is refused as a whole, and the refusal is recorded", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const sql = yield* SqlClient.SqlClient
        const { items } = yield* me.bulk({ A: "1", B: "2" })
        const [a, b] = items.map((item) => item.id)
        yield* sql`
          UPDATE secret_versions v SET sealed = o.sealed FROM secret_versions o
          WHERE v.secret_id = ${a} AND o.secret_id = ${b}`
        assert.strictEqual(code(yield* Effect.flip(me.values())), "INTEGRITY_FAILURE")
        const denied = yield* sql<{ readonly body: string }>`
          SELECT body FROM audit_entries WHERE team_id = ${w.teamId} AND body LIKE '%INTEGRITY_FAILURE%'`
        assert.strictEqual(denied.length, 1)
        yield* sql`UPDATE secrets SET key = 'C' WHERE id = ${b}`
        assert.strictEqual(code(yield* Effect.flip(me.value("C"))), "INTEGRITY_FAILURE")
      })
    )

    it.effect("a write that meets an altered row is refused at once, recorded, and changes nothing", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const sql = yield* SqlClient.SqlClient
        const bad = yield* me.create("BAD", "1")
        const gone = yield* me.create("GONE", "1")
        yield* me.create("USER", "${BAD}")
        yield* me.remove(gone.id)
        yield* sql`UPDATE secret_versions SET sealed = set_byte(sealed, 40, 255 - get_byte(sealed, 40))
          WHERE secret_id IN (${bad.id}, ${gone.id})`
        const revision = Effect.map(
          sql<{ readonly revision: number }>`
            SELECT revision::float8 AS revision FROM environments WHERE id = ${w.developmentId}`,
          (rows) => rows[0].revision
        )
        const before = yield* revision
        const writes: Record<string, Effect.Effect<unknown, { readonly _tag: string }>> = {
          update: me.update(bad.id, { value: "2" }),
          rollback: me.rollback(bad.id, 1),
          restore: me.restore(gone.id),
          remove: me.remove(bad.id, "flatten"),
          bulk: me.bulk({ BAD: "2" }),
          again: me.bulk({ BAD: "2" }, "once"),
          create: me.create("NEXT", "${USER}")
        }
        for (const [name, write] of Object.entries(writes)) {
          assert.strictEqual(code(yield* Effect.flip(write)), "INTEGRITY_FAILURE", name)
        }
        assert.strictEqual(yield* revision, before)
        const denied = yield* sql<{ readonly body: string }>`
          SELECT body FROM audit_entries WHERE team_id = ${w.teamId} AND body LIKE '%INTEGRITY_FAILURE%' ORDER BY id`
        assert.deepStrictEqual(
          denied.map((row) => {
            const { action, keys, outcome } = auditEntry(row)
            return [action, outcome, keys]
          }),
          [
            ["secret.update", "denied", ["BAD"]],
            ["secret.rollback", "denied", ["BAD"]],
            ["secret.restore", "denied", ["GONE"]],
            ["secret.delete", "denied", ["BAD"]],
            ["secret.create", "denied", ["BAD"]],
            ["secret.create", "denied", ["BAD"]],
            ["secret.create", "denied", ["BAD"]]
          ]
        )
      })
    )

    it.effect("a limit that a write meets under its lock is in the trail as a denial", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const sql = yield* SqlClient.SqlClient
        const half = "x".repeat(60_000)
        const many = (from: number) => Object.fromEntries(Array.from({ length: 93 }, (_, i) => [`K${from + i}`, half]))
        for (const from of [0, 100, 200]) yield* me.bulk(many(from))
        assert.strictEqual(code(yield* Effect.flip(me.create("MORE", half))), "PLAN_LIMIT_REACHED")
        const denied = yield* sql`
          SELECT 1 FROM audit_entries WHERE team_id = ${w.teamId} AND body LIKE '%PLAN_LIMIT_REACHED%'
            AND body LIKE '%MORE%'`
        assert.strictEqual(denied.length, 1)
      })
    )

    it.effect("an idempotency key that was used in another environment is refused there", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        yield* me.create("A", "1", {}, "deploy")
        const elsewhere = me.create("A", "1", { environment: w.production }, "deploy")
        assert.strictEqual(code(yield* Effect.flip(elsewhere)), "IDEMPOTENCY_KEY_REUSED")
      })
    )

    it.effect("a version that no secret can have is not found", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const { id } = yield* me.create("A", "1")
        for (const version of [2, 2 ** 31, Number.MAX_SAFE_INTEGER]) {
          assert.strictEqual(code(yield* Effect.flip(me.rollback(id, version))), "SECRET_VERSION_NOT_FOUND")
        }
      })
    )

    it.effect("a page with values opens what it shows and what that builds on, and nothing else", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const secrets = yield* fixtureSecrets
        const sql = yield* SqlClient.SqlClient
        yield* me.bulk({ A: "1", B: "2", X: "${Y}!", Y: "y", Z: "${X}?" })
        const page = (page: number, pageSize: number, representation?: "source") =>
          secrets.withValues({ ...me.at, page, pageSize, ...(representation && { representation }) }).pipe(
            as(w.owner),
            Effect.map((answer) => answer.value()),
            Effect.map(({ hasMore, items, total }) => [items.map(({ key, value }) => [key, value]), total, hasMore])
          )
        assert.deepStrictEqual(yield* page(2, 2), [
          [
            ["X", "y!"],
            ["Y", "y"]
          ],
          5,
          true
        ])
        assert.deepStrictEqual(yield* page(3, 2), [[["Z", "y!?"]], 5, false])
        assert.deepStrictEqual(yield* page(4, 2), [[], 5, false])
        assert.deepStrictEqual(yield* page(3, 2, "source"), [[["Z", "${X}?"]], 5, false])
        assert.deepStrictEqual((yield* me.inject({ page: 3, pageSize: 2 })).body?.values, { Z: "y!?" })
        // Rows outside the page are not read: they may even be damaged.
        yield* sql`UPDATE secret_versions v SET sealed = set_byte(sealed, 40, 255 - get_byte(sealed, 40))
          FROM secrets s WHERE s.id = v.secret_id AND s.environment_id = ${w.developmentId} AND s.key = 'B'`
        assert.deepStrictEqual(yield* page(5, 1), [[["Z", "y!?"]], 5, false])
        assert.strictEqual(code(yield* Effect.flip(page(2, 1))), "INTEGRITY_FAILURE")
      })
    )

    it.effect("what stood in an environment goes 30 days after the environment", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const sql = yield* SqlClient.SqlClient
        const { purge } = yield* Maintenance
        yield* me.bulk({ A: "1", B: "2" })
        const now = new Date(yield* Clock.currentTimeMillis)
        yield* sql`UPDATE environments SET deleted_at = ${now} WHERE id = ${w.developmentId}`
        const rows = sql`SELECT 1 FROM secrets WHERE environment_id = ${w.developmentId}`
        yield* TestClock.adjust("29 days")
        yield* purge
        assert.strictEqual((yield* rows).length, 2)
        yield* TestClock.adjust("25 hours")
        yield* purge
        assert.strictEqual((yield* rows).length, 0)
        const entries = yield* sql<{ readonly body: string }>`
          SELECT body FROM audit_entries WHERE team_id = ${w.teamId} AND action = 'secret.purge'`
        assert.deepStrictEqual(entries.flatMap((row) => auditEntry(row).keys).sort(), ["A", "B"])
      })
    )

    it.effect("a restored secret says who wrote its version, and when that was", () =>
      Effect.gen(function* () {
        const w = yield* world()
        const me = yield* actor(w)
        const { id } = yield* (yield* actor(w, w.token())).create("A", "1")
        const [before] = (yield* me.list).items
        yield* TestClock.adjust("1 hour")
        yield* me.remove(id)
        yield* TestClock.adjust("1 hour")
        yield* me.restore(id)
        assert.deepStrictEqual((yield* me.list).items, [before])
      })
    )

    it.effect("flattening that meets the limit as written says so, and loses nothing", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const x = yield* me.create("X", { kind: "literal", value: "${".repeat(20_000) })
        yield* me.create("C", "")
        // Expanded within 16 MiB; with `${` escaped, longer.
        const users = (from: number, count: number) =>
          Object.fromEntries(Array.from({ length: count }, (_, i) => [`U${from + i}`, "${X}${C}"]))
        for (const from of [0, 100, 200, 300]) yield* me.bulk(users(from, 100))
        yield* me.bulk(users(400, 17))
        assert.strictEqual(code(yield* Effect.flip(me.remove(x.id, "flatten"))), "PLAN_LIMIT_REACHED")
        assert.strictEqual((yield* me.list).total, 419)
      })
    )

    it.effect("roles, levels and protection decide before anything is read", () =>
      Effect.gen(function* () {
        const w = yield* world()
        yield* (yield* actor(w)).create("A", "1")
        const viewer = yield* actor(w, w.person("viewer"))
        assert.strictEqual((yield* viewer.list).total, 1)
        assert.strictEqual(code(yield* Effect.flip(viewer.value("A"))), "FORBIDDEN")
        assert.strictEqual(code(yield* Effect.flip(viewer.create("B", "1"))), "FORBIDDEN")
        const reader = yield* actor(w, w.token({ accessLevel: "read" }))
        assert.strictEqual(yield* reader.value("A"), "1")
        assert.strictEqual(code(yield* Effect.flip(reader.create("B", "1"))), "API_TOKEN_READ_ONLY")
        const secrets = yield* fixtureSecrets
        const write = secrets.create({ projectId: w.projectId, environment: w.production, key: key("P") })
        assert.strictEqual(
          code(yield* Effect.flip(write.pipe(as(w.token())))),
          "API_TOKEN_NOT_SCOPED_TO_PROTECTED_ENVIRONMENT"
        )
        const naming = w.token({ restrictions: { projectIds: null, environmentIds: [w.productionId] } })
        assert.strictEqual((yield* write.pipe(as(naming))).kind, "literal")
        assert.strictEqual(code(yield* Effect.flip((yield* actor(w, naming)).list)), "ENVIRONMENT_NOT_FOUND")
        const other = yield* world()
        assert.strictEqual(code(yield* Effect.flip((yield* actor(w, other.owner)).list)), "PROJECT_NOT_FOUND")
      })
    )

    it.effect("5,000 secrets and 16 MiB are the limits of an environment", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        for (let i = 0; i < 2; i++) {
          yield* me.bulk(Object.fromEntries(Array.from({ length: 100 }, (_, j) => [`K${i}_${j}`, "x".repeat(65_536)])))
        }
        yield* me.bulk(Object.fromEntries(Array.from({ length: 55 }, (_, j) => [`L_${j}`, "x".repeat(65_536)])))
        assert.strictEqual(code(yield* Effect.flip(me.bulk({ M: "x".repeat(65_536), N: "x" }))), "PLAN_LIMIT_REACHED")
        assert.strictEqual((yield* me.bulk({ M: "x".repeat(65_536) })).created, 1)
      })
    )

    it.effect("whatever text is written comes back, whatever was written around it", () =>
      Effect.gen(function* () {
        const me = yield* actor(yield* world())
        const text = FastCheck.string({ unit: "grapheme", maxLength: 40 })
        const texts = FastCheck.dictionary(FastCheck.constantFrom("A", "B", "C", "D"), text, { minKeys: 1 })
        yield* Effect.promise(() =>
          FastCheck.assert(
            FastCheck.asyncProperty(texts, async (written) => {
              const entries = Object.entries(written).filter(
                ([, value]) => !value.includes("${") && value.isWellFormed()
              )
              if (entries.length === 0) return
              const expected = Object.fromEntries(entries)
              const got = await Effect.runPromise(Effect.zipRight(me.bulk(expected), me.values()))
              for (const [name, value] of entries) assert.strictEqual(got[name], value)
            }),
            { numRuns: 30 }
          )
        )
      })
    )
  })
})
