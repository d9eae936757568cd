/** `ampoule inject`: fills in a template that names secrets. */
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

/** Other text between braces belongs to other template languages. */
const reference = /\{\{ *([A-Z][A-Z0-9_]{0,254}) *(\| *json *)?\}\}/g

/** Replaces each reference once, so references within a value stay text. Missing keys are in the order of the text. */
const render = (template: string, values: Readonly<Record<string, string>>) => {
  const missing = new Set<string>()
  const text = template.replaceAll(reference, (whole, key: string, asJson?: string) => {
    const value = Object.hasOwn(values, key) ? values[key] : undefined
    if (value === undefined) {
      missing.add(key)
      return whole
    }
    return asJson === undefined ? value : JSON.stringify(value)
  })
  return { text, missing: [...missing] }
}

const textOf = Effect.fnUntraced(function* (template: string, values: Resolved["values"], environment: string) {
  const { missing, text } = render(template, values)
  if (missing.length === 0) return text
  return yield* new CliFailure({
    message: `${environment} has no ${missing.slice(0, 10).join(", ")}, used by the template. Nothing was written.`,
    hint: `\`ampoule secrets list --env ${environment}\` shows the keys.`
  })
})

const injectOptions = {
  ...Shared.inEnvironment,
  out: Options.optional(
    Shared.text("out", "file", "Write this file, readable only by you (0600), instead of printing")
  ),
  watch: Shared.flag("watch", "Keep running, and rewrite the file when the environment or the template changes"),
  interval: Shared.watchInterval,
  signal: Options.optional(
    Shared.text("signal", "name", "With --watch: signal to send after the file was rewritten (HUP)")
  ),
  pid: Options.integer("pid").pipe(Options.withDescription("Process that receives the signal"), Options.optional),
  pidFile: Options.optional(
    Shared.text("pid-file", "file", "File with the id of the process that receives the signal")
  ),
  template: Shared.argument("FILE", "Template; - is standard input")
} as const

const checkOptions = Effect.fnUntraced(function* (options: Command.Command.ParseConfig<typeof injectOptions>) {
  const receiver = yield* receiverOf(options)
  if (!options.watch) {
    return Option.isSome(receiver) ? yield* usage("--signal, --pid and --pid-file need --watch.") : receiver
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
    const receiver = yield* checkOptions(options)
    const template = yield* Ask.input(options.template)
    const update = (etag?: string) => inject(session, { projectId, environment, etag })
    const resolved = Option.getOrElse(yield* update(), () => noSecrets)
    const text = yield* textOf(template, resolved.values, environment)
    if (Option.isNone(options.out)) {
      if (stdoutIsTerminal()) yield* warn("the values are now on this terminal; --out writes a file instead.")
      return yield* value(text, { raw: false })
    }
    const out = options.out.value
    const write = (content: string) => writeWhole(out, content, "the file")
    const way = yield* write(text)
    yield* note(`${plain(out)} was written${way === "replaced" ? ", readable only by you" : ""}`)
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
      "{{ KEY | json }} writes the value as a JSON string, with its quotes; {{ KEY }} writes it as it is. Other text between braces stays. A missing key is an error, and nothing is written.",
      "With --watch the file is replaced when the environment or the template changes, and --signal notifies a program.",
      "Prefer `ampoule run` for programs that read variables: a file keeps its values until someone deletes it."
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
