/** An environment as it is written: texts with their kinds, so that a file of it means the same when it is imported. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Entry } from "#src/formats/Entry.ts"
import { isTemplate } from "#src/formats/References.ts"
import { inject } from "#src/cli/values/EnvironmentSource.ts"
import type { Connection } from "#src/cli/connection/Client.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { listAll, type Location } from "#src/cli/connection/Reach.ts"

interface SourceTexts {
  readonly entries: ReadonlyArray<Entry>
  readonly etag: Option.Option<string>
}

const attempts = 3

/**
 * Texts and kinds of one revision. Kinds are asked for where a text could be either, and the revision is compared
 * afterwards (a 304 hands out no value).
 */
export const sourceTexts = Effect.fnUntraced(function* (session: Connection, location: Location) {
  for (let attempt = 0; attempt < attempts; attempt++) {
    const injected = yield* inject(session, { ...location, representation: "source" })
    const { etag, values } = Option.getOrElse(injected, () => ({ values: {}, etag: Option.none<string>() }))
    const texts = Object.entries(values)
    const plain: SourceTexts = { entries: texts.map(([key, value]) => ({ key, value })), etag }
    if (!texts.some(([, value]) => isTemplate(value))) return plain
    const kinds = new Map((yield* listAll(session, location)).map(({ key, kind }) => [key, kind]))
    const changed = Option.isSome(etag)
      ? yield* inject(session, { ...location, representation: "source", etag: etag.value })
      : Option.none()
    if (Option.isSome(changed)) continue
    const entries = texts.map(([key, value]): Entry =>
      kinds.get(key) === "template" ? { key, value, kind: "template" } : { key, value }
    )
    const typed: SourceTexts = { entries, etag }
    return typed
  }
  return yield* new CliFailure({
    message: `${location.environment} was changed while it was read.`,
    hint: "Try again."
  })
})
