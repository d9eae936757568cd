import { assert, describe, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import { layout, relative } from "#src/cli/terminal/Table.ts"

const titles = ["KEY", "KIND", "UPDATED", "BY"]
const rows = [
  ["DATABASE_URL", "template (HOST, PORT)", "3 h ago", "ada@example.com"],
  ["A", "literal", "2026-01-01", "ci"]
]
const lines = (width: number | undefined) => {
  const { body, head } = layout(titles, rows, width)
  return [...head, ...body]
}

describe("a table", () => {
  it("has a row on a line for a program, and where there is room", () => {
    const whole = [
      "KEY           KIND                   UPDATED     BY",
      "DATABASE_URL  template (HOST, PORT)  3 h ago     ada@example.com",
      "A             literal                2026-01-01  ci"
    ]
    assert.deepStrictEqual(lines(undefined), whole)
    assert.deepStrictEqual(lines(200), whole)
  })

  it("breaks cells between words where there is less, and puts them below each other where there is little", () => {
    assert.deepStrictEqual(lines(60), [
      "KEY           KIND             UPDATED     BY",
      "DATABASE_URL  template (HOST,  3 h ago     ada@example.com",
      "              PORT)",
      "A             literal          2026-01-01  ci"
    ])
    assert.deepStrictEqual(lines(40), [
      "KEY      DATABASE_URL",
      "KIND     template (HOST, PORT)",
      "UPDATED  3 h ago",
      "BY       ada@example.com",
      "",
      "KEY      A",
      "KIND     literal",
      "UPDATED  2026-01-01",
      "BY       ci"
    ])
  })

  it("is never wider than the terminal, and loses no character", () => {
    const cell = fc.string({ unit: fc.constantFrom("a", "B", "_", " ", "ü", "1"), maxLength: 60 })
    const table = fc.array(fc.tuple(cell, cell, cell, cell), { minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(table, fc.integer({ min: 40, max: 120 }), (some, width) => {
        const { body, head } = layout(titles, some, width)
        for (const line of [...head, ...body]) assert.isAtMost([...line].length, width)
        const written = (text: string) => [...text.replaceAll(" ", "")].sort().join("")
        const expected = head.length === 0 ? some.map((row) => titles.join("") + row.join("")) : some.flat()
        assert.strictEqual(written(body.join("")), written(expected.join("")))
      })
    )
  })

  it("says times as people do", () => {
    const now = Date.parse("2026-11-22T12:00:00.000Z")
    const at = (seconds: number) => relative(new Date(now + seconds * 1_000).toISOString(), now)
    assert.deepStrictEqual([0, -30, -90, -7_300, -47 * 3_600, -3 * 86_400, -100 * 86_400, 300, 86_400 * 10].map(at), [
      "now",
      "30 s ago",
      "1 min ago",
      "2 h ago",
      "47 h ago",
      "3 days ago",
      "2026-08-14",
      "in 5 min",
      "in 10 days"
    ])
    for (const text of ["", "never", "2026-11-22", "KEY"]) assert.strictEqual(relative(text, now), text)
  })
})
