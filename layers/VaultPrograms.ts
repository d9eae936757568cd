/** The vault process and the programs of rotation (`src/cli/operator/ServerSide.ts`). */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { dirname, join, resolve } from "node:path"
import { vaultKeys } from "#src/trail/TrailVerification.ts"
import { signNote } from "#src/trail/CheckpointFile.ts"
import { AppConfig, type Settings } from "#src/AppConfig.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import type { VaultPrograms } from "#src/cli/operator/ServerSide.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import { DataKeys } from "#src/crypto/DataKeys.ts"
import { ValueCipher } from "#src/crypto/Envelope.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import { Rotation } from "#src/crypto/Rotation.ts"
import type { UnopenedRow } from "#src/crypto/RotationTurn.ts"
import { ServiceKeys } from "#src/crypto/ServiceKeys.ts"
import * as Vault from "#src/crypto/Vault.ts"
import * as KeyFile from "#src/vault/KeyFile.ts"
import * as Release from "#src/vault/Release.ts"
import * as VaultLog from "#src/vault/VaultLog.ts"
import * as Config from "./Config.ts"
import * as DataFolder from "./DataFolder.ts"
import * as ServiceKeyPrograms from "./ServiceKeyPrograms.ts"
import * as VaultConfig from "./VaultConfig.ts"
import * as MaintenanceDatabase from "./MaintenanceDatabase.ts"
import { logToStandardError, orFailure, untilSignal } from "./ProgramEnd.ts"
import * as Telemetry from "./Telemetry.ts"
import { print, tokenFileOf, VaultAddress } from "./VaultAddress.ts"
import * as VaultChoice from "./VaultChoice.ts"
import { keyFileOf } from "./VaultLocal.ts"
import * as VaultServer from "./VaultServer.ts"

const socketOf = (settings: Settings) => resolve(settings.dataDir, "vault", "vault.sock")
const logOf = (settings: Settings) => join(settings.dataDir, "vault", "log.jsonl")

/**
 * Configured token, or a new one beside the socket, valid until the next start and readable by users of that folder.
 */
const drawToken = (address: VaultAddress, configured: Option.Option<Redacted.Redacted>) =>
  Effect.gen(function* () {
    if (Option.isSome(configured) || address._tag === "Tls")
      return Option.getOrElse(configured, () => Redacted.make(""))
    const fs = yield* FileSystem.FileSystem
    const crypto = yield* Crypto
    const token = (yield* crypto.randomBytes(32)).toString("base64url")
    const file = tokenFileOf(address.path)
    yield* fs.remove(`${file}.new`, { force: true })
    yield* fs.writeFileString(`${file}.new`, token, { flag: "wx", mode: 0o600 })
    yield* fs.rename(`${file}.new`, file)
    return Redacted.make(token)
  })

const rootKeys = (settings: Settings) =>
  Effect.gen(function* () {
    if (Option.isSome(settings.rootKey)) {
      return RootKey.fixedRing(yield* KeyFile.ofSetting(settings.rootKey.value, "AMPOULE_ROOT_KEY"))
    }
    const file = keyFileOf(settings.dataDir)
    if (!(yield* KeyFile.exists(file))) {
      // A new key would only hide the loss of the old one. For a new vault, start in an empty folder.
      if (yield* VaultLog.isUsed(logOf(settings))) {
        return yield* new KeyFile.VaultKeyWrong({
          message: `The root key is missing: by its log this vault had one, so put the original file back at ${file}. A new vault needs a data folder of its own.`
        })
      }
      const id = yield* KeyFile.create(file)
      yield* Console.log(`A new root key ${id} is in ${file}. Copy it now: without it nothing can be decrypted.`)
    }
    return yield* KeyFile.ring(file)
  })

export const serve: VaultPrograms["serve"] = Effect.gen(function* () {
  const settings = yield* Config.load
  const vaultSettings = yield* VaultConfig.load
  const address = Option.isSome(settings.vaultUrl)
    ? yield* VaultChoice.addressOf(settings.vaultUrl.value)
    : VaultAddress.Unix({ path: socketOf(settings) })
  yield* VaultChoice.needsToken(address, vaultSettings)
  const certificates = yield* VaultChoice.certificatesOf(address, vaultSettings)
  const run = Effect.gen(function* () {
    if (address._tag === "Unix") yield* VaultServer.prepare(address.path)
    // Before opening the log, which removes a crash's partial entry: only one process may write this chain.
    yield* DataFolder.lock(yield* DataFolder.ensure(dirname(logOf(settings))))
    const vault = yield* Vault.make(yield* rootKeys(settings))
    const log = yield* VaultLog.open(logOf(settings))
    const token = yield* drawToken(address, vaultSettings.token)
    const { unwrapsPerSecond } = vaultSettings
    yield* Layer.build(
      VaultServer.layer({ address, token, unwrapsPerSecond, log, ...certificates }).pipe(
        Layer.provide(Layer.succeed(Vault.Vault, vault))
      )
    )
    const { rootKeyId, rootKeyIds } = yield* vault.status
    const line = `Ampoule vault listens on ${print(address)} (root key ${rootKeyId}, ${rootKeyIds.length} held)`
    yield* settings.logFormat === "json" ? Effect.log(line) : Console.log(line)
    return yield* Effect.never
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.mergeAll(NodeContext.layer, Crypto.Default, VaultChoice.provider(vaultSettings)))
  )
  yield* untilSignal(run, false).pipe(Effect.provide(Telemetry.logging(settings)))
}).pipe(orFailure)

