/** Place of a file: `src/<folder>`, `src` for files at its top, `pages` for Markdown outside `test`, or its top folder. */
export const placeOf = (file: string): string => {
  const [top, second, third] = file.split("/")
  if (file.endsWith(".md") && top !== "test") return "pages"
  return top === "src" ? (third === undefined ? "src" : `src/${second}`) : top
}
