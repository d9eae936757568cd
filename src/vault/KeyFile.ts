/**
 * The text with root keys: a setting, or the file `root-key`. White space separates keys; the first wraps, all unwrap.
 * A remark runs from `#` to the end of its line. A rotation writes a remark with the time when a key was retired.
 *
 *   4f1c…                                  32 bytes in hex or base64
 *   aws-kms:AQICAHh…                       32 bytes that a key service has to open
 *   9b02…  # rk_5f0c2a9d until 2026-11-21T08:00:00.000Z
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { dirname } from "node:path"
import { VaultUnavailable } from "#schema/Vault.ts"
import { Crypto } from "#src/crypto/Crypto.ts"
import * as RootKey from "#src/crypto/RootKey.ts"
import { KeyProvider, prefixes } from "./KeyProvider.ts"

/** The program must not start. `message` is one sentence for its operator, without any key. */
export class VaultKeyWrong extends Data.TaggedError("VaultKeyWrong")<{ readonly message: string }> {}

/** Milliseconds that a retired key must rest before its destruction. By then its last boxes are long stored. */
export const restMillis = 5 * 60_000

interface KeyEntry {
  readonly key: RootKey.RootKey
  /** The word in the text. */
  readonly word: Redacted.Redacted<string>
  /** Milliseconds since 1970; none for the current key. */
  readonly retiredAt: Option.Option<number>
}

const remark = /#\s*rk_[0-9a-f]{8} until (\S+)\s*$/

const wordsOf = (text: Redacted.Redacted<string>) =>
  Redacted.value(text)
    .split("\n")
    .flatMap((line) => {
      const until = Date.parse(remark.exec(line)?.[1] ?? "")
      const retiredAt = Number.isNaN(until) ? Option.none<number>() : Option.some(until)
      return line
        .replace(/#.*$/, "")
        .split(/\s+/)
        .filter((word) => word !== "")
        .map((word) => ({ word: Redacted.make(word), retiredAt }))
    })

const openWord = Effect.fnUntraced(function* (word: Redacted.Redacted<string>, source: string) {
  const guard = yield* KeyProvider
  const text = Redacted.value(word)
  const prefix = prefixes.find((prefix) => text.startsWith(prefix))
  if (prefix === undefined) {
    return yield* Effect.mapError(
      RootKey.parseRootKey(word),
      () =>
        new VaultKeyWrong({
          message: `The root key in ${source} is not 32 bytes in hex or base64; restore the original key.`
        })
    )
  }
  if (guard?.prefix !== prefix) {
    const service = prefix.slice(0, -1)
    return yield* new VaultKeyWrong({
      message: `The root key in ${source} is guarded by ${service}; set AMPOULE_KEY_PROVIDER to ${service}.`
    })
  }
  const bytes = yield* Effect.mapError(
    guard.open(text.slice(prefix.length)),
    ({ message }) => new VaultKeyWrong({ message })
  )
  if (Redacted.value(bytes).length !== RootKey.keyLength) {
    return yield* new VaultKeyWrong({
      message: `The key service opened the root key in ${source}, but it is not 32 bytes.`
    })
  }
  return RootKey.rootKey(RootKey.secretKeyFrom(Redacted.value(bytes)))
})

const openAll = (text: Redacted.Redacted<string>, source: string, openedKeys: ReadonlyMap<string, RootKey.RootKey>) =>
  Effect.forEach(wordsOf(text), ({ retiredAt, word }) => {
    const opened = openedKeys.get(Redacted.value(word))
    return Effect.map(opened === undefined ? openWord(word, source) : Effect.succeed(opened), (key): KeyEntry => ({
      key,
      word,
      retiredAt
    }))
  })

const keysOf = (entries: ReadonlyArray<KeyEntry>, source: string): Effect.Effect<RootKey.RootKeys, VaultKeyWrong> => {
  const [current, ...older] = entries.map(({ key }) => key)
  return current === undefined
    ? new VaultKeyWrong({
        message: `The root key in ${source} is not 32 bytes in hex or base64; restore the original key.`
      })
    : Effect.succeed(RootKey.rootKeys(current, older))
}

/** Root keys of a setting, which change with a restart only. */
export const ofSetting = (text: Redacted.Redacted<string>, source: string) =>
  Effect.flatMap(openAll(text, source, new Map()), (entries) => keysOf(entries, source))

const unusable = (file: string) => () =>
  new VaultKeyWrong({
    message: `The root key file ${file} cannot be read or written; check the folder and its permissions.`
  })
const asKeyWrong = (file: string) => ({ SystemError: unusable(file), BadArgument: unusable(file) })

/** Identity and state of the file, which is only ever replaced as a whole. */
const signatureOf = ({ ino, mtime, size }: FileSystem.File.Info) =>
  [
    Option.getOrElse(ino, () => 0),
    Option.match(mtime, { onNone: () => 0, onSome: (date) => date.getTime() }),
    size
  ].join(":")

const readFile = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* fs.stat(file)
  if ((info.mode & 0o077) !== 0) {
    return yield* new VaultKeyWrong({
      message: `The root key file ${file} can be read by other users of this machine; run chmod 600 on it and start again.`
    })
  }
  return { signature: signatureOf(info), text: Redacted.make(yield* fs.readFileString(file)) }
})

