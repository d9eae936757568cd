/** Writes a file's remarks about its secrets as their metadata, once they exist. */
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

interface Metadata {
  readonly note?: string
  readonly alias?: string
}

/**
 * Comments as notes and names of the file as aliases, where a secret has none: what a person wrote stays. The number of
 * secrets that got one.
 */
export const writeNotes = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  meanings: ReadonlyArray<Meaning>
) {
  const byKey = new Map(
    meanings.flatMap(({ alias, key, note }) =>
      note === undefined && alias === undefined ? [] : [[key, { alias, note }] as const]
    )
  )
  if (byKey.size === 0) return 0
  const client = yield* secretsClient(session)
  const changes = (yield* listAll(session, location)).flatMap((item) => {
    const { alias, note } = byKey.get(item.key) ?? {}
    const metadata: Metadata = {
      ...(note === undefined || item.note !== null ? {} : { note: lineOf(note) }),
      ...(alias === undefined || item.alias !== null ? {} : { alias })
    }
    return Object.keys(metadata).length === 0 ? [] : [{ id: item.id, key: item.key, metadata }]
  })
  const results = yield* Effect.forEach(
    changes,
    Effect.fnUntraced(function* ({ id, key, metadata }) {
      const payload = decode(metadata)
      if (Option.isNone(payload)) return `${plain(key)}: the name or comment of the file is none that a secret can have`
      const path = { secretId: yield* idOf(session, id) }
      const result = yield* Effect.either(call(session, client.describe({ path, payload: payload.value })))
      return result._tag === "Left" ? `${plain(key)}: ${describe(result.left).message}` : undefined
    }),
    { concurrency: atOnce }
  )
  const problems = results.filter((problem) => problem !== undefined)
  if (problems.length > 0) {
    yield* warn(`the values are written, but names or comments of ${problems.length} secrets are not. ${problems[0]}`)
  }
  return changes.length - problems.length
})
