/**
 * A file sealed to recipients.
 *
 *   "ampoule-backup v1\n"                      or "ampoule-root-key v1\n"
 *   {"salt":…,"recipients":[…]}\n               a file key, sealed by HPKE to each recipient (base64url)
 *   chunks                                      64 KiB each (the last: 0 to 64 KiB) and a tag of 16 bytes
 *
 * The key of the chunks is HKDF-SHA256 of the file key, the salt and a hash of the two lines, so a changed line prevents
 * opening. Chunks use AES-256-GCM. The nonce is a counter of 11 bytes and a byte that is 1 for the last chunk (the STREAM
 * construction). So moved, repeated or missing chunks are detected, and so is a truncated file.
 */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import { createCipheriv, createDecipheriv, createHash, hkdfSync } from "node:crypto"
import { Transform, type TransformCallback } from "node:stream"
import * as Hpke from "#src/sealed/Hpke.ts"

export type Kind = "ampoule-backup v1" | "ampoule-root-key v1"

const chunkLength = 65_536
const tagLength = 16
export const keyLength = 32
/** Bounds the reading of a file without a header. */
const maxHeader = 65_536

/** `message` is a fixed sentence of this program. */
export class SealedFileRefused extends Data.TaggedError("SealedFileRefused")<{ readonly message: string }> {}

const refuse = (message: string) => new SealedFileRefused({ message })

const chunkKey = (fileKey: Uint8Array, salt: Uint8Array, header: Uint8Array) =>
  Buffer.from(hkdfSync("sha256", fileKey, salt, createHash("sha256").update(header).digest(), keyLength))

const nonceOf = (counter: number, last: boolean) => {
  const nonce = Buffer.alloc(12)
  // Far below 2^48 chunks.
  nonce.writeUIntBE(counter, 5, 6)
  nonce[11] = last ? 1 : 0
  return nonce
}

/** The kind is authenticated, so that one kind cannot pass for the other. */
const contextOf = (kind: Kind) => Buffer.from(kind)

/** The two lines, and the key of the chunks. `fileKey` and `salt`: 32 fresh random bytes each. */
export const begin = Effect.fnUntraced(
  function* (kind: Kind, recipients: ReadonlyArray<Uint8Array>, fileKey: Uint8Array, salt: Uint8Array) {
    const sealed: Array<string> = []
    for (const recipient of recipients) {
      const key = yield* Hpke.importPublicKey(recipient)
      const box = yield* Hpke.seal(key, contextOf(kind), new Uint8Array(0), fileKey)
      sealed.push(Buffer.from(box).toString("base64url"))
    }
    const lines = { salt: Buffer.from(salt).toString("base64url"), recipients: sealed }
    const header = Buffer.from(`${kind}\n${JSON.stringify(lines)}\n`)
    return { header, key: chunkKey(fileKey, salt, header) }
  },
  Effect.catchTag("SealingKeyInvalid", () => refuse("A recipient is no key that can be sealed to."))
)

/** Transforms plaintext into chunks. The caller writes the header before. */
export class Sealing extends Transform {
  #held: Array<Buffer> = []
  #length = 0
  #counter = 0
  readonly #key: Buffer

  constructor(key: Buffer) {
    super()
    this.#key = key
  }

  #seal(chunk: Buffer, last: boolean) {
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonceOf(this.#counter++, last))
    this.push(Buffer.concat([cipher.update(chunk), cipher.final(), cipher.getAuthTag()]))
  }

  // Seals a chunk once more bytes follow, because only then is it known not to be the last.
  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback) {
    this.#held.push(bytes)
    this.#length += bytes.length
    if (this.#length > chunkLength) {
      const all = Buffer.concat(this.#held)
      let at = 0
      for (; all.length - at > chunkLength; at += chunkLength) this.#seal(all.subarray(at, at + chunkLength), false)
      this.#held = [all.subarray(at)]
      this.#length = all.length - at
    }
    done()
  }

  override _flush(done: TransformCallback) {
    this.#seal(Buffer.concat(this.#held), true)
    this.#key.fill(0)
    done()
  }
}

