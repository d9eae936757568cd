/** `ampoule restore --at TIME`: restores an environment to a moment, after a preview of the changes. */
import * as Effect from "effect/Effect"
import type { EnvironmentRestoration } from "#schema/SecretResponses.ts"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { requireWritten } from "./Changes.ts"
import * as Credential from "#src/cli/connection/Credential.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { instant } from "#src/cli/terminal/Times.ts"
import { json, note, out, plain } from "#src/cli/terminal/Output.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import * as SealingKeys from "#src/cli/sealed/Keys.ts"
import * as Target from "#src/cli/connection/Target.ts"

const linesOf = ({ created, deleted, renamed, updated }: EnvironmentRestoration) => [
  ...created.map((key) => `+ ${plain(key)}`),
  ...updated.map((key) => `~ ${plain(key)}`),
  ...renamed.map(({ from, to }) => `~ ${plain(from)} -> ${plain(to)}`),
  ...deleted.map((key) => `- ${plain(key)}`)
]

const noteExceptions = Effect.fnUntraced(function* ({ lost, unknown }: EnvironmentRestoration) {
  if (lost.length > 0) yield* note(`unchanged, because no version of that time was kept: ${lost.map(plain).join(", ")}`)
  if (unknown.length > 0) {
    yield* note(`deleted for good since then, so possibly missing: ${unknown.map(plain).join(", ")}`)
  }
})

export const restoreAt = Help.command(
  "restore-at",
  {
    says: "Restore an environment to its state at a moment: `ampoule restore --at TIME`.",
    more: [
      "Each key receives the text that it had then, as a new version, in one transaction. Newer keys are deleted, and can be restored for 30 days.",
      "What changes is named first: + comes back, ~ gets the value of then, - is deleted. Versions are compared, and no value is read."
    ],
    examples: [
      "ampoule restore --at 2h --dry-run",
      "ampoule restore --at 2026-11-21T08:00:00Z --env staging",
      "ampoule secrets restore-at --at 1d --yes"
    ]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    yes: Shared.yes,
    at: Shared.text("at", "time", "A day, a time, or how long ago: 2026-11-21, 2026-11-21T08:00:00Z, 30m, 2h, 1d"),
    dryRun: Shared.flag("dry-run", "Only show what would change")
  },
  Effect.fnUntraced(function* (options) {
    const at = (yield* instant("at", options.at)).toISOString()
    const { session, target } = yield* Target.reach(options, Credential.open(options))
    const client = yield* secretsClient(session)
    const path = { envId: yield* SealingKeys.environmentId(session, target) }
    const preview = yield* requireWritten(session, client.restoreEnvironment({ path, payload: { at, preview: true } }))
    const lines = linesOf(preview)
    if (options.json && (options.dryRun || lines.length === 0)) return yield* json(preview)
    if (!options.json) {
      yield* out(lines.map((line) => `${line}\n`).join(""))
      yield* noteExceptions(preview)
      if (lines.length === 0) return yield* note(`${target.environment} is already as it was at ${preview.at}.`)
    }
    if (options.dryRun) return yield* note("Nothing was written.")
    if (!options.yes && !(yield* Ask.confirm(`Restore ${target.environment} to ${preview.at}?`))) {
      return yield* new CliFailure({ message: "Nothing was written." })
    }
    const payload = { at, expectedRevision: preview.revision }
    const result = yield* requireWritten(session, client.restoreEnvironment({ path, payload }))
    if (options.json) return yield* json(result)
    yield* note(`${target.environment} is now as it was at ${result.at}: ${lines.length} changed.`)
  })
)
