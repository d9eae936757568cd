import { assert, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { createHash, randomBytes } from "node:crypto"
import * as SealedEnv from "#src/sealed/SealedEnv.ts"
import * as Rfc9180 from "#test/sealed/Rfc9180.ts"
import { auditEntry } from "#test/support/Json.ts"
import * as TestApp from "#test/support/TestApp.ts"
import * as World from "#test/support/World.ts"

const app = TestApp.unlimited

const codeOf = TestApp.refusalOf
const sessionOf = (person: { readonly id: World.Person["id"] }) => Effect.map(World.session(person), ({ text }) => text)

type Entries = Readonly<Record<string, string>>

const keypair = (environment: { readonly id: string }, asked: TestApp.Asked) =>
  TestApp.get(`/environments/${environment.id}/keypair`, asked)
const open = (environment: { readonly id: string }, keyId: string, entries: unknown, asked: TestApp.Asked) =>
  TestApp.post(`/environments/${environment.id}/sealed-values/open`, { ...asked, json: { keyId, entries } })
const rotate = (environment: { readonly id: string }, session: string) =>
  TestApp.post(`/environments/${environment.id}/keypair/rotate`, { session })
const retire = (environment: { readonly id: string }, keyId: string, session: string) =>
  TestApp.post(`/environments/${environment.id}/keypair/${keyId}/retire`, { session })

const recipientOf = (environment: { readonly id: string }, publicKey: string) =>
  Effect.orDie(SealedEnv.recipient(environment.id, Option.getOrThrow(SealedEnv.parsePublicKey(publicKey))))
/** A client that knows the public key and nothing else. */
const sealerOf = (environment: { readonly id: string }, asked: TestApp.Asked) =>
  Effect.flatMap(keypair(environment, asked), ({ json }) => recipientOf(environment, json.publicKey))
const seal = (
  to: SealedEnv.Recipient,
  values: Readonly<Record<string, string>>
): Effect.Effect<Record<string, string>> =>
  Effect.forEach(Object.entries(values), ([name, value]) =>
    Effect.map(SealedEnv.sealEntry(to, name, Redacted.make(value)), (entry) => [name, entry] as const)
  ).pipe(Effect.map(Object.fromEntries), Effect.orDie)
const withManifest = (to: SealedEnv.Recipient, entries: Entries) =>
  Effect.map(Effect.orDie(SealedEnv.sealManifest(to, new Map(Object.entries(entries)))), (manifest) => ({
    ...entries,
    _manifest: manifest
  }))

const trailOf = (environment: { readonly id: string }, action = "sealed.open") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly body: string }>`
      SELECT body FROM audit_entries WHERE environment_id = ${environment.id} AND action = ${action} ORDER BY id`
    return rows.map(auditEntry)
  })

const setUp = Effect.gen(function* () {
  const project = yield* World.project()
  const { team } = project
  const { text: bearer } = yield* World.token({ team })
  return { project, team, environment: project.development, owner: yield* sessionOf(team.owner), bearer }
})

