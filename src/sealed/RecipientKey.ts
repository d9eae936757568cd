/**
 * Keys of backups as text: `ampoule-recipient-…` may be known to all and seals, `AMPOULE-IDENTITY-…` opens and is kept
 * offline. base64url of the 32 bytes of X25519 and 4 bytes of checksum, so that a mistyped recipient is noticed before
 * a backup is sealed to a key that does not exist.
 */
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { createHash } from "node:crypto"
import * as Hpke from "./Hpke.ts"

const publicPrefix = "ampoule-recipient-"
const privatePrefix = "AMPOULE-IDENTITY-"

const checksum = (prefix: string, bytes: Uint8Array) =>
  createHash("sha256").update(prefix).update(bytes).digest().subarray(0, 4)

const print = (prefix: string, bytes: Uint8Array): string =>
  prefix + Buffer.concat([bytes, checksum(prefix, bytes)]).toString("base64url")

const parse = (prefix: string, text: string): Option.Option<Buffer> => {
  if (!text.startsWith(prefix)) return Option.none()
  const all = Buffer.from(text.slice(prefix.length), "base64url")
  const bytes = all.subarray(0, Hpke.keyLength)
  return all.length === Hpke.keyLength + 4 && print(prefix, bytes) === text ? Option.some(bytes) : Option.none()
}

export const printRecipient = (publicKey: Uint8Array): string => print(publicPrefix, publicKey)
export const parseRecipient = (text: string): Option.Option<Uint8Array> => parse(publicPrefix, text.trim())

/** The file that `ampoule backup keygen` writes. */
export const printIdentity = (pair: Hpke.KeyPair): Redacted.Redacted<string> =>
  Redacted.make(
    [
      "# Opens Ampoule backups. Keep it away from the server, and keep a copy: without it they cannot be opened.",
      `# Recipient: ${printRecipient(pair.publicKey)}`,
      print(privatePrefix, Redacted.value(pair.privateKey)),
      ""
    ].join("\n")
  )

/** Of a file's text: the first line that is neither empty nor a comment. */
export const parseIdentity = (file: Redacted.Redacted<string>): Option.Option<Redacted.Redacted<Uint8Array>> => {
  const line = Redacted.value(file)
    .split("\n")
    .map((line) => line.trim())
    .find((line) => line !== "" && !line.startsWith("#"))
  return Option.map(parse(privatePrefix, line ?? ""), (bytes) => Redacted.make<Uint8Array>(bytes))
}
