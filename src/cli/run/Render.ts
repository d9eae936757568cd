/** `ampoule inject`: a file of a template that names secrets. */
import type * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ask from "#src/cli/terminal/Ask.ts"
import { inject, noSecrets, type Resolved } from "#src/cli/values/EnvironmentSource.ts"
import { CliFailure, usage } from "#src/cli/terminal/Failure.ts"
import { writeWhole } from "#src/cli/terminal/Folders.ts"
import * as Help from "#src/cli/help/Help.ts"
import * as Shared from "#src/cli/terminal/Options.ts"
import { note, plain, stdoutIsTerminal, value, warn } from "#src/cli/terminal/Output.ts"
import { onEnvironment } from "#src/cli/connection/Reach.ts"
import { follow, receiverOf } from "./RenderWatch.ts"
import { intervalOf } from "./Watching.ts"

/** What else stands between braces belongs to the template languages of others. */
const reference = /\{\{ *([A-Z][A-Z0-9_]{0,254}) *(\| *json *)?\}\}/g

/** The text with each reference replaced, once: what a value brings in is text. Missing keys in the order of the text. */
export const rendered = (template: string, values: Readonly<Record<string, string>>) => {
  const missing = new Set<string>()
  const text = template.replaceAll(reference, (whole, key: string, asJson?: string) => {
    const found = Object.hasOwn(values, key) ? values[key] : undefined
    if (found === undefined) {
      missing.add(key)
      return whole
    }
    return asJson === undefined ? found : JSON.stringify(found)
  })
  return { text, missing: [...missing] }
}

const textOf = Effect.fnUntraced(function* (template: string, values: Resolved["values"], environment: string) {
  const { missing, text } = rendered(template, values)
  if (missing.length === 0) return text
  return yield* new CliFailure({
    message: `${environment} has no ${missing.slice(0, 10).join(", ")}, which the template names. Nothing was written.`,
    hint: `\`ampoule secrets list --env ${environment}\` shows the keys.`
  })
})

const injectOptions = {
  ...Shared.inEnvironment,
  out: Options.optional(
    Shared.text("out", "file", "Write this file, readable by you alone (0600), instead of printing")
  ),
  watch: Shared.flag("watch", "Stay, and write the file again when the environment or the template changes"),
  interval: Shared.watchInterval,
  signal: Options.optional(
    Shared.text("signal", "name", "With --watch: what is sent when the file was written again (HUP)")
  ),
  pid: Options.integer("pid").pipe(Options.withDescription("Process that gets the signal"), Options.optional),
  pidFile: Options.optional(
    Shared.text("pid-file", "file", "File with the number of the process that gets the signal")
  ),
  template: Shared.argument("FILE", "Template; - is standard input")
} as const

const checked = Effect.fnUntraced(function* (options: Command.Command.ParseConfig<typeof injectOptions>) {
  const receiver = yield* receiverOf(options)
  if (!options.watch) {
    return Option.isSome(receiver) ? yield* usage("--signal, --pid and --pid-file go with --watch.") : receiver
  }
  if (Option.isNone(options.out)) return yield* usage("--watch writes a file: name it with --out.")
  if (options.template === Ask.standardInputName) return yield* usage("--watch reads its template again: name a file.")
  yield* intervalOf(options.interval)
  return receiver
})

const handler = onEnvironment(
  Effect.fnUntraced(function* (
    { environment, projectId, session },
    options: Command.Command.ParseConfig<typeof injectOptions>
  ) {
    const receiver = yield* checked(options)
    const template = yield* Ask.input(options.template)
    const update = (etag?: string) => inject(session, { projectId, environment, etag })
    const resolved = Option.getOrElse(yield* update(), () => noSecrets)
    const text = yield* textOf(template, resolved.values, environment)
    if (Option.isNone(options.out)) {
      if (stdoutIsTerminal()) yield* warn("the values are on this terminal now; --out writes a file.")
      return yield* value(text, { raw: false })
    }
    const out = options.out.value
    const write = (content: string) => writeWhole(out, content, "the file")
    yield* write(text)
    yield* note(`${plain(out)} is written, readable by you alone`)
    if (!options.watch) return
    const render = (source: string, values: Resolved["values"]) => textOf(source, values, environment)
    yield* follow(
      { template: options.template, out, interval: options.interval, receiver, update, render, write },
      { resolved, text }
    )
  })
)

export const injectCommand = Help.command(
  "inject",
  {
    says: "Print a template with its references, like {{ DATABASE_URL }}, replaced by values.",
    more: [
      "{{ KEY | json }} writes the value as a JSON string, with its quotes; {{ KEY }} writes it as it is. Other text between braces stays. A key that is not there is an error, and nothing is written.",
      "With --watch the file is written again, whole, when the environment or the template changes, and a program is told by a signal.",
      "Prefer `ampoule run` where a program reads variables: a file keeps its values until somebody deletes it."
    ],
    examples: [
      "ampoule inject nginx.conf.template --out nginx.conf",
      "ampoule inject nginx.conf.template --out nginx.conf --watch --signal HUP --pid-file /run/nginx.pid",
      "ampoule inject config.template.json | app --config /dev/stdin"
    ]
  },
  injectOptions,
  handler
)
