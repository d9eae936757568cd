/** All file formats behind one pair of functions. */
import type * as Either from "effect/Either"
import type { Entry, FormatRefused, Parse, ParsedEntry, ParseFailure, Print } from "./Entry.ts"
import * as DockerEnvFile from "./DockerEnvFile.ts"
import * as Dotenv from "./Dotenv.ts"
import * as JsonFormat from "./JsonFormat.ts"
import * as Shell from "./Shell.ts"
import * as Yaml from "./Yaml.ts"

export type Format = "dotenv" | "json" | "yaml" | "shell" | "docker"

const codecs: Readonly<Record<Format, { readonly print: Print; readonly parse: Parse }>> = {
  dotenv: Dotenv,
  json: JsonFormat,
  yaml: Yaml,
  shell: Shell,
  docker: DockerEnvFile
}

export const formats: ReadonlyArray<Format> = ["dotenv", "json", "yaml", "shell", "docker"]

/** The text of a file with these entries, in their order; the first entry that the format cannot carry is refused. */
export const print = (format: Format, entries: ReadonlyArray<Entry>): Either.Either<string, FormatRefused> =>
  codecs[format].print(entries)

/** The entries of a file, in its order; any key is accepted here (`Preview.ts` judges keys). */
export const parse = (format: Format, text: string): Either.Either<ReadonlyArray<ParsedEntry>, ParseFailure> =>
  codecs[format].parse(text)

/** The format that a file name suggests; undefined when it suggests none. */
export const formatOf = (fileName: string): Format | undefined => {
  const base = fileName.slice(Math.max(fileName.lastIndexOf("/"), fileName.lastIndexOf("\\")) + 1).toLowerCase()
  if (base.endsWith(".json")) return "json"
  if (base.endsWith(".yaml") || base.endsWith(".yml")) return "yaml"
  if (base.endsWith(".sh")) return "shell"
  return base === ".env" || base.startsWith(".env.") || base.endsWith(".env") ? "dotenv" : undefined
}