layer(app, { excludeTestServices: true })("the keypair of an environment", (it) => {
  it.effect("is made on the first GET, and is the same from then on, for everybody", () =>
    Effect.gen(function* () {
      const { bearer, environment, owner, project } = yield* setUp
      const first = yield* keypair(environment, { bearer })
      assert.strictEqual(first.status, 200)
      assert.deepStrictEqual(Object.keys(first.json).sort(), [
        "algorithm",
        "createdAt",
        "environmentId",
        "keyId",
        "publicKey"
      ])
      assert.strictEqual(first.json.environmentId, environment.id)
      assert.strictEqual(first.json.algorithm, "hpke-x25519-hkdf-sha256-aes-256-gcm")
      const raw = Buffer.from(first.json.publicKey, "base64url")
      assert.strictEqual(raw.length, 32)
      assert.strictEqual(first.json.keyId, `ek_${createHash("sha256").update(raw).digest("hex").slice(0, 8)}`)
      assert.deepStrictEqual((yield* keypair(environment, { session: owner })).json, first.json)
      assert.notStrictEqual((yield* keypair(project.staging, { bearer })).json.publicKey, first.json.publicKey)
    })
  )

  it.effect("is one, however many ask first at once, and one entry says that it was made", () =>
    Effect.gen(function* () {
      const { bearer, environment } = yield* setUp
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => keypair(environment, { bearer })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [200])
      assert.strictEqual(new Set(answers.map(({ json }) => json.keyId)).size, 1)
      const entries = yield* trailOf(environment, "sealing_key.create")
      assert.deepStrictEqual(
        entries.map(({ target }) => target?.id),
        [answers[0].json.keyId]
      )
    })
  )

  it.effect("is read by viewers, read-only tokens and grants with secrets:read, and by no one else", () =>
    Effect.gen(function* () {
      const { environment, project, team } = yield* setUp
      const viewer = yield* World.member(team, "viewer")
      const readOnly = yield* World.token({ team, accessLevel: "read" })
      const grant = yield* World.grant({ person: team.owner, teams: [{ team, scopes: ["secrets:read"] }] })
      const other = yield* World.grant({ person: team.owner, teams: [{ team, scopes: ["secrets:run"] }] })
      assert.strictEqual((yield* keypair(environment, { session: yield* sessionOf(viewer) })).status, 200)
      assert.strictEqual((yield* keypair(environment, { bearer: readOnly.text })).status, 200)
      assert.strictEqual((yield* keypair(environment, { bearer: grant.text })).status, 200)
      const refused = yield* keypair(environment, { bearer: other.text })
      assert.deepStrictEqual(
        [...codeOf(refused), refused.error.requiredScope],
        [403, "SCOPE_MISSING", undefined, "secrets:read"]
      )
      assert.strictEqual((yield* keypair(environment, {})).status, 401)

      const stranger = yield* World.token({ team: yield* World.team() })
      const narrow = yield* World.token({ team, environments: [project.staging] })
      const nowhere = yield* keypair({ id: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071" }, { bearer: stranger.text })
      assert.deepStrictEqual(codeOf(nowhere), [404, "ENVIRONMENT_NOT_FOUND", undefined])
      for (const bearer of [stranger.text, narrow.text]) {
        const hidden = yield* keypair(environment, { bearer })
        assert.strictEqual(hidden.text, nowhere.text, "not visible and not there are the same answer")
      }
      assert.deepStrictEqual(codeOf(yield* keypair({ id: "no-uuid" }, { bearer: stranger.text })).slice(0, 2), [
        400,
        "VALIDATION_FAILED"
      ])
    })
  )

  it.effect("is refused when a writer of the database put a public key of their own in its place", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { bearer, environment, project } = yield* setUp
      yield* keypair(environment, { bearer })
      yield* keypair(project.staging, { bearer })
      yield* sql`UPDATE sealing_keys SET public_key = ${randomBytes(32)} WHERE environment_id = ${environment.id}`
      assert.deepStrictEqual(codeOf(yield* keypair(environment, { bearer })), [500, "INTEGRITY_FAILURE", undefined])
      // Another environment's whole row does not help: the wrapping is bound to its place.
      yield* sql`
        UPDATE sealing_keys s SET key_id = o.key_id, public_key = o.public_key, wrapped_private = o.wrapped_private
        FROM sealing_keys o WHERE o.environment_id = ${project.staging.id} AND s.environment_id = ${environment.id}`
      assert.deepStrictEqual(codeOf(yield* keypair(environment, { bearer })), [500, "INTEGRITY_FAILURE", undefined])
      assert.strictEqual((yield* keypair(project.staging, { bearer })).status, 200)
    })
  )

  it.effect("never shows its private half: not in answers, not in the trail, not in a row", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { bearer, environment } = yield* setUp
      const { json } = yield* keypair(environment, { bearer })
      const [row] = yield* sql<{ readonly wrappedPrivate: Buffer }>`
        SELECT wrapped_private FROM sealing_keys WHERE environment_id = ${environment.id}`
      assert.isAbove(row.wrappedPrivate.length, 32 + 16, "wrapped, not bare")
      for (let at = 0; at + 32 <= row.wrappedPrivate.length; at++) {
        const publicKey = Rfc9180.publicKeyOf(row.wrappedPrivate.subarray(at, at + 32)).toString("base64url")
        assert.notStrictEqual(publicKey, json.publicKey)
      }
    })
  )
})

