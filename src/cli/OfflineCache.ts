/**
 * The last resolved environment, kept for a time without the server. Encrypted under a key derived from the credential:
 * without it the file says nothing, and a revoked credential loses it (security 37).
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"
import { decodeUtf8, folders, makeFolder, readIfThere, remove, writeWhole } from "./Folders.ts"

const format = "ampoule offline v1"
const magic = Buffer.from(`${format}\n`)
const saltLength = 16
const nonceLength = 12
const tagLength = 16
const what = "the offline cache"

/** What an entry is for: it opens for nothing else. */
export interface Place {
  readonly url: string
  readonly credential: Redacted.Redacted
  readonly projectId: string
  readonly environment: string
}

export interface Kept {
  readonly savedAt: number
  readonly values: Readonly<Record<string, string>>
}
const Kept = Schema.parseJson(
  Schema.Struct({ savedAt: Schema.Number, values: Schema.Record({ key: Schema.String, value: Schema.String }) })
)

const fields = (...texts: ReadonlyArray<string>): Buffer =>
  Buffer.concat(
    texts.flatMap((text) => {
      const bytes = Buffer.from(text)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return [length, bytes]
    })
  )

const derive = (credential: Redacted.Redacted, salt: Uint8Array, info: Uint8Array, length: number): Buffer =>
  Buffer.from(hkdfSync("sha256", Redacted.value(credential), salt, info, length))

const associated = ({ environment, projectId, url }: Place) => fields(format, url, projectId, environment)

/** One-way: the name tells neither project nor environment nor credential. */
const fileOf = Effect.fnUntraced(function* (place: Place) {
  const path = yield* Path.Path
  const name = derive(place.credential, Buffer.alloc(0), Buffer.concat([fields("name"), associated(place)]), 18)
  return path.join((yield* folders).cache, "offline", name.toString("base64url"))
})

export const seal = (place: Place, kept: Kept, salt: Buffer, nonce: Buffer): Buffer => {
  const cipher = createCipheriv("aes-256-gcm", derive(place.credential, salt, fields("key", format), 32), nonce)
  cipher.setAAD(associated(place))
  const text = Buffer.from(JSON.stringify(kept))
  return Buffer.concat([magic, salt, nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()])
}

const decipher = Option.liftThrowable((place: Place, bytes: Buffer): Buffer => {
  const salt = bytes.subarray(magic.length, magic.length + saltLength)
  const nonce = bytes.subarray(magic.length + saltLength, magic.length + saltLength + nonceLength)
  const opened = createDecipheriv("aes-256-gcm", derive(place.credential, salt, fields("key", format), 32), nonce, {
    authTagLength: tagLength
  })
  opened.setAAD(associated(place))
  opened.setAuthTag(bytes.subarray(bytes.length - tagLength))
  const text = bytes.subarray(magic.length + saltLength + nonceLength, bytes.length - tagLength)
  return Buffer.concat([opened.update(text), opened.final()])
})

/** None for everything but an untouched entry of this place. */
export const unseal = (place: Place, bytes: Buffer): Option.Option<Kept> =>
  bytes.length < magic.length + saltLength + nonceLength + tagLength || !bytes.subarray(0, magic.length).equals(magic)
    ? Option.none()
    : decipher(place, bytes).pipe(
        Option.flatMap(decodeUtf8),
        Option.flatMap((text) => Schema.decodeUnknownOption(Kept)(text))
      )

export const keep = Effect.fnUntraced(function* (place: Place, values: Readonly<Record<string, string>>) {
  const savedAt = yield* Clock.currentTimeMillis
  const path = yield* Path.Path
  const file = yield* fileOf(place)
  yield* makeFolder(path.dirname(file), what)
  const sealed = seal(place, { savedAt, values }, randomBytes(saltLength), randomBytes(nonceLength))
  yield* writeWhole(file, sealed, what)
})

export const drop = (place: Place) => Effect.flatMap(fileOf(place), remove)

/** Clocks differ a little; an entry from further ahead was not written by this clock, and its age is not known. */
const tolerance = Duration.toMillis("5 minutes")

export interface Found extends Kept {
  readonly ageMillis: number
}

/** None, and the entry gone, when it is too old, from the future or not whole. */
export const find = Effect.fnUntraced(function* (place: Place, longest: Duration.Duration) {
  const file = yield* fileOf(place)
  const bytes = yield* readIfThere(file, what)
  if (Option.isNone(bytes)) return Option.none<Found>()
  const now = yield* Clock.currentTimeMillis
  const found = Option.filterMap(unseal(place, bytes.value), (kept): Option.Option<Found> => {
    const ageMillis = now - kept.savedAt
    return ageMillis > Duration.toMillis(longest) || ageMillis < -tolerance
      ? Option.none()
      : Option.some({ ...kept, ageMillis: Math.max(0, ageMillis) })
  })
  if (Option.isNone(found)) yield* remove(file)
  return found
})

/** Every entry, of every server: at logout nothing is left behind. */
export const dropAll = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* Effect.ignore(fs.remove(path.join((yield* folders).cache, "offline"), { recursive: true, force: true }))
})
