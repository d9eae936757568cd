/** The pages tell the truth: files, headings and figures that they and comments cite exist as cited. */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Errors from "#schema/Errors.ts"
import {
  type CliError,
  CliFailure,
  describe as described,
  type ServerRefused,
  ServerUnreachable,
  UnexpectedAnswer
} from "#src/cli/terminal/Failure.ts"
import type { OwnCode } from "#src/client/Failure.ts"
import { contentsFile, groupsOf } from "#src/docs/Contents.ts"
import { citationsIn, faultOf, linksIn } from "./pages/Citations.ts"
import { blocksOf, faultsOf, says } from "./pages/Quotes.ts"
import { tables } from "./pages/Tables.ts"
import { parsed, TextsByName } from "./support/Json.ts"

const below = (folder: string, ending: RegExp): ReadonlyArray<string> =>
  fs
    .readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => path.posix.join(folder, name))
    .filter((file) => ending.test(file) && !/\/(?:node_modules|built)\//.test(file))

const pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ...below("docs", /\.md$/)]
const current = pages.filter((page) => !page.startsWith("docs/changes/"))
const code = ["schema", "src", "layers", "migrations", "test", "deploy", ".ci"]
  .flatMap((folder) => below(folder, /\.(?:m?[jt]sx?|css|sh|ya?ml|toml|service)$|Dockerfile$/))
  .filter((file) => !/^test\/(?:pages|words)/.test(file))
const textOf = (file: string) => fs.readFileSync(file, "utf8")

/** Pages whose figures come from test/records. */
const measured = ["README.md", "docs/speed.md", "docs/scaling.md", "docs/assurance.md", "docs/architecture.md"]

