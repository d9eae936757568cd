/** The rules of words, held. CONTRIBUTING, "Words", says them with examples. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { commentsOf } from "./words/Comments.ts"
import { pending } from "./words/Pending.ts"
import { placeOf } from "./words/Places.ts"
import { banned, firstWords, longest, subjectLength, subjectsSince } from "./words/Rules.ts"
import { sentencesOf } from "./words/Sentences.ts"

/** Files below a folder, from the root; of dependencies and of what is built, none. */
const below = (folder: string, ending: RegExp): ReadonlyArray<string> =>
  (fs.readdirSync(folder, { recursive: true, encoding: "utf8" }) as ReadonlyArray<string>)
    .map((name) => path.posix.join(folder, name))
    .filter((file) => ending.test(file) && !/\/(?:node_modules|built)\//.test(file))

const rulesOfWords = /^test\/words/
const code = ["schema", "src", "layers", "migrations", "test", "deploy", ".ci"]
  .flatMap((folder) => below(folder, /\.(?:m?[jt]sx?|css|sh|ya?ml)$/))
  .filter((file) => !rulesOfWords.test(file) && !file.startsWith("test/clients/journeys/"))
/** `docs/changes` keeps what was written while a release was made. */
const pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].concat(
  ["docs", "deploy"].flatMap((folder) => below(folder, /\.md$/)).filter((file) => !file.startsWith("docs/changes/"))
)
const clean = (file: string) => !pending.includes(placeOf(file))
const textOf = (file: string) => fs.readFileSync(file, "utf8")
const lineAt = (text: string, index: number) => text.slice(0, index).split("\n").length

/** The break between two lines of a comment and its marker become spaces, as many as they had characters. */
const flowing = (text: string) => text.replaceAll(/\n[ \t]*(?:\*(?!\/)|\/\/)?/g, (gap) => " ".repeat(gap.length))

const bannedIn = (file: string): ReadonlyArray<string> => {
  const text = textOf(file)
  // Pages put bad examples between backticks.
  const plain = file.endsWith(".md") ? text.replaceAll(/`[^`\n]*`/g, (span) => "`".repeat(span.length)) : text
  const flat = flowing(plain)
  return banned.flatMap(({ name, pattern, instead }) =>
    [...flat.matchAll(pattern)].map((match) => `${file}:${lineAt(text, match.index)} "${name}": say ${instead}`)
  )
}

const openedBadly = (file: string): ReadonlyArray<string> =>
  commentsOf(file, textOf(file))
    .filter(({ text }) => firstWords.test(text))
    .map(({ line, text }) => `${file}:${line} ${text.slice(0, 60)}`)

describe("words", () => {
  it("a comment starts with a noun or a verb, never with What, Who or Whoever", () => {
    assert.isAbove(code.length, 1000)
    assert.deepStrictEqual(code.filter(clean).flatMap(openedBadly), [])
  })

  it("comments, pages and texts of the product have no wording that has a plainer form", () => {
    assert.deepStrictEqual([...code, ...pages].filter(clean).flatMap(bannedIn), [])
  })

  it("a sentence of a page has at most 35 words", () => {
    const long = pages.filter(clean).flatMap((page) =>
      sentencesOf(textOf(page))
        .filter(({ words }) => words > longest)
        .map(({ line, text, words }) => `${page}:${line} ${words} words: ${text.slice(0, 80)}`)
    )
    assert.deepStrictEqual(long, [])
  })

  it("every place on the list of places that are not clean yet exists", () => {
    const places = new Set([...code, ...pages].map(placeOf))
    assert.deepStrictEqual(
      pending.filter((place) => !places.has(place)),
      []
    )
  })
})

describe("the lint of words", () => {
  it("finds comments in each form", () => {
    const source = [
      "/** What it is. */",
      "const a = 1 // Who has it.",
      "  // Whoever asks",
      "  // is answered.",
      'const url = "https://example.com" // fine',
      "{/* What a page has */}",
      "/**",
      " * What spans",
      " * lines.",
      " */"
    ].join("\n")
    assert.deepStrictEqual(
      commentsOf("a.ts", source).map(({ line, text }) => `${line} ${text}`),
      [
        "1 What it is.",
        "2 Who has it.",
        "3 Whoever asks is answered.",
        "5 fine",
        "6 What a page has",
        "7 What spans lines."
      ]
    )
  })

  it("finds each banned wording, and leaves its innocent neighbours", () => {
    const hits = (text: string) => banned.filter(({ pattern }) => text.match(pattern) !== null).map(({ name }) => name)
    for (const [text, name] of [
      ["Whoever asks is answered", "whoever"],
      ["the caller is told so", "is told"],
      ["an error tells nothing", "tells nothing"],
      ["a value comes by the reveal", "comes by"],
      ["the row is not there.", "is there"],
      ["the sentence stands in the page", "stands"],
      ["imported by nobody", "nobody, acted on"]
    ] as const) {
      assert.deepStrictEqual(hits(text), [name])
    }
    for (const text of ["Is there a row?", "`x` stands for the id", "nobody may read it", "he told us"]) {
      assert.deepStrictEqual(hits(text), [])
    }
  })

  it("counts the words of sentences in paragraphs, lists and tables, and no code", () => {
    const page = [
      "# A heading",
      "One two `a b c` [four five](x.md). Six",
      "seven.",
      "",
      "* eight nine",
      "| a b | c. D e f |",
      "```",
      "not a sentence",
      "```"
    ].join("\n")
    assert.deepStrictEqual(
      sentencesOf(page)
        .filter(({ text }) => text !== "")
        .map(({ line, words }) => [line, words]),
      [
        [1, 2],
        [2, 5],
        [2, 2],
        [5, 2],
        [6, 2],
        [6, 1],
        [6, 3]
      ]
    )
  })
})

const subjects = (): ReadonlyArray<string> | undefined => {
  try {
    const log = execFileSync("git", ["log", "--format=%h %s", `${subjectsSince}..HEAD`], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"]
    })
    return log.split("\n").filter((line) => line !== "")
  } catch {
    // No repository, no git, or a shallow clone that has not that commit.
    return undefined
  }
}

describe("commits", () => {
  it("a subject has at most 72 characters", ({ skip }) => {
    const log = subjects()
    if (log === undefined) return skip()
    const long = log.filter((line) => line.replace(/^\S+ /, "").length > subjectLength)
    assert.deepStrictEqual(long, [])
  })
})
