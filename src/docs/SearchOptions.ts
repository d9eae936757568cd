/** Options that the build of the search index and the search in the browser share. */
import type { Options } from "minisearch"

export const searchOptions: Options = {
  idField: "id",
  fields: ["heading", "title", "text"],
  storeFields: ["heading", "title"],
  searchOptions: {
    // Schemas are lists of names: a page that explains the word comes first.
    boostDocument: (id: string) => (id.includes("schemas#") ? 0.2 : 1),
    boost: { heading: 4, title: 2 },
    combineWith: "AND",
    prefix: true,
    fuzzy: 0.15
  }
}
