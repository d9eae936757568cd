/**
 * Renders the documentation from the files of the repository. Pages are those of the contents (`docs/README.md`), the
 * pages that these link to, and the API reference. A link to another file of the repository gets a copy of that file.
 */
import { createHash } from "node:crypto"
import * as path from "node:path"
import { type ApiDocument, apiGroups } from "./ApiReference.ts"
import { contentsFile, groupsOf } from "./Contents.ts"
import * as Markdown from "./Markdown.ts"
import { indexOf } from "./SearchIndex.ts"
import { type Heading, type Page, root, type Site } from "./Site.ts"

export interface Sources {
  /** Bytes of a file by its path from the root of the repository; undefined for a folder or a missing file. */
  readonly read: (file: string) => Uint8Array | undefined
  readonly contract: ApiDocument
  readonly dashboard: ApiDocument
}

interface Source {
  readonly file: string
  readonly title: string
  readonly summary: string
  readonly text: string
}

interface Draft extends Source {
  readonly path: string
  readonly headings: ReadonlyArray<Heading>
}

/** Pages of the top folder, such as `CHANGELOG.md`, are below `/docs/project`. */
const pathOf = (file: string): string => {
  if (file === contentsFile) return root
  const name = file.replace(/(?:\/README)?\.md$/, "")
  return name.startsWith("docs/") ? `${root}${name.slice("docs".length)}` : `${root}/project/${name.toLowerCase()}`
}

const markdownPathOf = (file: string): string => (file.startsWith("docs/") ? `/${file}` : `${pathOf(file)}.md`)

/** The page with a section for each error code. */
const errorsFile = "docs/errors.md"

const decoder = new TextDecoder()

/** Leaves out comments that fill whole lines. A comment inside a line stays, and the HTML leaves it out. */
const withoutComments = (text: string): string => {
  let isOpen = false
  return text
    .split("\n")
    .filter((line) => {
      const starts = !isOpen && line.trimStart().startsWith("<!--")
      const isPart = isOpen || starts
      isOpen = isPart && !line.includes("-->")
      return !isPart
    })
    .join("\n")
}

const isPage = (file: string) => file.endsWith(".md") && (file.startsWith("docs/") || !file.includes("/"))
const pictures: ReadonlyMap<string, string> = new Map([
  [".png", "image/png"],
  [".svg", "image/svg+xml"],
  [".webp", "image/webp"]
])

/** File that a relative link names, and the anchor behind it. */
const destinationOf = (from: string, href: string): readonly [file: string, anchor: string] => {
  const [target = "", anchor = ""] = href.split("#")
  return [target === "" ? from : path.posix.join(path.posix.dirname(from), target).replace(/\/$/, ""), anchor]
}

const linkPattern = /\[([^[\]]*)\]\(([^()\s]+)\)/g
const isRelative = (href: string) => !/^(?:[a-z]+:|\/)/.test(href)

