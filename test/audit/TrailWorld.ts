/**
 * A database with the secrets services, their trail, and its vault and signer; checkpoints in a folder of the test.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Either from "effect/Either"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Ref from "effect/Ref"
import * as Scope from "effect/Scope"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { VaultUnavailable } from "#schema/Vault.ts"
import { Audit } from "#src/trail/Audit.ts"
import * as TrailVerification from "#src/trail/TrailVerification.ts"
import { Seal } from "#src/trail/Seal.ts"
import { AppConfig } from "#src/AppConfig.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as Fixtures from "#test/support/Fixtures.ts"
import * as TestApp from "#test/support/TestApp.ts"

/** Path of the file of checkpoints. */
export class Checkpoints extends Context.Tag("test/Checkpoints")<Checkpoints, string>() {}

const folder = Layer.scoped(
  Checkpoints,
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "ampoule-audit-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
    ),
    (path) => join(path, "audit-checkpoints")
  )
)

const config = Layer.effect(
  AppConfig,
  Effect.map(Checkpoints, (file) => ({
    ...TestApp.settings,
    auditCheckpoints: Option.some(file),
    // Several processes, as on a Postgres.
    databaseUrl: Option.some(Redacted.make("postgres://nowhere/ampoule"))
  }))
)

/** Messages of log lines of level error, as an operator would get them. */
export class Alarms extends Context.Tag("test/Alarms")<Alarms, Array<string>>() {}

/** Replaces the log: what is an error is kept for the test. */
export const alarms = Layer.unwrapEffect(
  Effect.sync(() => {
    const lines: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (LogLevel.greaterThanEqual(logLevel, LogLevel.Error)) lines.push(String(message))
    })
    return Layer.merge(Layer.succeed(Alarms, lines), Logger.replace(Logger.defaultLogger, logger))
  })
)

export const layer = Seal.Default.pipe(
  Layer.provideMerge(Fixtures.secretsLayer),
  Layer.provideMerge(config),
  Layer.provideMerge(Layer.merge(folder, NodeContext.layer))
)

/**
 * Another process on the same database and vault, with streams of its own. Ends with the scope, or dies with `Scope`.
 */
export const otherProcess = Effect.map(
  Layer.build(Layer.fresh(Layer.provideMerge(Seal.Default, Audit.Default))),
  (context) => ({ audit: Context.get(context, Audit), seal: Context.get(context, Seal) })
)

/** The vault, as one process reaches it. */
export const switchedVault = Effect.gen(function* () {
  const vault = yield* Vault
  const down = yield* Ref.make(false)
  const guard = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E | VaultUnavailable> =>
    Effect.flatMap(Ref.get(down), (down): Effect.Effect<A, E | VaultUnavailable> =>
      down ? new VaultUnavailable({ reason: "down" }) : call
    )
  return {
    down,
    vault: Vault.of({
      ...vault,
      macAuditHead: (head) => guard(vault.macAuditHead(head)),
      signCheckpoint: (text) => guard(vault.signCheckpoint(text))
    })
  }
})

/** A process with a vault of its own that can go away, and that can be killed: then it seals nothing any more. */
export const mortalProcess = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const { down, vault } = yield* switchedVault
  const process = yield* otherProcess.pipe(
    Effect.provideService(Scope.Scope, scope),
    Effect.provideService(Vault, vault)
  )
  return {
    ...process,
    vaultIs: (state: "up" | "down") => Ref.set(down, state === "down"),
    /** It ends as it should, and closes its streams. */
    stop: Scope.close(scope, Exit.void),
    kill: Effect.zipRight(Ref.set(down, true), Scope.close(scope, Exit.void))
  }
})

export const options = Effect.gen(function* () {
  return {
    keys: [],
    checkpoints: [yield* Checkpoints],
    alone: false,
    now: yield* Clock.currentTimeMillis,
    progress: () => Effect.void
  }
})

export const verify = (changes: { readonly values?: boolean; readonly later?: number } = {}) =>
  Effect.gen(function* () {
    const { now, ...rest } = yield* options
    const vault = yield* Vault
    return yield* TrailVerification.verify({
      ...rest,
      vault,
      values: changes.values ?? false,
      now: now + (changes.later ?? 0)
    })
  })

/** Findings of the verifier a day after `tamper`, which is then undone. `checkpoints`: whether it is given the file. */
export const verifyTampered = <E, R>(
  tamper: Effect.Effect<unknown, E, R>,
  given: { readonly checkpoints?: boolean; readonly values?: boolean } = {}
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const { checkpoints, now } = yield* options
    const keys = yield* TrailVerification.vaultKeys(vault)
    const reader = yield* TrailVerification.readCheckpoints(given.checkpoints === true ? checkpoints : [], keys)
    // A failure rolls back; what was found travels in it.
    const outcome = yield* sql
      .withTransaction(
        Effect.gen(function* () {
          yield* Effect.orDie(tamper)
          // The processes are as alive as they were.
          yield* sql`UPDATE audit_seals SET seen_at = seen_at + interval '1 day'`
          const options = { vault, values: given.values ?? false, alone: false, progress: () => Effect.void }
          const report = yield* Effect.orDie(
            TrailVerification.inspect({ ...options, now: now + 86_400_000 }, keys, reader)
          )
          return yield* Effect.fail(report)
        })
      )
      .pipe(Effect.either)
    return Either.isLeft(outcome) && "entries" in outcome.left
      ? outcome.left
      : yield* Effect.dieMessage("nothing was found")
  })

export const record = (audit: Audit, action: "secret.read" | "secret.inject", keys: ReadonlyArray<string>) =>
  audit.record({ actor: "system", action, outcome: "allowed", teamId: null, keys })
export const append = (audit: Audit, keys: ReadonlyArray<string>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(
      audit.append({ actor: "system", action: "secret.purge", outcome: "allowed", teamId: null, keys })
    )
  )
