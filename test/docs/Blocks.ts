/**
 * Fenced blocks of the pages, and how each is run. A block of the language `sh` is run by `test/docs/commands.test.ts`, or
 * as a runbook by `test/docs/runbooks.test.ts`. A comment above a block says otherwise:
 *
 *     <!-- run by test/deploy/recipes.test.ts -->
 *     <!-- not run: needs a cluster -->
 *
 * `<!-- every block run by test/… -->` answers for those blocks of a page that have no comment of their own.
 */
import * as fs from "node:fs"
import * as path from "node:path"

type Answer =
  | { readonly kind: "run" }
  | { readonly kind: "run by"; readonly test: string }
  | { readonly kind: "not run"; readonly reason: string }

export interface Block {
  readonly page: string
  readonly line: number
  readonly language: string
  /** Name of a file, behind the language. */
  readonly name: string | undefined
  readonly text: string
  /** Undefined: the page does not say how the block is run. */
  readonly answer: Answer | undefined
}

/** Pages that a reader follows; `docs/changes` keeps what was written while a release was made. */
export const pages: ReadonlyArray<string> = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].concat(
  fs
    .readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md") && !name.startsWith("changes/"))
    .map((name) => path.posix.join("docs", name))
    .toSorted()
)

const answerOf = (comment: string | undefined, language: string, ofPage: string | undefined): Answer | undefined => {
  const [, test] = /^run by (test\/\S+)$/.exec(comment ?? "") ?? []
  if (test !== undefined) return { kind: "run by", test }
  if (comment === undefined && ofPage !== undefined) return { kind: "run by", test: ofPage }
  const [, reason] = /^not run: (\S.*)$/s.exec(comment ?? "") ?? []
  if (reason !== undefined) return { kind: "not run", reason }
  return comment === undefined && language === "sh" ? { kind: "run" } : undefined
}

/** Without the indentation of the list item that holds it. */
const withoutIndent = (text: string, indent: string) =>
  text
    .split("\n")
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join("\n")

export const blocksIn = (page: string, text: string): ReadonlyArray<Block> =>
  [
    ...text.matchAll(
      /(?:^ *<!-- ((?:run by|not run)[^>]*?) -->\n+)?^( *)```([\w-]*)(?: (\S+))?[ ]*\n(.*?)^ *```[ ]*$/gms
    )
  ].map((match) => {
    const [whole, comment, indent = "", language = "", name, body = ""] = match
    const offset = whole.indexOf("```")
    return {
      page,
      line: text.slice(0, match.index + offset).split("\n").length,
      language,
      name,
      text: withoutIndent(body, indent),
      answer: answerOf(comment, language, /<!-- every block run by (test\/\S+) -->/.exec(text)?.[1])
    }
  })

export const blocksOf = (page: string): ReadonlyArray<Block> => blocksIn(page, fs.readFileSync(page, "utf8"))

/** The blocks of a page that this folder's tests run, in their order. */
export const commandsOf = (page: string): ReadonlyArray<Block> =>
  blocksOf(page).filter(({ answer }) => answer?.kind === "run")

/** Pages with such blocks. */
export const pagesWithCommands = (): ReadonlyArray<string> => pages.filter((page) => commandsOf(page).length > 0)
