/**
 * Vault inside the server's process: root keys from a setting or from `root-key` in the data folder
 * (`src/vault/KeyFile.ts` defines the format).
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { join } from "node:path"
import * as Canary from "#src/crypto/Canary.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import * as Vault from "#src/crypto/Vault.ts"
import * as KeyFile from "#src/vault/KeyFile.ts"

export interface Options {
  /** Folder of the key file; created with mode 0700 if it is missing. */
  readonly dataDir: string
  /** 32 bytes in hex or base64; several separated by white space. None: the key file, created at the first start. */
  readonly rootKey: Option.Option<Redacted.Redacted<string>>
}

export const keyFileOf = (dataDir: string): string => join(dataDir, "root-key")

const make = Effect.fnUntraced(function* (options: Options) {
  const file = keyFileOf(options.dataDir)
  const source = Option.isSome(options.rootKey) ? "AMPOULE_ROOT_KEY" : file
  const fromFile = Effect.gen(function* () {
    if (!(yield* KeyFile.exists(file))) {
      // A new key beside existing data would only hide the loss of the old one.
      if ((yield* Canary.read) !== undefined) {
        return yield* new KeyFile.VaultKeyWrong({
          message: `The root key is missing: this database was set up with one, so put the original file back at ${file} or set AMPOULE_ROOT_KEY.`
        })
      }
      yield* KeyFile.create(file)
    }
    return yield* KeyFile.ring(file)
  })
  const ring = yield* Option.match(options.rootKey, {
    onNone: () => fromFile,
    onSome: (text) => Effect.map(KeyFile.ofSetting(text, source), RootKey.fixedRing)
  })
  const vault = yield* Vault.make(ring)
  yield* Canary.check(vault).pipe(
    Effect.catchTags({
      VaultForeign: ({ heldId, rootKeyId }) =>
        new KeyFile.VaultKeyWrong({
          message: `The root key in ${source} (${heldId}) does not open this database, which was sealed with root key ${rootKeyId}; restore the original key.`
        }),
      VaultUnavailable: () =>
        new KeyFile.VaultKeyWrong({ message: `The root key file ${file} cannot be read; check its permissions.` })
    })
  )
  return vault
})

export const layer = (options: Options) => Layer.effect(Vault.Vault, make(options))

/** New random root key in memory, for tests. */
export const layerMemory = Layer.effect(
  Vault.Vault,
  Effect.gen(function* () {
    const crypto = yield* Crypto
    const bytes = yield* crypto.randomBytes(RootKey.keyLength)
    const keys = RootKey.rootKeys(RootKey.rootKey(RootKey.secretKeyFrom(bytes)))
    return yield* Vault.make(RootKey.fixedRing(keys))
  })
)
