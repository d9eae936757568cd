/** Searches of a trail, compared with a look at every entry: of parts that are in the index, and of parts that are not. */
import * as SqlClient from "@effect/sql/SqlClient"
import { assert, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { AuditQuery } from "#schema/AuditApi.ts"
import { CurrentCaller } from "#schema/Caller.ts"
import { TeamId } from "#schema/Ids.ts"
import { AuditTrail } from "#src/trail-use/AuditTrail.ts"
import * as TrailIndex from "#src/trail/TrailIndex.ts"
import * as TrailSearch from "#src/trail/TrailSearch.ts"
import * as Fixtures from "#test/support/Fixtures.ts"

const app = AuditTrail.Default.pipe(Layer.provideMerge(Fixtures.secretsLayer))

const count = 3_000
/** Half a minute between entries: six parts of the trail, all long past. */
const step = 33_000
const actors = Array.from({ length: 4 }, () => randomUUID())
const projects = [randomUUID(), randomUUID()]
const places = ["development", "staging", "production"]

interface Entry {
  readonly id: string
  readonly at: string
  readonly team: string
  readonly action: string
  readonly actor: { readonly id: string }
  readonly project: string
  readonly environment: string
  readonly keys: ReadonlyArray<string>
}

/** Of two teams, in one stream; one entry of each has `RARE`, one part has `SOME`. */
const entriesOf = (teams: ReadonlyArray<string>, stream: string, begin: number): ReadonlyArray<Entry> =>
  Array.from({ length: count }, (_, i) => {
    const millis = begin + i * step
    const id = `${TrailIndex.lowestId(millis).slice(0, 24)}${i.toString(16).padStart(12, "0")}`
    const rare = i === 1_000 || i === 1_001 ? ["RARE"] : []
    const some = i > 2_000 && i < 2_400 ? ["SOME"] : []
    const entry = {
      action: i % 3 === 0 ? "secret.read" : "secret.inject",
      actor: { id: actors[i % 40 === 0 ? 3 : i % 3], name: "a", type: "user" },
      at: new Date(millis).toISOString(),
      environment: places[i % 5 === 0 ? 2 : i % 2],
      environmentId: randomUUID(),
      id,
      ip: null,
      keys: ["COMMON", `KEY_${i % 7}`, ...rare, ...some],
      outcome: "allowed",
      project: projects[i % 2],
      requestId: "r",
      seq: i + 1,
      stream,
      team: teams[i % 2],
      userAgent: null,
      via: "rest"
    }
    return entry
  })

const stored = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const world = yield* Fixtures.world()
  const other = yield* Fixtures.world()
  const teams = [world.teamId, other.teamId]
  const stream = randomUUID()
  const begin = (yield* Clock.currentTimeMillis) - 30 * 86_400_000
  const entries = entriesOf(teams, stream, begin)
  const texts = entries.map((entry) => JSON.stringify(entry))
  yield* sql`
    INSERT INTO audit_entries
      (stream, seq, id, at, team_id, project_id, environment, environment_id, actor_id, action, body, hash)
    SELECT ${stream}::uuid, (b ->> 'seq')::bigint, (b ->> 'id')::uuid, (b ->> 'at')::timestamptz, (b ->> 'team')::uuid,
      (b ->> 'project')::uuid, b ->> 'environment', (b ->> 'environmentId')::uuid, b -> 'actor' ->> 'id',
      b ->> 'action', t, ''::bytea
    FROM unnest(${texts}::text[]) AS r (t), LATERAL (SELECT t::jsonb) AS p (b)`
  const at = new Date(begin)
  yield* sql`
    INSERT INTO audit_seals (stream, seq, hash, final, root_key_id, mac, sealed_at, seen_at)
    VALUES (${stream}, 0, ''::bytea, false, 'none', ''::bytea, ${at}, ${at})`
  /** Up to this number the stream is sealed and indexed. */
  const fillTo = (seq: number) =>
    Effect.zipRight(sql`UPDATE audit_seals SET seq = ${seq} WHERE stream = ${stream}`, TrailIndex.fill(sql))
  const list = (query: Readonly<Record<string, string>>) =>
    Effect.flatMap(AuditTrail, (trail) => trail.list(TeamId.make(world.teamId), decode(query))).pipe(
      Effect.provideService(CurrentCaller, world.owner)
    )
  /** Ids of all pages, and how many pages there were. */
  const all = Effect.fnUntraced(function* (query: Readonly<Record<string, string>>) {
    const ids: Array<string> = []
    let pages = 0
    for (let cursor: string | null = ""; cursor !== null && pages < 2_000; pages++) {
      const page: Effect.Effect.Success<ReturnType<typeof list>> = yield* list({
        ...query,
        ...(cursor === "" ? {} : { cursor })
      })
      assert.isAtMost(page.items.length, Number(query["limit"] ?? 50))
      ids.push(...page.items.map(({ id }) => id))
      cursor = page.nextCursor
    }
    return { ids, pages }
  })
  return { all, begin, entries, fillTo, list, teams }
})

const decode = Schema.decodeUnknownSync(AuditQuery)