layer(app, { excludeTestServices: true })("opening sealed values", (it) => {
  it.effect(
    "gives back what anybody sealed with the public key alone, also with another implementation of RFC 9180",
    () =>
      Effect.gen(function* () {
        const { bearer, environment } = yield* setUp
        const to = yield* sealerOf(environment, { bearer })
        const values = {
          DATABASE_URL: "postgres://u:p@h/d",
          EMPTY: "",
          LONG: "ü".repeat(65_536),
          LINES: "a\nb\u0000\u{1F512}"
        }
        const entries = yield* seal(to, values)
        const { json } = yield* keypair(environment, { bearer })
        const theirs = Rfc9180.seal(
          Rfc9180.aes256,
          Buffer.from(json.publicKey, "base64url"),
          randomBytes(32),
          Buffer.from("ampoule sealed-env v1"),
          SealedEnv.aadOf(environment.id, json.keyId, "FROM_ELSEWHERE"),
          Buffer.from("sealed elsewhere")
        )
        const answer = yield* open(
          environment,
          json.keyId,
          { ...entries, FROM_ELSEWHERE: `sealed:v1:${json.keyId}:${theirs.toString("base64url")}` },
          { bearer }
        )
        assert.strictEqual(answer.status, 200)
        assert.deepStrictEqual(answer.json, {
          keyId: json.keyId,
          values: { ...values, FROM_ELSEWHERE: "sealed elsewhere" }
        })
        assert.strictEqual(answer.headers.get("cache-control"), "no-store")
        const [entry, ...more] = yield* trailOf(environment)
        assert.lengthOf(more, 0)
        assert.deepStrictEqual(
          [entry.outcome, entry.keys, entry.actor.type],
          ["allowed", [...Object.keys(values), "FROM_ELSEWHERE"], "api_token"]
        )
        assert.notInclude(JSON.stringify(entry), "postgres://")
      })
  )

  it.effect("takes an environment id in upper case: the sealer and the path may write it as they like", () =>
    Effect.gen(function* () {
      const { bearer, environment } = yield* setUp
      const { json } = yield* keypair(environment, { bearer })
      const to = yield* recipientOf({ id: environment.id.toUpperCase() }, json.publicKey)
      const entries = yield* seal(to, { A: "1" })
      const answer = yield* open({ id: environment.id.toUpperCase() }, json.keyId, entries, { bearer })
      assert.deepStrictEqual(answer.json, { keyId: json.keyId, values: { A: "1" } })
    })
  )

  it.effect("has the authorization of inject: read-only tokens and members may, viewers and other scopes may not", () =>
    Effect.gen(function* () {
      const { environment, project, team } = yield* setUp
      const readOnly = yield* World.token({ team, accessLevel: "read" })
      const to = yield* sealerOf(environment, { bearer: readOnly.text })
      const entries = yield* seal(to, { A: "1" })
      const attempt = (asked: TestApp.Asked) => open(environment, to.keyId, entries, asked)
      const session = (role: "viewer" | "member") => Effect.flatMap(World.member(team, role), sessionOf)
      assert.strictEqual((yield* attempt({ bearer: readOnly.text })).status, 200)
      assert.strictEqual((yield* attempt({ session: yield* session("member") })).status, 200)
      assert.deepStrictEqual(codeOf(yield* attempt({ session: yield* session("viewer") })), [
        403,
        "FORBIDDEN",
        undefined
      ])
      const grant = (scopes: ReadonlyArray<"secrets:read" | "secrets:read_values" | "secrets:run">) =>
        World.grant({ person: team.owner, teams: [{ team, scopes }] })
      assert.strictEqual((yield* attempt({ bearer: (yield* grant(["secrets:run"])).text })).status, 200)
      const values = yield* attempt({ bearer: (yield* grant(["secrets:read", "secrets:read_values"])).text })
      assert.deepStrictEqual(
        [...codeOf(values), values.error.requiredScope],
        [403, "SCOPE_MISSING", undefined, "secrets:run"]
      )
      assert.strictEqual((yield* attempt({})).status, 401)
      const narrow = yield* World.token({ team, environments: [project.staging] })
      assert.deepStrictEqual(codeOf(yield* attempt({ bearer: narrow.text })), [404, "ENVIRONMENT_NOT_FOUND", undefined])

      // A read-only token opens in a protected environment too: nothing is written.
      const production = yield* sealerOf(project.production, { bearer: readOnly.text })
      const sealed = yield* seal(production, { A: "1" })
      assert.strictEqual(
        (yield* open(project.production, production.keyId, sealed, { bearer: readOnly.text })).status,
        200
      )

      const denied = (yield* trailOf(environment)).filter(({ outcome }) => outcome === "denied")
      assert.deepStrictEqual(
        denied.map(({ keys, reason }) => [reason, keys]),
        [
          ["FORBIDDEN", ["A"]],
          ["SCOPE_MISSING", ["A"]]
        ]
      )
    })
  )

  it.effect("checks in the order of the contract", () =>
    Effect.gen(function* () {
      const { environment, owner, team } = yield* setUp
      const { text: bearer } = yield* World.token({ team })
      const viewer = yield* Effect.flatMap(World.member(team, "viewer"), sessionOf)
      const to = yield* sealerOf(environment, { bearer })
      const bad = { A: "plaintext" }
      const nowhere = { id: "01980a5e-7c12-7000-8a1b-2c3d4e5f6071" }
      const unknown = to.keyId === "ek_00000000" ? "ek_00000001" : "ek_00000000"
      const at = (answer: TestApp.Answer) => answer.error.code
      assert.strictEqual(at(yield* open(nowhere, "nonsense", bad, {})), "UNAUTHENTICATED")
      assert.strictEqual(at(yield* open(nowhere, "nonsense", bad, { bearer })), "VALIDATION_FAILED")
      assert.strictEqual(at(yield* open(nowhere, unknown, bad, { session: viewer })), "ENVIRONMENT_NOT_FOUND")
      assert.strictEqual(at(yield* open(environment, unknown, bad, { session: viewer })), "FORBIDDEN")
      assert.strictEqual(at(yield* open(environment, unknown, bad, { bearer })), "SEALING_KEY_NOT_FOUND")
      yield* rotate(environment, owner)
      yield* retire(environment, to.keyId, owner)
      assert.strictEqual(at(yield* open(environment, to.keyId, bad, { bearer })), "SEALING_KEY_EXPIRED")
    })
  )

  it.effect("takes 1 to 500 entries, and says what it does not take", () =>
    Effect.gen(function* () {
      const { bearer, environment } = yield* setUp
      const to = yield* sealerOf(environment, { bearer })
      const many = yield* seal(to, Object.fromEntries(Array.from({ length: 501 }, (_, i) => [`KEY_${i}`, `${i}`])))
      const { KEY_500: _, ...most } = many
      const full = yield* open(environment, to.keyId, yield* withManifest(to, most), { bearer })
      assert.strictEqual(full.status, 200)
      assert.strictEqual(Object.keys(full.json.values).length, 500)
      assert.strictEqual(full.json.values.KEY_499, "499")
      const refused = (json: unknown) =>
        Effect.map(TestApp.post(`/environments/${environment.id}/sealed-values/open`, { bearer, json }), codeOf)
      const { keyId } = to
      assert.deepStrictEqual(yield* refused({ keyId, entries: many }), [400, "VALIDATION_FAILED", "entries"])
      assert.deepStrictEqual(yield* refused({ keyId, entries: {} }), [400, "VALIDATION_FAILED", "entries"])
      const alone = yield* withManifest(to, {})
      assert.deepStrictEqual(yield* refused({ keyId, entries: alone }), [400, "VALIDATION_FAILED", "entries"])
      assert.deepStrictEqual(yield* refused({ keyId, entries: { A: 1 } }), [400, "VALIDATION_FAILED", "entries.A"])
      assert.deepStrictEqual(yield* refused({ keyId, entries: [] }), [400, "VALIDATION_FAILED", "entries"])
      assert.deepStrictEqual(yield* refused({ keyId }), [400, "VALIDATION_FAILED", "entries"])
      assert.deepStrictEqual(yield* refused({ keyId: "ek_0123ABCD", entries: most }), [
        400,
        "VALIDATION_FAILED",
        "keyId"
      ])
      assert.deepStrictEqual(yield* refused({ keyId, entries: most, more: 1 }), [400, "VALIDATION_FAILED", "more"])
      const proto = yield* TestApp.post(`/environments/${environment.id}/sealed-values/open`, {
        bearer,
        headers: { "content-type": "application/json" },
        body: `{"keyId":"${keyId}","entries":{"KEY_1":"${most["KEY_1"]}","__proto__":"${most["KEY_2"]}"}}`
      })
      assert.deepStrictEqual(codeOf(proto), [400, "VALIDATION_FAILED", "entries.__proto__"])
    })
  )

  it.effect("takes a body of up to 8 MiB and answers a larger one 413", () =>
    Effect.gen(function* () {
      const { bearer, environment } = yield* setUp
      const to = yield* sealerOf(environment, { bearer })
      const one = yield* seal(to, { A: "x".repeat(65_536) })
      // Values of 64 KiB, sealed: enough of them to come close to 8 MiB.
      const values = Object.fromEntries(Array.from({ length: 94 }, (_, i) => [`KEY_${i}`, "x".repeat(65_536)]))
      const entries = yield* seal(to, values)
      const size = JSON.stringify({ keyId: to.keyId, entries }).length
      assert.isAbove(size, 7.8 * 1024 * 1024)
      assert.isBelow(size, 8 * 1024 * 1024)
      const answer = yield* open(environment, to.keyId, entries, { bearer })
      assert.deepStrictEqual(answer.json.values, values)
      const more = Object.fromEntries(Array.from({ length: 6 }, (_, i) => [`MORE_${i}`, one["A"]]))
      assert.deepStrictEqual(codeOf(yield* open(environment, to.keyId, { ...entries, ...more }, { bearer })), [
        413,
        "PAYLOAD_TOO_LARGE",
        undefined
      ])
    })
  )
})

