/**
 * The released program under writers and readers on a machine that misbehaves: the disk of its database is full, the
 * database is made read-only, its clock jumps. Acknowledged writes exist, no bulk exists in part, every answered
 * request is in the trail, which verifies and raises no alarm; no restart is needed. CI tries the read-only database, and the clock on the embedded one;
 * `npm run test:faults` (`AMPOULE_FAULTS=all`) tries all, full disks as root alone, and writes test/records/faults.json (`AMPOULE_FAULTS_REPORT`).
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as path from "node:path"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Programs from "#test/support/Programs.ts"
import * as Release from "#test/support/Release.ts"
import * as Host from "./Host.ts"
import * as Load from "./Load.ts"
import * as Replication from "./Replication.ts"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const isWhole = process.env["AMPOULE_FAULTS"] === "all"
const reportFile = process.env["AMPOULE_FAULTS_REPORT"]
const writers = 4

const postgresEnv = (port: number): Trial.Env => ({
  AMPOULE_DATABASE_URL: `postgres://postgres@127.0.0.1:${port}/postgres`
})

/** A server with this environment, and a project with writers. */
const started = (settings: Trial.Env, host: Trial.Env = {}) =>
  Effect.gen(function* () {
    const release = yield* Release.build
    const env = { AMPOULE_SETUP_CODE: Trial.setupCode, ...settings }
    const server = yield* Effect.orDie(Release.server(release, { ...env, ...host }))
    const team = yield* Trial.team(server.url)
    const projectId = yield* team.project
    const place = Effect.map(team.token, (token): Writers.Place => ({ server, token, projectId }))
    const write = yield* Effect.replicateEffect(place, writers)
    const read = yield* Effect.replicateEffect(place, writers)
    return { env, release, server, team, probe: yield* place, places: { write, read } }
  })
type Started = Effect.Effect.Success<ReturnType<typeof started>>

/** Nothing that was acknowledged is lost, all is in the trail, and nobody was alarmed. */
const whole = ({ env, probe, release, server }: Started, load: Load.Tireless) =>
  Effect.gen(function* () {
    yield* load.end
    assert.deepStrictEqual(Load.check(load.lanes, yield* Writers.look(probe)), [])
    assert.notInclude(server.output.text, "altered")
    yield* Effect.async<void>((resume) => {
      server.child.once("exit", () => resume(Effect.void))
      server.child.kill("SIGTERM")
    })
    yield* Trial.trailHas(release, env, load.answered())
  })

/** The writes fill the disk, and the log of the database. */
const pressure = (place: Writers.Place) =>
  Writers.ask(place, "POST", "/secrets/bulk", {
    projectId: place.projectId,
    environment: "staging",
    secrets: Array.from({ length: 20 }, (_, n) => ({
      key: `BIG_${n}`,
      value: String(Math.random()).padEnd(60_000, "x")
    }))
  })

interface Outage {
  readonly begin: Effect.Effect<unknown>
  readonly end: Effect.Effect<unknown>
  /** While it is not ready yet. */
  readonly meanwhile?: (place: Writers.Place) => Effect.Effect<unknown>
}

const outage = (name: string, settings: Trial.Env, { begin, end, meanwhile = () => Effect.never }: Outage) =>
  Effect.gen(function* () {
    const world = yield* started(settings)
    const { places, probe, server } = world
    const load = yield* Load.tireless(places)
    yield* Load.someWrites(load.lanes, 2 * writers)
    yield* begin
    const began = performance.now()
    const pressing = yield* Effect.fork(Effect.forever(meanwhile(probe)))
    const before = load.failedReads()
    const isRefused = Effect.sync(() => load.failedReads() > before)
    const [refused, told] = yield* Effect.all(
      [
        Trial.until("reads are refused", began, isRefused),
        Trial.until("it is not ready", began, Effect.negate(Trial.isReady(server.url)))
      ],
      { concurrency: "unbounded" }
    )
    yield* Fiber.interrupt(pressing)
    yield* Effect.sleep("3 seconds")
    yield* end
    const ended = performance.now()
    const serving = yield* Trial.until("it serves", ended, Load.serves(probe))
    const ready = yield* Trial.untilReady(server.url, ended)
    yield* Load.someWrites(load.lanes, 2 * writers)
    yield* whole(world, load)
    const figures = {
      acknowledgedWrites: Load.writesOf(load.lanes),
      requestsFailed: load.failures(),
      refusedMillis: Math.round(refused),
      toldMillis: Math.max(0, Math.round(told - refused)),
      servingMillis: Math.round(serving),
      readyMillis: Math.round(ready)
    }
    yield* Effect.logInfo(name).pipe(Effect.annotateLogs(figures))
    yield* Trial.record(reportFile, Trial.faults, name, figures)
  })

