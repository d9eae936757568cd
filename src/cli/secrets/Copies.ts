/** `ampoule secrets copy`: copies secrets to another environment of the project, with unexpanded references. */
import * as Args from "@effect/cli/Args"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { inject } from "#src/cli/values/EnvironmentSource.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import { isTemplate } from "#src/formats/References.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { json, note, showPlan } from "#src/cli/terminal/Output.ts"
import { noSuchKey, parseKey } from "#src/cli/terminal/Keys.ts"
import { listAll, onEnvironment } from "#src/cli/connection/Reach.ts"
import { createOrUpdate, lineOf, parseText, upsert } from "./Writes.ts"
import * as Target from "#src/cli/connection/Target.ts"

export const copy = Help.command(
  "copy",
  {
    says: "Copy secrets to another environment of the project, or to another key; references stay references.",
    more: [
      "It reads the texts and writes them, so it needs both rights. Before it replaces keys, it names them and asks. The copy starts a history of its own."
    ],
    examples: [
      "ampoule secrets copy STRIPE_KEY SENTRY_DSN --env staging --to production",
      "ampoule secrets copy DB_PASSWORD --as DATABASE_PASSWORD"
    ]
  },
  {
    ...Shared.inEnvironment,
    json: Shared.json,
    yes: Shared.yes,
    to: Options.optional(Shared.text("to", "slug", "Environment to write to (default: the same one)")),
    as: Options.optional(Shared.text("as", "key", "Name of the copy, for one key")),
    keys: Args.text({ name: "KEY" }).pipe(Args.withDescription("Keys to copy"), Args.atLeast(1))
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ environment, projectId, session }, options) {
      const keys = yield* Effect.forEach([...new Set(options.keys)], (key) => parseKey(key))
      const as = Option.isSome(options.as) ? yield* parseKey(options.as.value) : undefined
      const to = Option.isSome(options.to) ? yield* Target.slug(options.to.value) : environment
      if (as !== undefined && keys.length > 1) return yield* usage("--as works with one key at a time.")
      if (as === undefined && to === environment) return yield* usage("Use --to SLUG, or --as KEY.")
      if (keys.length > 100) return yield* usage("At most 100 keys at a time.")
      const target = { projectId, environment: to }
      const resolved = yield* inject(session, { projectId, environment, representation: "source" })
      const texts = new Map(
        Option.match(resolved, { onNone: () => [], onSome: ({ values }) => Object.entries(values) })
      )
      const kinds = new Map((yield* listAll(session, { projectId, environment })).map(({ key, kind }) => [key, kind]))
      const copies = yield* Effect.forEach(
        keys,
        Effect.fnUntraced(function* (key) {
          const text = texts.get(key)
          if (text === undefined) return yield* noSuchKey(key, environment, [...texts.keys()])
          // A literal that looks like a template is sent with its kind.
          const isPinned = kinds.get(key) === "literal" && isTemplate(text)
          return {
            key: as ?? key,
            value: yield* parseText(key, text),
            kind: isPinned ? ("literal" as const) : undefined
          }
        })
      )
      const existing = new Set((yield* listAll(session, target)).map(({ key }) => key))
      const replaced = copies.filter(({ key }) => existing.has(key)).map(({ key }) => key)
      if (replaced.length > 0 && !options.yes) {
        yield* showPlan("~", replaced)
        if (!(yield* Ask.confirm(`Replace ${replaced.length} in ${to}?`))) {
          return yield* new CliFailure({ message: "Nothing was written." })
        }
      }
      const pinned = copies.filter(({ kind }) => kind !== undefined)
      const others = copies.filter(({ kind }) => kind === undefined)
      const results = [
        ...(others.length === 0 ? [] : yield* upsert(session, target, others)),
        ...(yield* Effect.forEach(pinned, (one) =>
          createOrUpdate(session, target, { ...one, expectedVersion: undefined })
        ))
      ]
      if (options.json) return yield* json(results)
      for (const { key } of copies) yield* note(`${to}: ${lineOf(key, results.find((one) => one.key === key) ?? null)}`)
    })
  )
)
