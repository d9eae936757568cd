/**
 * Programs that maintain a database (`src/cli/operator/ServerSide.ts`): they use the server's settings, without a
 * server.
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as fs from "node:fs"
import { join } from "node:path"
import { version } from "#src/Release.ts"
import { Audit } from "#src/trail/Audit.ts"
import { Seal } from "#src/trail/Seal.ts"
import * as ExposureIndex from "#src/trail/ExposureIndex.ts"
import { RequestInfo } from "#src/database/RequestInfo.ts"
import { cut } from "#src/trail/TrailCut.ts"
import { exportTrail } from "#src/trail/TrailExport.ts"
import { acceptRestore } from "#src/trail/TrailRestore.ts"
import * as TrailVerification from "#src/trail/TrailVerification.ts"
import { AppConfig, type Settings } from "#src/AppConfig.ts"
import * as Archive from "#src/backup/Archive.ts"
import * as Backup from "#src/backup/Backup.ts"
import * as DatabaseCopy from "#src/backup/DatabaseCopy.ts"
import * as Restore from "#src/backup/Restore.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import type { MaintenancePrograms, VerifyRequest } from "#src/cli/operator/ServerSide.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import * as VaultCore from "#src/crypto/Vault.ts"
import { Vault } from "#src/crypto/Vault.ts"
import * as KeyFile from "#src/vault/KeyFile.ts"
import * as Config from "./Config.ts"
import * as MaintenanceDatabase from "./MaintenanceDatabase.ts"
import * as Migrations from "./Migrations.ts"
import { logToStandardError, orFailure } from "./ProgramEnd.ts"
import * as VaultChoice from "./VaultChoice.ts"

/** Checkpoints go to the log instead, because standard output is for the program's result. */
const withoutOutput = (settings: Settings): Settings => ({
  ...settings,
  auditCheckpoints: Option.map(settings.auditCheckpoints, (path) => (path === "stdout" ? "stderr" : path))
})

const appConfig = Layer.unwrapEffect(
  Effect.map(Config.load, (settings) =>
    Layer.mergeAll(NodeContext.layer, Layer.succeed(AppConfig, withoutOutput(settings)), logToStandardError(settings))
  )
)

const onVault = Layer.unwrapEffect(Effect.flatMap(AppConfig, (settings) => VaultChoice.layer(settings)))

const reading = onVault.pipe(
  Layer.provideMerge(Crypto.Default),
  Layer.provideMerge(MaintenanceDatabase.current),
  Layer.provideMerge(appConfig)
)
/** Entries of these programs have a stream of their own, sealed when the program ends. */
export const writing = Seal.Default.pipe(
  Layer.provideMerge(Audit.Default),
  Layer.provideMerge(ServiceKeys.Default),
  Layer.provideMerge(onVault),
  Layer.provideMerge(Crypto.Default),
  Layer.provideMerge(MaintenanceDatabase.current),
  Layer.provideMerge(appConfig)
)

export const asOperator = Effect.provideService(RequestInfo, { id: "cli", ip: "", userAgent: null, via: "cli" })

/** Reports our own sentences to the operator. Other errors are reported without their text. */
export const withCliFailures = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.catchIf(
      (error): error is Extract<E, { readonly message: string }> =>
        typeof error === "object" &&
        error !== null &&
        "_tag" in error &&
        (error._tag === "TrailRefused" || error._tag === "SealedFileRefused"),
      (error) => new CliFailure({ message: error.message })
    ),
    orFailure
  )

const common = Effect.fnUntraced(function* (request: VerifyRequest) {
  const settings = yield* AppConfig
  const files = yield* FileSystem.FileSystem
  const ownFile = Option.getOrUndefined(settings.auditCheckpoints)
  const checkpoints =
    request.checkpoints.length > 0
      ? request.checkpoints
      : ownFile !== undefined && (yield* files.exists(ownFile))
        ? [ownFile]
        : []
  return {
    keys: request.publicKeys,
    checkpoints,
    alone: Option.isNone(settings.databaseUrl),
    now: yield* Clock.currentTimeMillis,
    progress: request.progress
  }
})