const limit = 240_000

describe("on a disk that is full", () => {
  it.scopedLive.skipIf(!isWhole || !Host.mayMount)(
    "the embedded database loses nothing, and goes on when there is room",
    () =>
      Effect.gen(function* () {
        const { fill, folder, free } = yield* Host.disk(256)
        const env = { AMPOULE_DATA_DIR: path.join(folder, "data") }
        yield* outage("disk full, embedded", env, { begin: fill, end: free, meanwhile: pressure })
      }),
    limit
  )

  it.scopedLive.skipIf(!isWhole || !Host.mayMount || Programs.missing("psql"))(
    "Postgres loses nothing of it, and the server goes on when that does",
    () =>
      Effect.gen(function* () {
        const { fill, folder, free } = yield* Host.disk(256)
        const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {}, disk: folder })
        const env = { AMPOULE_DATA_DIR: yield* Trial.folderOf("host"), ...postgresEnv(postgres.port) }
        // Without room for its log it ends, and the test makes room and starts it.
        const again = Effect.catchAllDefect(postgres.start, () => Effect.void)
        const end = Effect.zipRight(free, again)
        yield* outage("disk full, Postgres", env, { begin: fill, end, meanwhile: pressure })
      }),
    limit
  )
})

describe("on a database that is made read-only", () => {
  it.scopedLive.skipIf(Programs.missing("psql"))(
    "nothing is lost, and the server goes on when it takes writes again",
    () =>
      Effect.gen(function* () {
        const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
        const env = { AMPOULE_DATA_DIR: yield* Trial.folderOf("host"), ...postgresEnv(postgres.port) }
        const set = (value: "off" | "on") =>
          Replication.ask(postgres, `ALTER SYSTEM SET default_transaction_read_only = ${value}`).pipe(
            Effect.zipRight(Replication.ask(postgres, "SELECT pg_reload_conf()")),
            Effect.orDie
          )
        yield* outage("read-only database", env, { begin: set("on"), end: set("off") })
      }),
    limit
  )
})

/** How far the clock is off, in hours: a day ahead, back by one, right again, and an hour behind. */
const offsets = [24.01, 23, 0, -1, 0]

const jumps = (name: string, settings: Trial.Env) =>
  Effect.gen(function* () {
    const { env, set } = yield* Host.clock
    const world = yield* started(settings, env)
    const { places, probe, server, team } = world
    const ofADay: Writers.Place = { ...probe, token: yield* team.tokenOfADay }
    const load = yield* Load.tireless(places)
    yield* Load.someWrites(load.lanes, 2 * writers)
    for (const hours of offsets) {
      const before = load.failures()
      yield* set(hours)
      const jumped = performance.now()
      yield* Trial.until("it serves", jumped, Load.serves(probe))
      yield* Load.someWrites(load.lanes, 4 * writers)
      yield* Trial.untilReady(server.url, jumped)
      assert.strictEqual(load.failures(), before, `requests failed at ${hours} hours`)
      // Credentials with an end end by the clock; the others are not locked out.
      const me = yield* Writers.ask(ofADay, "GET", "/me/verify")
      assert.strictEqual(me?.status, hours > 24 ? 401 : 200, `a token of a day, at ${hours} hours`)
    }
    yield* whole(world, load)
    const figures = { acknowledgedWrites: Load.writesOf(load.lanes), requestsFailed: load.failures() }
    yield* Effect.logInfo(name).pipe(Effect.annotateLogs(figures))
    yield* Trial.record(reportFile, Trial.faults, name, figures)
  })

describe("on a clock that jumps, a day ahead and an hour back, nothing is lost, no request fails and nobody is alarmed:", () => {
  it.scopedLive.skipIf(Programs.missing("faketime"))(
    "on the embedded database",
    () =>
      Effect.flatMap(Trial.folderOf("host"), (folder) => jumps("clock jumps, embedded", { AMPOULE_DATA_DIR: folder })),
    limit
  )

  it.scopedLive.skipIf(!isWhole || Programs.missing("faketime", "psql"))(
    "beside a Postgres whose clock is right",
    () =>
      Effect.gen(function* () {
        const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
        const env = { AMPOULE_DATA_DIR: yield* Trial.folderOf("host"), ...postgresEnv(postgres.port) }
        yield* jumps("clock jumps, Postgres", env)
      }),
    limit
  )
})
