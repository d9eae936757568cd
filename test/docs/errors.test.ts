/** The page of error codes against the catalogue: every code has a section, and no section is of another code. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as Errors from "#schema/Errors.ts"
import { CliFailure, describe as described, ServerUnreachable, UnexpectedAnswer } from "#src/cli/terminal/Failure.ts"

const page = fs.readFileSync("docs/errors.md", "utf8")
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf("\n")), section.split(/^## /m)[0]])
)

const ofServer = Object.values(Errors).map(({ code }) => code)
const ofCommands = [
  new CliFailure({ message: "", exitCode: 2 }),
  new CliFailure({ message: "" }),
  new ServerUnreachable({ url: "", reason: "" }),
  new UnexpectedAnswer({ url: "", status: 0, reason: "" })
].map((failure) => described(failure).code)

describe("the page of error codes", () => {
  it("has a section for each code of the server and of the command line, and none for another one", () => {
    assert.isAbove(ofServer.length, 50)
    assert.deepStrictEqual([...sections.keys()].toSorted(), [...ofServer, ...ofCommands].toSorted())
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
      const before = page.slice(0, page.indexOf(`### ${code}\n`))
      const heading = [...before.matchAll(/^## (.+)$/gm)].at(-1)?.[1] ?? ""
      return !heading.includes(String(status))
    })
    assert.deepStrictEqual(
      wrong.map(({ code }) => code),
      []
    )
  })
})
