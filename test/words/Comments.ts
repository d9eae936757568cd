/** Comments of a source file. Reads lines, not syntax: a comment starts its line or follows a space. */

export interface Comment {
  readonly file: string
  readonly line: number
  readonly text: string
}

/** Block comments, and runs of `//` lines as one comment each. Markers and line breaks are taken out. */
export const commentsOf = (file: string, source: string): ReadonlyArray<Comment> => {
  const pattern =
    /(?:^|[\s{(,])\/\*([\s\S]*?)\*\/|^[ \t]*\/\/(?=[ \t])[^\n]*(?:\n[ \t]*\/\/[^\n]*)*|(?<=\S)[ \t]+\/\/(?=[ \t])[^\n]*/gm
  return [...source.matchAll(pattern)].map((match) => ({
    file,
    line: source.slice(0, match.index + match[0].search(/\S/)).split("\n").length,
    text: (match[1] ?? match[0])
      .replaceAll(/^\s*(?:\*|\/\/)[ \t]?/gm, "")
      .replaceAll(/^\*/g, "")
      .replaceAll(/\s+/g, " ")
      .trim()
  }))
}
