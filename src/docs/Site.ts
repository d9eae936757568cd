/** The documentation as a server holds it: rendered pages, their Markdown, pictures, quoted files and the search index. */
export interface Heading {
  /** Anchor. */
  readonly id: string
  readonly text: string
  /** 2 and 3 are in the table of contents. */
  readonly level: number
}

export interface Page {
  /** Path on the server, such as `/docs/errors`. */
  readonly path: string
  /** Path of its Markdown on the server. */
  readonly markdownPath: string
  readonly title: string
  /** One line of Markdown; empty for a page outside the contents. */
  readonly summary: string
  readonly html: string
  readonly headings: ReadonlyArray<Heading>
  readonly markdown: string
}

export interface Site {
  readonly pages: ReadonlyArray<Page>
  /** Groups of the navigation, with paths of pages. */
  readonly groups: ReadonlyArray<{ readonly name: string; readonly paths: ReadonlyArray<string> }>
  /** Files that pages show or link to: base64 for pictures, text for others. */
  readonly files: ReadonlyArray<{ readonly path: string; readonly contentType: string; readonly content: string }>
  /** Serialised index of `minisearch`. */
  readonly search: string
  /** Path of the index. It carries a hash of the text, so a browser may keep it. */
  readonly searchPath: string
}

/** Folder of all paths. */
export const root = "/docs"
