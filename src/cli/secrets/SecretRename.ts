/** `ampoule secrets rename`: another key, with all versions. */
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

/** What to do about the templates that refer to it, in the words of this command. */
const sayingHow = <A, E extends CliError, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServerRefused, R> =>
  Effect.mapError(self, (error) =>
    error._tag === "ServerRefused" && error.code === "SECRET_HAS_DEPENDENTS"
      ? new ServerRefused({
          ...error,
          message: "Other secrets refer to it.",
          hint: "With --rewrite they get the new key, in a new version each."
        })
      : error
  )

export const rename = Help.command(
  "rename",
  {
    says: "Give a secret another key. It keeps its versions, its owner and its note.",
    more: [
      "The text is written once more, as the next version, under the new key. Programs that read the old key find it no more.",
      "Templates that refer to it refuse the rename; with --rewrite they are written with the new key, in the same transaction."
    ],
    examples: [
      "ampoule secrets rename DB_PASS DATABASE_PASSWORD",
      "ampoule secrets rename DB_PASS DATABASE_PASSWORD --rewrite"
    ]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    rewrite: Shared.flag("rewrite", "Write the templates that refer to it with the new key"),
    expectedVersion: Shared.expectedVersion,
    allow: Shared.allow,
    key: Shared.keyArgument,
    to: Shared.argument("NEW_KEY", "Key that it gets")
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
      const renamed = yield* sayingHow(call(session, client.rename({ path, payload })))
      if (options.json) return yield* json(renamed)
      yield* note(`${key}: is ${to} now, version ${renamed.version}`)
      if (renamed.rewritten.length > 0)
        yield* note(`written with the new key: ${renamed.rewritten.map(plain).join(", ")}`)
    })
  )
)
