/** The readers of file formats, for a page: what is pasted or dropped is read here, and nothing half-typed is sent. */
import * as Either from "effect/Either"
import * as EnvFile from "#src/formats/EnvFile.ts"

export interface ReadFile {
  readonly entries: ReadonlyArray<{ readonly key: string; readonly value: string; readonly line: number }>
  /** Why the text cannot be read; it repeats nothing of it. */
  readonly failure?: string
}

export const readFile = (name: string, text: string): ReadFile =>
  Either.match(EnvFile.parse(EnvFile.detect(name, text), text), {
    onLeft: ({ line, reason }) => ({ entries: [], failure: `Line ${line}: ${reason}` }),
    onRight: (entries) => ({ entries })
  })
