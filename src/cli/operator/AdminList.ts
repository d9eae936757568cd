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

interface ListOf<Row, E> {
  readonly noun: string
  readonly read: (programs: AdminPrograms, query: ListQuery) => Effect.Effect<ReadonlyArray<Row>, E>
  readonly recordOf: (row: Row) => object
  readonly columns: Columns<Row>
}

/** `searched`: the text that `--search` is compared with. */
export const listOptions = (noun: string, searched: string) => ({
  search: Options.optional(Shared.text("search", "text", `Only ${noun} whose ${searched} contains this text`)),
  limit: Options.integer("limit").pipe(
    Options.withDescription(`Maximum number of ${noun} to list (1 to ${maxListed}, default 100)`),
    Options.withDefault(100)
  ),
  json: Shared.json
})

export const list = Effect.fnUntraced(function* <Row, E>(
  options: { readonly search: Option.Option<string>; readonly limit: number; readonly json: boolean },
  { columns, noun, read, recordOf }: ListOf<Row, E>
) {
  const { limit } = options
  if (limit < 1 || limit > maxListed) return yield* usage(`--limit takes a number from 1 to ${maxListed}.`)
  // One extra row shows whether the list continues.
  const query = { search: Option.getOrElse(options.search, () => ""), limit: limit + 1 }
  const rows = yield* read(yield* adminPrograms, query)
  const items = rows.slice(0, limit)
  const hasMore = rows.length > limit
  if (options.json) return yield* json({ items: items.map(recordOf), hasMore })
  yield* table(items, columns)
  if (hasMore) yield* note(`There are more ${noun}: use --search, or a larger --limit.`)
})

export const listCommand = <const Name extends string, Row, E>({
  examples,
  name,
  says,
  searched,
  ...rows
}: ListOf<Row, E> & {
  readonly name: Name
  readonly says: string
  readonly examples: ReadonlyArray<string>
  readonly searched: string
}) =>
  Help.command(name, { says, more: [where], examples }, listOptions(rows.noun, searched), (options) =>
    list(options, rows)
  )
