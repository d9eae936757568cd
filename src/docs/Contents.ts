/**
 * Contents of the documentation, as `docs/README.md` lists them: groups (`## Group`) of pages
 * (`* [Title](file.md): summary`). Their order is that of the navigation, and of the links to the previous and next page.
 */
import * as path from "node:path"

interface ListedPage {
  /** Path from the root of the repository. */
  readonly file: string
  /** First heading of the page. */
  readonly title: string
  /** One line of Markdown. */
  readonly summary: string
}

export interface Group {
  readonly name: string
  readonly pages: ReadonlyArray<ListedPage>
}

/** The page that has the contents. */
export const contentsFile = "docs/README.md"

const listed = (line: string): ListedPage | undefined => {
  const [, title, target, summary] = /^\* \[([^\]]+)\]\(([^)]+)\): (\S.*)$/.exec(line) ?? []
  if (title === undefined || target === undefined || summary === undefined) return undefined
  return { title, summary, file: path.posix.join(path.posix.dirname(contentsFile), target) }
}

/** Groups in the order of the text. A list item of another form is an error. */
export const groupsOf = (text: string): ReadonlyArray<Group> =>
  text
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [name = "", ...lines] = section.split("\n")
      const pages = lines
        .filter((line) => /^\s*[*-] /.test(line))
        .map((line) => {
          const page = listed(line)
          if (page === undefined) throw new Error(`${contentsFile} has a list item without title and summary: ${line}`)
          return page
        })
      return { name, pages }
    })
