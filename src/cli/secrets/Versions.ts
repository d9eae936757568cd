/** `ampoule secrets diff`, `history`, `rollback`, `deleted` and `restore`. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "#src/cli/connection/Client.ts"
import { requireWritten } from "./Changes.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { exitWith, json, list, marks, note, out, paint, plain } from "#src/cli/terminal/Output.ts"
import { parseKey } from "#src/cli/terminal/Keys.ts"
import { anyId, findDeleted, findLive, idOf, onEnvironment } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import * as Target from "#src/cli/connection/Target.ts"

export const diff = Help.command(
  "diff",
  {
    says: "Compare two environments by key; values are compared inside the server and never sent.",
    examples: ["ampoule secrets diff development production", "ampoule secrets diff staging production --exit-code"]
  },
  {
    ...Shared.connection,
    project: Shared.project,
    json: Shared.json,
    exitCode: Shared.flag("exit-code", "Exit with 1 when they differ"),
    source: Shared.argument("SOURCE", "Environment to compare from"),
    target: Shared.argument("TARGET", "Environment to compare to")
  },
  Effect.fnUntraced(function* (options) {
    const [sourceEnv, targetEnv] = [yield* Target.slug(options.source), yield* Target.slug(options.target)]
    const session = yield* Credential.open(options)
    const name = yield* Target.project(options.project, session)
    const client = yield* secretsClient(session)
    const result = yield* Target.withProject(session, name, (projectId) =>
      call(session, client.diff({ urlParams: { projectId, sourceEnv, targetEnv } }))
    )
    const count = result.added.length + result.removed.length + result.changed.length
    if (options.exitCode && count > 0) yield* exitWith(1)
    if (options.json) return yield* json(result)
    if (count === 0) return yield* note(`${sourceEnv} and ${targetEnv} have the same keys and values.`)
    const lines = [
      ...result.added.map(({ key }) => ["+", key] as const),
      ...result.removed.map(({ key }) => ["-", key] as const),
      ...result.changed.map(({ key }) => ["~", key] as const)
    ].sort(([, a], [, b]) => (a < b ? -1 : 1))
    yield* out(lines.map(([mark, key]) => `${paint(`${mark} ${plain(key)}`, marks[mark])}\n`).join(""))
    yield* note(`+ only in ${targetEnv}   - only in ${sourceEnv}   ~ values differ`)
  })
)

export const history = Help.command(
  "history",
  {
    says: "Show the versions of a secret, newest first, without values. It works for deleted secrets too.",
    examples: ["ampoule secrets history DATABASE_URL"]
  },
  { ...Shared.inEnvironment, json: Shared.json, key: Shared.keyArgument },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const key = yield* parseKey(options.key)
      const client = yield* secretsClient(session)
      const secretId = yield* anyId(session, location, key)
      const { items } = yield* call(session, client.versions({ path: { secretId } }))
      yield* list(options, items, "No versions.", [
        [
          "VERSION",
          (item) => `${item.version}${item.deleted ? " (deleted)" : ""}${item.key === key ? "" : ` (as ${item.key})`}`
        ],
        ["KIND", (item) => item.kind],
        ["CREATED", (item) => item.createdAt],
        ["BY", (item) => item.createdBy.name ?? item.createdBy.type]
      ])
    })
  )
)

export const rollback = Help.command(
  "rollback",
  {
    says: "Write the text of an earlier version as a new version.",
    examples: ["ampoule secrets rollback DATABASE_URL 3"]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    expectedVersion: Shared.expectedVersion,
    key: Shared.keyArgument,
    version: Args.integer({ name: "VERSION" }).pipe(Args.withDescription("Version to write again"))
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const key = yield* parseKey(options.key)
      const expected = yield* Shared.checkedVersion(options.expectedVersion)
      if (options.version < 1) return yield* usage("Versions count from 1.")
      const client = yield* secretsClient(session)
      const live = yield* findLive(session, location, key)
      const secretId = yield* idOf(session, live.id)
      const payload = { version: options.version, ...(expected === undefined ? {} : { expectedVersion: expected }) }
      const result = yield* requireWritten(session, client.rollback({ path: { secretId }, payload }))
      if (options.json) return yield* json(result)
      yield* note(
        result.version === live.version
          ? `${key}: unchanged, because version ${result.version} has the same text`
          : `${key}: version ${result.version} now has the text of version ${options.version}`
      )
    })
  )
)

export const deleted = Help.command(
  "deleted",
  { says: "List deleted secrets that can still be restored.", examples: ["ampoule secrets deleted"] },
  { ...Shared.inEnvironment, json: Shared.json },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const client = yield* secretsClient(session)
      const { items } = yield* call(session, client.listDeleted({ urlParams: location }))
      yield* list(options, items, "No deleted secrets.", [
        ["KEY", (item) => item.key],
        ["VERSION", (item) => String(item.version)],
        ["DELETED", (item) => item.deletedAt],
        ["PURGED ON", (item) => item.purgeAt],
        ["ID", (item) => item.id]
      ])
    })
  )
)

export const restore = Help.command(
  "restore",
  { says: "Restore a deleted secret.", examples: ["ampoule secrets restore OLD_TOKEN"] },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    id: Options.optional(
      Shared.text("id", "text", "Id, if several secrets of this key were deleted (default: the last one)")
    ),
    key: Shared.keyArgument
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ session, ...location }, options) {
      const key = yield* parseKey(options.key)
      const client = yield* secretsClient(session)
      const candidates = yield* findDeleted(session, location, key)
      const candidate = candidates.find((item) => Option.isNone(options.id) || item.id === options.id.value)
      if (candidate === undefined) {
        return yield* new CliFailure({
          message: `No deleted secret ${key} can be restored.`,
          hint: "`ampoule secrets deleted` lists those that can be."
        })
      }
      const result = yield* requireWritten(
        session,
        client.restore({ path: { secretId: yield* idOf(session, candidate.id) } })
      )
      if (options.json) return yield* json(result)
      yield* note(`${key}: restored at version ${result.version}`)
    })
  )
)
