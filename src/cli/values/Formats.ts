/** File formats of import, export and sealing. Only commands that use a format load it. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Entry } from "#src/formats/Entry.ts"
import { type Format, formats, type Reader, type ReadFormat } from "#src/formats/FormatNames.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"

export const codecs = Effect.promise(() => import("#src/formats/EnvFile.ts"))

const canPrint = (format: ReadFormat): format is Format => formats.some((one) => one === format)

/** Format of an output file, from its name. */
export const formatFor = (file: string) =>
  Effect.map(codecs, ({ formatOf }): Format => {
    const format = formatOf(file) ?? "dotenv"
    return canPrint(format) ? format : "dotenv"
  })

/** Text of a file with these values. `option`: the option that names the format. */
export const printValues = Effect.fnUntraced(function* (
  format: Format,
  values: Readonly<Record<string, string>>,
  option: "--format" | "--mount-format",
  secrets: ReadonlyMap<string, string>
) {
  const entries = Object.entries(values).map(([key, value]) => ({ key, value, secret: secrets.get(key) ?? key }))
  return yield* printEntries(format, entries, option)
})

interface PrintOptions {
  readonly source?: boolean
  readonly reader?: Reader
}

export const printEntries = Effect.fnUntraced(function* (
  format: Format,
  /** `secret`: the key of the secret, which `--except` takes; `key` may be another name of it. */
  entries: ReadonlyArray<Entry & { readonly secret: string }>,
  option: "--format" | "--mount-format",
  options: PrintOptions = {}
) {
  const text = (yield* codecs).print(format, entries, options)
  if (Either.isRight(text)) return text.right
  const { key } = text.left
  const secret = entries.find((entry) => entry.key === key)?.secret ?? key
  return yield* new CliFailure({
    message: `${text.left.key} cannot be written as ${format}: ${text.left.reason}.`,
    hint: `Choose another ${option} (json carries everything), or exclude the key: --except ${secret}.`
  })
})
