/** `ampoule secrets …`: one command per route. Only `get` and `export` print values. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import type { SecretListItem } from "#schema/SecretResponses.ts"
import { exportCommand } from "./Export.ts"
import { importCommand } from "./Import.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { list as printList } from "#src/cli/terminal/Output.ts"
import { type EnvironmentOptions, listAll, onEnvironment } from "#src/cli/connection/Reach.ts"
import { copy } from "./Copies.ts"
import { edit } from "./Edit.ts"
import { columns, readList } from "./List.ts"
import { readValue } from "./Value.ts"
import { restoreAt } from "./RestoreAt.ts"
import { rename } from "./Rename.ts"
import { note, notes } from "./Notes.ts"
import { deleted, diff, history, restore, rollback } from "./Versions.ts"
import { set, unset } from "./Writes.ts"

const lastRead = ({ lastRead: read, notReadFor90Days }: SecretListItem): string => {
  const last = read === null || read === undefined ? "never" : `${read.at} by ${read.holder.name}`
  return notReadFor90Days === true ? `${last} (not for 90 days)` : last
}

const listWithReads = onEnvironment(
  Effect.fnUntraced(function* ({ session, ...place }, options: EnvironmentOptions & { readonly json: boolean }) {
    const items = yield* listAll(session, place, { lastRead: "true" })
    yield* printList(options, items, "No secrets.", [...columns, ["LAST READ", lastRead]])
  })
)

export const listOptions = {
  ...Shared.inEnvironment,
  json: Shared.json,
  lastRead: Shared.flag("last-read", "Also show the time and the reader of the last read; for owners and admins")
} as const

const list = Help.command(
  "list",
  {
    says: "List keys and metadata, never values.",
    examples: [
      "ampoule secrets list --project shop --env development",
      "ampoule secrets list --last-read",
      "ampoule secrets list --json"
    ]
  },
  listOptions,
  (options) => (options.lastRead ? listWithReads(options) : readList(options))
)

export const getOptions = {
  ...Shared.inEnvironment,
  json: Shared.json,
  source: Shared.flag("source", "Print the text with unexpanded references"),
  raw: Shared.flag("raw", "Print control characters unchanged, even on a terminal"),
  key: Shared.keyArgument
} as const

const get = Help.command(
  "get",
  {
    says: "Print one value, without a line end if standard output is not a terminal.",
    more: [
      "Prefer `ampoule run`: a printed value easily ends up in a shell history, a log or a clipboard.",
      "On a terminal, control characters are made visible. A file or a pipe receives the value unchanged."
    ],
    examples: ["ampoule secrets get DATABASE_URL", 'psql "$(ampoule secrets get DATABASE_URL)"']
  },
  getOptions,
  readValue
)

const commands = [
  list,
  get,
  set,
  edit,
  copy,
  unset,
  rename,
  note,
  notes,
  importCommand,
  exportCommand,
  diff,
  history,
  rollback,
  deleted,
  restore,
  restoreAt
] as const
export const secrets = Help.described(
  Command.make("secrets").pipe(Command.withSubcommands(commands)),
  { says: "Read and write the secrets of an environment." },
  commands,
  true
)
