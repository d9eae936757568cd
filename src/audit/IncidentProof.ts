/**
 * Checks burn-downs against a trail, line by line: exposed values and their counts, unexposed values, and replacements.
 * It receives every entry of an export.
 */
import type { Way } from "#schema/ExposureWays.ts"
import { ExposureHistory, type Read, type Write } from "./ExposureHistory.ts"
import { type BurnDown, type ExposedLine, type Head, replacingActions } from "./Incident.ts"
import type { Problems } from "./Problems.ts"

/** Longest time from an entry's timestamp to its commit, the deadline of a request (ms). */
const maxCommitDelay = 10_000
/** Writes within this time of a list (ms) may be in it or not. */
const listLeeway = 60_000

/** The time range of a file. Null: unbounded. */
export interface Bounds {
  readonly since: string | null
  readonly until: string | null
}

const isSubject = (history: ExposureHistory, { id, name, type }: Head["subject"], read: Read): boolean => {
  const { actor, owner } = history.actorOf(read)
  if (actor.type === "address") return type === "person" && actor.name?.toLowerCase() === name.toLowerCase()
  if (type === "grant") return ["cli_grant", "oauth_client"].includes(actor.type) && actor.id === id
  const [direct, through] = type === "token" ? ["api_token", "machine_rule"] : ["user", "user"]
  return (actor.type === direct && actor.id === id) || (owner?.type === through && owner.id === id)
}

/** One read of a key: its version, or else the revision that was read, or else neither. */
interface KeyRead {
  readonly version: number | undefined
  readonly revision: number | undefined
  readonly times: ReadonlyArray<number>
  readonly way: Way
  readonly certain: boolean
}

const place = (environmentId: string, key: string) => `${environmentId} ${key}`

/** Reads by the subject of a burn-down, by place. */
const readsBySubject = (
  history: ExposureHistory,
  { countsAuthors = false, since, subject }: Head
): ReadonlyMap<string, ReadonlyArray<KeyRead>> => {
  const from = since === null ? Number.NEGATIVE_INFINITY : Date.parse(since)
  const byPlace = new Map<string, Array<KeyRead>>()
  for (const read of history.reads()) {
    if (read.way === "wrote" && !countsAuthors) continue
    if (!isSubject(history, subject, read) || !read.times.some((at) => at >= from)) continue
    history.keysOf(read).forEach((key, i) => {
      const { certain, revision, times, way } = read
      const one = { version: read.versions?.[i], revision, times, way, certain }
      const others = byPlace.get(place(read.environmentId, key))
      if (others === undefined) byPlace.set(place(read.environmentId, key), [one])
      else others.push(one)
    })
  }
  return byPlace
}

/** Keys whose earlier text a version may carry. */
const earlierKeys = (
  history: ExposureHistory,
  environmentId: string,
  version: number,
  writes: ReadonlyArray<Write>
) => {
  const first = writes.map((write) => history.carriedFrom(write))
  const earlier = new Set<string>()
  const pending = first.every((key) => key !== undefined) ? first.flatMap((key) => key ?? []) : []
  for (let key = pending.pop(); key !== undefined; key = pending.pop()) {
    if (earlier.has(key)) continue
    earlier.add(key)
    for (const write of history.writes(environmentId, key)) {
      const from = write.version > 0 && write.version < version ? history.carriedFrom(write) : undefined
      if (from !== undefined) pending.push(from)
    }
  }
  return earlier
}

interface VersionReads {
  readonly times: ReadonlyArray<number>
  /** The ways of these reads, and of those before a time. */
  readonly waysBefore: (time: number) => ReadonlySet<string>
  readonly certain: boolean
}

/** The reads of this version, and whether one is certain to be of this version. */
const readsOf = (
  history: ExposureHistory,
  handed: ReadonlyMap<string, ReadonlyArray<KeyRead>>,
  { environmentId, key, version }: Pick<ExposedLine, "environmentId" | "key" | "version">
): VersionReads => {
  const writes = history.writes(environmentId, key).filter((write) => write.version === version)
  const firstRevision = writes[0]?.revision
  const matches = new Map<KeyRead, boolean>()
  for (const one of handed.get(place(environmentId, key)) ?? []) {
    if (one.version === undefined) {
      if (one.revision !== undefined && firstRevision !== undefined && one.revision < firstRevision) continue
      matches.set(one, one.certain && one.revision !== undefined && firstRevision !== undefined)
    } else if (one.version === version) matches.set(one, one.certain)
  }
  for (const earlier of earlierKeys(history, environmentId, version, writes)) {
    for (const one of handed.get(place(environmentId, earlier)) ?? []) {
      if ((one.version === undefined || one.version < version) && !matches.has(one)) matches.set(one, false)
    }
  }
  const reads = [...matches.keys()]
  return {
    times: reads.flatMap(({ times }) => times),
    waysBefore: (time) => new Set(reads.flatMap(({ times, way }) => (times.some((at) => at < time) ? [way] : []))),
    certain: [...matches.values()].includes(true)
  }
}

/** Versions that a key can have had when the list was made. Empty: the trail does not know the key. */
const versionsAt = (
  history: ExposureHistory,
  environmentId: string,
  key: string,
  listedAt: number
): ReadonlySet<number> => {
  let before: number | undefined
  const versions = new Set<number>()
  for (const { at, version } of history.writes(environmentId, key)) {
    const when = Date.parse(at)
    if (when < listedAt - listLeeway) before = version
    else if (when <= listedAt + listLeeway) versions.add(version)
  }
  if (before !== undefined) versions.add(before)
  return versions
}