const name = FastCheck.stringMatching(/^[A-Z][A-Z0-9_]{0,12}$/)
const text = FastCheck.fullUnicodeString({ maxLength: 40 })

/** Each takes an honest file and makes it one that must be refused; answers the entries and the name of the refusal. */
const attacks = {
  "plaintext in place of an entry": (honest: Entries, at: string) => ({ entries: { ...honest, [at]: "hunter2" }, at }),
  "a byte of the encapsulated key or the ciphertext flipped": (honest: Entries, at: string, { pick }: Around) => {
    const [, , keyId = "", encoded = ""] = honest[at].split(":")
    const bytes = Buffer.from(encoded, "base64url")
    bytes[pick % bytes.length] ^= 1 << (pick % 8)
    return { entries: { ...honest, [at]: `sealed:v1:${keyId}:${bytes.toString("base64url")}` }, at }
  },
  "an entry cut short": (honest: Entries, at: string, { pick }: Around) => {
    const entry = honest[at]
    return { entries: { ...honest, [at]: entry.slice(0, entry.length - 1 - (pick % (entry.length - 1))) }, at }
  },
  "text after an entry": (honest: Entries, at: string) => ({ entries: { ...honest, [at]: `${honest[at]}A` }, at }),
  "padding after an entry": (honest: Entries, at: string) => ({ entries: { ...honest, [at]: `${honest[at]}=` }, at }),
  "a newer version of the format": (honest: Entries, at: string) => ({
    entries: { ...honest, [at]: honest[at].replace("sealed:v1:", "sealed:v2:") },
    at
  }),
  "an entry under another name": (honest: Entries, at: string) => {
    const { [at]: moved, ...rest } = honest
    return { entries: { ...rest, MOVED_HERE: moved }, at: "MOVED_HERE" }
  },
  "an entry of another environment": (honest: Entries, at: string, { foreign }: Around) => ({
    entries: { ...honest, [at]: foreign },
    at
  }),
  "an entry of another environment that says this one's key": (honest: Entries, at: string, around: Around) => ({
    entries: { ...honest, [at]: around.foreign.replace(/ek_[0-9a-f]{8}/, around.keyId) },
    at
  }),
  "an entry by an older key of the environment": (honest: Entries, at: string, { older }: Around) => ({
    entries: { ...honest, [at]: older },
    at
  }),
  "an entry by an older key that says the newer": (honest: Entries, at: string, { keyId, older }: Around) => ({
    entries: { ...honest, [at]: older.replace(/ek_[0-9a-f]{8}/, keyId) },
    at
  }),
  "a name that no variable of ours has": (honest: Entries, at: string) => {
    const { [at]: moved, ...rest } = honest
    return { entries: { ...rest, "lower.case": moved }, at: "lower.case" }
  }
}

