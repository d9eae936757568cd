/**
 * Rules of an address that a new account takes: one spelling, one script in each label, and no look-alike of an existing
 * account. Accounts of before keep their addresses.
 */
import type * as SqlClient from "@effect/sql/SqlClient"
import * as Effect from "effect/Effect"
import { ValidationFailed } from "#schema/Errors.ts"
import * as Rows from "#src/database/Rows.ts"

/** Cyrillic and Greek letters, and the Latin letters that look the same. `migrations/0054` indexes by them. */
export const lookAlikes = {
  letters: "аеорсухіјѕһԁԛԝвкмнтοανρυικτχ",
  latin: "aeopcyxijshdqwbkmhtoavpuiktx"
} as const

const latinOf: ReadonlyMap<string, string> = new Map(
  Array.from(lookAlikes.letters, (letter, i) => [letter, lookAlikes.latin[i] ?? letter])
)

/** The address with each look-alike letter replaced by its Latin one. */
export const skeletonOf = (email: string): string =>
  Array.from(email, (letter) => latinOf.get(letter) ?? letter).join("")

/** Chinese, Japanese and Korean are written in several of these scripts at once. */
const scripts: ReadonlyArray<RegExp> = [
  /\p{Script=Latin}/u,
  /\p{Script=Cyrillic}/u,
  /\p{Script=Greek}/u,
  /\p{Script=Armenian}/u,
  /\p{Script=Hebrew}/u,
  /\p{Script=Arabic}/u,
  /\p{Script=Devanagari}/u,
  /\p{Script=Thai}/u,
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u
]
/** Number of scripts; letters of all others count as one. */
const scriptsIn = (label: string): number => {
  const letters = label.match(/\p{L}/gu) ?? []
  const isOther = (letter: string) => !scripts.some((script) => script.test(letter))
  return (
    scripts.filter((script) => letters.some((letter) => script.test(letter))).length + (letters.some(isOther) ? 1 : 0)
  )
}

/** Whether the address has one spelling (NFKC), and letters of one script in each label. */
export const isPlain = (email: string): boolean =>
  email === email.normalize("NFKC").toLowerCase() && email.split(/[@.]/).every((label) => scriptsIn(label) <= 1)

const refused = () =>
  new ValidationFailed({
    field: "email",
    message:
      "This address cannot have a new account: it mixes letters of several scripts, or looks like the address of an account."
  })

/**
 * Part of the caller's transaction, before the account takes the address. VALIDATION_FAILED. A provisional look-alike
 * refuses neither an address that a witness vouches for nor one in Latin letters, so it blocks no address.
 */
export const check = Effect.fnUntraced(function* (
  { sql }: { readonly sql: SqlClient.SqlClient },
  email: string,
  isVouched: boolean
) {
  if (!isPlain(email)) return yield* refused()
  const skeleton = skeletonOf(email)
  const counts = isVouched || email === skeleton ? sql`vouched_by IS DISTINCT FROM 'none'` : sql`true`
  const isTaken = yield* Rows.exists(sql`
    SELECT 1 FROM users
    WHERE translate(split_part(email, ' ', 1), ${sql.literal(`'${lookAlikes.letters}', '${lookAlikes.latin}'`)}) = ${skeleton}
      AND split_part(email, ' ', 1) <> ${email} AND ${counts} LIMIT 1`)
  if (isTaken) return yield* refused()
})