const read = (file: string, openedKeys: ReadonlyMap<string, RootKey.RootKey> = new Map()) =>
  Effect.gen(function* () {
    const { signature, text } = yield* readFile(file)
    const entries = yield* openAll(text, file, openedKeys)
    return { signature, held: entries, keys: yield* keysOf(entries, file) }
  }).pipe(Effect.catchTags(asKeyWrong(file)))

/**
 * Creates the file exclusively and syncs it before its key wraps anything: a key lost in a crash would take the data
 * with it.
 */
const writeNew = Effect.fnUntraced(function* (file: string, text: string) {
  const fs = yield* FileSystem.FileSystem
  const bytes = new TextEncoder().encode(text)
  yield* fs.makeDirectory(dirname(file), { recursive: true, mode: 0o700 })
  yield* Effect.scoped(
    Effect.gen(function* () {
      const handle = yield* fs.open(file, { flag: "wx", mode: 0o600 })
      yield* handle.writeAll(bytes)
      yield* handle.sync
    })
  )
  bytes.fill(0)
  yield* syncFolder(dirname(file))
})

const syncFolder = (folder: string) =>
  Effect.scoped(
    Effect.flatMap(FileSystem.FileSystem, (fs) =>
      Effect.flatMap(fs.open(folder, { flag: "r" }), (handle) => handle.sync)
    )
  )

/** A new root key, and its word for a key file. */
const newWord = Effect.gen(function* () {
  const crypto = yield* Crypto
  const guard = yield* KeyProvider
  const bytes = yield* crypto.randomBytes(RootKey.keyLength)
  const word = guard === null ? bytes.toString("hex") : `${guard.prefix}${yield* guard.seal(Redacted.make(bytes))}`
  return { word: Redacted.make(word), key: RootKey.rootKey(RootKey.secretKeyFrom(bytes)) }
}).pipe(Effect.catchTag("KeyProviderFailed", ({ message }) => new VaultKeyWrong({ message })))

/** Creates the first key in a new file. */
export const create = (file: string) =>
  Effect.gen(function* () {
    const { key, word } = yield* newWord
    yield* writeNew(file, `${Redacted.value(word)}\n`)
    return key.id
  }).pipe(Effect.catchTags(asKeyWrong(file)))

export const exists = (file: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.exists(file)).pipe(Effect.catchTags(asKeyWrong(file)))

