/** The record of walks (`test/records/walks.json`), and the part of `docs/architecture.md` that is made from it. */
import * as Schema from "effect/Schema"
import { optional } from "#schema/Strict.ts"
import { parsed } from "#test/support/Json.ts"
import type { Walk } from "./Walks.ts"

const Line = Schema.Struct({
  walk: Schema.String,
  files: Schema.Number,
  functions: Schema.Number,
  /** Of a line that counts more than the line before it: what the walk enters anew, and the reason. */
  by: optional(Schema.Array(Schema.String)),
  why: optional(Schema.String)
})
type Line = typeof Line.Type

const WalkRecord = Schema.Struct({
  /** Files that the walk should enter at most. */
  goals: Schema.Record({ key: Schema.String, value: Schema.Number }),
  /** Oldest first. The last line of a walk is its limit. */
  lines: Schema.Array(Line),
  files: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) }),
  functions: Schema.Record({ key: Schema.String, value: Schema.Array(Schema.String) })
})
export type WalkRecord = typeof WalkRecord.Type
export const read = parsed(WalkRecord)

const limitOf = ({ lines }: WalkRecord, walk: string): Line | undefined =>
  lines.filter((line) => line.walk === walk).at(-1)

const isMore = (after: Line, before: Line | undefined) =>
  before !== undefined && (after.files > before.files || after.functions > before.functions)

/** Lines that count more than the line before them and do not say by what and why. */
export const unexplained = ({ lines }: WalkRecord): ReadonlyArray<Line> =>
  lines.filter((line, i) => {
    const before = lines
      .slice(0, i)
      .filter(({ walk }) => walk === line.walk)
      .at(-1)
    return isMore(line, before) && ((line.by ?? []).length === 0 || (line.why ?? "").trim() === "")
  })

const added = (before: ReadonlyArray<string> = [], after: ReadonlyArray<string>) =>
  after.filter((one) => !before.includes(one))

/** Files that a walk enters beyond its record; functions, where there is no such file. */
export const additions = (record: WalkRecord, name: string, walk: Walk) => {
  const files = added(record.files[name], walk.files)
  return files.length > 0 ? files : added(record.functions[name], walk.functions)
}

/** Whether a walk enters more than its record allows. */
export const rises = (record: WalkRecord, name: string, { files, functions }: Walk): boolean =>
  isMore({ walk: name, files: files.length, functions: functions.length }, limitOf(record, name))

/** The record after a measurement. A rise needs a reason: without one it throws. */
export const updated = (record: WalkRecord, walks: ReadonlyMap<string, Walk>, why: string | undefined): WalkRecord => {
  const lines = [...record.lines]
  for (const [name, walk] of walks) {
    const line: Line = { walk: name, files: walk.files.length, functions: walk.functions.length }
    const before = limitOf(record, name)
    if (before?.files === line.files && before.functions === line.functions) continue
    if (!isMore(line, before)) lines.push(line)
    else if (why === undefined) throw new Error(`${name} enters more than before: say why in AMPOULE_WALKS_WHY`)
    else lines.push({ ...line, by: additions(record, name, walk), why })
  }
  const lists = (of: (walk: Walk) => ReadonlyArray<string>) =>
    Object.fromEntries([...walks].map(([name, walk]) => [name, of(walk)]))
  return { goals: record.goals, lines, files: lists(({ files }) => files), functions: lists((walk) => walk.functions) }
}

// --- the page ---

const start = "<!-- walks: `npm run walks` writes this part -->"
const end = "<!-- end of walks -->"

/** From the socket to the database. */
const floors = [
  "src/http/engine",
  "src/http/authentication",
  "src/http/routes",
  "src/mcp",
  "schema",
  "src/credentials",
  "src/access",
  "src/secrets",
  "src/crypto",
  "src/trail",
  "src/audit",
  "src/rows",
  "src/limits",
  "src/database",
  "layers"
]

const folderOf = (file: string) => file.slice(0, file.lastIndexOf("/"))
const nameOf = (file: string) => file.slice(file.lastIndexOf("/") + 1).replace(/\.tsx?$/, "")

const floorsOf = (files: ReadonlyArray<string>) => {
  const others = [...new Set(files.map(folderOf))].filter((folder) => !floors.includes(folder))
  return [...floors, ...others].flatMap((folder) => {
    const names = files.filter((file) => folderOf(file) === folder).map(nameOf)
    return names.length === 0 ? [] : [`\`${folder}\` (${names.length}): ${names.join(", ")}`]
  })
}

const section = (record: WalkRecord) => {
  const table = Object.entries(record.files).map(([name, files]) => {
    const own = files.filter((file) => folderOf(file) === "src/secrets").length
    const functions = record.functions[name]?.length ?? 0
    return `| ${name} | ${files.length} | ${functions} | ${own} | ${record.goals[name] ?? ""} |`
  })
  const roads = Object.entries(record.files).flatMap(([name, files]) => [
    `**${name}**`,
    "",
    ...floorsOf(files).map((floor) => `* ${floor}`),
    ""
  ])
  return [
    start,
    "",
    "| one warm request | files entered | named functions | files of `src/secrets` | goal, files |",
    "|---|---|---|---|---|",
    ...table,
    "",
    "<!-- record walks.json -->",
    "",
    ...roads,
    end
  ].join("\n")
}

export const pageWith = (page: string, record: WalkRecord): string => {
  const [from, to] = [page.indexOf(start), page.indexOf(end)]
  if (from < 0 || to < from) throw new Error("docs/architecture.md has lost the marks of its walks")
  return page.slice(0, from) + section(record) + page.slice(to + end.length)
}
