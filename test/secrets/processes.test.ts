import { assert, describe, layer } from "@effect/vitest"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import * as Redacted from "effect/Redacted"
import { CurrentCaller } from "#schema/Caller.ts"
import { SecretKey } from "#schema/Values.ts"
import * as Composition from "#src/secrets/Composition.ts"
import { anotherProcess, secretsLayer, world } from "#test/support/Fixtures.ts"

const keys = Array.from({ length: 14 }, (_, i) => `K${String(i).padStart(2, "0")}`)

/** Long texts, so that an expanded value can be too large; references to the next key, so that paths can be too long. */
const anyText = (at: number) =>
  FastCheck.oneof(
    { weight: 3, arbitrary: FastCheck.constantFrom("", "a", "ü😀", "$${x}") },
    { weight: 3, arbitrary: FastCheck.constant("x".repeat(40_000)) },
    { weight: 5, arbitrary: FastCheck.constant(`<\${${keys[Math.min(at + 1, keys.length - 1)]}}>`) },
    {
      weight: 4,
      arbitrary: FastCheck.array(FastCheck.constantFrom(...keys, "GONE"), { minLength: 1, maxLength: 3 }).map((used) =>
        used.map((key) => `\${${key}}`).join("-")
      )
    }
  )
const anyEntry = FastCheck.nat(keys.length - 1).chain((at) =>
  FastCheck.tuple(FastCheck.constant(keys[at]), anyText(at))
)
const anyKey = FastCheck.constantFrom(...keys)
const anyWrite = FastCheck.oneof(
  {
    weight: 8,
    arbitrary: FastCheck.record({
      verb: FastCheck.constant("bulk" as const),
      entries: FastCheck.uniqueArray(anyEntry, { selector: ([key]) => key, minLength: 1, maxLength: 5 })
    })
  },
  {
    weight: 1,
    arbitrary: anyEntry.map(([key]) => ({
      verb: "bulk" as const,
      entries: [["LONG", "x".repeat(40_000)] as const, [key, "${LONG}${LONG}"] as const]
    }))
  },
  {
    weight: 2,
    arbitrary: FastCheck.record({
      verb: FastCheck.constant("bulk" as const),
      entries: FastCheck.integer({ min: 2, max: keys.length }).map((length) =>
        keys.slice(0, length).map((key, i) => [key, i + 1 < length ? `\${${keys[i + 1]}}.` : "end"] as const)
      )
    })
  },
  {
    weight: 3,
    arbitrary: FastCheck.record({
      verb: FastCheck.constant("remove" as const),
      key: anyKey,
      disposition: FastCheck.constantFrom("flatten" as const, "cascade" as const, undefined)
    })
  },
  { weight: 2, arbitrary: FastCheck.record({ verb: FastCheck.constant("restore" as const), key: anyKey }) },
  { weight: 2, arbitrary: FastCheck.record({ verb: FastCheck.constant("rename" as const), key: anyKey, to: anyKey }) },
  { weight: 1, arbitrary: FastCheck.record({ verb: FastCheck.constant("before" as const), key: anyKey }) }
)
const anyHistory = FastCheck.array(FastCheck.tuple(FastCheck.nat(1), anyWrite), { minLength: 4, maxLength: 25 })
type AnyWrite =
  FastCheck.Arbitrary<never> extends never ? never : typeof anyWrite extends FastCheck.Arbitrary<infer W> ? W : never

/** Refusal of a write. */
const refusal = <A, E extends object, R>(work: Effect.Effect<A, E, R>) =>
  Effect.match(work, { onFailure: (error) => ({ ...error }), onSuccess: () => undefined })

