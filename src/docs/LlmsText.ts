/** The list of pages for language models (https://llmstxt.org): each page as Markdown, with its summary. */
import type { Site } from "./Site.ts"

/** Groups that a model may skip. */
const optional: ReadonlySet<string> = new Set(["Build and test", "API of the dashboard"])

export const llmsText = (site: Site, baseUrl: string): string => {
  const pages = new Map(site.pages.map((page) => [page.path, page]))
  const linesOf = (paths: ReadonlyArray<string>) =>
    paths.map((path) => {
      const { markdownPath = path, summary = "", title = path } = pages.get(path) ?? {}
      return `- [${title}](${baseUrl}${markdownPath}): ${summary}`
    })
  const sections = site.groups
    .filter(({ name }) => !optional.has(name))
    .map(({ name, paths }) => [`## ${name}`, "", ...linesOf(paths), ""].join("\n"))
  const last = site.groups.filter(({ name }) => optional.has(name)).flatMap(({ paths }) => linesOf(paths))
  return [
    "# Ampoule",
    "",
    "> Secrets management for teams: encrypted environment variables, handed to the process that needs them. Programs read them with `ampoule run`, by REST, or over MCP.",
    "",
    `AI agents use the MCP endpoint at ${baseUrl}/mcp in preference to the REST routes. The OpenAPI document is ${baseUrl}/openapi.json. Every error code has a section in ${baseUrl}/docs/errors.md.`,
    "",
    ...sections,
    "## Optional",
    "",
    ...last,
    ""
  ].join("\n")
}
