/**
 * The released program under writers and readers on a machine that misbehaves: the disk of its database is full, the
 * database is made read-only. What was acknowledged is there, no bulk is there in part, every answered
 * request is in the trail, which verifies and raises no alarm; no restart is needed. CI tries the read-only database;
 * `npm run test:faults` (`AMPOULE_FAULTS=all`) tries all, full disks as root alone, and writes test/records/faults.json (`AMPOULE_FAULTS_REPORT`).
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
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
const started = (settings: Trial.Env) =>
  Effect.gen(function* () {
    const release = yield* Release.build
    const env = { AMPOULE_SETUP_CODE: Trial.setupCode, ...settings }
    const server = yield* Effect.orDie(Release.server(release, env))
    const team = yield* Trial.team(server.url)
    const projectId = yield* team.project
    const place = Effect.map(team.token, (token): Writers.Place => ({ server, token, projectId }))
    const write = yield* Effect.replicateEffect(place, writers)
    const read = yield* Effect.replicateEffect(place, writers)
    return { env, release, server, probe: yield* place, places: { write, read } }
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

/** What is written fills the disk, and the log of the database. */
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

const outage = (name: string, settings: Trial.Env, { begin, end, meanwhile = () => Effect.void }: Outage) =>
  Effect.gen(function* () {
    const world = yield* started(settings)
    const { places, probe, server } = world
    const load = yield* Load.tireless(places)
    yield* Load.someWrites(load.lanes, 2 * writers)
    yield* begin
    const began = performance.now()
    const isAway = Effect.zipRight(meanwhile(probe), Effect.negate(Trial.isReady(server.url)))
    const told = yield* Trial.until("it is not ready", began, isAway)
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
      toldMillis: Math.round(told),
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
        // Without room for its log it ends, and whoever makes room starts it.
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
