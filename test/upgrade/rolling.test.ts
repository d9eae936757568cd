/**
 * An upgrade of two servers on one Postgres, from an earlier commit to this one and a step back, under traffic: sign-ins,
 * reads, writes, new environments, tokens, forms of pages, agents. No request fails. `npm run test:upgrade` stays longer
 * in each stage, rotates service keys and data keys at the end, and writes test/records/upgrade.json.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import { spawn } from "node:child_process"
import * as path from "node:path"
import { randomBytes } from "node:crypto"
import * as PostgresServer from "#test/deploy/PostgresServer.ts"
import * as Trial from "#test/faults/Trial.ts"
import * as Balancer from "#test/support/Balancer.ts"
import { freePort } from "#test/support/FreePort.ts"
import * as Release from "#test/support/Release.ts"
import * as Earlier from "./Earlier.ts"
import * as Traffic from "./Traffic.ts"

const report = process.env["AMPOULE_UPGRADE_REPORT"]
const stageLength = report === undefined ? "2 seconds" : "20 seconds"

/** One of the two places behind the balancer. It leaves `ports` before its server ends, as a readiness probe has it. */
const place = (port: number, ports: Array<number>, common: Trial.Env, log: (text: string) => void) => {
  let end = Effect.void
  const start = (folder: string, env: Trial.Env = {}) =>
    Effect.gen(function* () {
      const child = yield* Effect.acquireRelease(
        Effect.sync(() =>
          spawn(process.execPath, [path.join(folder, "dist/ampoule.cjs"), "server"], {
            env: { PATH: process.env["PATH"], AMPOULE_PORT: String(port), ...common, ...env },
            stdio: ["ignore", "pipe", "pipe"]
          })
        ),
        (child) => Effect.sync(() => child.kill("SIGKILL"))
      )
      let output = ""
      yield* Effect.async<void>((resume) => {
        const hear = (chunk: unknown) => {
          output += String(chunk)
          log(String(chunk))
          if (output.includes("listens on")) resume(Effect.void)
        }
        child.stdout.on("data", hear)
        child.stderr.on("data", hear)
        child.once("exit", (code) => resume(Effect.dieMessage(`the server ended with ${code}: ${output}`)))
      })
      ports.push(port)
      end = Effect.gen(function* () {
        ports.splice(ports.indexOf(port), 1)
        yield* Effect.sleep("1 second")
        yield* Effect.async<void>((resume) => {
          child.once("exit", () => resume(Effect.void))
          child.kill("SIGTERM")
        })
      })
    })
  const replace = (folder: string, env: Trial.Env = {}) =>
    Effect.zipRight(
      Effect.suspend(() => end),
      start(folder, env)
    )
  return { start, replace }
}

describe.runIf(Earlier.available && PostgresServer.available)("an upgrade from an earlier commit", () => {
  it.scopedLive(
    "fails no request: rolling, a step back, the sealing of its rows, and the rotation of its keys",
    () =>
      Effect.gen(function* () {
        const earlier = yield* Earlier.build
        const release = yield* Release.build
        const postgres = yield* PostgresServer.make({ script: "/dev/null", env: {} })
        const [one, two] = [yield* freePort, yield* freePort]
        const ports: Array<number> = []
        const balancer = yield* Balancer.make(ports)
        const folder = yield* Trial.folderOf("upgrade")
        const env: Trial.Env = {
          AMPOULE_DATABASE_URL: `postgres://postgres@127.0.0.1:${postgres.port}/postgres`,
          AMPOULE_DATA_DIR: folder,
          AMPOULE_ROOT_KEY: randomBytes(32).toString("hex"),
          AMPOULE_BASE_URL: balancer.url,
          AMPOULE_TRUSTED_PROXIES: "127.0.0.1/32",
          AMPOULE_RATE_LIMITS: "off",
          AMPOULE_SETUP_CODE: Trial.setupCode
        }
        let log = ""
        const hear = (text: string) => void (log += text)
        const [first, second] = [place(one, ports, env, hear), place(two, ports, env, hear)]
        yield* first.start(earlier)
        yield* second.start(earlier)
        const world = yield* Effect.promise(() => Traffic.fill(balancer.url, Trial.setupCode))
        const traffic = Traffic.run(Traffic.clients(balancer.url, world), "two earlier servers")
        const stage = (name: string, work: Effect.Effect<void, never, Scope>) =>
          Effect.gen(function* () {
            traffic.stage(name)
            yield* work
            yield* Effect.sleep(stageLength)
          })
        const later = { AMPOULE_SEAL_ROWS: "later" }
        yield* Effect.sleep(stageLength)
        yield* stage("one earlier, one of now", first.replace(release, later))
        yield* stage("two of now", second.replace(release, later))
        yield* stage("one step back", first.replace(earlier))
        yield* stage("forward again", first.replace(release, later))
        yield* stage("rows sealed", first.replace(release, { AMPOULE_SEAL_ROWS: "once" }))
        yield* stage("without the setting", second.replace(release))
        if (report !== undefined) {
          const ampoule = (...words: ReadonlyArray<string>) =>
            Effect.promise(async () => {
              const { code, stderr } = await Trial.ampoule(release, env, ...words)
              assert.strictEqual(code, 0, stderr)
            })
          yield* stage("service keys rotated", ampoule("vault", "rotate", "--service-keys", "--yes"))
          yield* stage("data keys rotated", ampoule("vault", "rotate-data-keys"))
        }
        const stages = yield* Effect.promise(() => traffic.end())
        assert.deepStrictEqual(
          stages.flatMap(({ failures, name }) => failures.map((failure) => `${name}: ${failure}`)),
          [],
          log.slice(-20_000)
        )
        for (const { name, requests } of stages) assert.isAbove(requests, 7, name)
        const verified = yield* Trial.verify(release, env)
        // 2: the vault seals the last entries only later.
        assert.include([0, 2], verified.code, verified.stdout + verified.stderr)
        yield* Trial.record(
          report,
          "Two servers on one Postgres behind a balancer, replaced one after the other under seven kinds of clients (sign-ins, reads, writes, new environments, tokens, forms, agents). Requests of each stage; none failed. npm run test:upgrade",
          "rolling",
          {
            from: Earlier.commit,
            stages: stages.map(({ failures, name, requests }) => ({ name, requests, failed: failures.length }))
          }
        )
      }),
    900_000
  )
})
