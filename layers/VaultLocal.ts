/**
 * The vault inside the server's own process: root keys from a setting or from `root-key` in the data folder. The text is
 * one or more keys separated by white space: the first wraps, the others unwrap what an earlier first key wrapped.
 */
import { Crypto } from "#src/crypto/Crypto.ts"
import * as Envelope from "#src/crypto/Envelope.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import * as Vault from "#src/crypto/Vault.ts"
import type { KeyContext } from "#schema/Vault.ts"
import * as FileSystem from "@effect/platform/FileSystem"
import * as SqlClient from "@effect/sql/SqlClient"
import * as Data from "effect/Data"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { join } from "node:path"

/** The server must not start. `message` is one sentence for its operator and holds no key. */
export class VaultKeyWrong extends Data.TaggedError("VaultKeyWrong")<{ readonly message: string }> {}

export interface Options {
  /** Folder of the key file; made with mode 0700 when absent. */
  readonly dataDir: string
  /** 32 bytes in hex or base64; several separated by white space. None: the key file, made at first start. */
  readonly rootKey: Option.Option<Redacted.Redacted<string>>
}

const canaryContext: KeyContext = { purpose: "vault-canary", teamId: "", projectId: "", environmentId: "", keyId: "" }
const canaryText = "ampoule vault canary"

const Named = Schema.Struct({ rootKeyId: Schema.String })
const Canary = Schema.Struct({ rootKeyId: Schema.String, canary: Schema.Uint8ArrayFromSelf })
const decodeCanaries = Schema.decodeUnknown(Schema.Array(Canary))
const decodeNamed = Schema.decodeUnknown(Schema.Array(Named))

const parse = (text: Redacted.Redacted<string>, source: string) =>
  Option.all(
    Redacted.value(text)
      .split(/\s+/)
      .filter((word) => word !== "")
      .map((word) => RootKey.parseRootKey(Redacted.make(word)))
  ).pipe(
    Option.flatMap(([current, ...older]) =>
      current === undefined ? Option.none() : Option.some(RootKey.rootKeys(current, older))
    ),
    Effect.mapError(
      () =>
        new VaultKeyWrong({
          message: `The root key in ${source} is not 32 bytes in hex or base64; restore the original key.`
        })
    )
  )

const readKeyFile = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* fs.stat(file)
  if ((info.mode & 0o077) !== 0) {
    return yield* new VaultKeyWrong({
      message: `The root key file ${file} can be read by other users of this machine; run chmod 600 on it and start again.`
    })
  }
  return yield* parse(Redacted.make(yield* fs.readFileString(file)), file)
})

const unreadable = (file: string) => () =>
  new VaultKeyWrong({
    message: `The root key file ${file} cannot be read or written; check the folder and its permissions.`
  })

/** Exclusive create, and on disk before anything is wrapped by it: a key lost in a crash would take the data along. */
const createKeyFile = Effect.fnUntraced(function* (dataDir: string, file: string) {
  const fs = yield* FileSystem.FileSystem
  const crypto = yield* Crypto
  const bytes = yield* crypto.randomBytes(RootKey.keyLength)
  const text = new TextEncoder().encode(`${bytes.toString("hex")}\n`)
  yield* fs.makeDirectory(dataDir, { recursive: true, mode: 0o700 })
  yield* Effect.scoped(
    Effect.gen(function* () {
      const handle = yield* fs.open(file, { flag: "wx", mode: 0o600 })
      yield* handle.writeAll(text)
      yield* handle.sync
    })
  )
  text.fill(0)
  return RootKey.rootKeys(RootKey.rootKey(RootKey.secretKeyFrom(bytes)))
})

const readCanary = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return (yield* decodeCanaries(yield* sql`SELECT root_key_id, canary FROM vault_canary WHERE id = 1`)).at(0)
})

/** Every root key that the database names must be held, and the canary must open. */
const checkCanary = Effect.fnUntraced(function* (keys: RootKey.RootKeys, source: string) {
  const sql = yield* SqlClient.SqlClient
  const crypto = yield* Crypto
  const wrong = (rootKeyId: string) =>
    new VaultKeyWrong({
      message: `The root key in ${source} (${keys.current.id}) does not open this database, which was sealed with root key ${rootKeyId}; restore the original key.`
    })
  const sealed = RootKey.wrap(
    keys,
    canaryContext,
    new TextEncoder().encode(canaryText),
    yield* crypto.randomBytes(Envelope.saltLength)
  )
  const now = DateTime.toDate(yield* DateTime.now)
  yield* sql`
    INSERT INTO vault_canary (id, root_key_id, canary, created_at)
    VALUES (1, ${sealed.rootKeyId}, ${sealed.wrapped}, ${now}) ON CONFLICT DO NOTHING`
  const found = yield* readCanary
  if (found === undefined) return yield* Effect.dieMessage("the vault canary vanished")
  yield* Effect.mapError(RootKey.unwrap(keys, canaryContext, found.canary, found.rootKeyId), () =>
    wrong(found.rootKeyId)
  )
  const named = yield* decodeNamed(
    yield* sql`SELECT DISTINCT root_key_id FROM data_keys UNION SELECT DISTINCT root_key_id FROM sealing_keys`
  )
  for (const { rootKeyId } of named) if (!keys.byId.has(rootKeyId)) return yield* wrong(rootKeyId)
  // After a change of the first key the canary follows, so that the old key alone no longer starts a server.
  if (found.rootKeyId !== keys.current.id) {
    yield* sql`UPDATE vault_canary SET root_key_id = ${sealed.rootKeyId}, canary = ${sealed.wrapped}, created_at = ${now} WHERE id = 1`
  }
})

const make = Effect.fnUntraced(
  function* (options: Options) {
    const fs = yield* FileSystem.FileSystem
    const file = join(options.dataDir, "root-key")
    const source = Option.isSome(options.rootKey) ? "AMPOULE_ROOT_KEY" : file
    const fromFile = Effect.gen(function* () {
      if (yield* fs.exists(file)) return yield* readKeyFile(file)
      // A new key beside old data would only hide that the old one is missing.
      if ((yield* readCanary) !== undefined) {
        return yield* new VaultKeyWrong({
          message: `The root key is missing: this database was set up with one, so put the original file back at ${file} or set AMPOULE_ROOT_KEY.`
        })
      }
      return yield* createKeyFile(options.dataDir, file)
    }).pipe(Effect.catchTags({ SystemError: unreadable(file), BadArgument: unreadable(file) }))
    const keys = yield* Option.match(options.rootKey, { onNone: () => fromFile, onSome: (text) => parse(text, source) })
    yield* checkCanary(keys, source)
    return yield* Vault.make(keys)
  },
  Effect.catchTag("ParseError", Effect.die)
)

export const layer = (options: Options) => Layer.effect(Vault.Vault, make(options))

/** A vault with root keys of its own: rotation in tests, and the vault process. */
export const layerKeys = (keys: RootKey.RootKeys) => Layer.effect(Vault.Vault, Vault.make(keys))

/** A random root key that nobody else has: tests. */
export const layerMemory = Layer.effect(
  Vault.Vault,
  Effect.gen(function* () {
    const crypto = yield* Crypto
    const bytes = yield* crypto.randomBytes(RootKey.keyLength)
    return yield* Vault.make(RootKey.rootKeys(RootKey.rootKey(RootKey.secretKeyFrom(bytes))))
  })
)
