/** Lines of a section's files and commands together, at most. */
export declare const mostLines: number

export interface Section {
  readonly name: string
  readonly files: ReadonlyArray<{ readonly name: string; readonly text: string }>
  /** Commands; the last one starts the program. */
  readonly lines: ReadonlyArray<string>
}

export declare const sectionsOf: (page: string) => ReadonlyArray<Section>

/** By the name of the section. */
export declare const needs: Readonly<Record<string, { readonly note?: string }>>
