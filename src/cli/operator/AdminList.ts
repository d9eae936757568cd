/** Lists of `ampoule admin`: accounts and teams. */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Help from "#src/cli/help/Help.ts"
import { usage } from "#src/cli/terminal/Failure.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { type Columns, json, note, table } from "#src/cli/terminal/Output.ts"
import { type AdminPrograms, adminPrograms, type ListQuery } from "./ServerSide.ts"

const maxListed = 1_000

/** Paragraph that every page of `ampoule admin` ends with. */
export const where =
  "Run it on the server's machine, with the server's settings. With the embedded database, stop the server first. The audit trail names the system as its author."

export const listCommand = <const Name extends string, Row, E>(list: {
  readonly name: Name
  readonly says: string
  readonly examples: ReadonlyArray<string>
  readonly noun: string
  /** The text that `--search` is compared with. */
  readonly searched: string
  readonly read: (programs: AdminPrograms, query: ListQuery) => Effect.Effect<ReadonlyArray<Row>, E>
  readonly recordOf: (row: Row) => object
  readonly columns: Columns<Row>
}) =>
  Help.command(
    list.name,
    { says: list.says, more: [where], examples: list.examples },
    {
      search: Options.optional(
        Shared.text("search", "text", `Only ${list.noun} whose ${list.searched} contains this text`)
      ),
      limit: Options.integer("limit").pipe(
        Options.withDescription(`Maximum number of ${list.noun} to list (1 to ${maxListed}, default 100)`),
        Options.withDefault(100)
      ),
      json: Shared.json
    },
    Effect.fnUntraced(function* (options) {
      const { limit } = options
      if (limit < 1 || limit > maxListed) return yield* usage(`--limit takes a number from 1 to ${maxListed}.`)
      // One extra row shows whether the list continues.
      const query = { search: Option.getOrElse(options.search, () => ""), limit: limit + 1 }
      const rows = yield* list.read(yield* adminPrograms, query)
      const items = rows.slice(0, limit)
      const hasMore = rows.length > limit
      if (options.json) return yield* json({ items: items.map(list.recordOf), hasMore })
      yield* table(items, list.columns)
      if (hasMore) yield* note(`There are more ${list.noun}: use --search, or a larger --limit.`)
    })
  )
