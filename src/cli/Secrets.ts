/** `ampoule secrets …`: one command per route, values only where they are asked for. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { call } from "./Client.ts"
import { exportCommand, importCommand } from "./Files.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { json, list as printList, value } from "./Output.ts"
import { listAll, namingKey, parseKey, onEnvironment } from "./Reach.ts"
import { secrets as secretsClient } from "./Routes.ts"
import { copy } from "./SecretCopies.ts"
import { edit } from "./SecretEdit.ts"
import { deleted, diff, history, restore, rollback } from "./SecretVersions.ts"
import { set, unset } from "./SecretWrites.ts"

const list = Help.command(
  "list",
  {
    says: "List keys and metadata; never a value.",
    examples: ["ampoule secrets list --project shop --env development", "ampoule secrets list --json"]
  },
  { ...Shared.inEnvironment, json: Shared.json },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...place }, options) {
      const items = yield* listAll(session, place)
      yield* printList(options, items, "No secrets.", [
        ["KEY", (item) => item.key],
        ["KIND", (item) => (item.references.length === 0 ? item.kind : `${item.kind} (${item.references.join(", ")})`)],
        ["VERSION", (item) => String(item.version)],
        ["UPDATED", (item) => item.updatedAt],
        ["BY", (item) => item.updatedBy.name ?? item.updatedBy.type]
      ])
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
    ...Shared.inEnvironment,
    json: Shared.json,
    source: Shared.flag("source", "The text as written, references not expanded"),
    raw: Shared.flag("raw", "On a terminal too, print control characters as they are"),
    key: Shared.keyArgument
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ environment, projectId, session }, options) {
      const key = yield* parseKey(options.key)
      const client = yield* secretsClient(session)
      const secret = yield* call(
        session,
        client.readValue({
          urlParams: { projectId, environment, key, ...(options.source ? { representation: "source" as const } : {}) }
        })
      ).pipe(namingKey(key, environment))
      if (options.json) return yield* json(secret)
      yield* value(secret.value, options)
    })
  )
)

const below = [
  list,
  get,
  set,
  edit,
  copy,
  unset,
  importCommand,
  exportCommand,
  diff,
  history,
  rollback,
  deleted,
  restore
] as const
export const secrets = Help.described(
  Command.make("secrets").pipe(Command.withSubcommands(below)),
  { says: "Read and write the secrets of an environment." },
  below,
  true
)
