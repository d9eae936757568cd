/** The search index: one entry for each section of each page. The browser searches (`browser.ts`); the server only sends it. */
import MiniSearch from "minisearch"
import { replacements } from "./Markdown.ts"
import { searchOptions } from "./SearchOptions.ts"
import type { Page } from "./Site.ts"

const entities = new Map([...replacements].map(([sign, entity]) => [entity, sign]))

const textOf = (html: string): string =>
  html
    .replaceAll(/<[^<>]*>/g, " ")
    .replaceAll(/&[#a-z0-9]{2,4};/g, (entity) => entities.get(entity) ?? entity)
    .replaceAll(/\s+/g, " ")
    .trim()

/** The HTML of each section of a page, from heading to heading. */
const sectionsOf = ({ headings, html, path, title }: Page) =>
  html
    .split(/(?=<h[1-6] id=")/)
    .filter((section) => section.startsWith("<h"))
    .map((section, index) => {
      const { id, level, text } = headings[index]
      const body = textOf(section.slice(section.indexOf("</h")))
      return { id: level === 1 ? path : `${path}#${id}`, title, heading: level === 1 ? title : text, text: body }
    })

export const indexOf = (pages: ReadonlyArray<Page>): string => {
  const index = new MiniSearch(searchOptions)
  index.addAll(pages.flatMap(sectionsOf))
  return JSON.stringify(index)
}
