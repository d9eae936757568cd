/**
 * Whether a trail tells what burn-downs say, line by line: what somebody was handed and how often, what they were not,
 * what became of each value since. Fed with all of an export.
 */
import { HandedOut, type Read, type Write } from "./HandedOut.ts"
import { type BurnDown, carrying, type Exposed, type Head, replacing } from "./Incident.ts"
import type { Problems } from "./Problems.ts"

/** An entry is committed that long after its time at the latest: the deadline of a request. Milliseconds. */
const lateAtMost = 10_000
/** Writes around the time of a list are in it, or not. */
const around = 60_000

/** Of what a file holds: null, all. */
export interface Bounds {
  readonly since: string | null
  readonly until: string | null
}

const isSubject = (history: HandedOut, { id, type }: Head["subject"], { actor }: Read): boolean => {
  const owner = history.ownerOf(actor.id)
  if (type === "grant") return ["cli_grant", "oauth_client"].includes(actor.type) && actor.id === id
  const [direct, through] = type === "token" ? ["api_token", "machine_rule"] : ["user", "user"]
  return (actor.type === direct && actor.id === id) || (owner?.type === through && owner.id === id)
}

/** Of one key: a version as the entry names it, else the revision that was read, else nothing is known. */
interface Handed {
  readonly version: number | undefined
  readonly revision: number | undefined
  readonly times: ReadonlyArray<number>
}

const place = (environmentId: string, key: string) => `${environmentId} ${key}`

/** What the subject of a burn-down was handed, by place. */
const handedTo = (history: HandedOut, { since, subject }: Head): ReadonlyMap<string, ReadonlyArray<Handed>> => {
  const from = since === null ? Number.NEGATIVE_INFINITY : Date.parse(since)
  const found = new Map<string, Array<Handed>>()
  for (const read of history.reads()) {
    if (!isSubject(history, subject, read) || !read.times.some((at) => at >= from)) continue
    history.keysOf(read).forEach((key, i) => {
      const one = { version: read.versions?.[i], revision: read.revision, times: read.times }
      const others = found.get(place(read.environmentId, key))
      if (others === undefined) found.set(place(read.environmentId, key), [one])
      else others.push(one)
    })
  }
  return found
}

/** Keys of which a version may hold an earlier text. */
const earlierKeys = (history: HandedOut, environmentId: string, version: number, made: ReadonlyArray<Write>) => {
  const first = made.map((write) => history.carriedFrom(write))
  const found = new Set<string>()
  const wanted = first.every((key) => key !== undefined) ? first.flatMap((key) => key ?? []) : []
  for (let key = wanted.pop(); key !== undefined; key = wanted.pop()) {
    if (found.has(key)) continue
    found.add(key)
    for (const write of history.writes(environmentId, key)) {
      const from = write.version > 0 && write.version < version ? history.carriedFrom(write) : undefined
      if (from !== undefined) wanted.push(from)
    }
  }
  return found
}

interface Found {
  readonly times: ReadonlyArray<number>
  readonly certain: boolean
}

/** The reads that handed out this version, and whether one of them says that it was it. */
const readsOf = (
  history: HandedOut,
  handed: ReadonlyMap<string, ReadonlyArray<Handed>>,
  { environmentId, key, version }: Pick<Exposed, "environmentId" | "key" | "version">
): Found => {
  const made = history.writes(environmentId, key).filter((write) => write.version === version)
  const written = made[0]?.revision
  const had = new Map<Handed, boolean>()
  for (const one of handed.get(place(environmentId, key)) ?? []) {
    if (one.version === undefined) {
      if (one.revision !== undefined && written !== undefined && one.revision < written) continue
      had.set(one, one.revision !== undefined && written !== undefined)
    } else if (one.version === version) had.set(one, true)
  }
  for (const earlier of earlierKeys(history, environmentId, version, made)) {
    for (const one of handed.get(place(environmentId, earlier)) ?? []) {
      if ((one.version === undefined || one.version < version) && !had.has(one)) had.set(one, false)
    }
  }
  return { times: [...had.keys()].flatMap(({ times }) => times), certain: [...had.values()].includes(true) }
}

/** Versions that a key can have had when the list was made; none: the trail does not know the key. */
const versionsAt = (history: HandedOut, environmentId: string, key: string, listedAt: number): ReadonlySet<number> => {
  let before: number | undefined
  const found = new Set<number>()
  for (const { at, version } of history.writes(environmentId, key)) {
    const when = Date.parse(at)
    if (when < listedAt - around) before = version
    else if (when <= listedAt + around) found.add(version)
  }
  if (before !== undefined) found.add(before)
  return found
}

