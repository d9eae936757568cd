/** Exports of the trail: CSV for spreadsheets, JSON lines for programs. */
import * as Stream from "effect/Stream"
import type { AuditEntry } from "#schema/Audit.ts"
import { cell } from "#src/audit/Export.ts"

const columns: ReadonlyArray<readonly [string, (entry: AuditEntry) => string]> = [
  ["at", (entry) => entry.at],
  ["action", (entry) => entry.action],
  ["outcome", (entry) => entry.outcome],
  ["reason", (entry) => entry.reason ?? ""],
  ["actorType", (entry) => entry.actor.type],
  ["actorId", (entry) => entry.actor.id],
  ["actorName", (entry) => entry.actor.name ?? ""],
  ["project", (entry) => entry.project ?? ""],
  ["environment", (entry) => entry.environment ?? ""],
  ["keys", (entry) => entry.keys.join(" ")],
  ["targetType", (entry) => entry.target?.type ?? ""],
  ["targetId", (entry) => entry.target?.id ?? ""],
  ["targetName", (entry) => entry.target?.name ?? ""],
  ["ip", (entry) => entry.ip ?? ""],
  ["userAgent", (entry) => entry.userAgent ?? ""],
  ["via", (entry) => entry.via],
  ["requestId", (entry) => entry.requestId],
  ["id", (entry) => entry.id],
  ["stream", (entry) => entry.stream],
  ["seq", (entry) => String(entry.seq)],
  ["digest", (entry) => entry.digest ?? ""]
]

const line = (cells: ReadonlyArray<string>) => `${cells.map(cell).join(",")}\r\n`

export const csv = <E>(entries: Stream.Stream<AuditEntry, E>): Stream.Stream<Uint8Array, E> =>
  Stream.make(line(columns.map(([name]) => name))).pipe(
    Stream.concat(Stream.map(entries, (entry) => line(columns.map(([, of]) => of(entry))))),
    Stream.encodeText
  )

export const jsonLines = <E>(entries: Stream.Stream<AuditEntry, E>): Stream.Stream<Uint8Array, E> =>
  Stream.encodeText(Stream.map(entries, (entry) => `${JSON.stringify(entry)}\n`))
