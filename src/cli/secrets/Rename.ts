/** `ampoule secrets rename`: changes a key and keeps all versions. */
import * as Effect from "effect/Effect"
import { call } from "#src/cli/connection/Client.ts"
import { type CliError, ServerRefused } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, plain } from "#src/cli/terminal/Output.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import { findLive, idOf, onEnvironment } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import * as WriteRisks from "#src/cli/values/WriteRisks.ts"

/** Words the server's refusal with an option of this command. */
const withRewriteHint = <A, E extends CliError, R>(
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | ServerRefused, R> =>
  Effect.mapError(self, (error) =>
    error._tag === "ServerRefused" && error.code === "SECRET_HAS_DEPENDENTS"
      ? new ServerRefused({
          ...error,
          message: "Other secrets refer to it.",
          hint: "With --rewrite they receive the new key, each in a new version."
        })
      : error
  )

export const rename = Help.command(
  "rename",
  {
    says: "Rename a secret. It keeps its versions, owner and note.",
    more: [
      "The text is written again under the new key, as the next version. Programs that read the old key no longer find it.",
      "The rename is refused while templates use the key. With --rewrite they are updated in the same transaction."
    ],
    examples: [
      "ampoule secrets rename DB_PASS DATABASE_PASSWORD",
      "ampoule secrets rename DB_PASS DATABASE_PASSWORD --rewrite"
    ]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    rewrite: Shared.flag("rewrite", "Update the templates that refer to it"),
    expectedVersion: Shared.expectedVersion,
    allow: Shared.allow,
    key: Shared.keyArgument,
    to: Shared.argument("NEW_KEY", "New key")
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const [key, to] = [yield* parseKey(options.key), yield* parseKey(options.to)]
      const expectedVersion = yield* Shared.checkedVersion(options.expectedVersion)
      yield* WriteRisks.confirm([{ key: to, value: "" }], options.allow)
      const client = yield* secretsClient(session)
      const path = { secretId: yield* idOf(session, (yield* findLive(session, location, key)).id) }
      const payload = {
        key: to,
        ...(options.rewrite ? { references: "rewrite" as const } : {}),
        ...(expectedVersion === undefined ? {} : { expectedVersion })
      }
      const renamed = yield* withRewriteHint(call(session, client.rename({ path, payload })))
      if (options.json) return yield* json(renamed)
      yield* note(`${key}: is now ${to}, version ${renamed.version}`)
      if (renamed.rewritten.length > 0)
        yield* note(`updated to the new key: ${renamed.rewritten.map(plain).join(", ")}`)
    })
  )
)
