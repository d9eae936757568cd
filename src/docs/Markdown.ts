/**
 * Markdown to HTML. Pages load under a policy without inline code, so the HTML has no style attribute and no script. HTML
 * in a page is shown as text; comments are left out.
 */
import { Marked, type Token, type Tokens } from "marked"
import type { Heading } from "./Site.ts"

export interface Context {
  readonly headings: ReadonlyArray<Heading>
  /** Path of a relative link. Undefined: it has none on the server, and the page shows its text alone. */
  readonly linked: (href: string) => string | undefined
  /** Path of a page or section that a code span names. */
  readonly named: (text: string) => string | undefined
}

/** Signs of text, and their form in HTML. */
export const replacements: ReadonlyMap<string, string> = new Map([
  ["&", "&amp;"],
  ["<", "&lt;"],
  [">", "&gt;"],
  ['"', "&quot;"],
  ["'", "&#39;"]
])
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (sign) => replacements.get(sign) ?? sign)

const isComment = (html: string) => html.trimStart().startsWith("<!--")

/** The words of inline tokens, without markup. */
const wordsOf = (tokens: ReadonlyArray<Token>): string =>
  tokens
    .map((token) => {
      if (token.type === "html") return ""
      if ("tokens" in token && token.tokens !== undefined) return wordsOf(token.tokens)
      return "text" in token ? String(token.text) : ""
    })
    .join("")

/** Anchor of a heading as GitHub makes it. A heading that is a code, such as `SECRET_NOT_FOUND`, is its own anchor. */
const anchorOf = (text: string): string =>
  /^[A-Z]+(?:_[A-Z]+)*$/.test(text) && text.length > 3
    ? text
    : text
        .trim()
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(/\s/g, "-")

const lexer = new Marked({ gfm: true })

/** Headings of a page in their order. A repeated one gets a number behind its anchor. */
export const headingsOf = (markdown: string): ReadonlyArray<Heading> => {
  const counts = new Map<string, number>()
  return lexer
    .lexer(markdown)
    .filter((token) => token.type === "heading")
    .map((token) => {
      const { depth, tokens } = token as Tokens.Heading
      const text = wordsOf(tokens)
      const anchor = anchorOf(text)
      const count = counts.get(anchor) ?? 0
      counts.set(anchor, count + 1)
      return { id: count === 0 ? anchor : `${anchor}-${count}`, text, level: depth }
    })
}

const isExternal = (href: string) => /^(?:https?:|mailto:)/.test(href)

/** The headings of the context are taken in their order. */
const rendererOf = (context: Context) => {
  let next = 0
  return new Marked({
    gfm: true,
    renderer: {
      html: ({ raw }) => (isComment(raw) ? "" : escaped(raw)),
      heading({ depth, tokens }) {
        const inner = this.parser.parseInline(tokens)
        const heading = context.headings[next++]
        if (depth === 1) return `<h1 id="${escaped(heading.id)}">${inner}</h1>\n`
        const label = escaped(`Link to this section: ${heading.text}`)
        const link = `<a class="anchor" href="#${escaped(heading.id)}" aria-label="${label}">#</a>`
        return `<h${depth} id="${escaped(heading.id)}">${inner} ${link}</h${depth}>\n`
      },
      code: ({ lang = "", text }) => {
        const [language = ""] = lang.split(/\s/)
        return `<pre class="code" tabindex="0"${language === "" ? "" : ` data-language="${escaped(language)}"`}><code>${escaped(text)}\n</code></pre>\n`
      },
      codespan: ({ text }) => {
        const path = context.named(text)
        const code = `<code>${escaped(text)}</code>`
        return path === undefined ? code : `<a href="${escaped(path)}">${code}</a>`
      },
      link({ href, tokens }) {
        // A link inside a link is no HTML: the code span inside is not looked up.
        const inner = this.parser.parseInline(tokens).replaceAll(/<a href="[^"]*">(<code>[^<]*<\/code>)<\/a>/g, "$1")
        if (isExternal(href)) return `<a href="${escaped(href)}" rel="noreferrer">${inner}</a>`
        const path = context.linked(href)
        return path === undefined ? inner : `<a href="${escaped(path)}">${inner}</a>`
      },
      image: ({ href, text }) => {
        const path = context.linked(href)
        return path === undefined ? escaped(text) : `<img src="${escaped(path)}" alt="${escaped(text)}" loading="lazy">`
      },
      table({ header, rows }) {
        const cell = ({ align, header: isHeader, tokens }: Tokens.TableCell) => {
          const tag = isHeader ? "th" : "td"
          const side = align === null ? "" : ` class="${align}"`
          return `<${tag}${side}${isHeader ? ' scope="col"' : ""}>${this.parser.parseInline(tokens)}</${tag}>`
        }
        const line = (cells: ReadonlyArray<Tokens.TableCell>) => `<tr>${cells.map(cell).join("")}</tr>`
        const body = rows.map(line).join("\n")
        return `<div class="doc-table" tabindex="0"><table><thead>${line(header)}</thead>\n<tbody>${body}</tbody></table></div>\n`
      }
    }
  })
}

export const render = (markdown: string, context: Context): string =>
  rendererOf(context).parse(markdown, { async: false })