export const auditVerify: MaintenancePrograms["auditVerify"] = (request) =>
  Effect.gen(function* () {
    const vault = yield* Vault
    return yield* TrailVerification.verify({ ...(yield* common(request)), vault, values: request.values })
  }).pipe(Effect.provide(reading), withCliFailures)

export const auditExport: MaintenancePrograms["auditExport"] = (asked) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const audit = yield* Audit
    const now = yield* Clock.currentTimeMillis
    const entries = yield* exportTrail({ ...asked, now })
    yield* sql.withTransaction(
      audit.append({
        actor: "system",
        action: "audit.export",
        outcome: "allowed",
        teamId: null,
        target: { type: "audit", id: "", name: `${entries} entries` }
      })
    )
    return entries
  }).pipe(asOperator, Effect.provide(writing), withCliFailures)

export const auditCut: MaintenancePrograms["auditCut"] = (request) =>
  Effect.flatMap(common(request), (options) => cut(request.before, { ...options, removed: request.removed })).pipe(
    asOperator,
    Effect.provide(writing),
    withCliFailures
  )

export const auditAccept: MaintenancePrograms["auditAccept"] = (request, decide) =>
  Effect.flatMap(common(request), (options) => acceptRestore(options, decide)).pipe(
    asOperator,
    Effect.provide(writing),
    withCliFailures
  )

const rebuildLedger = Effect.fnUntraced(function* (progress: (entries: number) => Effect.Effect<void>) {
  const sql = yield* SqlClient.SqlClient
  const audit = yield* Audit
  const seal = yield* Seal
  const target = { type: "audit", id: "", name: "exposure" }
  yield* sql.withTransaction(
    audit.append({ actor: "system", action: "audit.rebuild", outcome: "allowed", teamId: null, target })
  )
  yield* seal.now
  yield* ExposureIndex.rebuild(sql, progress)
})

export const auditRebuild: MaintenancePrograms["auditRebuild"] = ({ progress }) =>
  rebuildLedger(progress).pipe(asOperator, Effect.provide(writing), withCliFailures)

export const auditKeys: MaintenancePrograms["auditKeys"] = Effect.flatMap(Vault, TrailVerification.vaultKeys).pipe(
  Effect.provide(reading),
  withCliFailures
)

// --- backup ---

const keyFile = (settings: Settings) => join(settings.dataDir, "root-key")

const readRootKey = (settings: Settings) =>
  Effect.gen(function* () {
    if (Option.isSome(settings.vaultUrl)) {
      return yield* new CliFailure({
        message: "The vault process holds the root key: copy its key file on its own machine."
      })
    }
    if (Option.isSome(settings.rootKey)) return settings.rootKey.value
    return yield* Effect.try({
      try: () => Redacted.make(fs.readFileSync(keyFile(settings), "utf8")),
      catch: () => new CliFailure({ message: `The root key in ${keyFile(settings)} cannot be read.` })
    })
  })

export const backup: MaintenancePrograms["backup"] = (request) =>
  Effect.gen(function* () {
    const settings = yield* AppConfig
    const { file, progress, recipients, rootKey } = request
    const text = rootKey === null ? undefined : yield* readRootKey(settings)
    const outcome = yield* Backup.backup({ file, recipients, release: version, progress })
    if (rootKey !== null && text !== undefined) yield* Backup.backupRootKey(text, rootKey)
    return outcome
  }).pipe(asOperator, Effect.provide(writing), withCliFailures)

/** Written under a temporary name first, so that no partial key appears. An existing key must be the same. */
const putRootKey = (settings: Settings, text: Redacted.Redacted<string>) =>
  Effect.gen(function* () {
    const target = keyFile(settings)
    const existing = yield* Effect.sync(() => (fs.existsSync(target) ? fs.readFileSync(target, "utf8") : undefined))
    if (existing !== undefined) {
      if (existing.trim() === Redacted.value(text).trim()) return
      return yield* new CliFailure({
        message: `${target} contains another root key. It was not changed, and nothing was restored.`
      })
    }
    yield* Effect.try({
      try: () => {
        fs.mkdirSync(settings.dataDir, { recursive: true, mode: 0o700 })
        fs.rmSync(`${target}.new`, { force: true })
        const handle = fs.openSync(`${target}.new`, "wx", 0o600)
        fs.writeSync(handle, Redacted.value(text))
        fs.fsyncSync(handle)
        fs.closeSync(handle)
        fs.renameSync(`${target}.new`, target)
        const folder = fs.openSync(settings.dataDir, "r")
        fs.fsyncSync(folder)
        fs.closeSync(folder)
      },
      catch: () => new CliFailure({ message: `The root key cannot be written to ${target}.` })
    })
  })