/** The line of a value that was handed out says as much as the trail, which may count reads after `upTo` or not. */
const tellsReads = (found: Found, { certain, count, firstAt, lastAt }: Exposed, upTo: number): boolean => {
  const counted = found.times.filter((at) => at < upTo - lateAtMost)
  const first = found.times.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY)
  const last = (times: ReadonlyArray<number>) => times.reduce((most, at) => Math.max(most, at), 0)
  return (
    count >= Math.max(counted.length, 1) &&
    count <= found.times.length &&
    (counted.length > 0 ? Date.parse(firstAt) === first : found.times.includes(Date.parse(firstAt))) &&
    found.times.includes(Date.parse(lastAt)) &&
    Date.parse(lastAt) >= last(counted) &&
    (!certain || found.certain)
  )
}

/** The entry that is named gave the value another one, and nothing brought an earlier one back since. */
const tellsReplaced = (history: HandedOut, one: Exposed, at: number): boolean => {
  const { environmentId, key, renames = [], replaced, version } = one
  const names = [key, ...renames.map((rename) => rename.key)]
  for (const [i, rename] of renames.entries()) {
    const made = history.writes(environmentId, names[i]).find((write) => write.id === rename.entry)
    if (made?.nextKey !== rename.key || made.at !== rename.at) return false
  }
  if (replaced === null) return true
  const writes = names.flatMap((name) => history.writes(environmentId, name))
  const said = writes.find((write) => write.id === replaced.entry)
  if (said === undefined || said.at !== replaced.at || said.by !== replaced.by.id) return false
  if (!replacing.includes(said.action) || history.isRename(environmentId, said.revision)) return false
  if (replaced.version !== (said.action === "secret.delete" ? null : said.named)) return false
  if (said.key === key && said.action !== "secret.delete" && said.named <= version) return false
  return !writes.some(
    (write) =>
      carrying.includes(write.action) && write.revision > said.revision && Date.parse(write.at) < at - lateAtMost
  )
}

export class IncidentProof {
  readonly notes: ReadonlyArray<BurnDown>
  readonly #history: HandedOut

  constructor(notes: ReadonlyArray<BurnDown>) {
    this.notes = notes
    this.#history = new HandedOut(new Set(notes.map(({ head }) => head.team)))
  }

  addList(hash: string, keys: ReadonlyArray<string>): void {
    this.#history.addList(hash, keys)
  }

  add(body: string): void {
    this.#history.add(body)
  }

  /** Lines that the trail does not tell. How many are about times that it does not hold, so that nobody can say. */
  finish(problems: Problems, bounds: Bounds): number {
    return this.notes.reduce((sum, note) => sum + this.#check(note, problems, bounds), 0)
  }

  #check({ exposed, head, kept }: BurnDown, problems: Problems, { since, until }: Bounds): number {
    const handed = handedTo(this.#history, head)
    const listedAt = Date.parse(head.listedAt ?? head.openedAt)
    const upTo = Date.parse(head.upTo)
    const holds = (at: string) => (since === null || at >= since) && (until === null || at < until)
    let open = 0
    for (const one of exposed) {
      const { environment, environmentId, firstAt, key, lastAt, replaced } = one
      const when = replaced?.at ?? head.openedAt
      if (!holds(when)) open++
      else if (!tellsReplaced(this.#history, one, Date.parse(head.at))) {
        problems.say(
          `The burn-down says that ${key} in ${environment} was ${replaced === null ? "renamed" : `replaced at ${when}`}: the trail does not.`
        )
      }
      if (!holds(firstAt) || !holds(lastAt)) {
        open++
        continue
      }
      const versions = versionsAt(this.#history, environmentId, key, listedAt)
      const isCurrent = versions.has(one.version) || (since !== null && versions.size === 0)
      if (!isCurrent || !tellsReads(readsOf(this.#history, handed, one), one, upTo)) {
        problems.say(
          `The burn-down says that v${one.version} of ${key} in ${environment} was handed out ${one.count} times, ${firstAt} to ${lastAt}: the trail does not.`
        )
      }
    }
    for (const { environment, environmentId, keys } of kept) {
      for (const key of keys) {
        const versions = [...versionsAt(this.#history, environmentId, key, listedAt)].filter((version) => version > 0)
        const wasHanded = (version: number) =>
          readsOf(this.#history, handed, { environmentId, key, version }).times.some((at) => at < upTo - lateAtMost)
        if (versions.length > 0 && versions.every(wasHanded)) {
          problems.say(`The burn-down says that ${key} in ${environment} was not handed out: the trail says it was.`)
        }
      }
    }
    return open
  }
}
