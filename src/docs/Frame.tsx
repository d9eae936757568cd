/** Frame of a documentation page. Everything reads without a script; the search and the copy buttons need one. */
import type { ComponentChildren } from "preact"
import * as Icons from "#src/dashboard/frame/Icons.tsx"
import { Mark } from "#src/dashboard/frame/Mark.tsx"
import * as Paths from "#src/dashboard/frame/Paths.ts"
import type { Theme } from "#src/dashboard/frame/Visit.ts"
import { type Page, root, type Site } from "./Site.ts"

/** Addresses of the files that each page loads. */
export interface FrameAssets {
  readonly style: string
  readonly script: string
  readonly icon: string
}

interface FrameProps {
  readonly site: Site
  readonly assets: FrameAssets
  readonly theme: Theme | undefined
}

const Top = ({ site }: { readonly site: Site }) => (
  <header class="top docs-top">
    <a class="brand" href={root} aria-label="Ampoule docs">
      <Mark /> <span>Ampoule docs</span>
    </a>
    <form class="docs-search needs-script" role="search" data-docs-search data-index={site.searchPath}>
      <Icons.Search />
      <label class="hidden" for="docs-query">
        Search the documentation
      </label>
      <input id="docs-query" type="search" placeholder="Search" autocomplete="off" spellcheck={false} />
      <kbd aria-hidden="true">/</kbd>
      <div class="docs-results" data-docs-results hidden>
        <p class="hint" role="status" data-docs-count />
        <ul />
      </div>
    </form>
    <a class="docs-to-pages" href="#pages">
      All pages
    </a>
    <a class="docs-home" href={Paths.home}>
      Dashboard
    </a>
  </header>
)

const Navigation = ({ current, site }: { readonly site: Site; readonly current: string | undefined }) => {
  const titles = new Map(site.pages.map(({ path, title }) => [path, title]))
  return (
    <nav class="docs-pages" id="pages" aria-label="Documentation">
      {site.groups.map(({ name, paths }) => (
        <details open={current === undefined || current === root || paths.includes(current)}>
          <summary>{name}</summary>
          <ul>
            {paths.map((path) => (
              <li>
                <a href={path} aria-current={path === current ? "page" : undefined}>
                  {titles.get(path)}
                </a>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </nav>
  )
}

/** The sections of a page, from its second level of headings on. */
const Sections = ({ page }: { readonly page: Page }) => {
  const sections = page.headings.filter(({ level }) => level === 2 || level === 3)
  if (sections.length < 2) return null
  return (
    <nav class="docs-sections" aria-label="On this page">
      <p>On this page</p>
      <ul>
        {sections.map(({ id, level, text }) => (
          <li class={level === 3 ? "docs-deeper" : undefined}>
            <a href={`#${id}`}>{text}</a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

const Neighbours = ({ page, site }: { readonly site: Site; readonly page: Page }) => {
  const order = site.groups.flatMap(({ paths }) => paths)
  const index = order.indexOf(page.path)
  const pageAt = (place: number) => site.pages.find(({ path }) => path === order[place])
  const previous = index > 0 ? pageAt(index - 1) : undefined
  // The contents are in front of the first page.
  const next = index >= 0 || page.path === root ? pageAt(index + 1) : undefined
  return previous === undefined && next === undefined ? null : (
    <nav class="docs-neighbours" aria-label="Previous and next page">
      {previous === undefined ? (
        <span />
      ) : (
        <a href={previous.path} rel="prev">
          <span class="hint">Previous</span> {previous.title}
        </a>
      )}
      {next === undefined ? null : (
        <a href={next.path} rel="next">
          <span class="hint">Next</span> {next.title}
        </a>
      )}
    </nav>
  )
}

const Document = ({
  alternate,
  assets,
  children,
  current,
  site,
  theme,
  title
}: FrameProps & {
  readonly title: string
  readonly current: string | undefined
  /** Path of the page as Markdown. */
  readonly alternate: string | undefined
  readonly children: ComponentChildren
}) => (
  <html lang="en" data-theme={theme}>
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content={theme ?? "light dark"} />
      <meta name="robots" content="noindex" />
      <title>{`${title} · Ampoule docs`}</title>
      <link rel="icon" type="image/svg+xml" href={assets.icon} />
      <link rel="stylesheet" href={assets.style} />
      {alternate === undefined ? null : <link rel="alternate" type="text/markdown" href={alternate} />}
      <script src={assets.script} defer />
    </head>
    <body class="docs">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Top site={site} />
      <div class="docs-frame">
        <main id="main" tabindex={-1}>
          {children}
        </main>
        <Navigation site={site} current={current} />
      </div>
    </body>
  </html>
)

/** One page of the documentation. */
export const DocsPage = ({ assets, page, site, theme }: FrameProps & { readonly page: Page }) => (
  <Document
    assets={assets}
    site={site}
    theme={theme}
    title={page.title}
    current={page.path}
    alternate={page.markdownPath}
  >
    <Sections page={page} />
    <article class="prose" dangerouslySetInnerHTML={{ __html: page.html }} />
    <Neighbours site={site} page={page} />
    <footer class="docs-foot">
      <a href={page.markdownPath}>This page as Markdown</a>
      <a href="/llms.txt">All pages for language models</a>
    </footer>
  </Document>
)

/** Shown for an address below `/docs` that has no page. */
export const MissingPage = ({ assets, site, theme }: FrameProps) => (
  <Document assets={assets} site={site} theme={theme} title="No such page" current={undefined} alternate={undefined}>
    <article class="prose">
      <h1>No such page</h1>
      <p>
        This address has no page in the documentation of this release. The page may have another name now: search for
        it, or start at the <a href={root}>contents</a>.
      </p>
    </article>
  </Document>
)
