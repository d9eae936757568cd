/**
 * The entries of a sealed `.env` file (docs/contract/sealed-values.md; published vectors: test/vectors/sealed-v1.json).
 *
 *   sealed:v1:<keyId>:<base64url(enc ‖ ciphertext)>
 *
 * An entry opens only under its own name, in its own environment, by its own key. A dropped entry, and one replaced by
 * an older one of the same name, are found by the manifest. Everybody who has the public key can seal a new value: that
 * is what a public key is for, and no part of this format forbids it.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { createHash } from "node:crypto"
import * as Hpke from "./Hpke.ts"

export const manifestName = "_manifest"

const format = "ampoule sealed-env v1"
const info = new TextEncoder().encode(format)
const entryPattern = /^sealed:v1:(ek_[0-9a-f]{8}):([A-Za-z0-9_-]+)$/

/** Not opened, and with it the whole file. `name`: the entry, or `_manifest` when the file does not match it. */
export class SealedEntryRefused extends Data.TaggedError("SealedEntryRefused")<{ readonly name: string }> {}

/** Inputs of sealing, all public. */
export interface Recipient {
  readonly environmentId: string
  readonly keyId: string
  readonly key: Hpke.PublicKey
}

/** Inputs of opening: the private half of one key of one environment. */
export interface Opener {
  readonly environmentId: string
  readonly keyId: string
  readonly key: Hpke.OpeningKey
}

const sha256 = (bytes: Uint8Array | string) => createHash("sha256").update(bytes).digest("hex")

/** `ek_` and the first 8 hex digits of SHA-256 of the 32 raw bytes. */
export const keyIdOf = (publicKey: Uint8Array): string => `ek_${sha256(publicKey).slice(0, 8)}`

export const printPublicKey = (publicKey: Uint8Array): string => Buffer.from(publicKey).toString("base64url")

/**
 * Bytes of unpadded base64url. None unless the text is the one way to write them: trailing bits could vary otherwise.
 */
const decodeBase64url = (text: string): Option.Option<Uint8Array> => {
  const bytes = Buffer.from(text, "base64url")
  return bytes.toString("base64url") === text ? Option.some(bytes) : Option.none()
}

export const parsePublicKey = (text: string): Option.Option<Uint8Array> =>
  Option.filter(decodeBase64url(text), (bytes) => bytes.length === Hpke.keyLength)

export const recipient = (
  environmentId: string,
  publicKey: Uint8Array
): Effect.Effect<Recipient, Hpke.SealingKeyInvalid> =>
  Effect.map(Hpke.importPublicKey(publicKey), (key) => ({
    environmentId: environmentId.toLowerCase(),
    keyId: keyIdOf(publicKey),
    key
  }))

export const opener = (environmentId: string, pair: Hpke.KeyPair): Effect.Effect<Opener, Hpke.SealingKeyInvalid> =>
  Effect.map(Hpke.importOpeningKey(pair), (key) => ({
    environmentId: environmentId.toLowerCase(),
    keyId: keyIdOf(pair.publicKey),
    key
  }))

/** Length-prefixed (4 bytes, big-endian), so that no two lists of fields encode alike. */
export const aadOf = (environmentId: string, keyId: string, name: string): Uint8Array =>
  Buffer.concat(
    [format, environmentId, keyId, name].flatMap((field) => {
      const bytes = Buffer.from(field)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return [length, bytes]
    })
  )

interface Entry {
  readonly keyId: string
  /** enc ‖ ciphertext. */
  readonly sealed: Uint8Array
}

/** None for plaintext and for anything else that is not an entry to the letter. */
export const parseEntry = (text: string): Option.Option<Entry> => {
  const match = entryPattern.exec(text)
  if (match === null) return Option.none()
  const [, keyId, encoded] = match
  return decodeBase64url(encoded).pipe(
    Option.filter((sealed) => sealed.length >= Hpke.encLength + Hpke.tagLength),
    Option.map((sealed) => ({ keyId, sealed }))
  )
}

/** A new entry each time, also for an equal value. The text must be well-formed. */
export const sealEntry = (
  to: Recipient,
  name: string,
  value: Redacted.Redacted<string>
): Effect.Effect<string, Hpke.SealingKeyInvalid> =>
  Hpke.seal(to.key, info, aadOf(to.environmentId, to.keyId, name), Buffer.from(Redacted.value(value))).pipe(
    Effect.map((sealed) => `sealed:v1:${to.keyId}:${Buffer.from(sealed).toString("base64url")}`)
  )

const decodeText = Option.liftThrowable((bytes: Uint8Array) =>
  new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
)

const openEntry = (
  by: Opener,
  name: string,
  entry: string
): Effect.Effect<Redacted.Redacted<string>, SealedEntryRefused> =>
  parseEntry(entry).pipe(
    Option.filter(({ keyId }) => keyId === by.keyId),
    Effect.flatMap(({ sealed }) => Hpke.open(by.key, info, aadOf(by.environmentId, by.keyId, name), sealed)),
    Effect.flatMap(decodeText),
    Effect.mapBoth({ onFailure: () => new SealedEntryRefused({ name }), onSuccess: Redacted.make })
  )

/** The manifest's plaintext: every other entry's name and SHA-256, by name. */
export const manifestOf = (entries: ReadonlyMap<string, string>): string =>
  JSON.stringify(
    [...entries]
      .filter(([name]) => name !== manifestName)
      .map(([name, entry]) => [name, sha256(entry)])
      .sort(([a], [b]) => (a < b ? -1 : 1))
  )

const parseJson = Option.liftThrowable((text: string): unknown => JSON.parse(text))

/** Whether the manifest lists these entries, each once and in order, and nothing else. White space does not count. */
const manifestMatches = (manifest: Redacted.Redacted<string>, entries: ReadonlyMap<string, string>): boolean =>
  Option.match(parseJson(Redacted.value(manifest)), {
    onNone: () => false,
    onSome: (list) => JSON.stringify(list) === manifestOf(entries)
  })

/** Seals `_manifest` over the entries given, in place of one that is among them. */
export const sealManifest = (
  to: Recipient,
  entries: ReadonlyMap<string, string>
): Effect.Effect<string, Hpke.SealingKeyInvalid> => sealEntry(to, manifestName, Redacted.make(manifestOf(entries)))

/** All or nothing. Fails with the first entry, in the order given, that is refused; the manifest counts as last. */
export const openAll = Effect.fn("SealedEnv.openAll")(function* (by: Opener, entries: ReadonlyMap<string, string>) {
  const opened = yield* Effect.forEach(
    entries,
    ([name, entry]) => Effect.either(Effect.map(openEntry(by, name, entry), (value) => [name, value] as const)),
    { concurrency: 8 }
  )
  const values = new Map(yield* Either.all(opened))
  const manifest = values.get(manifestName)
  if (manifest !== undefined) {
    if (!manifestMatches(manifest, entries)) return yield* new SealedEntryRefused({ name: manifestName })
    values.delete(manifestName)
  }
  return values
})
