/**
 * Counts for each folder that may only fall (`test/records/ratchets.json`). A count that fell is written down by
 * `AMPOULE_RECORD_RATCHETS=1 npx vitest run test/ratchets.test.ts`. A count rises by hand alone, in the commit that says
 * why: a file moved to another folder, or a new feature has to open a secret.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { filesBelow } from "./imports.ts"
import { parsed } from "./support/Json.ts"
import { pending } from "./words/Pending.ts"
import { placeOf } from "./words/Places.ts"
import { participles, vagueTypes } from "./words/Rules.ts"

const record = "test/records/ratchets.json"
const Counts = Schema.Record({ key: Schema.String, value: Schema.Number })
const Record = Schema.Struct({
  participles: Counts,
  vagueTypes: Counts,
  redactedOpened: Counts,
  typedStatements: Counts
})
type Record = typeof Record.Type

const product = ["schema", "src", "layers", "migrations"].flatMap(filesBelow)

/** Matches in each folder that has any, in the order of names. */
const countsOf = (pattern: RegExp, files: ReadonlyArray<string>): Record["participles"] => {
  const counts = new Map<string, number>()
  for (const file of files) {
    const hits = fs.readFileSync(file, "utf8").match(pattern)?.length ?? 0
    if (hits > 0) counts.set(placeOf(file), (counts.get(placeOf(file)) ?? 0) + hits)
  }
  return Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)))
}

const current: Record = {
  participles: countsOf(participles, [...product, ...filesBelow("test")]),
  vagueTypes: countsOf(vagueTypes, product),
  redactedOpened: countsOf(/\bRedacted\.value\b/g, product),
  typedStatements: countsOf(/\bsql<\w*/g, product)
}

const recorded = (): Record => parsed(Record)(fs.readFileSync(record, "utf8"))

const lowered = (old: Record["participles"], now: Record["participles"]) =>
  Object.fromEntries(Object.entries(now).map(([place, count]) => [place, Math.min(count, old[place] ?? 0)]))

if (process.env["AMPOULE_RECORD_RATCHETS"] === "1") {
  const old = recorded()
  const next: Record = {
    participles: lowered(old.participles, current.participles),
    vagueTypes: lowered(old.vagueTypes, current.vagueTypes),
    redactedOpened: lowered(old.redactedOpened, current.redactedOpened),
    typedStatements: lowered(old.typedStatements, current.typedStatements)
  }
  fs.writeFileSync(record, `${JSON.stringify(next, null, 2)}\n`)
}

/** Folders whose count is not the recorded one. Places that are not clean yet are compared once they are. */
const moved = (old: Record["participles"], now: Record["participles"]) =>
  [...new Set([...Object.keys(old), ...Object.keys(now)])].flatMap((place) => {
    const [before, after] = [old[place] ?? 0, now[place] ?? 0]
    if (after === before || pending.includes(place)) return []
    return [`${place}: ${before} recorded, ${after} counted`]
  })

describe("counts that may only fall", () => {
  it("constants named by a bare participle", () => {
    assert.deepStrictEqual(moved(recorded().participles, current.participles), [])
  })

  it("types whose name says only that a function has a result", () => {
    assert.deepStrictEqual(moved(recorded().vagueTypes, current.vagueTypes), [])
  })

  it("files, exports and packages that nothing needs: none (`npm run unused`, exceptions in `knip.jsonc`)", () => {
    const { status, stderr, stdout } = spawnSync("npm", ["run", "--silent", "unused"], { encoding: "utf8" })
    assert.strictEqual(status, 0, stdout + stderr)
  })

  it("places where a Redacted is opened", () => {
    assert.deepStrictEqual(moved(recorded().redactedOpened, current.redactedOpened), [])
  })

  it("statements whose rows are typed by hand, and not decoded", () => {
    assert.deepStrictEqual(moved(recorded().typedStatements, current.typedStatements), [])
  })
})