const migrateUpTo = (last: number | null) =>
  Migrations.migrate(
    Object.fromEntries(
      Object.entries(Migrations.registry).filter(([key]) => last === null || Number(key.split("_")[0]) <= last)
    )
  )

/** Null without a root key, which is not a failure of a restore. */
const canaries = (request: Parameters<MaintenancePrograms["restore"]>[0]) =>
  Restore.openCanaries(request.progress).pipe(
    Effect.provide(onVault.pipe(Layer.provide(Crypto.Default))),
    Effect.catchTag("VaultKeyWrong", () => Effect.succeed(null))
  )

/** Makes the restored database a copy, with the root key of the backup or the configured vault. */
const copyUnder = (rootKey: Redacted.Redacted<string> | null, progress: Backup.Progress) => {
  const vault =
    rootKey === null
      ? onVault
      : Layer.effect(
          Vault,
          Effect.flatMap(KeyFile.ofSetting(rootKey, "the root key of the backup"), (keys) =>
            VaultCore.make(RootKey.fixedRing(keys))
          )
        )
  return DatabaseCopy.make(({ done }) => progress("renewing rows", done)).pipe(
    Effect.provide(Layer.provideMerge(vault, Crypto.Default)),
    Effect.catchTag(
      "INTEGRITY_FAILURE",
      () =>
        new CliFailure({
          message: "This root key does not open the service keys of the backup. Nothing was restored.",
          hint: "A copy needs the root key of the backup: --root-key FILE.root-key, AMPOULE_ROOT_KEY, or the vault."
        })
    )
  )
}

export const restore: MaintenancePrograms["restore"] = (request) =>
  Effect.gen(function* () {
    const settings = yield* AppConfig
    const identity = Redacted.make(request.identity)
    const rootKey = request.rootKeyFile === null ? null : yield* Restore.openRootKey(request.rootKeyFile, identity)
    if (rootKey !== null && Option.isSome(settings.rootKey)) {
      return yield* new CliFailure({ message: "AMPOULE_ROOT_KEY is set: unset it, or omit --root-key." })
    }
    const { asCopy, file, progress } = request
    const restored = yield* Restore.restore({
      file,
      identity,
      migrate: migrateUpTo,
      known: MaintenanceDatabase.knownMigrations,
      progress,
      finish: asCopy ? copyUnder(rootKey, progress) : Effect.void
    })
    // After the rows: beside an empty database, the key would look like that of a new one.
    if (rootKey !== null) yield* putRootKey(settings, rootKey)
    const problems: Array<string> = []
    const rootKeyIds = yield* Archive.rootKeyIds
    const opened = rootKeyIds.length === 0 ? null : yield* canaries(request)
    if (opened !== null && opened.refused.length > 0) {
      problems.push(`${opened.refused.length} data keys do not open, the first is ${opened.refused[0] ?? ""}.`)
    }
    const trail = yield* TrailVerification.verify({
      vault: null,
      keys: [],
      checkpoints: [],
      values: opened !== null,
      alone: true,
      now: yield* Clock.currentTimeMillis,
      progress: (entries) => progress("verifying the trail", entries)
    })
    for (const { seq, stream, what } of trail.problems.slice(0, 5)) {
      problems.push(stream === "" ? what : `Stream ${stream}, entry ${seq ?? 0}: ${what}.`)
    }
    return {
      createdAt: restored.info.createdAt,
      tables: restored.tables,
      rows: restored.rows,
      entries: trail.entries,
      rootKeyIds,
      opened: opened === null ? null : { dataKeys: opened.dataKeys, values: opened.values },
      problems
    }
  }).pipe(Effect.provide(MaintenanceDatabase.any.pipe(Layer.provideMerge(appConfig))), withCliFailures)
