/**
 * Last resolved environment, for a limited time without the server. It is encrypted under a key derived from the
 * credential. Without the credential the file is unreadable, and a refused credential deletes it (docs/security.md,
 * "Lessons from others").
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { crypto } from "#src/cli/terminal/BuiltIn.ts"
import {
  decodeUtf8,
  folders,
  makeFolder,
  readIfThere,
  remove,
  removeFolder,
  writeWhole
} from "#src/cli/terminal/Folders.ts"
import * as Shape from "#src/cli/terminal/Shape.ts"

const format = "ampoule offline v1"
const magic = Buffer.from(`${format}\n`)
const saltLength = 16
const nonceLength = 12
const tagLength = 16
const what = "the offline cache"

/** Identity of an entry, which cannot be opened for another one. */
export interface Location {
  readonly url: string
  readonly credential: Redacted.Redacted
  readonly projectId: string
  readonly environment: string
  /** Patterns of the only keys that the copy has; empty: all. */
  readonly only: ReadonlyArray<string>
}

export interface OfflineCopy {
  readonly savedAt: number
  readonly values: Readonly<Record<string, string>>
}
const decodeCopy = Shape.json(Shape.struct({ savedAt: Shape.number, values: Shape.record(Shape.string) }))

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
  Buffer.from(crypto().hkdfSync("sha256", Redacted.value(credential), salt, info, length))

const associated = ({ environment, only, projectId, url }: Location) =>
  fields(format, url, projectId, environment, ...only.toSorted())

const folder = () => join(folders().cache, "offline")

const nameOf = (location: Location, length: number): string =>
  derive(location.credential, Buffer.alloc(0), Buffer.concat([fields("name"), associated(location)]), length).toString(
    "base64url"
  )

/** One-way: the name reveals neither project nor environment nor credential. Copies of an environment begin alike. */
const fileOf = (location: Location): string => {
  const whole = nameOf({ ...location, only: [] }, 18)
  return join(folder(), location.only.length === 0 ? whole : `${whole}.${nameOf(location, 9)}`)
}

export const seal = (location: Location, copy: OfflineCopy, salt: Buffer, nonce: Buffer): Buffer => {
  const cipher = crypto().createCipheriv(
    "aes-256-gcm",
    derive(location.credential, salt, fields("key", format), 32),
    nonce
  )
  cipher.setAAD(associated(location))
  const text = Buffer.from(JSON.stringify(copy))
  return Buffer.concat([magic, salt, nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()])
}

const decipher = Option.liftThrowable((location: Location, bytes: Buffer): Buffer => {
  const salt = bytes.subarray(magic.length, magic.length + saltLength)
  const nonce = bytes.subarray(magic.length + saltLength, magic.length + saltLength + nonceLength)
  const opened = crypto().createDecipheriv(
    "aes-256-gcm",
    derive(location.credential, salt, fields("key", format), 32),
    nonce,
    {
      authTagLength: tagLength
    }
  )
  opened.setAAD(associated(location))
  opened.setAuthTag(bytes.subarray(bytes.length - tagLength))
  const text = bytes.subarray(magic.length + saltLength + nonceLength, bytes.length - tagLength)
  return Buffer.concat([opened.update(text), opened.final()])
})

/** None, except for an unaltered entry of this location. */
export const unseal = (location: Location, bytes: Buffer): Option.Option<OfflineCopy> =>
  bytes.length < magic.length + saltLength + nonceLength + tagLength || !bytes.subarray(0, magic.length).equals(magic)
    ? Option.none()
    : decipher(location, bytes).pipe(Option.flatMap(decodeUtf8), Option.flatMap(decodeCopy))

export const store = Effect.fnUntraced(function* (location: Location, values: Readonly<Record<string, string>>) {
  const savedAt = yield* Clock.currentTimeMillis
  const file = fileOf(location)
  yield* makeFolder(dirname(file), what)
  const sealed = seal(
    location,
    { savedAt, values },
    crypto().randomBytes(saltLength),
    crypto().randomBytes(nonceLength)
  )
  yield* writeWhole(file, sealed, what)
})

const copyNames = (): ReadonlyArray<string> => {
  try {
    return readdirSync(folder())
  } catch {
    return []
  }
}

/** Removes every copy of the environment, whatever keys it has: the right to all of them has ended. */
export const drop = (location: Location) =>
  Effect.suspend(() => {
    const whole = nameOf({ ...location, only: [] }, 18)
    const names = copyNames().filter((name) => name === whole || name.startsWith(`${whole}.`))
    return Effect.forEach(names, (name) => remove(join(folder(), name)), { discard: true })
  })

/** Allowed difference of clocks. An entry from further in the future is of another clock, so its age is unknown. */
const tolerance = Duration.toMillis("5 minutes")

interface DatedCopy extends OfflineCopy {
  readonly ageMillis: number
}

/** None when the entry is too old, from the future or damaged, which also deletes it. */
export const find = Effect.fnUntraced(function* (location: Location, longest: Duration.Duration) {
  const file = fileOf(location)
  const bytes = yield* readIfThere(file, what)
  if (Option.isNone(bytes)) return Option.none<DatedCopy>()
  const now = yield* Clock.currentTimeMillis
  const fresh = Option.filterMap(unseal(location, bytes.value), (copy): Option.Option<DatedCopy> => {
    const ageMillis = now - copy.savedAt
    return ageMillis > Duration.toMillis(longest) || ageMillis < -tolerance
      ? Option.none()
      : Option.some({ ...copy, ageMillis: Math.max(0, ageMillis) })
  })
  if (Option.isNone(fresh)) yield* remove(file)
  return fresh
})

/** Deletes the entries of all servers, at logout. */
export const dropAll = Effect.suspend(() => removeFolder(join(folders().cache, "offline")))
