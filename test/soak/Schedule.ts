/** Actions on a long run, each at its time, and the checks at its end. */
import * as Effect from "effect/Effect"
import * as path from "node:path"
import * as Replication from "#test/faults/Replication.ts"
import * as Trial from "#test/faults/Trial.ts"
import type * as Parts from "./Parts.ts"
import type * as Requests from "./Requests.ts"
import * as Verdict from "./Verdict.ts"

export const what = `The released program: two workers on Postgres, Redis, a vault in a process of its own; writers, readers, agents, streams, device logins, webhooks, sessions, tokens and projects that come and go, at a low rate; three runs at once on one machine of two cores, with the lowest priority, beside other work. done: what was done meanwhile, at which second. pausedSeconds: how long the machine was taken from it as a whole; toldNotReady: answers of readiness that told of a slow or absent part. p50Millis, p99Millis: by kind, for each tenth of the run (the first has the start; those with restarts and pauses have them too); they are reported, not judged. earlyAndLate: the medians that are compared. problems: what failed; none in a run that passes. ${Verdict.criteria} npm run test:soak`

interface Run {
  readonly parts: Parts.Parts
  readonly requests: Requests.Requests
  readonly start: number
  readonly seconds: number
}

/** Facts for the end of the run. */
export interface Done {
  readonly told: Record<string, number>
  readonly backup: string
  readonly identity: string
  /** Entries of the trail that was cut off: ids of their requests. */
  readonly cutOff: Set<string>
}

const requestIds = (exported: string) =>
  new Set([...exported.matchAll(/"requestId":"([^"]+)"/g)].map(([, id = ""]) => id))

/** How often an operator tries again what ended because a part did not answer in time, as the message asks for. */
const again = 5

/** A command of the operator, on the server's data; it is whole or the run fails. */
const operator = ({ parts }: Pick<Run, "parts">, env: Trial.Env, ...words: ReadonlyArray<string>) =>
  Effect.flatMap(
    Effect.promise(() => Trial.ampoule(parts.release, env, ...words)),
    ({ code, stderr, stdout }) =>
      code === 0 ? Effect.succeed(stdout) : Effect.fail(new Error(`ampoule ${words.join(" ")}: ${code} ${stderr}`))
  ).pipe(Effect.retry({ times: again, while: ({ message }) => message.includes("run this again") }), Effect.orDie)

const steps = (
  run: Run,
  done: Done
): ReadonlyArray<readonly [part: number, name: string, work: Effect.Effect<unknown>]> => {
  const { parts } = run
  const killOne = Effect.sync(() => process.kill(parts.workerPids()[0] ?? 0, "SIGKILL"))
  const all = Effect.sync(() => parts.workerPids().length === 2).pipe(
    Effect.delay("100 millis"),
    Effect.repeat({ until: (are) => are, times: 1_800 }),
    Effect.ignore
  )
  const killWorker = Effect.zipRight(killOne, Effect.zipRight(Effect.sleep("500 millis"), all))
  const server = parts.env
  const backup = Effect.gen(function* () {
    const recipient = yield* operator(run, server, "backup", "keygen", done.identity)
    const key = /ampoule-recipient-\S+/.exec(recipient)?.[0] ?? ""
    yield* operator(run, server, "backup", "create", done.backup, "--recipient", key)
  })
  const rootKey = Effect.zipRight(
    operator(run, parts.vaultEnv, "vault", "new-key"),
    operator(run, server, "vault", "rotate")
  )
  const cut = Effect.gen(function* () {
    const before = new Date(Date.now() - run.seconds * 300).toISOString()
    for (const id of requestIds(yield* operator(run, server, "audit", "export"))) done.cutOff.add(id)
    yield* operator(run, server, "audit", "cut", "--before", before, "--yes")
  })
  return [
    [0.04, "a worker is killed", killWorker],
    [0.08, "the server is restarted", parts.server.restart("SIGTERM")],
    [0.38, "a backup is made", backup],
    [0.42, "the vault is killed and started", parts.vault.restart("SIGKILL")],
    [0.45, "Redis is killed and started", parts.redis.restart("SIGKILL")],
    [0.48, "Postgres is restarted", Effect.zipRight(parts.postgres.close, parts.postgres.start)],
    [0.52, "the root key is rotated", rootKey],
    [0.56, "the data keys are rotated", operator(run, server, "vault", "rotate-data-keys")],
    [0.6, "the trail is cut", cut],
    [0.84, "a worker is killed again", killWorker],
    [0.87, "the server is killed and started", parts.server.restart("SIGKILL")],
    [0.9, "Postgres is stopped as in a crash, and started", Effect.zipRight(parts.postgres.stop, parts.postgres.start)],
    [0.93, "the vault is killed and started again", parts.vault.restart("SIGKILL")]
  ]
}

/** Requests may fail while these are away. */
const isRestart = (name: string) => /killed|restarted|crash/.test(name)

export const run = (run: Run) =>
  Effect.gen(function* () {
    const done: Done = {
      told: {},
      backup: path.join(run.parts.data, "backup"),
      identity: path.join(run.parts.data, "backup-identity"),
      cutOff: new Set()
    }
    for (const [part, name, work] of steps(run, done)) {
      yield* Effect.sleep(
        `${Math.max(0, Math.round(run.start + part * run.seconds * 1000 - performance.now()))} millis`
      )
      const began = performance.now()
      done.told[name] = Math.round((began - run.start) / 1000)
      yield* work
      if (isRestart(name)) {
        yield* run.parts.untilReady
        run.requests.excuse(name, began)
      }
    }
    yield* Effect.sleep(`${Math.max(0, Math.round(run.start + run.seconds * 1000 - performance.now()))} millis`)
    return done
  })

/** The trail verifies, and it, or what was exported before the cut, has every request that was answered. */
export const trail = ({
  answered,
  done,
  parts
}: Pick<Run, "parts"> & { readonly done: Done; readonly answered: ReadonlyArray<string> }) =>
  Effect.gen(function* () {
    const verified = yield* Trial.verify(parts.release, parts.env)
    const exported = requestIds(yield* operator({ parts }, parts.env, "audit", "export"))
    const missing = answered.filter((id) => !exported.has(id) && !done.cutOff.has(id))
    return [
      ...(verified.code === 0 ? [] : [`audit verify --values: ${verified.code} ${verified.stdout}${verified.stderr}`]),
      ...(missing.length === 0 ? [] : [`${missing.length} answered requests are missing in the trail`])
    ]
  })

/** The backup of the middle, in another database: whole, and verified. */
export const restore = (parts: Parts.Parts, { backup, identity }: Done) =>
  Effect.gen(function* () {
    yield* Effect.orDie(Replication.ask(parts.postgres, "CREATE DATABASE restored"))
    const env = {
      ...parts.env,
      AMPOULE_DATABASE_URL: parts.databaseUrl("restored"),
      AMPOULE_DATA_DIR: path.join(parts.data, "restored")
    }
    const restored = yield* Effect.promise(() =>
      Trial.ampoule(parts.release, env, "restore", backup, "--identity", identity)
    )
    const verified = yield* Trial.verify(parts.release, env)
    return [
      ...(restored.code === 0 ? [] : [`restore: ${restored.code} ${restored.stdout}${restored.stderr}`]),
      // 2: its checkpoints lie with the server that it was taken from.
      ...([0, 2].includes(verified.code)
        ? []
        : [`audit verify of the backup: ${verified.code} ${verified.stdout}${verified.stderr}`])
    ]
  })