const setUp = Effect.gen(function* () {
  const w = yield* world()
  const sql = yield* SqlClient.SqlClient
  const processes = [yield* anotherProcess, yield* anotherProcess] as const
  const cold = yield* anotherProcess
  const at = { projectId: w.projectId, environment: w.development }
  const as = Effect.provideService(CurrentCaller, w.owner)
  const environment = sql.literal(`'${w.developmentId}'::uuid`)

  const idOf = (key: string, live: boolean) =>
    Effect.map(
      sql<{ readonly id: never }>`
        SELECT id FROM secrets WHERE environment_id = ${environment} AND key = ${key} AND (deleted_at IS NULL) = ${live}
        ORDER BY version DESC LIMIT 1`,
      ([row]) => row?.id
    )

  /** Content of the database alone: source texts, opened by a process that holds no snapshot. */
  const stored = Effect.gen(function* () {
    yield* cold.snapshots.forget(w.developmentId)
    const { answer } = yield* cold.secrets.inject({ ...at, representation: "source" }).pipe(as)
    const list = yield* cold.secrets.composition(at).pipe(as)
    const kinds = new Map(list.nodes.map(({ key, kind }) => [key as string, kind]))
    return new Map(
      Object.entries(answer?.value().values ?? {}).map(([key, text]) => [
        key,
        Either.getOrThrow(Composition.entry(kinds.get(key) === "template" ? "template" : "literal", text))
      ])
    )
  })

  const run = Effect.fnUntraced(function* (by: number, write: AnyWrite) {
    const { secrets } = processes[by] ?? processes[0]
    switch (write.verb) {
      case "bulk":
        return yield* secrets
          .createBulk({
            ...at,
            secrets: write.entries.map(([key, text]) => ({ key: SecretKey.make(key), value: Redacted.make(text) }))
          })
          .pipe(as, refusal)
      case "remove": {
        const id = yield* idOf(write.key, true)
        return id === undefined ? undefined : yield* secrets.remove(id, write.disposition).pipe(as, refusal)
      }
      case "restore": {
        const id = yield* idOf(write.key, false)
        return id === undefined ? undefined : yield* secrets.restore(id).pipe(as, refusal)
      }
      case "rename": {
        const id = yield* idOf(write.key, true)
        const body = { key: SecretKey.make(write.to), references: "rewrite" as const }
        return id === undefined ? undefined : yield* secrets.rename(id, body).pipe(as, refusal)
      }
      case "before": {
        // As a release does it that knows nothing of totals: of a key that nothing uses.
        const used = (yield* cold.secrets.composition(at).pipe(as)).edges.some(({ to }) => to === write.key)
        const id = yield* idOf(write.key, true)
        if (used || id === undefined) return undefined
        yield* sql`UPDATE secrets SET deleted_at = now(), purge_at = now() + interval '1 day' WHERE id = ${id}`
        yield* sql`UPDATE environments SET revision = revision + 1 WHERE id = ${environment}`
        return undefined
      }
    }
  })

  /** Of all that is stored, where the write itself looked at what it concerns. */
  const expected = (before: Composition.State, write: AnyWrite) => {
    if (write.verb !== "bulk") return undefined
    const changes = new Map<string, Composition.Entry>()
    for (const [key, text] of write.entries) {
      const entry = Either.getOrThrow(Composition.entry(text.includes("${") ? "template" : "literal", text))
      const old = before.get(key)
      if (old === undefined || Composition.sourceOf(old) !== text) changes.set(key, entry)
    }
    const fields = new Map(write.entries.map(([key], i) => [key, `secrets.${i}.value`]))
    return Composition.checkAfter(before, changes, (key) => fields.get(key))
  }

  const checkKept = Effect.fnUntraced(function* (state: Composition.State) {
    const [row] = yield* sql<
      Record<"liveSecrets" | "writtenBytes" | "expandedBytes" | "countedRevision" | "revision", number>
    >`
      SELECT live_secrets, written_bytes, expanded_bytes, counted_revision, revision FROM environments
      WHERE id = ${environment}`
    // The release before wrote: the next write counts.
    if (row === undefined || row.countedRevision !== row.revision) return false
    const totals = Composition.totalsOf(state)
    assert.deepStrictEqual(
      { secrets: row.liveSecrets, written: row.writtenBytes, expanded: row.expandedBytes },
      { secrets: state.size, ...totals }
    )
    const references = yield* sql<{ readonly key: string; readonly user: string }>`
      SELECT r.key, s.key AS user FROM secret_references r JOIN secrets s ON s.id = r.secret_id
      WHERE r.environment_id = ${environment} ORDER BY s.key, r.key`
    assert.deepStrictEqual(
      references.map(({ key, user }) => `${user} ${key}`),
      [...state].flatMap(([user, entry]) => Composition.referencesOf(entry).map((key) => `${user} ${key}`)).sort()
    )
    return true
  })

  const checkSnapshots = Effect.fnUntraced(function* (process: (typeof processes)[number]) {
    for (const representation of ["materialized", "source"] as const) {
      yield* cold.snapshots.forget(w.developmentId)
      const [followed, built] = yield* Effect.all([
        process.secrets.inject({ ...at, representation }).pipe(as),
        cold.secrets.inject({ ...at, representation }).pipe(as)
      ])
      assert.strictEqual(followed.etag, built.etag)
      const text = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString()
      assert.strictEqual(text(followed.answer?.bytes), text(built.answer?.bytes))
      assert.deepStrictEqual(followed.answer?.read.keys, built.answer?.read.keys)
    }
  })

  return { processes, run, expected, stored, checkKept, checkSnapshots }
})

describe("two processes that write by turns, and one of the release before", () => {
  layer(secretsLayer, { timeout: 180_000 })((it) => {
    it.scoped(
      "refuse what a look at everything refuses; totals, references and snapshots are those of what is stored",
      () =>
        Effect.gen(function* () {
          const seen = new Map<string, number>()
          for (const history of FastCheck.sample(anyHistory, { seed: 16, numRuns: 25 })) {
            const environment = yield* setUp
            let state: Composition.State = new Map()
            for (const [by, write] of history) {
              const expected = environment.expected(state, write)
              const refused = yield* environment.run(by, write)
              if (expected !== undefined) {
                const problem = Either.isLeft(expected) ? expected.left : undefined
                assert.deepStrictEqual(refused, problem && { ...problem }, JSON.stringify(write))
                seen.set(problem?._tag ?? "fine", (seen.get(problem?._tag ?? "fine") ?? 0) + 1)
              }
              state = yield* environment.stored
              yield* environment.checkKept(state)
              // Not always both, so that a snapshot is several revisions behind.
              if (by === 0) yield* environment.checkSnapshots(environment.processes[0])
              else if (write.verb === "remove" || write.verb === "rename")
                yield* environment.checkSnapshots(environment.processes[1])
            }
          }
          // The generator reaches what it is for.
          for (const tag of [
            "fine",
            "TEMPLATE_REFERENCE_MISSING",
            "TEMPLATE_CYCLE",
            "TEMPLATE_TOO_DEEP",
            "VALUE_TOO_LARGE"
          ]) {
            assert.isAbove(seen.get(tag) ?? 0, 0, tag)
          }
        }),
      180_000
    )
  })
})