/** These need the manifest to be found out. */
const manifestAttacks = {
  "an entry dropped": (honest: Entries, at: string) => {
    const { [at]: _, ...rest } = honest
    return { ...rest }
  },
  "an older value of the same name replayed": (honest: Entries, at: string, { replayed }: Around) => ({
    ...honest,
    [at]: replayed
  }),
  "a value added": (honest: Entries, _at: string, { added }: Around) => ({ ...honest, ADDED_LATER: added }),
  "the manifest of another state of the file": (honest: Entries, _at: string, { manifest }: Around) => ({
    ...honest,
    _manifest: manifest
  }),
  "a plaintext manifest": (honest: Entries) => ({
    ...honest,
    _manifest: SealedEnv.manifestOf(new Map(Object.entries(honest)))
  }),
  "a value in place of the manifest": (honest: Entries, _at: string, { notManifest }: Around) => ({
    ...honest,
    _manifest: notManifest
  })
}

interface Around {
  readonly pick: number
  readonly keyId: string
  readonly foreign: string
  readonly older: string
  readonly replayed: string
  readonly added: string
  readonly manifest: string
  readonly notManifest: string
}

layer(app, { excludeTestServices: true })("a sealed file that was changed", (it) => {
  const file = FastCheck.record({
    values: FastCheck.dictionary(name, text, { minKeys: 2, maxKeys: 4 }),
    pick: FastCheck.nat(100_000)
  })

  /** An honest file of this environment, and what an attacker can have collected. */
  const scene = (values: Readonly<Record<string, string>>, pick: number) =>
    Effect.gen(function* () {
      const { bearer, environment, owner, project } = yield* setUp
      const names = Object.keys(values).sort()
      const at = names[pick % names.length]
      const before = yield* sealerOf(environment, { bearer })
      const older = (yield* seal(before, { [at]: "older" }))[at]
      yield* rotate(environment, owner)
      const to = yield* sealerOf(environment, { bearer })
      const elsewhere = yield* sealerOf(project.staging, { bearer })
      const honest = yield* seal(to, values)
      const replayed = (yield* seal(to, { [at]: "an older value" }))[at]
      const around: Around = {
        pick,
        keyId: to.keyId,
        older,
        replayed,
        foreign: (yield* seal(elsewhere, { [at]: "foreign" }))[at],
        added: (yield* seal(to, { ADDED_LATER: "added" }))["ADDED_LATER"],
        manifest: (yield* withManifest(to, { ...honest, [at]: replayed }))._manifest,
        notManifest: yield* Effect.orDie(SealedEnv.sealEntry(to, "_manifest", Redacted.make("{}")))
      }
      return { around, at, bearer, environment, honest, to }
    })

  it.effect.prop(
    "is refused as a whole, names the entry, and leaves nothing opened",
    [file],
    ([{ pick, values }]) =>
      Effect.gen(function* () {
        const { around, at, bearer, environment, honest, to } = yield* scene(values, pick)
        const attempt = (entries: Entries) => open(environment, to.keyId, entries, { bearer })
        assert.deepStrictEqual((yield* attempt(honest)).json, { keyId: to.keyId, values })
        for (const [what, attack] of Object.entries(attacks)) {
          const attacked = attack(honest, at, around)
          for (const entries of [attacked.entries, yield* withManifest(to, attacked.entries)]) {
            const answer = yield* attempt(entries)
            assert.deepStrictEqual(codeOf(answer), [400, "SEALED_VALUE_INVALID", `entries.${attacked.at}`], what)
            assert.notProperty(answer.error, "values")
            assert.notInclude(answer.text, "hunter2")
          }
        }
        // Two entries swapped: either is the first that does not open.
        const [a, b] = Object.keys(honest)
        const swapped = yield* attempt({ ...honest, [a]: honest[b], [b]: honest[a] })
        assert.deepStrictEqual(codeOf(swapped), [400, "SEALED_VALUE_INVALID", `entries.${a}`])
      }),
    { fastCheck: { numRuns: 8 } }
  )

  it.effect.prop(
    "is refused at _manifest when it has one that does not match",
    [file],
    ([{ pick, values }]) =>
      Effect.gen(function* () {
        const { around, at, bearer, environment, honest, to } = yield* scene(values, pick)
        const sealed = yield* withManifest(to, honest)
        const attempt = (entries: Entries) => open(environment, to.keyId, entries, { bearer })
        const opened = yield* attempt(sealed)
        assert.deepStrictEqual(opened.json, { keyId: to.keyId, values }, "the manifest is no value")
        for (const [what, attack] of Object.entries(manifestAttacks)) {
          const answer = yield* attempt(attack(sealed, at, around))
          assert.deepStrictEqual(codeOf(answer), [400, "SEALED_VALUE_INVALID", "entries._manifest"], what)
        }
        // Limits of per-entry binding, said openly: without a manifest the last three open.
        assert.deepStrictEqual((yield* attempt({ ...honest, [at]: around.replayed })).json.values[at], "an older value")
      }),
    { fastCheck: { numRuns: 8 } }
  )

  it.effect("is on record with its names and without what stood there", () =>
    Effect.gen(function* () {
      const { bearer, environment } = yield* setUp
      const to = yield* sealerOf(environment, { bearer })
      const honest = yield* seal(to, { A: "1", B: "2" })
      yield* open(environment, to.keyId, { ...honest, B: "hunter2", "not a name hunter3": honest["A"] }, { bearer })
      const [entry, ...more] = yield* trailOf(environment)
      assert.lengthOf(more, 0)
      assert.deepStrictEqual([entry.outcome, entry.reason, entry.keys], ["denied", "SEALED_VALUE_INVALID", ["A", "B"]])
      assert.notInclude(JSON.stringify(entry), "hunter")
    })
  )
})

