/**
 * An exported trail. Lines of JSON:
 *
 *   {"export":{"format":"ampoule-audit-export","version":2,"at":…,"since":…,"until":…}}
 *   {"cut":"<signed note>"}                                  streams that begin after a retention cut
 *   {"seal":{"stream","seq","hash","final"}}                 as in the database; only the vault can verify a seal
 *   {"start":{"stream","seq","hash"}}                        the link before a part that begins in the middle
 *   {"keys":{"hash":"<hex>","keys":[…]}}                     a list of keys, before the first entry that names its hash
 *   {"hash":"<hex>","entry":<the body, byte for byte>}       in the order of each stream
 *   {"end":{"entries":n}}
 *
 * Version 1 has no lists of keys.
 */
import type { Head } from "./Chain.ts"

const format = "ampoule-audit-export"

const version = 2

export interface ExportInfo {
  readonly at: string
  readonly since: string | null
  readonly until: string | null
}

export type Line =
  | { readonly type: "export"; readonly info: ExportInfo }
  | { readonly type: "cut"; readonly note: string }
  | { readonly type: "seal"; readonly head: Head; readonly final: boolean }
  | { readonly type: "start"; readonly head: Head }
  | { readonly type: "keys"; readonly hash: string; readonly keys: ReadonlyArray<string> }
  | { readonly type: "entry"; readonly hash: Uint8Array; readonly body: string }
  | { readonly type: "end"; readonly entries: number }

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex")
const headOf = ({ hash, seq, stream }: Head) => ({ stream, seq, hash: hex(hash) })

export const print = (line: Line): string => {
  switch (line.type) {
    case "export":
      return `${JSON.stringify({ export: { format, version, ...line.info } })}\n`
    case "cut":
      return `${JSON.stringify({ cut: line.note })}\n`
    case "seal":
      return `${JSON.stringify({ seal: { ...headOf(line.head), final: line.final } })}\n`
    case "start":
      return `${JSON.stringify({ start: headOf(line.head) })}\n`
    case "keys":
      return `${JSON.stringify({ keys: { hash: line.hash, keys: line.keys } })}\n`
    case "entry":
      return `{"hash":"${hex(line.hash)}","entry":${line.body}}\n`
    case "end":
      return `${JSON.stringify({ end: { entries: line.entries } })}\n`
  }
}

const entryPrefix = /^\{"hash":"([0-9a-f]{64})","entry":/

const asRecord = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  // The check makes it a record; its members stay unknown.
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined

const headFrom = (value: unknown): Head | undefined => {
  const { hash, seq, stream } = asRecord(value) ?? {}
  if (typeof stream !== "string" || typeof seq !== "number" || !Number.isSafeInteger(seq)) return undefined
  if (typeof hash !== "string" || !/^[0-9a-f]{64}$/.test(hash)) return undefined
  return { stream, seq, hash: Buffer.from(hash, "hex") }
}

const textOrNull = (value: unknown): string | null => (typeof value === "string" ? value : null)

/** Undefined: not a line of an export. */
export const parse = (text: string): Line | undefined => {
  const entry = entryPrefix.exec(text)
  if (entry !== null) {
    if (!text.endsWith("}")) return undefined
    return { type: "entry", hash: Buffer.from(entry[1], "hex"), body: text.slice(entry[0].length, -1) }
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  const line = asRecord(value)
  if (line === undefined) return undefined
  const info = asRecord(line["export"])
  if (info !== undefined) {
    if (
      info["format"] !== format ||
      (info["version"] !== 1 && info["version"] !== version) ||
      typeof info["at"] !== "string"
    )
      return undefined
    return {
      type: "export",
      info: { at: info["at"], since: textOrNull(info["since"]), until: textOrNull(info["until"]) }
    }
  }
  if (typeof line["cut"] === "string") return { type: "cut", note: line["cut"] }
  const seal = headFrom(line["seal"])
  if (seal !== undefined) return { type: "seal", head: seal, final: asRecord(line["seal"])?.["final"] === true }
  const start = headFrom(line["start"])
  if (start !== undefined) return { type: "start", head: start }
  const list = asRecord(line["keys"])
  if (list !== undefined) {
    const { hash, keys } = list
    return typeof hash === "string" && Array.isArray(keys) && keys.every((key) => typeof key === "string")
      ? { type: "keys", hash, keys }
      : undefined
  }
  const entries = asRecord(line["end"])?.["entries"]
  return typeof entries === "number" ? { type: "end", entries } : undefined
}

/** Stream and number of an entry, from its body. */
export const placeOf = (body: string): { readonly stream: string; readonly seq: number } | undefined => {
  try {
    const { seq, stream } = asRecord(JSON.parse(body)) ?? {}
    return typeof stream === "string" && typeof seq === "number" ? { stream, seq } : undefined
  } catch {
    return undefined
  }
}

// --- CSV (RFC 4180) ---

const columns = [
  "at",
  "id",
  "stream",
  "seq",
  "requestId",
  "actorType",
  "actorId",
  "actorName",
  "action",
  "outcome",
  "reason",
  "team",
  "project",
  "environment",
  "environmentId",
  "keys",
  "versions",
  "targetType",
  "targetId",
  "targetName",
  "ip",
  "userAgent",
  "via",
  "hash"
] as const

/**
 * One cell of a CSV file. A spreadsheet runs a cell that begins like a formula (OWASP, "CSV Injection"). Such a cell
 * gets an apostrophe in front, even after blanks or quotes. Full-width forms of the signs count too.
 */
export const cell = (value: string): string => {
  const safe = /^[\s"']*[=+\-@\uff0b\uff0d\uff1d\uff20]|^[\t\r\n]/.test(value) ? `'${value}` : value
  return `"${safe.replaceAll('"', '""')}"`
}

export const csvHeader = `${columns.join(",")}\r\n`

/** `keys` is the list that the entry names, if any. */
export const csvRow = (body: string, hash: Uint8Array, keys?: ReadonlyArray<string>): string => {
  const entry = asRecord(JSON.parse(body)) ?? {}
  const actor = asRecord(entry["actor"]) ?? {}
  const target = asRecord(entry["target"]) ?? {}
  const text = (value: unknown): string =>
    value === undefined || value === null
      ? ""
      : Array.isArray(value)
        ? value.map(String).join(" ")
        : typeof value === "object"
          ? ""
          : String(value)
  const cells: Record<(typeof columns)[number], string> = {
    at: text(entry["at"]),
    id: text(entry["id"]),
    stream: text(entry["stream"]),
    seq: text(entry["seq"]),
    requestId: text(entry["requestId"]),
    actorType: text(actor["type"]),
    actorId: text(actor["id"]),
    actorName: text(actor["name"]),
    action: text(entry["action"]),
    outcome: text(entry["outcome"]),
    reason: text(entry["reason"]),
    team: text(entry["team"]),
    project: text(entry["project"]),
    environment: text(entry["environment"]),
    environmentId: text(entry["environmentId"]),
    keys: text(keys ?? entry["keys"]),
    versions: text(entry["versions"]),
    targetType: text(target["type"]),
    targetId: text(target["id"]),
    targetName: text(target["name"]),
    ip: text(entry["ip"]),
    userAgent: text(entry["userAgent"]),
    via: text(entry["via"]),
    hash: hex(hash)
  }
  return `${columns.map((name) => cell(cells[name])).join(",")}\r\n`
}