/** Whether the line names every way of a read that must be counted, and no way that the trail does not have. */
const agreesOnWays = (reads: VersionReads, { ways }: ExposedLine, upTo: number): boolean => {
  if (ways === undefined) return true
  const possible = reads.waysBefore(Number.POSITIVE_INFINITY)
  const certain = [...reads.waysBefore(upTo - maxCommitDelay)]
  return ways.every((way) => possible.has(way)) && certain.every((way) => ways.includes(way))
}

/** Whether the line of an exposed value agrees with the trail. Reads after `upTo` may be counted or not. */
const agreesOnReads = (reads: VersionReads, line: ExposedLine, upTo: number): boolean => {
  const { certain, count, firstAt, lastAt } = line
  const timesBefore = reads.times.filter((at) => at < upTo - maxCommitDelay)
  const first = reads.times.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY)
  const last = (times: ReadonlyArray<number>) => times.reduce((most, at) => Math.max(most, at), 0)
  return (
    count >= Math.max(timesBefore.length, 1) &&
    count <= reads.times.length &&
    (timesBefore.length > 0 ? Date.parse(firstAt) === first : reads.times.includes(Date.parse(firstAt))) &&
    reads.times.includes(Date.parse(lastAt)) &&
    Date.parse(lastAt) >= last(timesBefore) &&
    (!certain || reads.certain) &&
    agreesOnWays(reads, line, upTo)
  )
}

/** Whether the named entry replaced the value, and no later write brought an earlier one back. */
const agreesOnReplacement = (history: ExposureHistory, one: ExposedLine, at: number): boolean => {
  const { environmentId, key, renames = [], replaced, version } = one
  const names = [key, ...renames.map((rename) => rename.key)]
  for (const [i, rename] of renames.entries()) {
    const write = history.writes(environmentId, names[i]).find((write) => write.id === rename.entry)
    if (write?.nextKey !== rename.key || write.at !== rename.at) return false
  }
  if (replaced === null) return true
  const writes = names.flatMap((name) => history.writes(environmentId, name))
  const replacement = writes.find((write) => write.id === replaced.entry)
  if (replacement === undefined || replacement.at !== replaced.at || replacement.by !== replaced.by.id) return false
  if (
    replacement.carries ||
    !replacingActions.includes(replacement.action) ||
    history.isRename(environmentId, replacement.revision)
  )
    return false
  if (replaced.version !== (replacement.action === "secret.delete" ? null : replacement.namedVersion)) return false
  if (replacement.key === key && replacement.action !== "secret.delete" && replacement.namedVersion <= version)
    return false
  return !writes.some(
    (write) => write.carries && write.revision > replacement.revision && Date.parse(write.at) < at - maxCommitDelay
  )
}

export class IncidentProof {
  readonly notes: ReadonlyArray<BurnDown>
  readonly #history: ExposureHistory

  constructor(notes: ReadonlyArray<BurnDown>) {
    this.notes = notes
    this.#history = new ExposureHistory(new Set(notes.map(({ head }) => head.team)))
  }

  addList(hash: string, keys: ReadonlyArray<string>): void {
    this.#history.addList(hash, keys)
  }

  add(body: string): void {
    this.#history.add(body)
  }

  /**
   * Reports lines that the trail contradicts. Returns the number of lines that cannot be checked: about times outside the
   * trail, or inferred from references.
   */
  finish(problems: Problems, bounds: Bounds): number {
    return this.notes.reduce((sum, note) => sum + this.#check(note, problems, bounds), 0)
  }

  #check({ exposed, head, kept }: BurnDown, problems: Problems, { since, until }: Bounds): number {
    const readsByPlace = readsBySubject(this.#history, head)
    const listedAt = Date.parse(head.listedAt ?? head.openedAt)
    const upTo = Date.parse(head.upTo)
    const isCovered = (at: string) => (since === null || at >= since) && (until === null || at < until)
    let open = 0
    for (const one of exposed) {
      const { environment, environmentId, firstAt, key, lastAt, replaced } = one
      const when = replaced?.at ?? head.openedAt
      if (!isCovered(when)) open++
      else if (!agreesOnReplacement(this.#history, one, Date.parse(head.at))) {
        problems.say(
          `The burn-down says that ${key} in ${environment} was ${replaced === null ? "renamed" : `replaced at ${when}`}: the trail does not.`
        )
      }
      if (!isCovered(firstAt) || !isCovered(lastAt) || one.inferred === true) {
        open++
        continue
      }
      const versions = versionsAt(this.#history, environmentId, key, listedAt)
      const isCurrent = versions.has(one.version) || (since !== null && versions.size === 0)
      if (!isCurrent || !agreesOnReads(readsOf(this.#history, readsByPlace, one), one, upTo)) {
        problems.say(
          `The burn-down says that v${one.version} of ${key} in ${environment} was handed out ${one.count} times, ${firstAt} to ${lastAt}: the trail does not.`
        )
      }
    }
    for (const { environment, environmentId, keys } of kept) {
      for (const key of keys) {
        const versions = [...versionsAt(this.#history, environmentId, key, listedAt)].filter((version) => version > 0)
        const wasHanded = (version: number) =>
          readsOf(this.#history, readsByPlace, { environmentId, key, version }).times.some(
            (at) => at < upTo - maxCommitDelay
          )
        if (versions.length > 0 && versions.every(wasHanded)) {
          problems.say(`The burn-down says that ${key} in ${environment} was not handed out: the trail says it was.`)
        }
      }
    }
    return open
  }
}