/** The keys of a file, reloaded after a replacement. */
export const ring = Effect.fnUntraced(function* (file: string) {
  const fs = yield* FileSystem.FileSystem
  const context = yield* Effect.context<FileSystem.FileSystem>()
  const provider = yield* KeyProvider
  const one = yield* Effect.makeSemaphore(1)
  let state = yield* read(file)
  const openedKeys = () => new Map(state.held.map(({ key, word }) => [Redacted.value(word), key]))

  const refresh = Effect.gen(function* () {
    if (signatureOf(yield* fs.stat(file)) === state.signature) return state.keys
    state = yield* read(file, openedKeys())
    yield* Effect.logInfo("The root key file was read again.").pipe(
      Effect.annotateLogs({ rootKeyId: state.keys.current.id, rootKeys: state.keys.byId.size })
    )
    return state.keys
  }).pipe(Effect.provideService(KeyProvider, provider), Effect.provide(context), one.withPermits(1))

  const unreadable = () => new VaultUnavailable({ reason: "The root key file cannot be read." })
  return {
    now: Effect.mapError(refresh, unreadable),
    having: (id) =>
      Effect.suspend(() =>
        state.keys.byId.has(id)
          ? Effect.succeed(state.keys)
          : // Loaded keys still open their boxes, whatever happened to the file.
            Effect.catchAll(refresh, () => Effect.succeed(state.keys))
      )
  } satisfies RootKey.RootKeyRing
})

const print = (entries: ReadonlyArray<KeyEntry>) =>
  entries
    .map(({ key, retiredAt, word }) => {
      const until = Option.map(retiredAt, (at) => ` # ${key.id} until ${new Date(at).toISOString()}`)
      return `${Redacted.value(word)}${Option.getOrElse(until, () => "")}\n`
    })
    .join("")

/**
 * Replaces the file as a whole: after a crash, it is the old one or the new one. The name of the draft admits one
 * change at a time.
 */
const rewrite = <A, R>(
  file: string,
  edit: (entries: ReadonlyArray<KeyEntry>) => Effect.Effect<readonly [ReadonlyArray<KeyEntry>, A], VaultKeyWrong, R>
) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const draft = `${file}.new`
    if (yield* fs.exists(draft)) {
      return yield* new VaultKeyWrong({
        message: `Another change of ${file} is under way, or one was cut off: when none is, remove ${draft} and run this again.`
      })
    }
    const [after, result] = yield* edit((yield* read(file)).held)
    yield* writeNew(draft, print(after))
    yield* fs.rename(draft, file)
    yield* syncFolder(dirname(file))
    return result
  }).pipe(Effect.catchTags(asKeyWrong(file)))

/** Adds a new current key before the others. Running programs reload the file by themselves. Returns the ids. */
export const add = (file: string) =>
  rewrite(file, (held) =>
    Effect.gen(function* () {
      const newKey = yield* newWord
      const now = yield* Clock.currentTimeMillis
      const older = held.map((one) => ({ ...one, retiredAt: Option.orElse(one.retiredAt, () => Option.some(now)) }))
      const after: ReadonlyArray<KeyEntry> = [{ ...newKey, retiredAt: Option.none() }, ...older]
      return [after, { added: newKey.key.id, before: held[0]?.key.id ?? "" }] as const
    })
  )

/** Removes a key for good. Refuses for the current key, and for one retired a moment ago. */
export const remove = (file: string, id: string) =>
  rewrite(file, (held) =>
    Effect.gen(function* () {
      const at = held.findIndex(({ key }) => key.id === id)
      if (at < 0) return yield* new VaultKeyWrong({ message: `The root key file ${file} has no key ${id}.` })
      if (at === 0) {
        return yield* new VaultKeyWrong({
          message: `${id} is the root key in use; run \`ampoule vault rotate\` first.`
        })
      }
      const now = yield* Clock.currentTimeMillis
      const restedMillis = now - Option.getOrElse(held[at].retiredAt, () => 0)
      if (restedMillis < restMillis) {
        const seconds = Math.ceil((restMillis - restedMillis) / 1000)
        return yield* new VaultKeyWrong({
          message: `${id} was in use until a moment ago; try again in ${seconds} s, when all that it wrapped is stored.`
        })
      }
      return [held.filter((_, i) => i !== at), undefined] as const
    })
  )