/** Pages that others link to without a place in the contents. */
const followed = (first: ReadonlyArray<Source>, read: Sources["read"]): ReadonlyArray<Source> => {
  const sources = new Map(first.map((source) => [source.file, source]))
  for (const source of sources.values()) {
    for (const [, , href] of source.text.matchAll(linkPattern)) {
      const [file] = destinationOf(source.file, href)
      if (!isRelative(href) || sources.has(file) || !isPage(file)) continue
      const bytes = read(file)
      if (bytes === undefined) continue
      const text = withoutComments(decoder.decode(bytes))
      sources.set(file, { file, text, summary: "", title: /^# (.+)$/m.exec(text)?.[1] ?? file })
    }
  }
  return [...sources.values()]
}

/** Links of a site: pages by file, and copies of other files as they are asked for. */
const linksOf = (drafts: ReadonlyArray<Draft>, read: Sources["read"]) => {
  const byFile = new Map(drafts.map((draft) => [draft.file, draft]))
  const codes = new Set(byFile.get(errorsFile)?.headings.flatMap(({ level, text }) => (level === 3 ? [text] : [])))
  const paths = new Set(drafts.map((draft) => draft.path))
  const files = new Map<string, Site["files"][number]>()
  const copy = (file: string): string | undefined => {
    const picture = pictures.get(path.posix.extname(file))
    const served = picture === undefined ? `${root}/files/${file}` : `/${file}`
    if (files.has(served)) return served
    const bytes = read(file)
    if (bytes === undefined) return undefined
    const content = picture === undefined ? decoder.decode(bytes) : Buffer.from(bytes).toString("base64")
    files.set(served, { path: served, contentType: picture ?? "text/plain; charset=utf-8", content })
    return served
  }
  const pageOf = (file: string) => byFile.get(file) ?? byFile.get(`${file}/README.md`)
  const anchored = (page: Draft, anchor: string): string =>
    anchor === "" ? "" : `#${page.headings.find(({ id }) => id.toLowerCase() === anchor.toLowerCase())?.id ?? anchor}`
  return {
    files,
    context: (draft: Draft): Markdown.Context => ({
      headings: draft.headings,
      linked: (href) => {
        if (!isRelative(href)) return href
        const [file, anchor] = destinationOf(draft.file, href)
        const page = pageOf(file)
        return page === undefined ? copy(file) : `${page.path}${anchored(page, anchor)}`
      },
      named: (text) => {
        if (codes.has(text)) return draft.file === errorsFile ? undefined : `${root}/errors#${text}`
        return paths.has(text) && text !== draft.path ? text : undefined
      }
    }),
    /** The page as Markdown, with links that work on the server. */
    markdown: (draft: Draft): string =>
      draft.text.replaceAll(linkPattern, (link, text: string, href: string) => {
        if (!isRelative(href)) return link
        const [file, anchor] = destinationOf(draft.file, href)
        const page = pageOf(file)
        const served = page === undefined ? copy(file) : `${markdownPathOf(page.file)}${anchored(page, anchor)}`
        return served === undefined ? text : `[${text}](${served})`
      })
  }
}

/** Groups with the sources of their pages. The contents themselves come first, in no group. */
const groupsFrom = ({ contract, dashboard, read }: Sources) => {
  const textOf = (file: string): string => {
    const bytes = read(file)
    if (bytes === undefined) throw new Error(`${contentsFile} lists ${file}, which does not exist`)
    return withoutComments(decoder.decode(bytes))
  }
  const contents = textOf(contentsFile)
  const listed = groupsOf(contents).map(({ name, pages }) => ({
    name,
    pages: pages.map((page) => ({ ...page, text: textOf(page.file) }))
  }))
  const first: Source = { file: contentsFile, title: "Documentation", summary: "every page.", text: contents }
  return { first, groups: [...listed, ...apiGroups(contract, dashboard)] }
}

export const renderSite = (sources: Sources): Site => {
  const { first, groups } = groupsFrom(sources)
  const all = followed([first, ...groups.flatMap(({ pages }) => pages)], sources.read)
  const drafts = all.map((source) => ({
    ...source,
    path: pathOf(source.file),
    headings: Markdown.headingsOf(source.text)
  }))
  const links = linksOf(drafts, sources.read)
  const pages = drafts.map((draft): Page => ({
    path: draft.path,
    markdownPath: markdownPathOf(draft.file),
    title: draft.title.replaceAll("`", ""),
    summary: draft.summary,
    html: Markdown.render(draft.text, links.context(draft)),
    headings: draft.headings,
    markdown: links.markdown(draft)
  }))
  const search = indexOf(pages)
  return {
    pages,
    groups: groups.map(({ name, pages }) => ({ name, paths: pages.map(({ file }) => pathOf(file)) })),
    files: [...links.files.values()],
    search,
    searchPath: `${root}/search.${createHash("sha256").update(search).digest("hex").slice(0, 12)}.json`
  }
}