const matches = (query: Readonly<Record<string, string>>, entry: Entry): boolean =>
  (query["key"] === undefined || entry.keys.includes(query["key"])) &&
  (query["actor"] === undefined || entry.actor.id === query["actor"]) &&
  (query["action"] === undefined || entry.action === query["action"]) &&
  (query["projectId"] === undefined || entry.project === query["projectId"]) &&
  (query["environment"] === undefined || entry.environment === query["environment"]) &&
  (query["since"] === undefined || entry.at >= query["since"]) &&
  (query["until"] === undefined || entry.at < query["until"])

const either = <A>(value: FastCheck.Arbitrary<A>) => FastCheck.option(value, { nil: undefined })

const queries = (begin: number) => {
  const time = FastCheck.integer({ min: -100, max: count + 100 }).map((i) => new Date(begin + i * step).toISOString())
  return FastCheck.record({
    limit: FastCheck.constantFrom("7", "50", "200"),
    key: either(FastCheck.constantFrom("RARE", "SOME", "COMMON", "KEY_3", "NEVER", "KEY")),
    actor: either(FastCheck.constantFrom(...actors, "nobody")),
    action: either(FastCheck.constantFrom("secret.read", "secret.inject", "team.create")),
    projectId: either(FastCheck.constantFrom(...projects, randomUUID())),
    environment: either(FastCheck.constantFrom(...places, "none")),
    since: either(time),
    until: either(time)
  }).map((query): Readonly<Record<string, string>> =>
    Object.fromEntries(Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  )
}

/** Each look at it takes longer than a search may. */
const slowClock = Effect.map(Effect.clock, (clock): Clock.Clock => {
  let now = clock.unsafeCurrentTimeMillis()
  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => now,
    unsafeCurrentTimeNanos: () => BigInt(now) * 1_000_000n,
    currentTimeMillis: Effect.sync(() => (now += 1_500)),
    currentTimeNanos: Effect.sync(() => BigInt(now) * 1_000_000n),
    sleep: (duration) => clock.sleep(duration)
  }
})

layer(app, { excludeTestServices: true, timeout: "120 seconds" })("a search of the trail", (it) => {
  it.effect("finds what a look at every entry finds, before the index is filled, half-way, and after", () =>
    Effect.gen(function* () {
      const { all, begin, entries, fillTo, teams } = yield* stored
      for (const seq of [0, 1_300, count]) {
        yield* fillTo(seq)
        for (const query of FastCheck.sample(queries(begin), 60)) {
          const expected = entries
            .filter((entry) => entry.team === teams[0] && matches(query, entry))
            .map(({ id }) => id)
          const { ids } = yield* all(query)
          assert.deepStrictEqual(ids, expected.toReversed(), JSON.stringify(query))
        }
      }
    })
  )

  it.effect("that takes too long answers what it found and where to go on, also when it found nothing", () =>
    Effect.gen(function* () {
      const { all, fillTo, list } = yield* stored
      const slow = yield* slowClock
      const page = yield* Effect.withClock(list({ key: "NEVER" }), slow)
      assert.deepStrictEqual(page.items, [])
      assert.isNotNull(page.nextCursor)
      const { ids, pages } = yield* Effect.withClock(all({ key: "RARE" }), slow)
      assert.lengthOf(ids, 1)
      assert.isAbove(pages, 1)
      // In the index nothing has to be looked at.
      yield* fillTo(count)
      assert.deepStrictEqual(yield* list({ key: "NEVER" }), { items: [], nextCursor: null })
    })
  )

  it.effect("reaches several teams at once, newest first", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { begin, entries, fillTo, teams } = yield* stored
      yield* fillTo(count)
      for (const conditions of [[], [sql`action = 'secret.read'`]]) {
        const expected = entries
          .filter(({ action }) => conditions.length === 0 || action === "secret.read")
          .toReversed()
        const ids: Array<string> = []
        for (let to: string | undefined = TrailIndex.lowestId(begin + 2 * 86_400_000); to !== undefined;) {
          const result: TrailSearch.SearchResult = yield* TrailSearch.search(sql, {
            teamIds: teams.map((id) => TeamId.make(id)),
            conditions,
            terms: conditions.map(() => sql`${[TrailIndex.term.action("secret.read")]}::text[]`),
            from: TrailIndex.lowestId(0),
            to,
            limit: 400
          })
          ids.push(...result.entries.map(({ id }) => id))
          to = result.next
        }
        assert.deepStrictEqual(
          ids,
          expected.map(({ id }) => id)
        )
      }
    })
  )

  it.effect("finds entries that were not sealed yet, and those of a stream that is behind the others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { all, entries, fillTo, teams } = yield* stored
      yield* fillTo(count - 500)
      const expected = entries.filter(({ keys, team }) => team === teams[0] && keys.includes("KEY_3"))
      assert.lengthOf((yield* all({ key: "KEY_3" })).ids, expected.length)
      // The beginning of the stream was cut off, and nothing of the rest is in the index.
      yield* sql`DELETE FROM audit_terms`
      yield* sql`DELETE FROM audit_entries WHERE id < ${entries[1_000]?.id ?? ""}::uuid`
      yield* sql`UPDATE audit_seals SET searchable = 0`
      const remaining = expected.filter(({ id }) => id >= (entries[1_000]?.id ?? ""))
      assert.lengthOf((yield* all({ key: "KEY_3" })).ids, remaining.length)
    })
  )
})
