/**
 * `amp_<kind>_<id>_<secret><crc>`: text of every bearer credential (docs/contract/credentials.md), and the columns that
 * verify it later.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { crc32 } from "node:zlib"
import type { RowMac } from "#src/rows/RowMac.ts"
import type { RowSeal } from "#src/rows/RowSeal.ts"
import type { Crypto } from "#src/crypto/Crypto.ts"

/**
 * at API token, cg CLI grant, dc device code, oa / or / oc OAuth access / refresh / code, ss session, su setup, iv
 * invitation, pr password reset.
 */
export const kinds = ["at", "cg", "dc", "oa", "or", "oc", "ss", "su", "iv", "pr"] as const
export type TokenKind = (typeof kinds)[number]

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const idLength = 16
const secretLength = 43
const crcLength = 6

/** For secret scanners; published in the README. */
export const pattern = /^amp_(at|cg|dc|oa|or|oc|ss|su|iv|pr)_([0-9A-Za-z]{16})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/

export interface TokenText {
  readonly kind: TokenKind
  /** For the look-up only; proves nothing. */
  readonly id: string
  readonly secret: string
}

const base62 = (value: bigint, length: number): string => {
  let text = ""
  for (let i = 0, rest = value; i < length; i++, rest /= 62n) text = alphabet[Number(rest % 62n)] + text
  return text
}
const checksum = (text: string): string => base62(BigInt(crc32(text)), crcLength)

/** `idBytes`: at least 12 random bytes; `secretBytes`: 32 random bytes (256 bits). */
export const make = (kind: TokenKind, idBytes: Uint8Array, secretBytes: Uint8Array): TokenText => ({
  kind,
  id: base62(BigInt("0x" + Buffer.from(idBytes).toString("hex")), idLength),
  secret: base62(BigInt("0x" + Buffer.from(secretBytes).toString("hex")), secretLength)
})

export const print = ({ id, kind, secret }: TokenText): string => {
  const text = `amp_${kind}_${id}_${secret}`
  return text + checksum(text)
}

/** Undefined for any text that `print` did not make; the checksum saves a look-up for garbage. */
export const parse = (text: string): TokenText | undefined => {
  const match = pattern.exec(text)
  if (match === null) return undefined
  const kind = kinds.find((k) => k === match[1])
  if (kind === undefined || checksum(text.slice(0, -crcLength)) !== match[4]) return undefined
  return { kind, id: match[2], secret: match[3] }
}

/**
 * Kinds with their own pepper: those of token texts, and four more. `kd`: known device. `sf`: sign-in between its
 * steps. `rc`: recovery code. `pc`: browser of a passkey's challenge.
 */
type Peppers = Pick<RowMac, "pepper" | "isPeppered">
export type HashKind = TokenKind | "kd" | "sf" | "rc" | "pc"

/**
 * SHA-256(salt || secret), with the servers' pepper. A plain hash suffices for 256 random bits; the pepper stops a
 * writer of the database from making one.
 */
export const hash = (peppers: Peppers, kind: HashKind, salt: Uint8Array, secret: string): Buffer =>
  peppers.pepper(kind, digest(salt, secret))

const digest = (salt: Uint8Array, secret: string): Buffer => createHash("sha256").update(salt).update(secret).digest()

const dummySalt = Buffer.alloc(16)

/** Columns that verify a presented secret. */
export const ProofRow = Schema.Struct({ salt: Schema.Uint8ArrayFromSelf, hash: Schema.Uint8ArrayFromSelf })

/** Constant-time; an unknown row costs the same as a wrong secret. */
export const verify = <Row extends typeof ProofRow.Type>(
  peppers: Peppers,
  kind: HashKind,
  row: Row | undefined,
  secret: string
): row is Row => peppers.isPeppered(kind, digest(row?.salt ?? dummySalt, secret), row?.hash)

/** The row that a text of this kind proves, or undefined. `find` looks it up by the text's id. */
export const prove = <Row extends typeof ProofRow.Type, E, R>(
  { rowSeal }: { readonly rowSeal: Pick<RowSeal, "ready"> },
  kind: TokenKind,
  text: string | Redacted.Redacted | null,
  find: (lookupId: string) => Effect.Effect<Row | undefined, E, R>
) => {
  const token = text === null ? undefined : parse(typeof text === "string" ? text : Redacted.value(text))
  return token?.kind === kind
    ? Effect.zipWith(rowSeal.ready, find(token.id), (macs, row) =>
        verify(macs, kind, row, token.secret) ? row : undefined
      )
    : Effect.succeed(undefined)
}

/**
 * A new credential. `text` goes to its holder once and is never stored. `proof` has the columns of the kind's table:
 * `lookup_id`, `salt` (16 bytes), `hash` (32 bytes).
 */
export const issue = Effect.fnUntraced(function* (
  {
    crypto,
    rowSeal
  }: {
    readonly crypto: Pick<Crypto, "credentialSecret" | "lookupId" | "randomBytes">
    readonly rowSeal: Pick<RowSeal, "ready">
  },
  kind: TokenKind
) {
  const id = yield* crypto.lookupId
  const secret = Redacted.value(yield* crypto.credentialSecret)
  const salt = yield* crypto.randomBytes(16)
  return {
    text: Redacted.make(print({ kind, id, secret })),
    proof: { lookupId: id, salt, hash: hash(yield* rowSeal.ready, kind, salt, secret) }
  }
})