const openHeader = (header: Uint8Array, kind: Kind, pair: Hpke.KeyPair) =>
  Effect.gen(function* () {
    const [first, second = ""] = Buffer.from(header).toString("utf8").split("\n")
    if (first !== kind) {
      return yield* refuse(
        first === "ampoule-backup v1" || first === "ampoule-root-key v1"
          ? `This is an ${first.replace(" v1", "")} file; another one was asked for.`
          : "This is no backup of this version of Ampoule."
      )
    }
    const lines = yield* Effect.try({
      try: (): unknown => JSON.parse(second),
      catch: () => refuse("The beginning of the file is damaged.")
    })
    const { recipients, salt } =
      typeof lines === "object" && lines !== null && "recipients" in lines && "salt" in lines
        ? lines
        : { recipients: undefined, salt: undefined }
    if (!Array.isArray(recipients) || typeof salt !== "string") {
      return yield* refuse("The beginning of the file is damaged.")
    }
    const key = yield* Hpke.importOpeningKey(pair)
    for (const sealed of recipients.slice(0, 100)) {
      const fileKey = yield* Effect.option(
        Hpke.open(key, contextOf(kind), new Uint8Array(0), Buffer.from(String(sealed), "base64url"))
      )
      if (fileKey._tag === "Some") return chunkKey(fileKey.value, Buffer.from(salt, "base64url"), header)
    }
    return yield* refuse("This identity does not open the file: it was sealed for another recipient.")
  }).pipe(Effect.catchTag("SealingKeyInvalid", () => refuse("The identity is no key that can be used.")))

/** The two lines at the beginning, if `bytes` contains both. */
const headerOf = (bytes: Buffer): Buffer | undefined => {
  const first = bytes.indexOf(10)
  const second = first < 0 ? -1 : bytes.indexOf(10, first + 1)
  return second < 0 ? undefined : bytes.subarray(0, second + 1)
}

/** Transforms chunks into plaintext. Its output is authenticated, and it ends only after the last chunk. */
class Opening extends Transform {
  #held: Buffer = Buffer.alloc(0)
  #key: Buffer | undefined
  #counter = 0
  readonly #keyOf: (header: Buffer) => Promise<Buffer>

  constructor(keyOf: (header: Buffer) => Promise<Buffer>) {
    super()
    this.#keyOf = keyOf
  }

  #open(chunk: Buffer, last: boolean): boolean {
    const key = this.#key
    if (key === undefined || chunk.length < tagLength) return false
    const cipher = createDecipheriv("aes-256-gcm", key, nonceOf(this.#counter++, last), { authTagLength: tagLength })
    cipher.setAuthTag(chunk.subarray(chunk.length - tagLength))
    const text = cipher.update(chunk.subarray(0, chunk.length - tagLength))
    try {
      cipher.final()
    } catch {
      return false
    }
    this.push(text)
    return true
  }

  async #take(bytes: Buffer) {
    this.#held = Buffer.concat([this.#held, bytes])
    if (this.#key === undefined) {
      const header = headerOf(this.#held)
      if (header === undefined) {
        if (this.#held.length > maxHeader) throw refuse("This is no backup of this version of Ampoule.")
        return
      }
      this.#key = await this.#keyOf(header)
      this.#held = this.#held.subarray(header.length)
    }
    const whole = chunkLength + tagLength
    let at = 0
    for (; this.#held.length - at > whole; at += whole) {
      if (!this.#open(this.#held.subarray(at, at + whole), false)) {
        throw refuse("The file is damaged: a part of it was altered, moved or left out.")
      }
    }
    if (at > 0) this.#held = Buffer.from(this.#held.subarray(at))
  }

  override _transform(bytes: Buffer, _encoding: BufferEncoding, done: TransformCallback) {
    this.#take(bytes).then(
      () => done(),
      (error: Error) => done(error)
    )
  }

  override _flush(done: TransformCallback) {
    if (this.#key === undefined) return done(refuse("This is no backup of this version of Ampoule."))
    if (!this.#open(this.#held, true)) {
      return done(refuse("The file is damaged: it ends too early, or its end was altered."))
    }
    this.#key.fill(0)
    done()
  }
}

export const opening = (kind: Kind, identity: Redacted.Redacted<Uint8Array>): Opening =>
  new Opening((header) =>
    Effect.runPromise(
      Effect.flatMap(
        Effect.mapError(Hpke.publicKeyOf(identity), () => refuse("The identity is no key that can be used.")),
        (publicKey) => openHeader(header, kind, { publicKey, privateKey: identity })
      ).pipe(Effect.either)
    ).then((result) => {
      if (result._tag === "Left") throw result.left
      return result.right
    })
  )
