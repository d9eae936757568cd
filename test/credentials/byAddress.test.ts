/** Several accounts may have one address, so one function looks people up by it: `Accounts.atAddress`. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { filesBelow } from "../imports.ts"

/** Statements about people that compare a column `email` or an address, each with its reason. */
const others: ReadonlyMap<string, string> = new Map([
  ["src/credentials/Accounts.ts", "the one look-up"],
  ["src/credentials/NewAddress.ts", "look-alikes, which are other addresses"],
  [
    "src/credentials/EmailMove.ts",
    "the row of one account, if it did not change; and the name that the database refused"
  ],
  ["src/credentials/SessionOpening.ts", "the row of one account, if it did not change"],
  ["src/credentials/Operator.ts", "the operator's search, which shows every account"],
  ["src/secrets/IncidentRows.ts", "people of one team, by the name or address that the trail has"]
])

/** Texts of the statements of a file. */
const statementsIn = (source: string): ReadonlyArray<string> => source.match(/sql(?:<[^`]*>)?`[^`]*`/g) ?? []
const ofPeople = /\busers\b|\bu\.email\b/
const compares = /\bemail\)?(?:::text)?\s*(?:=|<>|~|I?LIKE\b|IN\b|in\b|=\s*ANY)|split_part\((?:u\.)?email/i

const lookUps = (source: string): ReadonlyArray<string> =>
  statementsIn(source).filter((statement) => ofPeople.test(statement) && compares.test(statement))

describe("a person", () => {
  it("is looked up by an address in one place, and the other statements have a reason", () => {
    const files = filesBelow("src")
      .filter((file) => /\.tsx?$/.test(file) && lookUps(readFileSync(file, "utf8")).length > 0)
      .toSorted()
    assert.deepStrictEqual(files, [...others.keys()].toSorted(), "use Accounts.atAddress or Accounts.hasAddress")
  })

  it("is seen where a statement compares addresses", () => {
    for (const statement of [
      "sql`SELECT id FROM users WHERE email = ${email}`",
      "sql`SELECT 1 FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.email = ${email}`",
      "sql`SELECT u.id FROM users u WHERE lower(u.email) = ${email}`",
      "sql`SELECT u.id FROM users u WHERE split_part(u.email, ' ', 1) = ${email}`",
      "sql<Row>`SELECT id FROM users WHERE email = ANY(${emails})`"
    ]) {
      assert.lengthOf(lookUps(statement), 1, statement)
    }
    assert.lengthOf(lookUps("sql`SELECT u.email FROM users u WHERE u.id = ${id}`"), 0)
    assert.lengthOf(lookUps("sql`SELECT 1 FROM invitations WHERE email = ${email}`"), 0)
  })
})
