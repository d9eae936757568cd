/** Values that another program has encrypted: taken as they stand, they would be stored as if they were the secret. */
import * as Either from "effect/Either"
import type { ParsedEntry, ParseFailure } from "./Entry.ts"
import { failure } from "./Entry.ts"

const reasonOf = ({ key, value }: ParsedEntry, hasPublicKey: boolean): string | undefined => {
  // dotenvx: ECIES on secp256k1, in base64; an uncompressed point makes the first letter a B.
  if (value.startsWith("encrypted:") && (hasPublicKey || /^encrypted:B[A-Za-z0-9+/]{80,}={0,2}$/.test(value))) {
    return "the value is encrypted by dotenvx: `dotenvx decrypt --stdout` prints the file decrypted"
  }
  if (/^DOTENV_VAULT_[A-Z0-9]+$/.test(key) && /^[A-Za-z0-9+/]{40,}={0,2}$/.test(value)) {
    return "the value is encrypted by dotenv-vault: decrypt the file first"
  }
  if (value.startsWith("ENC[AES256_GCM,data:")) {
    return "the value is encrypted by SOPS: `sops decrypt` prints the file decrypted"
  }
  if (/^sealed:v1:ek_[0-9a-f]{8}:/.test(value)) {
    return "the value is sealed: `ampoule unseal` opens the file, `ampoule run --sealed` runs with it"
  }
  return undefined
}

export const refuseCiphertext = (
  entries: ReadonlyArray<ParsedEntry>
): Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure> => {
  const hasPublicKey = entries.some(({ key }) => key.startsWith("DOTENV_PUBLIC_KEY"))
  for (const entry of entries) {
    const reason = reasonOf(entry, hasPublicKey)
    if (reason !== undefined) return failure(entry.line, reason)
  }
  return Either.right(entries)
}
