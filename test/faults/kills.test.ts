/**
 * The released program under writers and readers, killed at random, again and again: the server, its workers (one of
 * them, or all), its vault, Postgres (immediate stop, as a crash). Acknowledged writes exist, no bulk exists in part,
 * every answered request is in the
 * trail, and the trail verifies. `npm run test:kills` kills each 200 times and writes test/records/kills.json;
 * `AMPOULE_KILLS` is how many, `AMPOULE_KILLS_REPORT` names a file for the figures.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as ProcessTree from "#test/support/ProcessTree.ts"
import * as Programs from "#test/support/Programs.ts"
import * as Release from "#test/support/Release.ts"
import * as Trial from "./Trial.ts"
import * as Writers from "./Writers.ts"

const kills = Number(process.env["AMPOULE_KILLS"] ?? "3")
const reportFile = process.env["AMPOULE_KILLS_REPORT"]
const writers = 8

/** Target of a kill, and its return. */
interface Victim {
  readonly kill: Effect.Effect<void>
  readonly revive: Effect.Effect<void>
}

/** The server's process: each one after another on the same data. */
const serverOf = (release: string, env: Trial.Env) =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const start = Effect.orDie(Scope.extend(Release.server(release, env), scope))
    let running = yield* start
    const server: Writers.Server = { url: running.url }
    const gone = Effect.async<void>((resume) => {
      if (running.child.exitCode !== null || running.child.signalCode !== null) resume(Effect.void)
      else running.child.once("exit", () => resume(Effect.void))
    })
    const end = (signal: NodeJS.Signals) =>
      Effect.zipRight(
        Effect.sync(() => running.child.kill(signal)),
        gone
      )
    const victim = {
      kill: end("SIGKILL"),
      revive: Effect.map(start, (next) => {
        running = next
        server.url = next.url
      })
    }
    const workers = workersOf(() => running.child.pid ?? 0)
    return { server, victims: { server: victim, workers }, stop: end("SIGTERM") }
  })

/** How many there are, where there are several. */
const workerCount = 2

/** Those of the server: one at random is killed, or all of them; its primary starts others. */
const workersOf = (primary: () => number): Victim => {
  const all = Effect.sync(() => ProcessTree.childrenOf(primary()))
  return {
    kill: Effect.gen(function* () {
      const [first, ...others] = yield* Random.shuffle(yield* all)
      for (const pid of (yield* Random.nextBoolean) ? [first] : [first, ...others]) process.kill(pid, "SIGKILL")
      yield* Effect.sleep("20 millis")
    }),
    revive: Effect.map(all, ({ length }) => length === workerCount).pipe(
      Effect.delay("20 millis"),
      Effect.repeat({ until: (are) => are, times: 3_000 })
    )
  }
}

/** A vault in a process of its own. */
const vaultOf = (release: string, env: Trial.Env) =>
  Effect.gen(function* () {
    const start = Effect.sync(() =>
      spawn(process.execPath, [path.join(release, "dist/ampoule.cjs"), "vault"], {
        env: { PATH: process.env["PATH"], ...env },
        stdio: "ignore"
      })
    )
    let running = yield* start
    yield* Effect.addFinalizer(() => Effect.sync(() => running.kill("SIGKILL")))
    const socket = (env["AMPOULE_VAULT_URL"] ?? "").replace("unix://", "")
    const isThere = Effect.sync(() => fs.existsSync(socket))
    yield* Effect.repeat(Effect.delay(isThere, "50 millis"), { until: (is) => is, times: 600 })
    return {
      kill: Effect.sync(() => void running.kill("SIGKILL")),
      revive: Effect.map(start, (next) => void (running = next))
    }
  })

interface Figures {
  readonly kills: number
  readonly writes: number
  readonly reads: number
  readonly readyMillis: { readonly p50: number; readonly p95: number; readonly max: number }
}

