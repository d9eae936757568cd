/** Parts of the dashboard that hold for all inputs. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Stream from "effect/Stream"
import type { AuditEntry } from "#schema/Audit.ts"
import * as Export from "#src/audit/Export.ts"
import * as AuditExport from "#src/dashboard/audit/Export.ts"
import { around, collapsed, layout } from "#src/dashboard/secrets/GraphLayout.ts"
import { noticeOf } from "#src/dashboard/frame/Notices.ts"
import * as Paths from "#src/dashboard/frame/Paths.ts"

const parseCell = (text: string) => text.slice(1, -1).replaceAll('""', '"')

describe("cells of an exported trail", () => {
  it.prop("are quoted whole, and never begin a formula", [FastCheck.string()], ([text]) => {
    const cell = Export.cell(text)
    assert.match(cell, /^"(?:[^"]|"")*"$/)
    const read = parseCell(cell)
    assert.notMatch(read, /^\s*[=+\-@＝＋－＠]/)
    assert.notMatch(read, /^[\t\r\n]/)
    assert.isTrue(read === text || read === `'${text}`)
  })
  it("neutralise what spreadsheets run", () => {
    for (const text of ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", "＝1"]) {
      assert.strictEqual(parseCell(Export.cell(text)), `'${text}`)
    }
    assert.strictEqual(Export.cell('say "hi"'), '"say ""hi"""')
  })
  it.effect("are the same in the file that the dashboard hands out, also when quotes hide the formula", () =>
    Effect.gen(function* () {
      const userAgent = '"=1+1'
      const id = "01a20365-1170-740a-b625-6c9b684283ac"
      const entry: AuditEntry = {
        id,
        stream: id,
        seq: 1,
        at: "2026-11-22T08:00:00.000Z",
        requestId: "r",
        actor: { type: "user", id, name: "ada@example.com" },
        action: "secret.read",
        outcome: "allowed",
        team: null,
        keys: [],
        ip: null,
        userAgent,
        via: "rest"
      }
      const file = yield* Stream.mkString(Stream.decodeText(AuditExport.csv(Stream.make(entry))))
      assert.include(file, Export.cell(userAgent))
      assert.include(file, `"'""=1+1"`)
    })
  )
})

/** Edges that form no circle: always from the smaller to the larger number. */
const edges = FastCheck.array(FastCheck.tuple(FastCheck.nat(25), FastCheck.nat(25)), { maxLength: 60 }).map((pairs) =>
  pairs.flatMap(([a, b]) => (a === b ? [] : [{ from: `K${Math.min(a, b)}`, to: `K${Math.max(a, b)}` }]))
)

describe("the picture of references", () => {
  it.prop("places each key once, no two at one place, and lets every arrow lead right", [edges], ([edges]) => {
    const placed = layout(edges)
    const keys = new Set(edges.flatMap(({ from, to }) => [from, to]))
    assert.strictEqual(placed.nodes.length, keys.size)
    assert.deepStrictEqual(new Set(placed.nodes.map(({ key }) => key)), keys)
    assert.strictEqual(new Set(placed.nodes.map(({ column, row }) => `${column} ${row}`)).size, keys.size)
    const column = new Map(placed.nodes.map((node) => [node.key, node.column]))
    for (const { from, to } of edges) assert.isBelow(column.get(from) ?? 0, column.get(to) ?? 0)
    for (const { column, row } of placed.nodes) {
      assert.isTrue(column >= 0 && column < placed.columns && row >= 0 && row < placed.rows)
    }
  })
  it.prop("draws many alike as one node, and loses no key and no arrow between what is drawn", [edges], ([edges]) => {
    const drawn = collapsed(edges)
    const keys = [...new Set(edges.flatMap(({ from, to }) => [from, to]))].sort()
    assert.deepStrictEqual([...drawn.nodes.values()].flat().sort(), keys)
    for (const edge of edges) {
      assert.strictEqual(drawn.edges.includes(edge), drawn.nodes.has(edge.from) && drawn.nodes.has(edge.to))
    }
  })
  it("draws a base that 200 templates use as two nodes", () => {
    const hub = Array.from({ length: 200 }, (_, i) => ({ from: `URL_${i}`, to: "BASE" }))
    const { edges, nodes } = collapsed([...hub, { from: "OTHER", to: "URL_0" }])
    assert.strictEqual(nodes.size, 4)
    assert.strictEqual(layout(edges).rows, 2)
  })
  it("starts from one key: all that it builds on, all that builds on it, and nothing beside", () => {
    const edge = (from: string, to: string) => ({ from, to })
    const all = [edge("TOP", "MIDDLE"), edge("MIDDLE", "BASE"), edge("SIBLING", "BASE"), edge("MIDDLE", "LEAF")]
    assert.deepStrictEqual(around([...all, edge("X", "Y")], "MIDDLE"), [all[0], all[1], all[3]])
    assert.deepStrictEqual(around(all, "BASE"), all.slice(0, 3))
    assert.deepStrictEqual(around(all, "NOT_THERE"), [])
  })
  it("ends on a circle, which a stored graph never has", () => {
    assert.strictEqual(
      layout([
        { from: "A", to: "B" },
        { from: "B", to: "A" }
      ]).nodes.length,
      2
    )
  })
})

describe("where signing in may lead", () => {
  const base = "https://ampoule.example.com"
  it.prop(
    "is always a page of this server",
    [
      FastCheck.oneof(
        FastCheck.string(),
        FastCheck.webUrl(),
        FastCheck.string().map((text) => `/app${text}`)
      )
    ],
    ([path]) => {
      if (!Paths.isOwnPage(path)) return
      const url = new URL(path, base)
      assert.strictEqual(url.origin, base)
      assert.match(url.pathname, /^\/(?:app|device|invite)/)
    }
  )
  it("takes what pages link to and refuses what other sites would like", () => {
    for (const path of ["/app", "/device?code=BCDF-GHJK", "/app/projects/x/env/y?panel=add", "/invite?code=amp_iv_a"]) {
      assert.isTrue(Paths.isOwnPage(path), path)
    }
    for (const path of [
      "//evil.example.com",
      "/\\evil.example.com",
      "/app//evil",
      "https://evil.example.com/app",
      "/application",
      "/app\n",
      "/app/..//evil",
      ""
    ]) {
      assert.isFalse(Paths.isOwnPage(path), path)
    }
  })
})

describe("sentences after a change", () => {
  it.prop("are ours or none", [FastCheck.string()], ([name]) => {
    assert.isTrue(noticeOf(name) === undefined || /^[a-z-]+$/.test(name))
  })
  it("are not found where objects keep their own", () => {
    assert.isUndefined(noticeOf("constructor"))
    assert.isUndefined(noticeOf("__proto__"))
  })
})
