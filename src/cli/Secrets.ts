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

const list = Command.make("list", { ...options, json: Shared.json }, (options) =>
  within(options, ({ session, ...place }) =>
    Effect.gen(function* () {
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
).pipe(
  Command.withDescription(
    Shared.describe("List keys and metadata; never a value.", {
      examples: ["ampoule secrets list --project shop --env development", "ampoule secrets list --json"]
    })
  )
)

const get = Command.make(
  "get",
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
    within(options, ({ environment, projectId, session }) =>
      Effect.gen(function* () {
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
).pipe(
  Command.withDescription(
    Shared.describe("Print one value; without a line end when standard output is not a terminal.", {
      more: [
        "Prefer `ampoule run`: a value that is printed is easily kept by a shell, a log or a clipboard.",
        "On a terminal, control characters are made visible. A file or a pipe gets the value as it is."
      ],
      examples: ["ampoule secrets get DATABASE_URL", 'psql "$(ampoule secrets get DATABASE_URL)"']
    })
  )
)

export const secrets = Command.make("secrets").pipe(
  Command.withDescription("Read and write the secrets of an environment."),
  Command.withSubcommands([
    list,
    get,
    set,
    unset,
    importCommand,
    exportCommand,
    diff,
    history,
    rollback,
    deleted,
    restore
  ])
)
export const secretsHelp = Help.group(
  secrets,
  Help.node(list),
  Help.node(get),
  Help.node(set),
  Help.node(unset),
  Help.node(importCommand),
  Help.node(exportCommand),
  Help.node(diff),
  Help.node(history),
  Help.node(rollback),
  Help.node(deleted),
  Help.node(restore)
)