describe("citations", () => {
  it("of pages name files that exist", () => {
    const folders = "src|schema|layers|test|migrations|deploy|docs|\\.ci"
    const named = current.flatMap((page) =>
      [...textOf(page).matchAll(new RegExp(`\`((?:${folders})/[^\`*\\s…{}<>]+)\``, "g"))].map(([, file]) => [
        page,
        file
      ])
    )
    assert.isAbove(named.length, 200)
    assert.deepStrictEqual(
      named.filter(([, file]) => !fs.existsSync(file)).map(([page, file]) => `${page}: ${file}`),
      []
    )
  })

  it("of pages by links lead to files and headings", () => {
    const links = pages.flatMap((page) => linksIn(page, textOf(page)))
    assert.isAbove(links.length, 60)
    assert.deepStrictEqual(
      links.map(faultOf).filter((fault) => fault !== undefined),
      []
    )
  })

  it("of comments lead to pages and to sections in them", () => {
    const citations = [...code, ...current].flatMap((file) => citationsIn(file, textOf(file)))
    assert.isAbove(citations.length, 150)
    assert.deepStrictEqual(
      citations.map(faultOf).filter((fault) => fault !== undefined),
      []
    )
  })

  it("of source files in comments name files that exist", () => {
    const named = code.flatMap((file) =>
      [
        ...textOf(file).matchAll(/(?:\/\/|\*|#) .*?`((?:src|schema|layers|test|migrations|deploy)\/[\w./-]+\.\w+)`/g)
      ].map(([, target]) => [file, target])
    )
    assert.isAbove(named.length, 50)
    assert.deepStrictEqual(
      named.filter(([, target]) => !fs.existsSync(target)).map(([file, target]) => `${file}: ${target}`),
      []
    )
  })

  it("of pages that are named without their address do not exist: a reader cannot follow them", () => {
    const vague = /\b(?:security|access|contract|operations) page\b|\bdecisions? page\b/i
    assert.deepStrictEqual(
      code.filter((file) => vague.test(textOf(file))),
      []
    )
  })
})

describe("figures", () => {
  it("that a page quotes from a record are those of the record", () => {
    const faults = current.flatMap((page) =>
      blocksOf(textOf(page)).flatMap((block) => faultsOf(block).map((fault) => `${page}:${block.line} ${fault}`))
    )
    assert.deepStrictEqual(faults, [])
  })

  it("beside the name of a record are quoted, or the page says why not", () => {
    const bare = measured.flatMap((page) =>
      blocksOf(textOf(page))
        .filter(({ notes, text }) => {
          const isTable = text.startsWith("|")
          const figures = text.replaceAll(/`[^`]*`|\d{4}-\d\d-\d\d/g, "")
          const quotesRecord = /test\/records\/\w+\.json/.test(text)
          const hasFigures = isTable ? /\| *\d[\d.,]*(?: \(| *\|)/.test(figures) : quotesRecord && /\d/.test(figures)
          return hasFigures && !notes.some((note) => /^(?:record \w|no record|\/table)/.test(note))
        })
        .map(({ line, text }) => `${page}:${line} ${text.slice(0, 60)}`)
    )
    assert.deepStrictEqual(bare, [])
  })

  it("in tables of a record are the whole table", () => {
    const names = pages.flatMap((page) =>
      [...textOf(page).matchAll(/<!-- table (\w+) -->\n([\s\S]*?)\n<!-- \/table -->/g)].map(([, name, text]) => {
        assert.strictEqual(text, tables.get(name), `${page}: ${name}`)
        return name
      })
    )
    assert.deepStrictEqual(names.toSorted(), [...tables.keys()].toSorted())
  })

  it("are compared as far as they are rounded", () => {
    for (const [text, value] of [
      ["2.2 s", 2188],
      ["27", 27.4],
      ["1.5 % more", 1.015],
      ["17.3 % fewer", 0.827],
      ["11,700", 11_689.07],
      ["2026-11-26", "2026-11-26"]
    ] as const) {
      assert.isTrue(says(text, value), text)
    }
    for (const [text, value] of [
      ["2.2 s", 2300],
      ["200", 205],
      ["11,700", 11_760],
      ["1.5 % more", 0.985],
      ["two", 2]
    ] as const) {
      assert.isFalse(says(text, value), text)
    }
  })
})

describe("pages", () => {
  it("the glossary has at most 40 words, in alphabetical order", () => {
    const words = [...textOf("docs/glossary.md").matchAll(/^\| ([a-z][\w -]*) \|/gm)].map(([, word]) => word).slice(1)
    assert.isAtMost(words.length, 40)
    assert.isAbove(words.length, 30)
    assert.deepStrictEqual(words, words.toSorted())
  })

  it("the page of tests has every script that tests, measures or releases", () => {
    const { scripts } = parsed(Schema.Struct({ scripts: TextsByName }))(textOf("package.json"))
    const page = textOf("docs/testing.md")
    const missing = Object.keys(scripts).filter(
      (name) =>
        /^(?:test|bench|release|check|lint)\b/.test(name) && !page.includes(`npm run ${name}\``) && name !== "test"
    )
    assert.deepStrictEqual(missing, [])
  })

  it("the diagram of the architecture has every folder of src", () => {
    const [, diagram = ""] = /```text\n([\s\S]*?)```/.exec(textOf("docs/architecture.md")) ?? []
    const folders = fs
      .readdirSync("src", { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
    assert.deepStrictEqual(
      folders.filter((name) => !new RegExp(`(?<![\\w-])${name}(?![\\w-])`).test(diagram)),
      []
    )
  })

  it("every page is in the contents once, under its own title", () => {
    const groups = groupsOf(textOf(contentsFile))
    const entries = groups.flatMap((group) => group.pages)
    const kept = pages.filter((page) => page.startsWith("docs/") && !page.startsWith("docs/changes/"))
    assert.deepStrictEqual(
      entries
        .map(({ file }) => file)
        .filter((file) => file !== "CHANGELOG.md")
        .toSorted(),
      kept.filter((page) => page !== contentsFile).toSorted()
    )
    assert.deepStrictEqual(
      entries.map(({ title }) => title),
      entries.map(({ file }) => /^# (.+)$/m.exec(textOf(file))?.[1])
    )
    assert.isAbove(groups.length, 4)
  })
})

const errorsPage = textOf("docs/errors.md")
const sections = new Map(
  errorsPage
    .split(/^### /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf("\n")), section.split(/^## /m)[0]])
)

const ofServer = Object.values(Errors).map(({ code }) => code)
const refusedCommands = {
  CliFailure: [new CliFailure({ message: "", exitCode: 2 }), new CliFailure({ message: "" })],
  ServerUnreachable: [new ServerUnreachable({ url: "", reason: "" })],
  UnexpectedAnswer: [new UnexpectedAnswer({ url: "", status: 0, reason: "" })]
} satisfies Record<Exclude<CliError, ServerRefused>["_tag"], ReadonlyArray<CliError>>
const ofCommands = Object.values(refusedCommands)
  .flat()
  .map((failure) => described(failure).code)
const ofClient = Object.keys({
  SERVER_UNREACHABLE: true,
  UNEXPECTED_ANSWER: true,
  SETTINGS_INVALID: true,
  NO_CREDENTIAL: true,
  TARGET_MISSING: true,
  PROJECT_UNCLEAR: true,
  KEY_MISSING: true,
  DANGEROUS_NAMES: true,
  VALUE_UNUSABLE: true,
  NO_VARIABLES: true
} satisfies Record<OwnCode, true>)
/** Codes that the client library writes into an error, as its sources have them. */
const thrownByClient = below("src/client", /\.ts$/).flatMap((file) =>
  [...textOf(file).matchAll(/\bnew AmpouleError\(\s*"([A-Z_]+)"/g)].map(([, code]) => code)
)

describe("the page of error codes", () => {
  it("has a section for each code of the server, the command line and the client library, and no other", () => {
    assert.isAbove(ofServer.length, 50)
    const expected = new Set([...ofServer, ...ofCommands, ...ofClient])
    assert.deepStrictEqual([...sections.keys()].toSorted(), [...expected].toSorted())
    assert.isAbove(thrownByClient.length, 8)
    assert.deepStrictEqual(
      thrownByClient.filter((code) => !sections.has(code)),
      []
    )
  })

  it("says the meaning, the usual causes and the next step of each code, in this order", () => {
    const parts =
      /^\w+\n\n\*\*Meaning\.\*\* \S[^\n]+\n\n\*\*Usual causes\.\*\* \S[^\n]+\n\n\*\*Next step\.\*\* \S[^\n]+\n*$/
    const incomplete = [...sections].filter(([, section]) => !parts.test(section))
    assert.deepStrictEqual(
      incomplete.map(([code]) => code),
      []
    )
  })

  it("has each code under the status that the server sends with it", () => {
    const wrong = Object.values(Errors).filter(({ code, status }) => {
      const before = errorsPage.slice(0, errorsPage.indexOf(`### ${code}\n`))
      const heading = [...before.matchAll(/^## (.+)$/gm)].at(-1)?.[1] ?? ""
      return !heading.includes(String(status))
    })
    assert.deepStrictEqual(
      wrong.map(({ code }) => code),
      []
    )
  })
})