/** Layers of the rotation: the configured database and vault. */
const equipment = (settings: Settings) =>
  Layer.unwrapEffect(
    Effect.map(VaultChoice.layer(settings), (vault) =>
      Rotation.Default.pipe(
        Layer.provide(Layer.succeed(ValueCipher, settings.valueCipher)),
        Layer.provideMerge(DataKeys.Default),
        Layer.provideMerge(ServiceKeys.Default),
        Layer.provideMerge(vault),
        Layer.provideMerge(Layer.mergeAll(Crypto.Default, MaintenanceDatabase.used, NodeContext.layer)),
        Layer.provideMerge(Layer.succeed(AppConfig, settings))
      )
    )
  )

const program = <A, E>(
  work: (settings: Settings) => Effect.Effect<A, E, Rotation | Vault.Vault | Crypto | FileSystem.FileSystem>
) =>
  Effect.gen(function* () {
    const settings = yield* Config.load
    const vaultSettings = yield* VaultConfig.load
    return yield* work(settings).pipe(
      Effect.provide(equipment(settings)),
      Effect.provide(VaultChoice.provider(vaultSettings)),
      Effect.provide(logToStandardError(settings))
    )
  }).pipe(orFailure)

export const status: VaultPrograms["status"] = program(() =>
  Effect.gen(function* () {
    const vault = yield* Vault.Vault
    const rotation = yield* Rotation
    const { rootKeyId, rootKeyIds } = yield* vault.status
    const rootKeysInUse = yield* rotation.named
    return [...new Set([rootKeyId, ...rootKeyIds, ...rootKeysInUse.keys()])].map((id) => ({
      id,
      current: id === rootKeyId,
      held: rootKeyIds.includes(id),
      rows: rootKeysInUse.get(id) ?? 0
    }))
  })
)

const setByHand = new CliFailure({
  message: "The root key comes from AMPOULE_ROOT_KEY, which only you can change.",
  hint: "Put a new key before the old one there (`openssl rand -hex 32`), restart the processes that use it, and run this again."
})

export const serviceKeys = ServiceKeyPrograms.serviceKeys
export const rotateServiceKeys = ServiceKeyPrograms.rotateServiceKeys

export const newKey: VaultPrograms["newKey"] = Effect.gen(function* () {
  const settings = yield* Config.load
  const vaultSettings = yield* VaultConfig.load
  if (Option.isSome(settings.rootKey)) return yield* setByHand
  const { added } = yield* KeyFile.add(keyFileOf(settings.dataDir)).pipe(
    Effect.provide(Layer.mergeAll(NodeContext.layer, Crypto.Default, VaultChoice.provider(vaultSettings)))
  )
  return added
}).pipe(orFailure)

const nameOf = ({ name, table }: UnopenedRow) => `${table} ${name}`

/** Creates the new key in the vault's key file, and waits until the vault uses it. */
const makeKey = (settings: Settings) =>
  Effect.gen(function* () {
    const vault = yield* Vault.Vault
    if (Option.isSome(settings.rootKey)) return yield* setByHand
    const file = keyFileOf(settings.dataDir)
    const before = yield* vault.status
    const keyRing = (yield* KeyFile.exists(file)) ? yield* (yield* KeyFile.ring(file)).now : undefined
    if (keyRing === undefined || keyRing.current.id !== before.rootKeyId) {
      return yield* new CliFailure({
        message: `The vault's key file is not ${file}.`,
        hint: "Run `ampoule vault new-key` where the vault runs, then this again; or set AMPOULE_DATA_DIR to the vault's."
      })
    }
    const { added } = yield* KeyFile.add(file)
    yield* vault.status.pipe(
      Effect.filterOrFail(
        ({ rootKeyId }) => rootKeyId === added,
        () => new CliFailure({ message: `The vault did not load the new root key ${added} from ${file}.` })
      ),
      Effect.retry(Schedule.intersect(Schedule.spaced("200 millis"), Schedule.recurs(25)))
    )
  })

