/**
 * File formats of import, export and sealing. Loaded by the commands that use one: YAML alone is more than the rest of
 * us.
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { Format, ReadFormat } from "#src/formats/EnvFile.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"

export const formats = [
  "dotenv",
  "json",
  "yaml",
  "shell",
  "fish",
  "powershell",
  "nushell",
  "docker"
] as const satisfies ReadonlyArray<Format>
export const readFormats = [...formats, "csv"] as const satisfies ReadonlyArray<ReadFormat>

export const codecs = Effect.promise(() => import("#src/formats/EnvFile.ts"))

const isWritten = (format: ReadFormat): format is Format => formats.some((one) => one === format)

/** Of a file that is written, by its name. */
export const formatFor = (file: string) =>
  Effect.map(codecs, ({ formatOf }): Format => {
    const named = formatOf(file) ?? "dotenv"
    return isWritten(named) ? named : "dotenv"
  })

/** The text of a file with these values. `option`: the one that names the format. */
export const printed = Effect.fnUntraced(function* (
  format: Format,
  values: Readonly<Record<string, string>>,
  option: "--format" | "--mount-format"
) {
  const text = (yield* codecs).print(
    format,
    Object.entries(values).map(([key, value]) => ({ key, value }))
  )
  if (Either.isRight(text)) return text.right
  return yield* new CliFailure({
    message: `${text.left.key} cannot be written as ${format}: ${text.left.reason}.`,
    hint: `Choose another ${option} (json carries everything), or leave it out: --except ${text.left.key}.`
  })
})
