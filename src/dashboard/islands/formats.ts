/** Readers of file formats for pages. Pasted and dropped files are read in the browser and not sent before a save. */
import * as Either from "effect/Either"
import * as EnvFile from "#src/formats/EnvFile.ts"
import { remarks } from "#src/formats/ImportPlan.ts"
import { meaningOf } from "#src/formats/Meaning.ts"

interface ReadEntry {
  readonly key: string
  readonly value: string
  readonly line: number
  /** Text that looks like a template. */
  readonly kind?: "literal"
  /** Notes to look at before a save. */
  readonly remark?: string
}

interface ReadFile {
  readonly entries: ReadonlyArray<ReadEntry>
  /** Reason why the text cannot be read, without any part of it. */
  readonly failure?: string
}

/** @public `Act.ts` loads this bundle by its address. */
export const readFile = (name: string, text: string): ReadFile => {
  const format = EnvFile.detect(name, text)
  return Either.match(EnvFile.parse(format, text), {
    onLeft: ({ line, reason }) => ({ entries: [], failure: `Line ${line}: ${reason}` }),
    onRight: (entries) => ({
      entries: entries.map((entry): ReadEntry => {
        const meaning = meaningOf(entry, { format })
        const { key, kind, line, problem, value } = meaning
        const said = [...(problem === undefined ? [] : [`Line ${line}: ${problem}.`]), ...remarks([meaning], "page")]
        return {
          key,
          value,
          line,
          ...(kind === undefined ? {} : { kind }),
          ...(said.length === 0 ? {} : { remark: said.join(" ") })
        }
      })
    })
  })
}
