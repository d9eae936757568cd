/** What a file says about its secrets beside their values, written as their metadata once they exist. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { DescribeSecret } from "#schema/SecretRequests.ts"
import type { Meaning } from "#src/formats/Meaning.ts"
import { call, type Connection } from "#src/cli/connection/Client.ts"
import { idOf, listAll, type Location } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import { describe } from "#src/cli/terminal/Failure.ts"
import { plain, warn } from "#src/cli/terminal/Output.ts"

const longestNote = 1_000
const decode = Schema.decodeUnknownOption(DescribeSecret)
const atOnce = 4

/** A note is one line. */
const lineOf = (text: string): string => text.replace(/\s+/g, " ").trim().slice(0, longestNote)

/** Comments as notes, where a secret has none: a note that somebody wrote stays. The number that was written. */
export const writeNotes = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  meanings: ReadonlyArray<Meaning>
) {
  const notes = new Map(meanings.flatMap(({ key, note }) => (note === undefined ? [] : [[key, lineOf(note)] as const])))
  if (notes.size === 0) return 0
  const client = yield* secretsClient(session)
  const items = (yield* listAll(session, location)).filter(({ key, note }) => note === null && notes.has(key))
  const results = yield* Effect.forEach(
    items,
    Effect.fnUntraced(function* ({ id, key }) {
      const payload = decode({ note: notes.get(key) })
      if (Option.isNone(payload)) return `${plain(key)}: the comment is no text that a note can hold`
      const path = { secretId: yield* idOf(session, id) }
      const result = yield* Effect.either(call(session, client.describe({ path, payload: payload.value })))
      return result._tag === "Left" ? `${plain(key)}: ${describe(result.left).message}` : undefined
    }),
    { concurrency: atOnce }
  )
  const problems = results.filter((problem) => problem !== undefined)
  if (problems.length > 0) {
    yield* warn(`the values are written, but ${problems.length} of ${notes.size} comments are not. ${problems[0]}`)
  }
  return items.length - problems.length
})
