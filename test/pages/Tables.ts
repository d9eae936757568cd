/** Tables of pages that are made from a record, whole: `<!-- table NAME -->` … `<!-- /table -->`. */
import * as Schema from "effect/Schema"
import * as fs from "node:fs"
import { optional } from "#schema/Strict.ts"
import { parsed } from "#test/support/Json.ts"

const Cpu = Schema.Struct({ cpuMillis: Schema.Number })
const Cell = Schema.Struct({
  ours: Cpu,
  bare: optional(Cpu),
  theirs: optional(Cpu),
  ratio: Schema.Number,
  range: Schema.Tuple(Schema.Number, Schema.Number)
})
const Rows = Schema.Record({ key: Schema.String, value: Schema.Record({ key: Schema.String, value: Cell }) })
type Rows = typeof Rows.Type

const read = <A, I>(schema: Schema.Schema<A, I>, name: string) =>
  parsed(schema)(fs.readFileSync(`test/records/${name}`, "utf8"))
const bench = read(Schema.Struct({ postgres: Schema.Struct({ rows: Rows }) }), "bench.json").postgres.rows
const vault = read(Schema.Struct({ rows: Rows }), "vault.json").rows

const row = (cells: ReadonlyArray<string | number>) => `| ${cells.join(" | ")} |`

/** Ratios at 1, 16 and 64 connections with their ranges; CPU at 16, or at 1 where nothing else was measured. */
const ratios = (rows: Rows) =>
  [
    row(["request", "1", "16", "64", "CPU, ours / theirs"]),
    "|---|---|---|---|---|",
    ...Object.entries(rows).map(([name, cells]) => {
      const at = (connections: string) => {
        const cell = cells[connections]
        return cell === undefined ? "-" : `${cell.ratio} (${cell.range[0]} to ${cell.range[1]})`
      }
      const { ours, bare, theirs } = cells["16"] ?? cells["1"]
      return row([name, at("1"), at("16"), at("64"), `${ours.cpuMillis} / ${(bare ?? theirs)?.cpuMillis}`])
    })
  ].join("\n")

const inReadme: ReadonlyArray<readonly [string, string]> = [
  ["a token verified", "verify"],
  ["injection of 50", "inject 50"],
  ["injection of 500", "inject 500"],
  ["one value", "one value"],
  ["list of 50 names", "list 50 names"],
  ["a secret created", "create one"]
]

export const tables: ReadonlyMap<string, string> = new Map([
  ["bench", ratios(bench)],
  ["vault", ratios(vault)],
  [
    "speed",
    [
      row(["request", "a bare server, 1", "16", "Vault, 1", "16"]),
      "|---|---|---|---|---|",
      ...inReadme.map(([label, name]) =>
        row([label, bench[name]["1"].ratio, bench[name]["16"].ratio, vault[name]["1"].ratio, vault[name]["16"].ratio])
      )
    ].join("\n")
  ]
])
