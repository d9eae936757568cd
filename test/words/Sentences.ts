/** Sentences of a Markdown page: of paragraphs, list items and cells of tables. Code blocks and comments are left out. */

export interface Sentence {
  readonly line: number
  readonly text: string
  readonly words: number
}

interface Block {
  readonly line: number
  readonly text: string
}

/** A code span is one word, a link is its text. */
const plain = (text: string) =>
  text
    .replaceAll(/``.+?``|`[^`]*`/g, "CODE")
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\*\*|__|[*_](?=\w)|(?<=\w)[*_]/g, "")

const blank = (text: string) => text.replaceAll(/[^\n]/g, "")

const blocksOf = (page: string): ReadonlyArray<Block> => {
  const lines = page
    .replaceAll(/<!--[\s\S]*?-->/g, blank)
    .replaceAll(/^ *(```|~~~)[\s\S]*?^ *\1/gm, blank)
    .split("\n")
  const blocks: Array<Block> = []
  let open: Block | undefined
  const close = () => {
    if (open !== undefined) blocks.push(open)
    open = undefined
  }
  for (const [i, text] of lines.entries()) {
    if (/^\s*\|/.test(text)) {
      close()
      const cells = text.replaceAll(/`[^`]*`/g, "CODE").split(/(?<!\\)\|/)
      blocks.push(...cells.map((cell) => ({ line: i + 1, text: cell.trim() })))
      continue
    }
    if (/^\s*(?:#|[-*+] |\d+\. |>|$)/.test(text)) close()
    if (text.trim() === "") continue
    const words = text.replace(/^\s*(?:#+ |[-*+] |\d+\. |> ?)+/, "").trim()
    open = open === undefined ? { line: i + 1, text: words } : { line: open.line, text: `${open.text} ${words}` }
    if (text.startsWith("#")) close()
  }
  close()
  return blocks
}

export const sentencesOf = (page: string): ReadonlyArray<Sentence> =>
  blocksOf(page).flatMap(({ line, text }) =>
    plain(text)
      .split(/(?<=[.!?]["”)]?)\s+(?=["“(]?[A-Z0-9/])/)
      .map((sentence) => ({
        line,
        text: sentence.trim(),
        words: sentence.split(/\s+/).filter((word) => /\w/.test(word)).length
      }))
  )
