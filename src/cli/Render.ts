/** `ampoule inject`: a file of a template that names secrets. */
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Ask from "./Ask.ts"
import { inject } from "./EnvironmentSource.ts"
import { CliFailure } from "./Failure.ts"
import { writeWhole } from "./Folders.ts"
import * as Help from "./Help.ts"
import * as Shared from "./Options.ts"
import { note, plain, stdoutIsTerminal, value, warn } from "./Output.ts"
import { onEnvironment } from "./Reach.ts"

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

export const injectCommand = Help.command(
  "inject",
  {
    says: "Print a template with its references, like {{ DATABASE_URL }}, replaced by values.",
    more: [
      "{{ KEY | json }} writes the value as a JSON string, with its quotes; {{ KEY }} writes it as it is. Other text between braces stays. A key that is not there is an error, and nothing is written.",
      "Prefer `ampoule run` where a program reads variables: a file keeps its values until somebody deletes it."
    ],
    examples: [
      "ampoule inject nginx.conf.template --out nginx.conf",
      "ampoule inject config.template.json | app --config /dev/stdin"
    ]
  },
  {
    ...Shared.inEnvironment,
    out: Options.optional(
      Shared.text("out", "file", "Write this file, readable by you alone (0600), instead of printing")
    ),
    template: Shared.argument("FILE", "Template; - is standard input")
  },
  onEnvironment(
    Effect.fnUntraced(function* ({ environment, projectId, session }, options) {
      const template = yield* Ask.input(options.template)
      const resolved = yield* inject(session, { projectId, environment })
      const values = Option.match(resolved, { onNone: () => ({}), onSome: (found) => found.values })
      const { missing, text } = rendered(template, values)
      if (missing.length > 0) {
        return yield* new CliFailure({
          message: `${environment} has no ${missing.slice(0, 10).join(", ")}, which the template names. Nothing was written.`,
          hint: "`ampoule secrets list` shows the keys."
        })
      }
      if (Option.isNone(options.out)) {
        if (stdoutIsTerminal()) yield* warn("the values are on this terminal now; --out writes a file.")
        return yield* value(text, { raw: false })
      }
      yield* writeWhole(options.out.value, text, "the file")
      yield* note(`${plain(options.out.value)} is written, readable by you alone`)
    })
  )
)
