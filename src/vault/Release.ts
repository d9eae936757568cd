/**
 * A word from where the database is to where the root keys are: no row needs this key any more. A signed note
 * (src/audit/SignedNote.ts) by the vault that the server asks, which shows that it is about this vault's keys:
 *
 *   ampoule.vault/release
 *   <id of the root key>
 *   at <time>
 *
 * It keeps operators from mistakes, not the key from who holds the vault's token: they can have any text signed. Who
 * destroys a key needs the vault's own machine all the same.
 */
import * as Either from "effect/Either"
import * as SignedNote from "#src/audit/SignedNote.ts"

const origin = "ampoule.vault/release"

/** Milliseconds. What was restored since could name the key again. */
export const validMillis = 3_600_000
/** Clocks of two machines. */
const leewayMillis = 300_000

export const text = (rootKeyId: string, at: number): string =>
  `${origin}\n${rootKeyId}\nat ${new Date(at).toISOString()}\n`

type Refusal = SignedNote.Refusal | "is no release" | "is about another root key" | "is too old" | "lies in the future"

/** `keys`: of the vault at hand. */
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
