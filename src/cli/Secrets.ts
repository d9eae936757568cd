/** `ampoule secrets …`: one command per route, values only where they are asked for. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { call } from "./Client.ts"
import { exportCommand, importCommand } from "./Files.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { json, note, out, table, value } from "./Output.ts"
import { listAll, parseKey, within } from "./Reach.ts"
import { secrets as secretsClient } from "./Routes.ts"
import { keyArgument, options } from "./SecretOptions.ts"
import { deleted, diff, history, restore, rollback } from "./SecretVersions.ts"
import { set, unset } from "./SecretWrites.ts"

const list = Help.command(
  "list",
  {
    says: "List keys and metadata; never a value.",
    examples: ["ampoule secrets list --project shop --env development", "ampoule secrets list --json"]
  },
  { ...options, json: Shared.json },
  (options) =>
    within(
      options,
      Effect.fnUntraced(function* ({ session, ...place }) {
        const items = yield* listAll(session, place)
        if (options.json) return yield* json(items)
        if (items.length === 0) return yield* note("No secrets.")
        yield* out(
          table(
            ["KEY", "KIND", "VERSION", "UPDATED", "BY"],
            items.map((item) => [
              item.key,
              item.references.length === 0 ? item.kind : `${item.kind} (${item.references.join(", ")})`,
              String(item.version),
              item.updatedAt,
              item.updatedBy.name ?? item.updatedBy.type
            ])
          )
        )
      })
    )
)

const get = Help.command(
  "get",
  {
    says: "Print one value; without a line end when standard output is not a terminal.",
    more: [
      "Prefer `ampoule run`: a value that is printed is easily kept by a shell, a log or a clipboard.",
      "On a terminal, control characters are made visible. A file or a pipe gets the value as it is."
    ],
    examples: ["ampoule secrets get DATABASE_URL", 'psql "$(ampoule secrets get DATABASE_URL)"']
  },
  {
    ...options,
    json: Shared.json,
    source: Options.boolean("source").pipe(Options.withDescription("The text as written, references not expanded")),
    raw: Options.boolean("raw").pipe(
      Options.withDescription("On a terminal too, print control characters as they are")
    ),
    key: keyArgument
  },
  (options) =>
    within(
      options,
      Effect.fnUntraced(function* ({ environment, projectId, session }) {
        const key = yield* parseKey(options.key)
        const client = yield* secretsClient(session)
        const secret = yield* call(
          session,
          client.readValue({
            urlParams: { projectId, environment, key, ...(options.source ? { representation: "source" as const } : {}) }
          })
        )
        if (options.json) return yield* json(secret)
        yield* value(secret.value, options)
      })
    )
)

const below = [list, get, set, unset, importCommand, exportCommand, diff, history, rollback, deleted, restore] as const
export const secrets = Help.described(
  Command.make("secrets").pipe(Command.withSubcommands(below)),
  { says: "Read and write the secrets of an environment." },
  below,
  true
)
