/** Citations of pages and headings: links of pages, and sentences of comments such as `docs/security.md, "Lessons"`. */
import * as fs from "node:fs"
import * as path from "node:path"

export interface Citation {
  readonly from: string
  readonly page: string
  /** A heading in quotation marks, or the anchor of a link. */
  readonly heading: string | undefined
}

/** GitHub's anchor of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .replaceAll(/\s/g, "-")

const headingsOf = (page: string): ReadonlyArray<string> =>
  [...fs.readFileSync(page, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading.replaceAll("`", ""))

/** Phrases in bold at the start of a paragraph or list item serve as headings too. */
const leadsOf = (page: string): ReadonlyArray<string> =>
  [...fs.readFileSync(page, "utf8").matchAll(/^(?:[*-] |\d+\. )?\*\*(.+?)[.:]?\*\*/gm)].map(([, lead]) => lead)

/** Numbers of tables: traps as `D10`, rows as `C3`. */
const numbersOf = (page: string): ReadonlyArray<string> =>
  [...fs.readFileSync(page, "utf8").matchAll(/(?:^\| |\*\*|^#+ )([A-Z]\d+)\b/gm)].map(([, number]) => number)

/** Breaks of lines and markers of comments become spaces. */
const flowing = (text: string) => text.replaceAll(/\s*\n[ \t]*(?:\*(?!\/)|\/\/)?[ \t]*/g, " ")

/** Citations of pages in a source file: `docs/x.md`, and behind it a heading in quotation marks or a number. */
export const citationsIn = (file: string, text: string): ReadonlyArray<Citation> =>
  [...flowing(text).matchAll(/\b(docs\/[\w./-]+\.md)(?:, "([^"]+)"|, ([A-Z]\d+)\b)?/g)].map(
    ([, page, heading, number]) => ({ from: file, page, heading: heading ?? number })
  )

/** Links of a page to pages and to headings in them; and `[page](…), "Heading"` or `, Heading` behind a link. */
export const linksIn = (file: string, text: string): ReadonlyArray<Citation> =>
  [...flowing(text).matchAll(/\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)(?:, "([^"]+)")?/g)].map(
    ([, target, anchor, heading]) => ({
      from: file,
      page: target === "" ? file : path.posix.join(path.posix.dirname(file), target),
      heading: heading ?? (anchor === undefined ? undefined : `#${anchor}`)
    })
  )

/** Undefined: the citation leads to something. */
export const faultOf = ({ from, heading, page }: Citation): string | undefined => {
  if (!fs.existsSync(page)) return `${from}: ${page} does not exist`
  if (heading === undefined || !page.endsWith(".md")) return undefined
  const names = headingsOf(page)
  if (heading.startsWith("#")) {
    return names.some((name) => anchorOf(name) === heading.slice(1)) ? undefined : `${from}: ${page} has no ${heading}`
  }
  const isNamed = [...names, ...leadsOf(page), ...numbersOf(page)].some(
    (name) => name.toLowerCase() === heading.toLowerCase()
  )
  return isNamed ? undefined : `${from}: ${page} has no section "${heading}"`
}
