/**
 * Signed notes (C2SP signed-note): a text, an empty line, and Ed25519 signatures over the text.
 *
 *   text, ending in a newline
 *   (empty line)
 *   — <key name> <base64 of: 4 bytes of key hash, 64 bytes of signature>
 */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import { createHash, createPublicKey, type KeyObject, verify } from "node:crypto"

/** The format's algorithm byte for Ed25519. */
const ed25519 = 1

export interface NoteKey {
  readonly name: string
  /** First 4 bytes of SHA-256(name, newline, algorithm, public key). */
  readonly hash: Buffer
  readonly publicKey: KeyObject
  readonly raw: Buffer
}

const keyHash = (name: string, publicKey: Uint8Array) =>
  createHash("sha256").update(`${name}\n`).update(Uint8Array.of(ed25519)).update(publicKey).digest().subarray(0, 4)

/** SubjectPublicKeyInfo of an Ed25519 key up to its 32 bytes (RFC 8410 4). */
const spkiPrefix = Buffer.from("302a300506032b6570032100", "hex")

/** `publicKey`: 32 raw bytes. */
export const noteKey = (name: string, publicKey: Uint8Array): NoteKey => ({
  name,
  hash: keyHash(name, publicKey),
  publicKey: createPublicKey({ key: Buffer.concat([spkiPrefix, publicKey]), format: "der", type: "spki" }),
  raw: Buffer.from(publicKey)
})

/** The verifier key in the form of C2SP: `<name>+<8 hex digits>+<base64>`. */
export const printKey = ({ hash, name, raw }: NoteKey): string =>
  `${name}+${hash.toString("hex")}+${Buffer.concat([Uint8Array.of(ed25519), raw]).toString("base64")}`

export const parseKey = (text: string): Option.Option<NoteKey> => {
  const match = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})$/.exec(text.trim())
  if (match === null) return Option.none()
  const [, name, hash, key] = match
  const bytes = Buffer.from(key, "base64")
  if (bytes.length !== 33 || bytes[0] !== ed25519) return Option.none()
  const parsed = Option.liftThrowable(noteKey)(name, bytes.subarray(1))
  return Option.filter(parsed, (parsed) => parsed.hash.toString("hex") === hash)
}

/** `text` ends in a newline and contains no empty line. */
export const print = (text: string, key: NoteKey, signature: Uint8Array): string =>
  `${text}\n— ${key.name} ${Buffer.concat([key.hash, signature]).toString("base64")}\n`

export type Refusal = "is no signed note" | "is signed by a key that is not known" | "has a wrong signature"

const signatureLine = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/

/** The text of a note with at least one signature by a known key, and no wrong signature by a known key. */
export const open = (note: string, keys: ReadonlyArray<NoteKey>): Either.Either<string, Refusal> => {
  const cut = note.indexOf("\n\n")
  if (cut < 0) return Either.left("is no signed note")
  const text = note.slice(0, cut + 1)
  const lines = note
    .slice(cut + 2)
    .split("\n")
    .filter((line) => line !== "")
  let isSigned = false
  for (const line of lines) {
    const match = signatureLine.exec(line)
    if (match === null) return Either.left("is no signed note")
    const bytes = Buffer.from(match[2], "base64")
    // Rejects spare bits in the last character: each signature has one spelling.
    if (bytes.toString("base64") !== match[2]) return Either.left("is no signed note")
    const key = keys.find((key) => key.name === match[1] && key.hash.equals(bytes.subarray(0, 4)))
    if (key === undefined) continue
    if (bytes.length !== 68 || !verify(null, Buffer.from(text), key.publicKey, bytes.subarray(4))) {
      return Either.left("has a wrong signature")
    }
    isSigned = true
  }
  if (isSigned) return Either.right(text)
  return Either.left(lines.length === 0 ? "is no signed note" : "is signed by a key that is not known")
}
