/** Readers of file formats for pages. Pasted and dropped files are read in the browser and not sent before a save. */
import * as Either from "effect/Either"
import * as EnvFile from "#src/formats/EnvFile.ts"

export interface ReadFile {
  readonly entries: ReadonlyArray<{ readonly key: string; readonly value: string; readonly line: number }>
  /** Reason why the text cannot be read, without any part of it. */
  readonly failure?: string
}

export const readFile = (name: string, text: string): ReadFile =>
  Either.match(EnvFile.parse(EnvFile.detect(name, text), text), {
    onLeft: ({ line, reason }) => ({ entries: [], failure: `Line ${line}: ${reason}` }),
    onRight: (entries) => ({ entries })
  })
