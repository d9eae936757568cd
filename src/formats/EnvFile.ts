/** All file formats behind one pair of functions. */
import * as Either from "effect/Either"
import type { Entry, FormatRefused, Parse, ParsedEntry, ParseFailure, ParseOptions, Print } from "./Entry.ts"
import { failure } from "./Entry.ts"
import { escaped, isQuoteless, isTemplate, keysOf, pieces } from "./References.ts"
import { refuseCiphertext } from "./Ciphertext.ts"
import * as Csv from "./Csv.ts"
import * as DockerEnvFile from "./DockerEnvFile.ts"
import * as Dotenv from "./Dotenv.ts"
import * as DotenvPrint from "./DotenvPrint.ts"
import type { Format, Reader, ReadFormat } from "./FormatNames.ts"
import * as JsonFormat from "./JsonFormat.ts"
import * as Nushell from "./Nushell.ts"
import * as PowerShell from "./PowerShell.ts"
import * as Shell from "./Shell.ts"
import type { ReadResult } from "./TreeEntries.ts"
import * as Toml from "./Toml.ts"
import * as Yaml from "./Yaml.ts"

const codecs: Readonly<Record<Format, { readonly print: Print; readonly parse: Parse }>> = {
  dotenv: { print: DotenvPrint.print, parse: Dotenv.parse },
  json: JsonFormat,
  yaml: Yaml,
  shell: Shell,
  fish: { print: Shell.printFish, parse: Shell.parseFish },
  powershell: PowerShell,
  nushell: Nushell,
  docker: DockerEnvFile
}

const trees = { json: JsonFormat, yaml: Yaml, toml: Toml }

interface PrintOptions {
  /** The values are texts as written: a format without quotes writes what is text in the language of templates. */
  readonly source?: boolean
  /** Of dotenv: the one reader that the file is for. */
  readonly reader?: Reader
}

/** The text of a file with these entries, in their order; the first entry that the format cannot carry is refused. */
export const print = (
  format: Format,
  entries: ReadonlyArray<Entry>,
  { reader, source = false }: PrintOptions = {}
): Either.Either<string, FormatRefused> => {
  if (format === "dotenv" && reader !== undefined) return DotenvPrint.printFor(reader)(entries)
  if (!source || !isQuoteless(format)) return codecs[format].print(entries)
  return codecs[format].print(
    entries.map(({ key, kind, value }) => ({
      key,
      value: kind !== "template" && isTemplate(value) ? escaped(value) : value
    }))
  )
}

/** Keys that common readers of a `.env` file read otherwise than it was written, and these readers. */
export const readOtherwise = (
  entries: ReadonlyArray<Entry>
): ReadonlyArray<{ readonly key: string; readonly readers: ReadonlyArray<string> }> =>
  entries.flatMap(({ key, value }) => {
    const readers = DotenvPrint.readOtherwise(value)
    return readers.length === 0 ? [] : [{ key, readers }]
  })

/**
 * Keys whose kind this file cannot say: it is read back as text of the same value (a template that has no reference), or,
 * where the values are expanded, a text that looks like a template is read back as one.
 */
export const changesKind = (
  format: Format,
  entries: ReadonlyArray<Entry>,
  { source }: { readonly source: boolean }
): ReadonlyArray<string> =>
  entries
    .filter(({ kind, value }) =>
      source
        ? kind === "template" && format !== "dotenv" && keysOf(pieces(value).pieces).length === 0
        : isQuoteless(format) && isTemplate(value)
    )
    .map(({ key }) => key)

/**
 * The entries of a file, in its order; any key is accepted here (`Preview.ts` judges keys), encrypted values are not.
 */
export const read = (
  format: ReadFormat,
  text: string,
  options?: ParseOptions
): Either.Either<ReadResult, ParseFailure> =>
  looksLikeUtf16(text)
    ? failure(1, "the file is UTF-16: save it as UTF-8")
    : Either.flatMap(
        format === "json" || format === "yaml" || format === "toml"
          ? trees[format].read(text, options)
          : Either.map((format === "csv" ? Csv : codecs[format]).parse(text, options), withoutOrigin),
        (found) => Either.map(refuseCiphertext(found.entries), () => found)
      )

const withoutOrigin = (entries: ReadonlyArray<ParsedEntry>): ReadResult => ({ entries, origin: undefined, leftOut: [] })

/** UTF-16 that was decoded as UTF-8, as a browser does it: every other character is U+0000. */
const looksLikeUtf16 = (text: string): boolean => /^(?:\ufffd\ufffd)?(?:[^\0]\0|\0[^\0]){2}/.test(text)

export const parse = (format: ReadFormat, text: string): Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure> =>
  Either.map(read(format, text), ({ entries }) => entries)

/** The format that a file name suggests; undefined when it suggests none. */
export const formatOf = (fileName: string): ReadFormat | undefined => {
  const base = fileName.slice(Math.max(fileName.lastIndexOf("/"), fileName.lastIndexOf("\\")) + 1).toLowerCase()
  if (base.endsWith(".json")) return "json"
  if (base.endsWith(".yaml") || base.endsWith(".yml")) return "yaml"
  if (base.endsWith(".sh")) return "shell"
  if (base.endsWith(".fish")) return "fish"
  if (base.endsWith(".ps1")) return "powershell"
  if (base.endsWith(".nuon")) return "nushell"
  if (base.endsWith(".csv")) return "csv"
  if (base.endsWith(".toml")) return "toml"
  return base === ".env" || base.startsWith(".env.") || base.endsWith(".env") ? "dotenv" : undefined
}

/** The first line that says something, without the byte order mark. */
const firstLine = (text: string): string =>
  /^(?:\ufeff)?(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*([^\r\n]{0,300})/.exec(text)?.[1] ?? ""

/** The format of a file by its name, else by what it looks like. */
export const detect = (fileName: string, text: string): ReadFormat => {
  const named = formatOf(fileName)
  const line = firstLine(text)
  // Neither of them can begin a line of a .env file.
  const begins = (named === undefined || named === "dotenv") && /^[{[]/.test(line)
  if (begins && line.startsWith("[") && Toml.looksLike(text)) return "toml"
  if (begins) return "json"
  if (named !== undefined) return named
  if (Csv.looksLike(text)) return "csv"
  if (/^set[ \t]+-gx[ \t]/.test(line)) return "fish"
  if (/^\$env:[A-Za-z_]/.test(line)) return "powershell"
  return line.startsWith("---") || /^["']?[A-Za-z_][A-Za-z0-9_.-]*["']?:(?:[ \t]|$)/.test(line) ? "yaml" : "dotenv"
}