layer(app, { excludeTestServices: true })("rotation and retirement of keypairs", (it) => {
  it.effect("rotate gives a new active key; old files still open and say which key to use", () =>
    Effect.gen(function* () {
      const { bearer, environment, owner } = yield* setUp
      const before = yield* keypair(environment, { bearer })
      const to = yield* recipientOf(environment, before.json.publicKey)
      const entries = yield* withManifest(to, yield* seal(to, { A: "1" }))
      const rotated = yield* rotate(environment, owner)
      assert.strictEqual(rotated.status, 200)
      assert.deepStrictEqual((yield* keypair(environment, { bearer })).json, rotated.json)
      assert.notStrictEqual(rotated.json.keyId, before.json.keyId)
      const { keyId, publicKey } = rotated.json
      assert.deepStrictEqual((yield* open(environment, before.json.keyId, entries, { bearer })).json, {
        keyId: before.json.keyId,
        values: { A: "1" },
        activeKey: { keyId, publicKey }
      })
      const again = yield* seal(yield* recipientOf(environment, publicKey), { A: "1" })
      assert.deepStrictEqual((yield* open(environment, keyId, again, { bearer })).json, { keyId, values: { A: "1" } })
      assert.deepStrictEqual(
        (yield* trailOf(environment, "sealing_key.rotate")).map(({ target }) => target?.id),
        [keyId]
      )
    })
  )

  it.effect("retire refuses the active key, expires an old one for good, and may be said twice", () =>
    Effect.gen(function* () {
      const { bearer, environment, owner, project } = yield* setUp
      const to = yield* sealerOf(environment, { bearer })
      const entries = yield* seal(to, { A: "1" })
      assert.deepStrictEqual(codeOf(yield* retire(environment, to.keyId, owner)), [400, "VALIDATION_FAILED", "keyId"])
      yield* rotate(environment, owner)
      const other = yield* sealerOf(project.staging, { bearer })
      assert.deepStrictEqual(codeOf(yield* retire(environment, other.keyId, owner)), [
        404,
        "SEALING_KEY_NOT_FOUND",
        undefined
      ])
      const retired = yield* retire(environment, to.keyId, owner)
      assert.deepStrictEqual([retired.status, retired.json.keyId], [200, to.keyId])
      assert.deepStrictEqual((yield* retire(environment, to.keyId, owner)).json, retired.json)
      assert.deepStrictEqual(codeOf(yield* open(environment, to.keyId, entries, { bearer })), [
        400,
        "SEALING_KEY_EXPIRED",
        undefined
      ])
      assert.lengthOf(yield* trailOf(environment, "sealing_key.retire"), 1)
    })
  )

  it.effect("are for owners and admins in a session", () =>
    Effect.gen(function* () {
      const { bearer, environment, owner, team } = yield* setUp
      const { keyId } = yield* sealerOf(environment, { bearer })
      yield* rotate(environment, owner)
      for (const [role, status] of [
        ["admin", 200],
        ["member", 403],
        ["viewer", 403]
      ] as const) {
        const session = yield* Effect.flatMap(World.member(team, role), sessionOf)
        assert.strictEqual((yield* rotate(environment, session)).status, status, role)
        assert.strictEqual((yield* retire(environment, keyId, session)).status, status, role)
      }
      const grant = yield* World.grant({ person: team.owner, teams: [{ team, scopes: ["secrets:write"] }] })
      for (const text of [bearer, grant.text]) {
        for (const path of ["rotate", `${keyId}/retire`]) {
          const answer = yield* TestApp.post(`/environments/${environment.id}/keypair/${path}`, { bearer: text })
          assert.deepStrictEqual(codeOf(answer), [403, "CREDENTIAL_KIND_NOT_ACCEPTED", undefined])
        }
      }
      const stranger = yield* sessionOf(yield* World.person())
      assert.deepStrictEqual(codeOf(yield* rotate(environment, stranger)), [404, "ENVIRONMENT_NOT_FOUND", undefined])
    })
  )

  it.effect("at once, by many, leave one active key, and every key that was ever active still opens", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { bearer, environment, owner } = yield* setUp
      const answers = yield* Effect.all(
        Array.from({ length: 8 }, (_, i) =>
          i % 2 === 0 ? rotate(environment, owner) : keypair(environment, { bearer })
        ),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))], [200])
      const rows = yield* sql<{ readonly state: string }>`
        SELECT state FROM sealing_keys WHERE environment_id = ${environment.id}`
      assert.strictEqual(rows.filter(({ state }) => state === "active").length, 1)
      for (const { json } of answers) {
        const entries = yield* seal(yield* recipientOf(environment, json.publicKey), { A: json.keyId })
        const opened = yield* open(environment, json.keyId, entries, { bearer })
        assert.strictEqual(opened.json.values.A, json.keyId)
      }
    })
  )

  it.effect("a deleted environment opens nothing any more", () =>
    Effect.gen(function* () {
      const { bearer, environment, owner } = yield* setUp
      const to = yield* sealerOf(environment, { bearer })
      const entries = yield* seal(to, { A: "1" })
      yield* TestApp.del(`/environments/${environment.id}`, { session: owner })
      assert.deepStrictEqual(codeOf(yield* open(environment, to.keyId, entries, { bearer })), [
        404,
        "ENVIRONMENT_NOT_FOUND",
        undefined
      ])
      assert.deepStrictEqual(codeOf(yield* rotate(environment, owner)), [404, "ENVIRONMENT_NOT_FOUND", undefined])
    })
  )

  it.effect("/capabilities says that sealed values are there", () =>
    Effect.gen(function* () {
      const { bearer } = yield* setUp
      assert.strictEqual((yield* TestApp.get("/capabilities", { bearer })).json.features.sealedValues, true)
    })
  )
})
