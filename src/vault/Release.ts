/**
 * A message from the database's side to the holder of the root keys: no row needs this key any more. It is a note
 * (src/audit/SignedNote.ts) signed by the server's vault, which shows that it concerns this vault's keys:
 *
 *   ampoule.vault/release
 *   <id of the root key>
 *   at <time>
 *
 * It prevents mistakes of operators, not attacks: a holder of the vault's token can have any text signed. Destroying a
 * key also requires the vault's own machine.
 */
import * as Either from "effect/Either"
import * as SignedNote from "#src/audit/SignedNote.ts"

const origin = "ampoule.vault/release"

/** Milliseconds. A database restored later could need the key again. */
export const validMillis = 3_600_000
/** Milliseconds: allows for the clocks of two machines. */
const leewayMillis = 300_000

export const text = (rootKeyId: string, at: number): string =>
  `${origin}\n${rootKeyId}\nat ${new Date(at).toISOString()}\n`

type Refusal = SignedNote.Refusal | "is no release" | "is about another root key" | "is too old" | "lies in the future"

/** `keys` are those of the local vault. */
export const check = (
  note: string,
  keys: ReadonlyArray<SignedNote.NoteKey>,
  rootKeyId: string,
  now: number
): Either.Either<void, Refusal> =>
  Either.flatMap(SignedNote.open(note, keys), (opened): Either.Either<void, Refusal> => {
    const [first, id, time = "", ...rest] = opened.trimEnd().split("\n")
    const at = Date.parse(time.replace(/^at /, ""))
    if (first !== origin || Number.isNaN(at) || rest.length > 0) return Either.left("is no release")
    if (id !== rootKeyId) return Either.left("is about another root key")
    if (at < now - validMillis) return Either.left("is too old")
    return at > now + leewayMillis ? Either.left("lies in the future") : Either.right(undefined)
  })
