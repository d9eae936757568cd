/** Many entries written to one environment, in as few requests as the server takes. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { SecretChange } from "#schema/ProjectChangesApi.ts"
import { BulkEntry } from "#schema/SecretRequests.ts"
import type { Connection } from "#src/cli/connection/Client.ts"
import { call } from "#src/cli/connection/Client.ts"
import type { Location } from "#src/cli/connection/Reach.ts"
import { withKeyOfEntry } from "#src/cli/connection/Reach.ts"
import { secrets as secretsClient } from "#src/cli/connection/Routes.ts"
import { CliFailure } from "#src/cli/terminal/Failure.ts"
import { note, plain, progress, progressDone } from "#src/cli/terminal/Output.ts"
import { requireWritten, stillWaiting } from "./Changes.ts"

/** A text to write. `kind`: it is text although it looks like a template. */
export interface EntryToWrite {
  readonly key: string
  readonly value: string
  readonly line: number
  readonly kind?: "literal"
  /** Keys that it refers to. */
  readonly references: ReadonlyArray<string>
}

/** Of one request to `/secrets/bulk`, and of one to `/projects/{projectId}/changes`, which takes kinds too. */
const entriesOfBulk = 100
const entriesOfChanges = 1_000
const bytesOfOneRequest = 24 * 1024 * 1024

/** A key that is referred to goes before: each request is checked by itself against what the environment holds by then. */
export const inOrderOfReference = <Entry extends EntryToWrite>(entries: ReadonlyArray<Entry>): ReadonlyArray<Entry> => {
  const byKey = new Map(entries.map((entry) => [entry.key, entry]))
  const done = new Set<string>()
  const ordered: Array<Entry> = []
  const pending: Array<{ readonly entry: Entry; readonly uses: Array<string> }> = []
  const enter = (entry: Entry) => {
    done.add(entry.key)
    pending.push({ entry, uses: [...entry.references] })
  }
  for (const entry of entries) {
    if (!done.has(entry.key)) enter(entry)
    for (let top = pending.at(-1); top !== undefined; top = pending.at(-1)) {
      const next = byKey.get(top.uses.pop() ?? "")
      if (next !== undefined && !done.has(next.key)) enter(next)
      else if (top.uses.length === 0) {
        ordered.push(top.entry)
        pending.pop()
      }
    }
  }
  return ordered
}

/** At most 1,000 entries and well under the size limit of a request, each. */
export const inRequests = <Entry extends EntryToWrite>(
  entries: ReadonlyArray<Entry>
): ReadonlyArray<ReadonlyArray<Entry>> => {
  const requests: Array<Array<Entry>> = []
  let size = 0
  for (const entry of entries) {
    const bytes = Buffer.byteLength(JSON.stringify({ key: entry.key, value: entry.value }))
    const current = requests.at(-1)
    if (current === undefined || current.length >= entriesOfChanges || size + bytes > bytesOfOneRequest) {
      requests.push([entry])
      size = bytes
    } else {
      current.push(entry)
      size += bytes
    }
  }
  return requests
}

const decodeEntry = Schema.decodeUnknownOption(BulkEntry)
const decodeChange = Schema.decodeUnknownOption(SecretChange)

/** The longest value that the server takes, by the line of the first that is longer. */
export const refuseTooLong = (entries: ReadonlyArray<EntryToWrite>) => {
  const tooLong = entries.find(({ key, value }) => Option.isNone(decodeEntry({ key, value })))
  return tooLong === undefined
    ? Effect.void
    : Effect.fail(
        new CliFailure({
          message: `line ${tooLong.line}: the value of ${plain(tooLong.key)} has more than 65536 characters.`
        })
      )
}

const notASecret = ({ line }: EntryToWrite) => new CliFailure({ message: `line ${line}: not a secret.` })

const counted = (items: ReadonlyArray<{ readonly outcome: string }>) => {
  const count = (outcome: string) => items.filter((item) => item.outcome === outcome).length
  return { created: count("created"), updated: count("updated"), unchanged: count("unchanged") }
}

const writeRequest = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  entries: ReadonlyArray<EntryToWrite>
) {
  const client = yield* secretsClient(session)
  if (entries.length <= entriesOfBulk && entries.every(({ kind }) => kind === undefined)) {
    const secrets = yield* Effect.forEach(entries, (entry) =>
      Effect.mapError(decodeEntry({ key: entry.key, value: entry.value }), () => notASecret(entry))
    )
    const result = yield* requireWritten(session, client.createBulk({ payload: { ...location, secrets }, headers: {} }))
    return counted(result.items)
  }
  const { environment, projectId } = location
  const changes = yield* Effect.forEach(entries, (entry) => {
    const { key, kind, value } = entry
    const change = { environment, key, op: "set", value, ...(kind === undefined ? {} : { kind }) }
    return Effect.mapError(decodeChange(change), () => notASecret(entry))
  })
  const result = yield* call(session, client.change({ path: { projectId }, payload: { entries: changes } }))
  for (const { request } of result.environments) if (request !== null) return yield* stillWaiting(session, request)
  return counted(result.environments.flatMap(({ items }) => items))
})

/** All of a request is written or nothing of it; a failure says how many were written before it. */
export const writeAll = Effect.fnUntraced(function* (
  session: Connection,
  location: Location,
  entries: ReadonlyArray<EntryToWrite>
) {
  const totals = { created: 0, updated: 0, unchanged: 0 }
  let sent = 0
  const stopped = Effect.suspend(() =>
    sent === 0
      ? note("Nothing was written.")
      : note(`${sent} of ${entries.length} were written before this. Running the import again is safe.`)
  )
  for (const request of inRequests(inOrderOfReference(entries))) {
    yield* progress(`${sent} of ${entries.length} written`)
    const result = yield* writeRequest(session, location, request).pipe(
      withKeyOfEntry(request),
      Effect.tapError(() => Effect.zipRight(progressDone, stopped))
    )
    sent += request.length
    totals.created += result.created
    totals.updated += result.updated
    totals.unchanged += result.unchanged
  }
  yield* progressDone
  return totals
})