export const rotate: VaultPrograms["rotate"] = (onProgress) =>
  program((settings) =>
    Effect.gen(function* () {
      const vault = yield* Vault.Vault
      const rotation = yield* Rotation
      const { rootKeyId } = yield* vault.status
      const rootKeysInUse = yield* rotation.named
      // Rows of an older key: from an interrupted rotation, or after a manual change of the key order.
      const unfinished = [...rootKeysInUse.keys()].some((id) => id !== rootKeyId)
      if (!unfinished) yield* makeKey(settings)
      const { done, refused, remaining, ...rewrapped } = yield* rotation.rewrapAll(({ done, total }) =>
        onProgress(done, total)
      )
      if (remaining > refused.length) {
        return yield* new CliFailure({
          message: `${remaining - refused.length} keys were in constant use; run this again for the rest.`
        })
      }
      const { rootKeyIds } = yield* vault.status
      return {
        rootKeyId: rewrapped.rootKeyId,
        made: !unfinished,
        rewrapped: done,
        refused: refused.map(nameOf),
        older: rootKeyIds.filter((id) => id !== rewrapped.rootKeyId)
      }
    })
  )

const takenOutByHand = new CliFailure({
  message: "The root key comes from AMPOULE_ROOT_KEY, which only you can change.",
  hint: "Remove the old key when `ampoule vault status` shows no rows for it, and restart the processes that use it."
})

/** Fails while the database needs the key. */
const ensureUnused = (id: string) =>
  Effect.gen(function* () {
    const rotation = yield* Rotation
    const rows = (yield* rotation.named).get(id) ?? 0
    if (rows > 0) {
      return yield* new CliFailure({
        message: `${rows} keys in the database are wrapped by ${id}; run \`ampoule vault rotate\` first.`
      })
    }
    const seals = yield* rotation.auditSeals(id)
    if (seals > 0) {
      return yield* new CliFailure({
        message: `${seals} seals of the audit trail still need ${id}; a running server makes them again within minutes.`
      })
    }
  })

export const releaseKey: VaultPrograms["releaseKey"] = (id) =>
  program(() =>
    Effect.gen(function* () {
      const vault = yield* Vault.Vault
      const { rootKeyId, rootKeyIds } = yield* vault.status
      if (id === rootKeyId) {
        return yield* new CliFailure({ message: `${id} is the root key in use; run \`ampoule vault rotate\` first.` })
      }
      if (!rootKeyIds.includes(id)) return yield* new CliFailure({ message: `The vault has no key ${id}.` })
      yield* ensureUnused(id)
      return yield* signNote(vault, Release.text(id, yield* Clock.currentTimeMillis))
    })
  )

/** On a host without the database: a signed release replaces the check. */
const destroyReleased = (id: string, note: string) =>
  Effect.gen(function* () {
    const settings = yield* Config.load
    const vaultSettings = yield* VaultConfig.load
    if (Option.isSome(settings.rootKey)) return yield* takenOutByHand
    const file = keyFileOf(settings.dataDir)
    yield* Effect.gen(function* () {
      const vault = yield* Vault.make(yield* KeyFile.ring(file))
      const released = Release.check(note, yield* vaultKeys(vault), id, yield* Clock.currentTimeMillis)
      if (Either.isLeft(released)) {
        return yield* new CliFailure({
          message: `The release ${released.left}; ${id} was not destroyed.`,
          hint: `Run \`ampoule vault release-key ${id}\` where a server runs, and use what it prints within an hour.`
        })
      }
      yield* KeyFile.remove(file, id)
    }).pipe(Effect.provide(Layer.mergeAll(NodeContext.layer, Crypto.Default, VaultChoice.provider(vaultSettings))))
  }).pipe(orFailure)

export const destroyKey: VaultPrograms["destroyKey"] = (id, release) =>
  Option.match(release, {
    onSome: (note) => destroyReleased(id, note),
    onNone: () =>
      program((settings) =>
        Effect.gen(function* () {
          if (Option.isSome(settings.rootKey)) return yield* takenOutByHand
          yield* ensureUnused(id)
          const file = keyFileOf(settings.dataDir)
          if (Option.isSome(settings.vaultUrl)) {
            const { rootKeyId } = yield* (yield* Vault.Vault).status
            const keyRing = (yield* KeyFile.exists(file)) ? yield* (yield* KeyFile.ring(file)).now : undefined
            if (keyRing?.current.id !== rootKeyId) {
              return yield* new CliFailure({
                message: `The vault's key file is not ${file}.`,
                hint: `Run \`ampoule vault release-key ${id}\` here, and \`ampoule vault destroy-key ${id} --release FILE\` with what it prints where the vault runs.`
              })
            }
          }
          yield* KeyFile.remove(file, id)
        })
      )
  })

export const rotateDataKeys: VaultPrograms["rotateDataKeys"] = ({ before, environment, project }, onProgress) =>
  program(() =>
    Effect.gen(function* () {
      const rotation = yield* Rotation
      const { refused, ...rotated } = yield* rotation.rotateDataKeys(
        {
          before,
          environmentId: Option.getOrUndefined(environment),
          projectId: Option.getOrUndefined(project)
        },
        ({ done, total }) => onProgress(done, total)
      )
      return { ...rotated, refused: refused.map(nameOf) }
    })
  )

export const verifyLog: VaultPrograms["verifyLog"] = Effect.gen(function* () {
  const settings = yield* Config.load
  const { hash, seq } = yield* VaultLog.verify(logOf(settings))
  return { entries: seq, hash }
}).pipe(Effect.provide(NodeContext.layer), orFailure)