/** Kills the victim again and again under the writers, and looks each time. */
const killing = (place: Writers.Place, victim: Victim) =>
  Effect.gen(function* () {
    const lanes = Array.from({ length: writers }, (_, n) => Writers.make(place, n))
    const problems: Array<string> = []
    const times: Array<number> = []
    for (let round = 1; round <= kills; round++) {
      let goesOn = true
      const run = yield* Effect.fork(
        Effect.forEach(lanes, (lane) => lane.run(() => goesOn), { concurrency: "unbounded", discard: true })
      )
      yield* Effect.sleep(yield* Random.nextIntBetween(50, 1_500))
      yield* victim.kill
      goesOn = false
      const began = performance.now()
      yield* victim.revive
      times.push(yield* Effect.suspend(() => Trial.untilReady(place.server.url, began)))
      yield* Fiber.join(run)
      const live = yield* Writers.look(place)
      for (const lane of lanes) lane.check(live)
      problems.push(...lanes.flatMap((lane) => lane.problems.splice(0).map((problem) => `kill ${round}: ${problem}`)))
    }
    assert.deepStrictEqual(problems, [])
    const answered = lanes.flatMap((lane) => lane.answered)
    const writes = lanes.reduce((sum, lane) => sum + lane.writes(), 0)
    const figures: Figures = { kills, writes, reads: answered.length - writes, readyMillis: Trial.spread(times) }
    return { answered, figures }
  })

const report = (name: string, figures: Figures) =>
  Trial.record(
    reportFile,
    `The released program under ${writers} writers and readers, killed at random points: acknowledged writes lost, bulks there in part, answered requests missing in the trail: none, or the run fails. readyMillis: from the kill to /health/ready, the new start included (workers: until there are as many again). npm run test:kills`,
    name,
    figures
  )

/** Settings on a database, and what can be killed there besides the server. */
const embedded = Effect.map(Trial.folderOf("kills"), (data): Trial.Env => ({ AMPOULE_DATA_DIR: data }))
const onPostgres = Effect.gen(function* () {
  const data = yield* Trial.folderOf("kills")
  const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
  const env: Trial.Env = {
    AMPOULE_DATA_DIR: data,
    AMPOULE_DATABASE_URL: `postgres://postgres@127.0.0.1:${postgres.port}/postgres`
  }
  const victim: Victim = { kill: postgres.stop, revive: postgres.start }
  return { env, victim }
})

const trial = (
  name: string,
  settings: Trial.Env,
  victimOf: (release: string) => Effect.Effect<Victim | "server" | "workers", never, never>
) =>
  Effect.gen(function* () {
    const release = yield* Release.build
    const env = { ...settings, AMPOULE_SETUP_CODE: Trial.setupCode, AMPOULE_RATE_LIMITS: "off" }
    const chosen = yield* victimOf(release)
    const { server, stop, victims } = yield* serverOf(release, env)
    const place = { server, ...(yield* Trial.setUp(server.url)) }
    const { answered, figures } = yield* killing(place, typeof chosen === "string" ? victims[chosen] : chosen)
    yield* stop
    yield* Trial.trailHas(release, env, answered)
    yield* report(name, figures)
  })

const limit = 120_000 + kills * 30_000

describe("killed at random, acknowledged writes and their entries stay, and nothing is there in part:", () => {
  it.scopedLive(
    "the server, on the embedded database",
    () => Effect.flatMap(embedded, (env) => trial("server, embedded", env, () => Effect.succeed("server"))),
    limit
  )

  it.scopedLive.skipIf(Programs.missing("psql"))(
    "the server, on Postgres",
    () => Effect.flatMap(onPostgres, ({ env }) => trial("server, Postgres", env, () => Effect.succeed("server"))),
    limit
  )

  it.scopedLive.skipIf(Programs.missing("psql"))(
    "the worker processes of the server",
    () =>
      Effect.flatMap(onPostgres, ({ env }) =>
        trial("workers", { ...env, AMPOULE_WORKERS: String(workerCount) }, () => Effect.succeed("workers"))
      ),
    limit
  )

  it.scopedLive.skipIf(Programs.missing("psql"))(
    "Postgres",
    () => Effect.flatMap(onPostgres, ({ env, victim }) => trial("Postgres", env, () => Effect.succeed(victim))),
    limit
  )

  it.scopedLive.skipIf(Programs.missing("psql"))(
    "the vault, in a process of its own",
    () =>
      Effect.gen(function* () {
        const { env } = yield* onPostgres
        const folder = yield* Trial.folderOf("vault")
        const vaultUrl = `unix://${path.join(folder, "vault.sock")}`
        const scope = yield* Effect.scope
        const vaultEnv = { AMPOULE_DATA_DIR: path.join(folder, "data"), AMPOULE_VAULT_URL: vaultUrl }
        yield* trial("vault", { ...env, AMPOULE_VAULT_URL: vaultUrl }, (release) =>
          Effect.provideService(vaultOf(release, vaultEnv), Scope.Scope, scope)
        )
      }),
    limit
  )
})
